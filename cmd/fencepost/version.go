package main

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// build is the build information of this program.
type build struct {
	Version string `json:"version"` // of the module; "(devel)" if unknown
	Commit  string `json:"commit,omitempty"`
	Changed bool   `json:"changed,omitempty"` // the source differed from the commit
	Go      string `json:"go"`
}

// Set by scripts/release, because the Go command records no commit outside a plain clone.
var releaseVersion, releaseCommit string

func thisBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version()}
	if releaseVersion != "" {
		b.Version, b.Commit = releaseVersion, releaseCommit
		b.Changed = strings.HasSuffix(releaseVersion, "-dirty")
		return b
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Changed = s.Value == "true"
		}
	}
	return b
}

// details are the commit and the version of Go.
func (b build) details() string {
	switch {
	case b.Commit == "":
		return "commit unknown, " + b.Go
	case b.Changed:
		return "commit " + b.Commit + " with changes, " + b.Go
	}
	return "commit " + b.Commit + ", " + b.Go
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Args:    arguments(),
		Example: "  fencepost version --json",
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return p.print(b, line("fencepost %s (%s)", b.Version, b.details()))
		},
	}
}

package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is the build information of this program.
type build struct {
	Version string `json:"version"` // of the module; "(devel)" if unknown
	Commit  string `json:"commit,omitempty"`
	Changed bool   `json:"changed,omitempty"` // the source differed from the commit
	Go      string `json:"go"`
}

func thisBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version()}
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

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Args:    arguments(),
		Example: "  fencepost version --json",
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			human := line("fencepost %s (%s)", b.Version, b.Go)
			return p.print(b, human)
		},
	}
}

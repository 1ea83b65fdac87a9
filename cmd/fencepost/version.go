package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build tells what this program was built from.
type build struct {
	Version string `json:"version"` // of the module; "(devel)" when it is not known
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
		Use: "version", Short: "Print the version of this program", Args: arguments(),
		Example: "  fencepost version --json",
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			human := line("fencepost %s (%s)", b.Version, b.Go)
			return p.print(b, human)
		},
	}
}

package arch

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A rule for a name without a slash or a variable is a target that people call.
var target = regexp.MustCompile(`(?m)^([A-Za-z][A-Za-z0-9_-]*):(?:[^=].*)?$`)

func TestMakeHelp_ListsAllTargets(t *testing.T) {
	t.Parallel()
	makefile := string(readFile(t, "Makefile"))
	command := exec.Command("make", "--no-print-directory", "help")
	command.Dir = root
	help, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("make help: %v: %s", err, help)
	}
	targets := target.FindAllStringSubmatch(makefile, -1)
	if len(targets) == 0 {
		t.Fatal("no target found in the Makefile")
	}
	for _, match := range targets {
		name := match[1]
		listed := regexp.MustCompile(`(?m)^ *` + regexp.QuoteMeta(name) + ` +\S`)
		if !listed.Match(help) {
			t.Errorf("make help does not explain %s: add '## what it does' to its rule", name)
		}
		if !strings.Contains(makefile, "\n.PHONY: "+name+"\n") {
			t.Errorf("%s is not phony: a file of that name would turn it off", name)
		}
	}
}

// The tools have their own modules. Dependencies shared with the main module have the same version.
func TestTools_PinnedVersions(t *testing.T) {
	t.Parallel()
	for folder, shared := range map[string]string{
		// The rules that clients see are those that the server enforces.
		"tools": "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go",
		// The chain in our tests and the one in a process of its own are the same.
		"tools/geth": "github.com/ethereum/go-ethereum",
	} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			want, got := required(t, ".", shared), required(t, folder, shared)
			if got != want {
				t.Errorf("%s is %q in %s/go.mod and %q in go.mod: make them equal", shared, got,
					folder, want)
			}
		})
	}
}

func required(t *testing.T, folder, module string) string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^(?:require)?\s+` + regexp.QuoteMeta(module) + ` (v\S+)`)
	match := line.FindSubmatch(readFile(t, filepath.Join(folder, "go.mod")))
	if match == nil {
		t.Fatalf("%s/go.mod does not require %s", folder, module)
	}
	return string(match[1])
}

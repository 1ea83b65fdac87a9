package arch

import (
	"go/build"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Packages without I/O, and the parts of the standard library that they must not import.
var (
	purePackages = []string{"txn", "chain/outcome"}
	impure       = []string{"database/sql", "log", "log/slog", "net", "os", "syscall"}
)

func TestPurePackages_NoImportsOfIO(t *testing.T) {
	t.Parallel()
	for _, pkg := range purePackages {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			built, err := build.ImportDir(filepath.Join(root, pkg), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, imported := range built.Imports {
				top, _, _ := strings.Cut(imported, "/")
				if slices.Contains(impure, imported) || slices.Contains(impure, top) {
					t.Errorf("%s imports %s", pkg, imported)
				}
			}
		})
	}
}

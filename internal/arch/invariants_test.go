package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Names of tests and files in docs/invariants.md, in backquotes.
var (
	namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.(Test\\w+)`")
	namedFile = regexp.MustCompile(
		"`((?:queries|store|engine|txn|sign|chain|server|internal)/[\\w/]+\\.(?:go|sql))`")
)

// TestInvariants_NamesExist keeps the document true: every law names a test that is there, and the
// code that keeps it.
func TestInvariants_NamesExist(t *testing.T) {
	t.Parallel()
	document := string(readFile(t, "docs/invariants.md"))
	laws := 0
	for _, line := range strings.Split(document, "\n") {
		if !strings.HasPrefix(line, "| L") {
			continue
		}
		laws++
		tests := namedTest.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("a law without a test: %.60s", line)
		}
		for _, m := range tests {
			if !hasTest(t, m[1], m[2]) {
				t.Errorf("docs/invariants.md names %s.%s, which does not exist", m[1], m[2])
			}
		}
		for _, m := range namedFile.FindAllStringSubmatch(line, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("docs/invariants.md names %s: %v", m[1], err)
			}
		}
	}
	if laws != 12 {
		t.Errorf("%d laws, want 12", laws)
	}
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}

package e2e

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTutorial runs all commands of the tutorial in their order, in one shell as a reader does. It
// does not run beside tests that use the ports of `make run`.
func TestTutorial(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	var start string
	var script strings.Builder
	script.WriteString("set -euo pipefail\n")
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(
		documentOf(t, root, "docs/tutorial.md"), -1) {
		if strings.HasPrefix(block[1], "make run") {
			start = strings.TrimSpace(block[1])
			continue
		}
		script.WriteString(block[1])
	}
	dev := startDev(t, root, start)
	out := bash(t, root, script.String())
	for _, want := range []string{
		"Nothing needs a decision", `wrong.csv:5:`, "nothing was sent", "of 2000 rows final",
		"CONFIRMED 2000",
		`"0x38d7ea4c68000"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	dev.interrupt(t)
}

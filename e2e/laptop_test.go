package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// runLaptopCommands runs the commands of docs/operations.md for a laptop, in the folder of the
// README's commands, which they continue. All others are recipes.
func runLaptopCommands(t *testing.T, root, dir string) {
	t.Helper()
	nodes, list := map[string]*process{}, ""
	for _, line := range typed(
		t, "On a laptop", section(t, documentOf(t, root, "docs/operations.md"), "### On a laptop"),
	) {
		switch {
		case strings.HasPrefix(line, "make run"):
			dev := startDev(t, root, line)
			if said := dev.output(t); !strings.Contains(said, "a block every 20s") ||
				!strings.Contains(said, "fencepost.yaml") {
				t.Errorf("%s:\n%s", line, said)
			}
			dev.interrupt(t)
		case strings.Contains(line, " serve "):
			name := "a"
			if m := regexp.MustCompile(`node\.name=(\S+)`).FindStringSubmatch(line); m != nil {
				name = m[1]
			}
			nodes[name] = serving(t, dir, line, name+".log")
		default:
			if out := bash(t, dir, line); strings.Contains(line, "request-id") &&
				!strings.Contains(out, "two-nodes") {
				t.Errorf("%s:\n%s", line, out)
			}
			if strings.Contains(line, "submitter list --server") {
				list = line
			}
		}
	}
	if len(nodes) != 2 || list == "" {
		t.Fatalf("docs/operations.md starts %d nodes, and lists them with %q", len(nodes), list)
	}
	first := ownerIn(t, dir, list, "")
	other := map[string]string{"a": "b", "b": "a"}[first]
	if first == "b" {
		list, _, _ = strings.Cut(list, " --server") // of the one that stays
	}
	nodes[first].stop(t)
	ownerIn(t, dir, list, first)
	nodes[other].stop(t)
}

// ownerIn waits for an owner of the submitter that is not this one, and names it.
func ownerIn(t *testing.T, dir, list, not string) (name string) {
	t.Helper()
	eventually(t, time.Minute, "a node owns the submitter", func() error {
		m := regexp.MustCompile(`(?m)^payouts .* ([ab])/[0-9a-f-]{36} `).FindStringSubmatch(
			bash(t, dir, list))
		if m == nil || m[1] == not {
			return fmt.Errorf("%w: %v", errNotYet, m)
		}
		name = m[1]
		return nil
	})
	return name
}

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPerformanceDocument: the commands, sizes, scenarios and numbers in docs/performance.md exist.
func TestPerformanceDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(
		"(?m)(?:`|^)make ([a-z-]+)((?: [A-Z]+=[^ `\n]+)*)").FindAllStringSubmatch(
		string(text),
		-1,
	)
	if len(lines) < 3 {
		t.Fatalf("the page has %d commands; the pattern finds too few", len(lines))
	}
	for _, line := range lines {
		if !strings.Contains(string(makefile), "\n"+line[1]+": ") {
			t.Errorf("make %s is no target", line[1])
		}
		size, only := "small", regexp.MustCompile("")
		for _, set := range strings.Fields(line[2]) {
			switch name, value, _ := strings.Cut(set, "="); name {
			case "SIZE":
				size = value
			case "ONLY":
				only = regexp.MustCompile(strings.Trim(value, "'"))
			case "ROUNDS", "ARGS":
			default:
				t.Errorf("%q sets an unused variable", line[0])
			}
		}
		s, known := sizes[size]
		if !known ||
			!slices.ContainsFunc(s.scenarios(),
				func(s scenario) bool { return only.MatchString(s.name) }) {
			t.Errorf("%q measures nothing", line[0])
		}
	}
	for size, s := range sizes {
		if !strings.Contains(string(text), "\n| `"+size+"` | ") {
			t.Errorf("the page does not tell of size %s", size)
		}
		for _, name := range s.names() {
			family, _, _ := strings.Cut(name, ".")
			if !strings.Contains(string(text), "`"+name+"`") &&
				!strings.Contains(string(text), "`"+family+"`") {
				t.Errorf("the page does not tell of %s, which size %s measures", name, size)
			}
		}
	}
	all, err := readBudgets("budgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(
		"`((?:accept|end|watch|growth)\\.[a-z0-9.]+)`",
	).FindAllStringSubmatch(string(text), -1) {
		if _, budgeted := all[name[1]]; !budgeted {
			t.Errorf("%s, which the page names, has no budget", name[1])
		}
	}
}

// TestGrowth_EveryScenarioHasLimit: each of the sizes but the smallest has something to be measured
// against.
func TestGrowth_EveryScenarioHasLimit(t *testing.T) {
	t.Parallel()
	pairs := allGrowth.against()
	for name, of := range map[string]string{
		"growth.stored.1000000.wal":          "growth.stored.1000.wal",
		"growth.submitters.10000.accept.p50": "growth.submitters.10.accept.p50",
		"growth.queued.100000.show.p50":      "growth.queued.10.show.p50",
		"growth.idle.10000.cpu.postgres":     "growth.idle.10.cpu.postgres",
	} {
		if pairs[name] != of {
			t.Errorf("%s is compared with %q, want %s", name, pairs[name], of)
		}
	}
	if _, itself := pairs["growth.stored.1000.wal"]; itself || len((*growth)(nil).against()) > 0 {
		t.Error("the smallest is compared, or what is not there")
	}
}

package outcome

import (
	"os"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

func TestOutcomesReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	got, err := os.ReadFile("../../docs/outcomes.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Reference() {
		t.Error(
			"docs/outcomes.md is not what the table of outcomes says; run: go generate " +
				"./chain/outcome",
		)
	}
}

// Every class of a rule has exactly one meaning, and every text fits a table.
func TestMeanings(t *testing.T) {
	t.Parallel()
	seen := map[txn.Class]bool{}
	for _, m := range Meanings() {
		if seen[m.Class] {
			t.Errorf("%s is twice in the table", m.Class)
		}
		seen[m.Class] = true
		if m.Says == "" || m.Does == "" || strings.ContainsAny(m.Says+m.Does, "|\n") ||
			MeaningOf(m.Class) != m {
			t.Errorf("%s: %q, %q", m.Class, m.Says, m.Does)
		}
	}
	for _, r := range rules {
		if r.decide == nil && !seen[r.class] {
			t.Errorf("%s has no meaning", r.class)
		}
		if strings.ContainsAny(r.why, "|\n") {
			t.Errorf("%q is no text for a table", r.why)
		}
	}
	if m := MeaningOf("something else"); m.Class != txn.Ambiguous {
		t.Errorf("a class that is not known means %s", m.Class)
	}
}

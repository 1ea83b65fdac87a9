package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// found lists what check reports, as "line rule" with the rule up to its colon.
func found(name, text string) []string {
	var all []string
	for _, f := range check(name, text).found {
		rule, _, _ := strings.Cut(f.rule, ":")
		all = append(all, fmt.Sprint(f.line, " ", rule))
	}
	return all
}

func TestCheck(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 41)
	for name, test := range map[string]struct {
		file, text string
		want       []string
	}{
		"plain text":           {"a.md", "There is no limit.\nWhat to do: look again. It is no longer here.", nil},
		"idiom in document":    {"a.md", "# Title\n\nIt works by itself.\n", []string{"3 by itself"}},
		"idiom across lines":   {"a.md", "One\nthat goes\non for long.\n", []string{"2 go on"}},
		"idiom in code":        {"a.md", "Run `told`.\n\n```sh\nsay what\n```\n", nil},
		"idiom in link target": {"a.md", "[events](told.md)\n", nil},
		"idiom in go comment":  {"a.go", "package a\n\n// A is told\n// by whoever\n", []string{"3 tell", "4 what-noun"}},
		"idiom after go code":  {"a.go", "package a\n\nvar A = 1 // it says so\n", []string{"3 say"}},
		"idiom in go message":  {"a.go", "package a\n\nvar a = \"nobody may call\"\n", []string{"3 somebody"}},
		"short go string":      {"a.go", "package a\n\nvar a = \"told\"\n", nil},
		"sql in go":            {"a.go", "package a\n\nvar a = \"SELECT what FROM told\"\n", nil},
		"go test message":      {"a_test.go", "package a\n\nvar a = \"nobody may call\"\n", nil},
		"two values assigned": {"a.go",
			"package a\n\nfunc a() {\n\tb, c := 1, 2\n\td, e, f := g()\n}\n", nil},
		"three values assigned": {"a.go", "package a\n\nvar a, b, c = 1, 2, 3\n",
			[]string{"3 parallel assignment"}},
		"idiom in proto":        {"a.proto", "message A { // told\n}\n", []string{"1 tell"}},
		"idiom in java comment": {"A.java", "/**\n * Told.\n */\n", []string{"2 tell"}},
		"idiom in sql":          {"a.sql", "-- goes\n-- on\nSELECT 'told';\n", []string{"1 go on"}},
		"idiom in yaml":         {"a.yaml", "a: told # is no number\n", []string{"1 is no"}},
		"wide line":             {"a.sh", strings.Repeat("\t", 25) + "1\n", []string{"1 width"}},
		"wide table":            {"a.md", "| " + strings.Repeat("1 | ", 30), nil},
		"long sentence":         {"a.md", strings.ReplaceAll(long, "d word w", "d\nword w"), []string{"1 sentence"}},
		"two sentences":         {"a.md", "\n" + strings.ReplaceAll(long[:105]+". "+long[105:], " w", "\nw"), nil},
		"sentence as test name": {"a_test.go", "func TestAFrozenOwnerWrites(t *testing.T)", []string{"1 test name"}},
		"many words as name":    {"a_test.go", "func TestFenceFrozenOwnerMayNotWrite(t *testing.T)", []string{"1 test name"}},
		"test name":             {"a_test.go", "func TestFence_FrozenOwner_CannotWrite(t *testing.T)", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := found(test.file, test.text); !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

func TestMean(t *testing.T) {
	t.Parallel()
	text := "# A heading\n\nOne two three. Four five\nsix?\n\n- seven `8` - nine\n2. ten 11 12\n\n| not | counted |\n"
	if got := check("a.md", text).mean; got != 3 {
		t.Errorf("mean is %v, want 3", got)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	other := "# A `code` title?\n"
	if err := os.WriteFile(filepath.Join(root, "b.md"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]int{
		"b.md": 0, "b.md#a-code-title": 0, "https://example.org/c.md": 0,
		"c.md": 1, "b.md#title": 1,
	} {
		got := links(root, "a.md", "# Head\n\nSee [it]("+target+").\n")
		if len(got) != want || want == 1 && got[0].line != 3 {
			t.Errorf("%s: %v, want %d findings", target, got, want)
		}
	}
}

func TestTally_Budget(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		words, findings, want int
	}{
		"within": {words: 2000, findings: 1, want: 0},
		"over":   {words: 2000, findings: 2, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			total := newTally()
			c := checked{found: slices.Repeat([]finding{{rule: "tell"}}, test.findings)}
			c.words[comment] = test.words
			total.add("a.go", c)
			if got := total.overBudget(); len(got) != test.want {
				t.Errorf("%d findings, want %d", len(got), test.want)
			}
		})
	}
}

// Command prose checks the words of the repository: comments, documents and messages.
//
//	go run -C tools ./prose            check everything that git tracks
//	go run -C tools ./prose server     check one folder
//	go run -C tools ./prose -report    print totals per folder instead of findings
//
// It counts idioms that a reader of the field would not expect (see rules.go), lines wider than
// 100 columns, and tests whose names are sentences. Documents and messages have a budget of zero;
// comments have the small budget that commentBudget gives. Exit code 1 means over budget.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// commentBudget is the number of findings of one rule that comments may have per 1,000 words.
const commentBudget = 0.5

func main() {
	report := flag.Bool("report", false, "print totals per folder instead of findings")
	root := flag.String("root", "..", "the repository's `folder`")
	flag.Parse()
	over, err := run(*root, flag.Args(), *report)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	if over {
		os.Exit(1)
	}
}

func run(root string, folders []string, report bool) (over bool, err error) {
	files, err := tracked(root, folders)
	if err != nil {
		return false, err
	}
	total := newTally()
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return false, err
		}
		total.add(name, check(name, string(text)))
	}
	if report {
		total.print(os.Stdout)
		return false, nil
	}
	failed := total.overBudget()
	for _, f := range failed {
		fmt.Printf("%s:%d: %s: %s\n", f.file, f.line, f.rule, f.text)
	}
	if len(failed) > 0 {
		fmt.Fprintf(os.Stderr, "prose: %d findings; the rules are in tools/prose/rules.go\n", len(failed))
	}
	return len(failed) > 0, nil
}

// tracked lists the files that git tracks, without those that are generated or of other projects.
func tracked(root string, folders []string) ([]string, error) {
	command := exec.Command("git", append([]string{"ls-files", "--"}, folders...)...)
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []string
	for name := range strings.Lines(string(out)) {
		if name = strings.TrimSpace(name); !generated(name) {
			files = append(files, name)
		}
	}
	return files, nil
}

// generated reports whether the words of a file are written elsewhere.
func generated(name string) bool {
	for _, folder := range []string{"gen/", "third_party/", "store/internal/db/"} {
		if strings.HasPrefix(name, folder) {
			return true
		}
	}
	return strings.Contains(name, "testdata/") ||
		slices.Contains([]string{"package-lock.json", "docs/openapi.yaml"}, name)
}

// tally holds what was found, by folder and kind of text.
type tally struct {
	found []finding
	words map[string]*[kinds]int // by folder
}

func newTally() *tally { return &tally{words: map[string]*[kinds]int{}} }

func (t *tally) add(file string, c checked) {
	folder, _, _ := strings.Cut(file, "/")
	if t.words[folder] == nil {
		t.words[folder] = new([kinds]int)
	}
	for kind, n := range c.words {
		t.words[folder][kind] += n
	}
	for _, f := range c.found {
		f.file = file
		t.found = append(t.found, f)
	}
}

// overBudget returns what has to be mended. A rule within its budget in comments has no finding.
func (t *tally) overBudget() []finding {
	words, count := 0, map[string]int{}
	for _, w := range t.words {
		words += w[comment]
	}
	for _, f := range t.found {
		if f.kind == comment && !f.strict {
			count[f.rule]++
		}
	}
	var over []finding
	for _, f := range t.found {
		within := float64(count[f.rule]) <= commentBudget*float64(words)/1000
		if f.kind != comment || f.strict || !within {
			over = append(over, f)
		}
	}
	return over
}

func (t *tally) print(w *os.File) {
	for _, folder := range slices.Sorted(maps.Keys(t.words)) {
		words := t.words[folder]
		fmt.Fprintf(w, "%s: words: comments %d, documents %d, messages %d\n",
			folder, words[comment], words[document], words[message])
		count := map[string]int{}
		for _, f := range t.found {
			if top, _, _ := strings.Cut(f.file, "/"); top == folder {
				count[f.rule+" in "+f.kind.String()]++
			}
		}
		for _, rule := range slices.Sorted(maps.Keys(count)) {
			fmt.Fprintf(w, "  %5d %s\n", count[rule], rule)
		}
	}
}

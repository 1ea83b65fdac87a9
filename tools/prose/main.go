// Command prose checks the words of the repository: comments, documents and messages.
//
//	go run -C tools ./prose            check everything that git tracks
//	go run -C tools ./prose server     check one folder or file
//	go run -C tools ./prose -report    print totals per folder instead of findings
//
// It reports idioms that an engineer of the field would not expect (rules.go), lines wider than 100
// columns, tests named by sentences, and in documents long sentences and broken links. Documents
// and messages have a budget of zero. Comments may have commentBudget findings of each rule. Exit
// code 1 means over budget.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// commentBudget is the number of findings of one rule that comments may have per 1,000 words.
const commentBudget = 0.5

// maxMean is the largest mean number of words per sentence that a document may have.
const maxMean = 20

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
		c := check(name, string(text))
		if filepath.Ext(name) == ".md" {
			c.found = append(c.found, links(root, name, string(text))...)
		}
		total.add(name, c)
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
		fmt.Fprintf(os.Stderr, "prose: %d findings; see tools/prose/rules.go\n", len(failed))
	}
	return len(failed) > 0, nil
}

// tracked lists the files that git tracks, except generated files and files of other projects.
func tracked(root string, folders []string) ([]string, error) {
	command := exec.Command("git", append([]string{"ls-files", "--"}, folders...)...)
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []string
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		_, err := os.Lstat(filepath.Join(root, name))
		if err == nil && !elsewhere.MatchString(name) {
			files = append(files, name)
		}
	}
	return files, nil
}

// elsewhere matches files whose words are written, and checked, in another file or project.
var elsewhere = regexp.MustCompile(`^(?:gen/|third_party/|store/internal/db/|.*testdata/|` +
	`tools/prose/(?:rules|prose_test)\.go$|audit/former\.go$|(?:LICENSE|NOTICE)$|` +
	`package-lock\.json$|deploy/(?:.*/alerts\.yaml|grafana/.*)$|` +
	`docs/(?:openapi\.yaml|(?:api|configuration|errors|outcomes)\.md)$)`)

// tally holds the findings and the words, by folder and kind of text.
type tally struct {
	found []finding
	words map[string]*[kinds]int // by folder
	means map[string]float64     // words per sentence, by document
}

func newTally() *tally {
	return &tally{words: map[string]*[kinds]int{}, means: map[string]float64{}}
}

func (t *tally) add(file string, c checked) {
	folder, _, _ := strings.Cut(file, "/")
	if t.words[folder] == nil {
		t.words[folder] = new([kinds]int)
	}
	for kind, n := range c.words {
		t.words[folder][kind] += n
	}
	if c.mean > 0 {
		t.means[file] = c.mean
	}
	for _, f := range c.found {
		f.file = file
		t.found = append(t.found, f)
	}
}

// overBudget returns the findings to fix: none of a rule that is within its budget in comments.
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
	for _, file := range slices.Sorted(maps.Keys(t.means)) {
		if t.means[file] > maxMean {
			over = append(over, finding{file: file, line: 1, rule: "words per sentence",
				text: fmt.Sprintf("%.1f; the limit is %d", t.means[file], maxMean)})
		}
	}
	return over
}

func (t *tally) print(w *os.File) {
	for _, folder := range slices.Sorted(maps.Keys(t.words)) {
		words := t.words[folder]
		fmt.Fprintf(w, "%s: words: comments %d, documents %d, messages %d\n",
			folder, words[comment], words[document], words[message])
		for _, file := range slices.Sorted(maps.Keys(t.means)) {
			if top, _, _ := strings.Cut(file, "/"); top == folder {
				fmt.Fprintf(w, "  %5.1f words per sentence in %s\n", t.means[file], file)
			}
		}
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

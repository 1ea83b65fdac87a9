package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencepost/fencepost/internal/typo"
)

func readDoc(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// commandLines are the command lines of a document, in code spans and blocks.
func commandLines(doc string) (lines []string) {
	doc = strings.ReplaceAll(doc, "\\\n", "")
	for _, match := range regexp.MustCompile(
		"(?m)(?:`|^)(?:bin/)?(fencepost [a-z][^`\n]*)",
	).FindAllStringSubmatch(doc, -1) {
		lines = append(lines, match[1])
	}
	return lines
}

// words splits a command line as a shell would, without the signs for optional and repeated parts.
// Variables become 1.
func words(line string) (all []string) {
	line = regexp.MustCompile(`\$[A-Z_]+`).ReplaceAllString(
		strings.NewReplacer("[", "", "]", "", "...", "").Replace(line), "1")
	for _, match := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(line, -1) {
		all = append(all, strings.Trim(match, `"`))
	}
	return all
}

// documents are the paths of all documents but the changelog, which also names old commands.
func documents(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "*/README.md",
		"deploy/*/README.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if path = strings.TrimPrefix(path, "../../"); path != "CHANGELOG.md" {
				paths = append(paths, path)
			}
		}
	}
	if len(paths) < 30 {
		t.Fatalf("found only %v", paths)
	}
	return paths
}

// Every command line in the documents names a command that there is, with flags that it has.
func TestDocuments_CommandLines(t *testing.T) {
	t.Parallel()
	least := map[string]int{
		"docs/operations.md": 3, "docs/events.md": 1, "README.md": 3, "docs/tutorial.md": 5,
		"docs/performance.md": 2, "docs/signers.md": 3, "docs/external.md": 5,
	}
	for _, doc := range documents(t) {
		lines := commandLines(readDoc(t, doc))
		if len(lines) < least[doc] {
			t.Errorf("%s has %d command lines; the pattern finds too few", doc, len(lines))
		}
		for _, line := range lines {
			if err := understood(words(line)[1:]); err != nil {
				t.Errorf("%s: %q: %v", doc, line, err)
			}
		}
	}
}

// foreignFlags are flags of other programs.
var foreignFlags = []string{"--tls-known-clients-file"}

// Every flag that the documents name by itself is one of some command, and every command that they
// name without the program, as in "sink replay --from", is one that there is.
func TestDocuments_FlagsAndShortCommands(t *testing.T) {
	t.Parallel()
	flags, groups := map[string]bool{}, map[string]*cobra.Command{}
	all := []*cobra.Command{(&program{}).root()}
	for i := 0; i < len(all); i++ {
		all = append(all, all[i].Commands()...)
		if all[i].HasSubCommands() && all[i].HasParent() {
			groups[all[i].Name()] = all[i]
		}
		for _, set := range []*pflag.FlagSet{all[i].LocalFlags(), all[i].PersistentFlags()} {
			for _, f := range visited(set.VisitAll) {
				flags["--"+f.Name] = true
			}
		}
	}
	named, commands := 0, 0
	for _, doc := range documents(t) {
		for _, span := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(
			readDoc(t, doc), -1) {
			all := words(span[1])
			switch {
			case len(all) > 0 && strings.HasPrefix(all[0], "--"):
				for _, word := range strings.Split(strings.Join(all, "|"), "|") {
					name, _, _ := strings.Cut(word, "=")
					if len(name) < 3 || !strings.HasPrefix(name, "--") ||
						slices.Contains(foreignFlags, name) {
						continue
					}
					if named++; !flags[name] {
						t.Errorf("%s: no command has a flag %s", doc, name)
					}
				}
			case len(all) > 1 && isSubCommand(groups[all[0]], all[1]):
				commands++
				if err := understood(append(all, "1")); err != nil { // the value of a last flag
					t.Errorf("%s: %q: %v", doc, span[1], err)
				}
			}
		}
	}
	if named < 30 || commands < 10 {
		t.Errorf("found only %d flags and %d commands", named, commands)
	}
}

// isSubCommand reports whether a word is meant as a sub-command of a group.
func isSubCommand(group *cobra.Command, word string) bool {
	if group == nil {
		return false
	}
	var names []string
	for _, c := range group.Commands() {
		names = append(names, c.Name())
	}
	return slices.Contains(names, word) || typo.Nearest(word, names, mostTypos) != ""
}

func understood(args []string) error {
	root := (&program{}).root()
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	// Of a group, which may also be named by itself; "audit" also runs.
	if c.HasSubCommands() && c.Use == c.Name() && len(rest) > 0 {
		return misused(c, "it names no command of this group")
	}
	// Alternatives, as in --fail|--requeue, are each a flag.
	var flags []string
	for _, word := range rest {
		flags = append(flags, strings.Split(word, "|")...)
	}
	return c.ParseFlags(flags)
}

// The check rejects invalid command lines.
func TestDocuments_InvalidCommandLines(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"fencepost submitter prot alice", "fencepost submiter show alice",
		"fencepost submitter exit-protect alice --no-such-flag",
		"fencepost tx resolve ID --fail|--forget",
	} {
		if understood(words(line)[1:]) == nil {
			t.Errorf("%q is taken for a good command line", line)
		}
	}
}

var metricName = regexp.MustCompile(`\bfencepost_[a-z_]+`)

// Every metric in the operators' document exists, and every metric is documented there.
func TestDocuments_Metrics(t *testing.T) {
	t.Parallel()
	doc := readDoc(t, "docs/operations.md")
	documented := map[string]bool{}
	for _, name := range metricName.FindAllString(doc, -1) {
		documented[name] = true
	}
	made := madeMetrics(t)
	if len(made) < 10 {
		t.Fatalf("found only %v in the code", made)
	}
	for name := range made {
		if !documented[name] {
			t.Errorf("metric %s is made, and docs/operations.md does not tell of it", name)
		}
	}
	for name := range documented {
		if !made[strings.TrimSuffix(name, "_bucket")] {
			t.Errorf("docs/operations.md documents metric %s, which does not exist", name)
		}
	}
}

// madeMetrics are the names that the code gives its instruments, as Prometheus has them: a counter
// ends with _total, a duration with its unit.
func madeMetrics(t *testing.T) map[string]bool {
	t.Helper()
	made := map[string]bool{}
	instrument := regexp.MustCompile(`\b(\w*)\(\s*"(fencepost[._][a-z._]+)"`)
	for _, text := range productSources(t, "audit", "chain", "internal/node", "engine", "server",
		"sign", "sink", "store") {
		for _, match := range instrument.FindAllStringSubmatch(text, -1) {
			name := strings.ReplaceAll(match[2], ".", "_")
			kind := strings.TrimPrefix(strings.TrimPrefix(match[1], "Int64"), "Observable")
			switch strings.ToLower(kind) {
			case "counter":
				made[name+"_total"] = true
			case "gauge", "observablegauge", "updowncounter":
				made[name] = true
			case "float64histogram", "histogram", "float64gauge", "float64observablegauge":
				made[strings.TrimSuffix(name, "_seconds")+"_seconds"] = true
			}
		}
	}
	return made
}

// productSources returns the Go files below the folders, tests left out.
func productSources(t *testing.T, folders ...string) []string {
	t.Helper()
	var texts []string
	for _, folder := range folders {
		root := filepath.Join("..", "..", folder)
		if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" ||
				strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			texts = append(texts, string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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

// Every command line in the documents names a command that there is, with flags that it has.
func TestDocuments_CommandLines(t *testing.T) {
	t.Parallel()
	for doc, least := range map[string]int{
		"docs/operations.md": 3, "docs/events.md": 1, "README.md": 3,
		"docs/performance.md": 2, "docs/signers.md": 3, "docs/external.md": 5,
	} {
		lines := commandLines(readDoc(t, doc))
		if len(lines) < least {
			t.Errorf("%s has %d command lines; the pattern finds too few", doc, len(lines))
		}
		for _, line := range lines {
			if err := understood(words(line)[1:]); err != nil {
				t.Errorf("%s: %q: %v", doc, line, err)
			}
		}
	}
}

func understood(args []string) error {
	root := (&program{}).root()
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if c.HasSubCommands() && c.Use == c.Name() { // of a group; "audit" also runs
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

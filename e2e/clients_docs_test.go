package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestClients_InstallFromCleanDirectory follows docs/clients.md where nothing is but the packages
// and the examples: each prints the events of a transaction to the last. The example with a
// reserved nonce follows.
func TestClients_InstallFromCleanDirectory(t *testing.T) {
	t.Parallel()
	c := embedded(t, 500*time.Millisecond, 1+len(clientLanguages))
	n := newNode(t, c, nodeOptions{
		confirmations: 2, poll: 100 * time.Millisecond, external: 1,
	})
	text, err := os.ReadFile("../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(text), "\n## ")
	for section, language := range map[string]string{
		"Go": "go", "TypeScript": "ts", "Java": "java",
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			script := commandsOfSection(t, sections, section)
			if !strings.Contains(script, "127.0.0.1:9090 alice ") {
				t.Fatalf("the commands do not name a node and a submitter:\n%s", script)
			}
			script = strings.ReplaceAll(script, "127.0.0.1:9090 alice ", n.addr+" s00 ")
			external := n.names[1+slices.Index(clientLanguages, language)]
			script += "cd " + dirVariable + "\n" + strings.ReplaceAll(
				exampleInTable(t, sections, section), "127.0.0.1:9090 judy http://127.0.0.1:8545",
				n.addr+" "+external+" "+c.url) + "\n"
			dir := t.TempDir()
			copyPackages(t, dir, language)
			out := runIn(t, dir,
				[]string{
					"MAVEN_OPTS=-Dmaven.repo.local=" + mavenRepository(t, language),
					"FOLDER=" + dir,
				}, "bash", "-euo", "pipefail", "-c", script)
			inOrder(t, "the examples in "+language, out, "QUEUED", "ALLOCATED", "SUBMITTED",
				"INCLUDED", "CONFIRMED", "0x", "CONFIRMED 0x", "ACCEPTED", "0x")
		})
	}
}

// TestClientDocs_SnippetsMatchExamples: the programs in docs/clients.md are lines of the examples,
// which are built and run.
func TestClientDocs_SnippetsMatchExamples(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	blank := regexp.MustCompile(`(?m)^[ \t]+`)
	count := map[string]int{}
	for _, block := range regexp.MustCompile(
		"(?s)```(go|ts|java)\n(.*?)```",
	).FindAllStringSubmatch(string(text), -1) {
		language := block[1]
		count[language]++
		path := map[string]string{
			"go": "go/wait/main.go", "ts": "ts/wait.ts", "java": "java/src/main/java/Wait.java",
		}[language]
		program, err := os.ReadFile("../examples/" + path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains("\n"+blank.ReplaceAllString(string(program), ""),
			"\n"+blank.ReplaceAllString(block[2], "")) {
			t.Errorf("examples/%s has not these lines:\n%s", path, block[2])
		}
	}
	if count["go"] != 2 || count["ts"] != 1 || count["java"] != 1 {
		t.Errorf("there are %v snippets", count)
	}
}

// commandsOfSection are the lines to paste of a section.
func commandsOfSection(t *testing.T, sections []string, name string) string {
	t.Helper()
	for _, s := range sections {
		if strings.HasPrefix(s, name+"\n") {
			if block := regexp.MustCompile(
				"(?s)```sh\n(.*?)```",
			).FindStringSubmatch(s); block != nil {
				return block[1]
			}
		}
	}
	t.Fatalf("docs/clients.md has no commands for %s", name)
	return ""
}

// dirVariable is the folder of the examples.
const dirVariable = `"$FOLDER"`

// exampleInTable is the command of a language in the table of docs/clients.md.
func exampleInTable(t *testing.T, sections []string, language string) string {
	t.Helper()
	for _, s := range sections {
		if strings.HasPrefix(s, "Sign with your own key\n") {
			if row := regexp.MustCompile(
				"(?m)^\\| " + language + " \\| `([^`]*127[^`]*)` \\|$",
			).FindStringSubmatch(s); row != nil {
				return row[1]
			}
		}
	}
	t.Fatalf("docs/clients.md has no command with a reserved nonce for %s", language)
	return ""
}

// copyPackages copies the client of a language, its generated code and its example, as they are
// when `make clients` has built them.
func copyPackages(t *testing.T, dir, language string) {
	t.Helper()
	for _, folder := range []string{"clients", "gen", "examples"} {
		from, to := filepath.Join("..", folder, language), filepath.Join(dir, folder, language)
		err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
			below, relErr := filepath.Rel(from, path)
			switch err := errors.Join(err, relErr); {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "target"):
				return fs.SkipDir
			case entry.IsDir():
				return os.MkdirAll(filepath.Join(to, below), 0o755)
			case strings.HasSuffix(path, ".tgz"):
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(to, below), text, 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// mavenRepository is a copy of the local repository without our packages: the test installs those
// of the example.
func mavenRepository(t *testing.T, language string) string {
	t.Helper()
	dir := t.TempDir()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	if local := filepath.Join(home, ".m2", "repository"); language == "java" {
		if _, err := os.Stat(local); err == nil {
			runIn(t, dir, nil, "cp", "-r", local+"/.", dir)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, "dev", "fencepost")); err != nil {
		t.Fatal(err)
	}
	return dir
}

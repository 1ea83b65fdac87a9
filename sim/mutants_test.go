package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	mutantsFlag = flag.Bool("mutants", false, "hunt every mutant, not only a few")
	mutantFlag  = flag.String("mutant", "", "hunt only this mutant")
	enoughFlag  = flag.Int("enough", 300, "maximum number of seeds per mutant")
	sinksFlag   = flag.Bool("sinks", false, "with -hunt: nodes deliver events to a receiver")
	holdsFlag   = flag.Bool("external", false,
		"only plans whose clients reserve nonces; also with -hunt")
	policiesFlag = flag.Bool("policies", false,
		"only plans whose calls need approvals; also with -hunt")
	fundsFlag = flag.Bool("funds", false,
		"only plans whose accounts lose their funds; also with -hunt")
	accountsFlag = flag.Bool("accounts", false,
		"only plans whose accounts move between ledgers; also with -hunt")
	movesFlag = flag.Bool("moves", false,
		"with -hunt: as -sinks, and PostgreSQL restarts and the ledger moves")
	huntFlag = flag.Int("hunt", 0,
		"run up to this many seeds in sequence until one breaks a law")
)

// mutant is an injected defect that the simulation must find, or else the test that it names. See
// mutants/README.md for the file format.
type mutant struct {
	name     string
	what     string
	missed   string // why the simulation cannot find it
	test     string // "folder TestName": the test that finds it instead
	sinks    bool   // only plans with sinks can find it
	holds    bool   // only plans with reserved nonces can find it
	moves    bool   // only plans whose ledger moves can find it
	pays     bool   // only plans with policies can find it
	funds    bool   // only plans with top-ups and pools can find it
	accounts bool   // only plans whose accounts move can find it
	edits    map[string][]edit
}

type edit struct{ old, new string }

var sections = regexp.MustCompile(`(?s)<<<\n(.*?)===\n(.*?)>>>(?:\n|$)`)

func readMutant(path string) (mutant, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return mutant{}, err
	}
	m := mutant{name: strings.TrimSuffix(filepath.Base(path), ".txt"), edits: map[string][]edit{}}
	head, rest, _ := strings.Cut(string(text), "file: ")
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "what":
			m.what = value
		case "missed":
			m.missed = value
		case "test":
			m.test = value
		case "plan":
			m.sinks, m.moves = value == "sinks", value == "moves"
			m.holds, m.pays = value == "external", value == "policies"
			m.funds, m.accounts = value == "funds", value == "accounts"
		}
	}
	for part := range strings.SplitSeq("\n"+rest, "\nfile: ") {
		file, body, _ := strings.Cut(strings.TrimPrefix(part, "\n"), "\n")
		found := sections.FindAllStringSubmatch(body, -1)
		if len(found) == 0 {
			return m, fmt.Errorf("%s: no replacement for %s", path, file)
		}
		for _, s := range found {
			m.edits[file] = append(m.edits[file],
				edit{strings.TrimSuffix(s[1], "\n"), strings.TrimSuffix(s[2], "\n")})
		}
	}
	if m.what == "" || len(m.edits) == 0 {
		return m, fmt.Errorf("%s: incomplete mutant: add \"what:\" and a replacement", path)
	}
	if (m.missed == "") != (m.test == "") {
		return m, fmt.Errorf("%s: \"missed:\" and \"test:\" must be set together", path)
	}
	return m, nil
}

func allMutants(t *testing.T) []mutant {
	t.Helper()
	paths, err := filepath.Glob("mutants/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	var all []mutant
	for _, path := range paths {
		m, err := readMutant(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// apply writes the changed files and returns the replacement of each real path.
func (m mutant) apply(t *testing.T, dir string) map[string]string {
	t.Helper()
	replaced := map[string]string{}
	for file, edits := range m.edits {
		path, err := filepath.Abs(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := string(text)
		for _, e := range edits {
			if n := strings.Count(changed, e.old); n != 1 {
				t.Fatalf("mutant %s: its text occurs %d times in %s; update it:\n%s",
					m.name, n, file, e.old)
			}
			changed = strings.Replace(changed, e.old, e.new, 1)
		}
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		replaced[path] = to
	}
	return replaced
}

// TestMutantsFit verifies that every mutant applies to the current source and compiles, and that
// the test it names exists.
func TestMutantsFit(t *testing.T) {
	t.Parallel()
	for _, m := range allMutants(t) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.compile(t)
			if m.test != "" && !m.testIsThere(t) {
				t.Errorf("missing test %s", m.test)
			}
		})
	}
}

func (m mutant) testIsThere(t *testing.T) bool {
	t.Helper()
	folder, name, _ := strings.Cut(m.test, " ")
	files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)")
	})
}

// daily lists the mutants that every test run hunts.
var daily = []string{"one-request-twice", "sent-before-recorded", "token-stays"}

// TestMutants builds the simulation with each defect in turn and searches for a seed that breaks a
// law. A mutant that the simulation cannot find must fail the test that it names.
func TestMutants(t *testing.T) {
	t.Parallel()
	if *seedFlag != 0 {
		return
	}
	for _, m := range allMutants(t) {
		if *mutantFlag != "" && *mutantFlag != m.name ||
			*mutantFlag == "" && !*mutantsFlag && !slices.Contains(daily, m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if m.test != "" {
				m.showToTest(t)
				return
			}
			out, err := run(t, m.build(t, "."), "-test.run", "^TestHunt$", "-test.timeout", "20m",
				"-hunt", fmt.Sprint(*enoughFlag), fmt.Sprintf("-sinks=%v", m.sinks),
				fmt.Sprintf("-moves=%v", m.moves), fmt.Sprintf("-external=%v", m.holds),
				fmt.Sprintf("-policies=%v", m.pays), fmt.Sprintf("-funds=%v", m.funds),
				fmt.Sprintf("-accounts=%v", m.accounts))
			caught := regexp.MustCompile(`CAUGHT .*`).FindString(out)
			if caught == "" {
				t.Fatalf("%s: not found within %d seeds: %v\n%s", m.what, *enoughFlag, err,
					tailOf(out))
			}
			t.Logf("%s: %s", m.what, caught)
		})
	}
}

// showToTest requires the named test to fail with the mutant. Its own package verifies that it
// passes without.
func (m mutant) showToTest(t *testing.T) {
	t.Helper()
	folder, name, _ := strings.Cut(m.test, " ")
	out, err := run(t, m.build(t, filepath.Join("..", folder)), "-test.run", "^"+name+"$",
		"-test.timeout", "5m")
	if err == nil || !strings.Contains(out, "--- FAIL: "+name+" ") {
		t.Fatalf("%s: %s does not detect it: %v\n%s", m.what, m.test, err, tailOf(out))
	}
	t.Logf("%s: CAUGHT by %s", m.what, m.test)
}

// build compiles the test binary of a folder with the defect applied.
func (m mutant) build(t *testing.T, folder string) (program *exec.Cmd) {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "mutant.test")
	m.run(t, folder, "test", "-c", "-overlay", m.overlay(t, dir), "-o", binary, ".")
	program = exec.CommandContext(t.Context(), binary)
	program.Dir = folder
	return program
}

// compile compiles the packages that the mutant changes, without their importers.
func (m mutant) compile(t *testing.T) {
	t.Helper()
	args := []string{"build", "-overlay", m.overlay(t, t.TempDir())}
	for file := range m.edits {
		if strings.HasSuffix(file, ".go") {
			args = append(args, "./"+filepath.Dir(file))
		}
	}
	m.run(t, "..", args...)
}

// overlay writes the file for go's -overlay flag, which maps the real files to the changed ones.
func (m mutant) overlay(t *testing.T, dir string) (path string) {
	t.Helper()
	overlay, err := json.Marshal(map[string]any{"Replace": m.apply(t, dir)})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (m mutant) run(t *testing.T, folder string, args ...string) {
	t.Helper()
	tool := exec.CommandContext(t.Context(), "go", args...)
	tool.Dir = folder
	if out, err := tool.CombinedOutput(); err != nil {
		t.Fatalf("mutant %s does not compile: %v\n%s", m.name, err, out)
	}
}

func run(t *testing.T, program *exec.Cmd, args ...string) (string, error) {
	t.Helper()
	program.Args = append(program.Args, args...)
	out, err := program.CombinedOutput()
	return string(out), err
}

func tailOf(text string) string { return text[max(0, len(text)-3000):] }

// TestHunt runs seeds until one breaks a law. The binary of a mutant runs this test.
func TestHunt(t *testing.T) {
	t.Parallel()
	for i := range *huntFlag {
		seed := *firstFlag + uint64(i)
		p := Draw(seed)
		switch {
		case *holdsFlag:
			p = DrawExternal(seed)
		case *policiesFlag:
			p = DrawPolicies(seed)
		case *fundsFlag:
			p = DrawFunds(seed)
		case *accountsFlag:
			p = DrawAccounts(seed)
		}
		p.Sinks = *sinksFlag
		if *movesFlag {
			p = p.moved()
		}
		if r := Play(t, p); len(r.Broken) > 0 {
			fmt.Printf("CAUGHT by seed %d, the %dth: %s\n", seed, i+1, r.Broken[0])
			return
		}
	}
}

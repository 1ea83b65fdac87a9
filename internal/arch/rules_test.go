package arch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the module's folder as the tests of this package see it.
const root = "../.."

func TestImports_MatchArchitecture(t *testing.T) {
	t.Parallel()
	rules := mustParse(t, readFile(t, "ARCHITECTURE.md"))
	packages, err := List(root)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(packages,
		func(pkg Package) bool { return pkg.Path == "internal/arch" }) {
		t.Fatalf("this package is not among those listed: %v", packages)
	}
	for _, violation := range rules.Check(packages) {
		t.Error(violation)
	}
}

const table = `# Some document

| package | may import |
|---|---|
| engine | a table of another section |

## Imports

| package | may import |
|---|---|
| txn | nothing of ours |
| chain | txn |
| sign | txn |
| store | txn |
| engine | txn, store |
| server | txn, store, ` + "`gen/go`" + ` |
| cmd | everything |

## Next

| engine | server |
`

func TestCheck(t *testing.T) {
	t.Parallel()
	rules := mustParse(t, []byte(table))
	for _, test := range []struct {
		name, from, to string
		allowed        bool
	}{
		{"listed", "engine", "store", true},
		{"not listed", "engine", "chain", false},
		{"nothing of ours", "txn", "store", false},
		{"a subpackage belongs to its folder", "chain/devchain", "sign", false},
		{"its own folder", "chain", "chain/chaintest", true},
		{"and back", "chain/chaintest", "chain", true},
		{"a name that only starts alike", "engine", "storekeeper", false},
		{"generated code", "server", "gen/go/fencepost/v1", true},
		{"generated code, not listed", "engine", "gen/go/fencepost/v1", false},
		{"generated code imports itself", "gen/go/fencepost/v2", "gen/go/fencepost/v1", true},
		{"generated code imports nothing else", "gen/go/fencepost/v1", "txn", false},
		{"internal is for all", "txn", "internal/clock", true},
		{"internal imports itself", "internal/run", "internal/clock", true},
		{"internal imports nothing else", "internal/run", "txn", false},
		{"nor store", "internal/run", "store", false},
		{"a test helper imports store", "internal/dbtest", "store", true},
		{"a test helper imports internal", "internal/dbtest", "internal/clock", true},
		{"a test helper imports nothing else", "internal/dbtest", "engine", false},
		{"a test helper in a program", "engine", "internal/dbtest", false},
		{"a test helper in internal", "internal/run", "internal/dbtest", false},
		{"a test helper in a package for tests", "store/storetest", "internal/dbtest", true},
		{"everything", "cmd/fencepost", "engine", true},
		{"queries is a part of store", "store", "queries/migrations", true},
		{"queries follows the rules of store", "queries/migrations", "engine", false},
		{"no row", "examples/demo", "engine", true},
		{"a folder with a row on one without", "engine", "examples/demo", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			violations := rules.Check([]Package{{Path: test.from, Imports: []string{test.to}}})
			if allowed := len(violations) == 0; allowed != test.allowed {
				t.Errorf("%s imports %s: allowed = %v, want %v (%q)", test.from, test.to, allowed,
					test.allowed, violations)
			}
		})
	}
}

func TestServer_NotLinkedToChain(t *testing.T) {
	t.Parallel()
	// The table itself allows too much here: only the walk over all imports can see it.
	rules := mustParse(t,
		[]byte(strings.Replace(table, "| store | txn |", "| store | txn, sign |", 1)))
	violations := rules.Check([]Package{
		{Path: "server", Imports: []string{"store"}},
		{Path: "store", Imports: []string{"txn", "sign"}},
		{Path: "sign", Imports: []string{"txn"}},
		{Path: "txn"},
	})
	if len(violations) != 1 || !strings.Contains(violations[0], "server is linked to sign") {
		t.Errorf("violations = %q, want one for server linked to sign", violations)
	}
}

func TestParseRules_Invalid_Rejected(t *testing.T) {
	t.Parallel()
	for name, markdown := range map[string]string{
		"no table":     "## Imports\n\nSoon.\n",
		"no heading":   "| txn | nothing of ours |\n",
		"two rows":     "## Imports\n| txn | store |\n| txn | chain |\n",
		"three cells":  "## Imports\n| txn | store | chain |\n",
		"an empty row": "## Imports\n| txn | |\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if rules, err := ParseRules([]byte(markdown)); err == nil {
				t.Errorf("parsed as %v, want an error", rules)
			}
		})
	}
}

func mustParse(t *testing.T, markdown []byte) Rules {
	t.Helper()
	rules, err := ParseRules(markdown)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

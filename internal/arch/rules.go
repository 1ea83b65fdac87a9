// Package arch enforces the import rules between the folders of the module.
//
// The rules are the table under "Imports" in ARCHITECTURE.md, so the document cannot drift from the
// code. Its rows name top-level folders, and a package belongs to its top-level folder:
// chain/devchain to chain. Only code that programs are built from counts; test files may import any
// package.
//
// Beyond the table:
//
//   - A folder may import itself.
//   - Every folder may import internal, which imports only itself. Its packages dbtest and arch are
//     for tests: they may import store. Only folders that may import everything, and packages whose
//     name ends in "test", import them.
//   - internal/node, which assembles a node of all parts, is a part of node.
//   - queries, the SQL and its migrations, is a part of store. (Go itself seals store/internal.)
//   - A folder without a row, such as examples, may import everything, and may only be imported by
//     folders that may import everything.
//   - server is not linked, even indirectly, to code that signs or broadcasts.
package arch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// The words of the table that are not folders.
const (
	everything = "everything"
	nothing    = "nothing of ours"
)

// Folder is a path below the module's root that a row of the table names.
type Folder string

// Rules maps each folder with a row to the folders that it may import. A folder that may import
// everything has nil.
type Rules map[Folder][]Folder

// Package is a package of the module and its imports from the module, as paths below the module's
// root.
type Package struct {
	Path    string
	Imports []string
}

// testHelpers are the packages of internal that exist for tests.
var testHelpers = []string{"internal/arch", "internal/dbtest"}

// unlinked are the folders that the code of server must not reach.
var unlinked = []Folder{"chain", "engine", "sign"}

// ParseRules reads the table under the heading "## Imports".
func ParseRules(markdown []byte) (Rules, error) {
	rules := Rules{}
	within := false
	lines := bufio.NewScanner(bytes.NewReader(markdown))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "#") {
			within = line == "## Imports"
			continue
		}
		if !within || !strings.HasPrefix(line, "|") {
			continue
		}
		if err := rules.addRow(line); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the import table: %w", err)
	}
	if len(rules) == 0 {
		return nil, errors.New(
			`no import table: ARCHITECTURE.md needs one under the heading "## Imports"`)
	}
	return rules, nil
}

func (r Rules) addRow(line string) error {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i, cell := range cells {
		cells[i] = strings.Trim(strings.TrimSpace(cell), "`")
	}
	if cells[0] == "package" || strings.Trim(cells[0], "-: ") == "" {
		return nil
	}
	if len(cells) != 2 || cells[1] == "" {
		return fmt.Errorf("import table: %q is not a row of two cells, package and may import",
			line)
	}
	folder := Folder(cells[0])
	if _, twice := r[folder]; twice {
		return fmt.Errorf("import table: %s has two rows", folder)
	}
	r[folder] = parseAllowed(cells[1])
	return nil
}

func parseAllowed(cell string) []Folder {
	switch cell {
	case everything:
		return nil
	case nothing:
		return []Folder{}
	}
	var allowed []Folder
	for name := range strings.SplitSeq(cell, ",") {
		allowed = append(allowed, Folder(strings.Trim(strings.TrimSpace(name), "`")))
	}
	return allowed
}

// Check returns a sentence for each import that the rules forbid.
func (r Rules) Check(packages []Package) []string {
	var violations []string
	for _, importer := range packages {
		for _, imported := range importer.Imports {
			if !r.allows(importer.Path, imported) {
				violations = append(violations, fmt.Sprintf(
					"%s imports %s, which the table in ARCHITECTURE.md does not allow",
					importer.Path,
					imported,
				))
			}
		}
	}
	return append(violations, r.checkServer(packages)...)
}

func (r Rules) allows(importer, imported string) bool {
	from, to := r.folder(importer), r.folder(imported)
	if from == to && from != "internal" {
		return true
	}
	allowed, listed := r[from]
	switch {
	case from == "internal":
		return to == "internal" && mayUseHelper(importer, imported) ||
			to == "store" && isTestHelper(importer)
	case from == "gen/go":
		return false
	case !listed, allowed == nil:
		return true
	case to == "internal":
		return mayUseHelper(importer, imported)
	}
	return slices.Contains(allowed, to)
}

func mayUseHelper(importer, imported string) bool {
	return !isTestHelper(imported) || isTestHelper(importer) ||
		strings.HasSuffix(path.Base(importer), "test")
}

func isTestHelper(pkg string) bool {
	return slices.ContainsFunc(testHelpers, func(helper string) bool {
		return pkg == helper || strings.HasPrefix(pkg, helper+"/")
	})
}

// folder returns the folder that a package belongs to.
func (r Rules) folder(pkg string) Folder {
	top, rest, _ := strings.Cut(pkg, "/")
	switch top {
	case "gen":
		language, _, _ := strings.Cut(rest, "/")
		return Folder(path.Join(top, language))
	case "queries":
		return "store"
	case "internal":
		if rest == "node" {
			return "node"
		}
	}
	return Folder(top)
}

// checkServer checks the transitive imports of server. The direct rules alone would admit a
// forbidden folder as soon as a folder that server may import is allowed to import it.
func (r Rules) checkServer(packages []Package) []string {
	imports := make(map[string][]string, len(packages))
	var queue []string
	for _, pkg := range packages {
		imports[pkg.Path] = pkg.Imports
		if r.folder(pkg.Path) == "server" {
			queue = append(queue, pkg.Path)
		}
	}
	var violations []string
	// seen bounds the walk: every package is taken once.
	seen := map[string]bool{}
	for len(queue) > 0 {
		pkg := queue[0]
		queue = queue[1:]
		if seen[pkg] {
			continue
		}
		seen[pkg] = true
		if slices.Contains(unlinked, r.folder(pkg)) {
			violations = append(violations, fmt.Sprintf(
				"server is linked to %s: the code that talks to callers must not reach the code "+
					"that signs or broadcasts",
				pkg,
			))
		}
		queue = append(queue, imports[pkg]...)
	}
	return violations
}

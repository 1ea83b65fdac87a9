// Command arrows counts the references between the files of each package.
//
//	go run -C tools ./arrows                    server, engine, chain, store, txn and below
//	go run -C tools ./arrows server txn         these folders
//	go run -C tools ./arrows -upward server     list the upward arrows too
//
// An arrow leads from a file to another file of the same package that declares something the first
// one uses: a function, type, method, field, constant or variable. An arrow is upward if it leads
// against the best file order found (order.go): without upward arrows, the files form layers. Tests
// and generated files are not counted.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/tools/go/packages"
)

func main() {
	upward := flag.Bool("upward", false, "list the upward arrows")
	root := flag.String("root", "..", "the module's `folder`")
	flag.Parse()
	folders := flag.Args()
	if len(folders) == 0 {
		folders = []string{"server", "engine", "chain", "store", "txn"}
	}
	if err := run(os.Stdout, *root, folders, *upward); err != nil {
		fmt.Fprintln(os.Stderr, "arrows:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, root string, folders []string, list bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "files\tlines\treferences\tarrows\tupward\t  package")
	var upward []string
	for _, folder := range folders {
		found, err := load(root, folder)
		if err != nil {
			return err
		}
		var total stats
		for _, p := range found {
			total.add(p.stats)
			p.print(w)
			upward = append(upward, p.upwardList...)
		}
		if len(found) > 1 {
			total.name = folder + " in all"
			total.print(w)
		}
	}
	if err := w.Flush(); err != nil || !list {
		return err
	}
	_, err := fmt.Fprintln(out, strings.Join(upward, "\n"))
	return err
}

// stats are the numbers of one package, or the sums of several.
type stats struct {
	name       string
	files      int
	lines      int
	references int // uses of a name that another file declares
	arrows     int // pairs of files with at least one reference
	upward     int
}

func (s *stats) add(o stats) {
	s.files += o.files
	s.lines += o.lines
	s.references += o.references
	s.arrows += o.arrows
	s.upward += o.upward
}

func (s stats) print(w io.Writer) {
	fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t  %s\n",
		s.files, s.lines, s.references, s.arrows, s.upward, s.name)
}

type counted struct {
	stats
	upwardList []string
}

const mode = packages.LoadSyntax | packages.NeedModule

// load counts each package below a folder, in the order of their paths.
func load(root, folder string) ([]counted, error) {
	loaded, err := packages.Load(&packages.Config{Mode: mode, Dir: root},
		"./"+folder+"/...")
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", folder, err)
	}
	if packages.PrintErrors(loaded) > 0 {
		return nil, fmt.Errorf("load %s: it does not compile", folder)
	}
	slices.SortFunc(loaded, func(a, b *packages.Package) int {
		return cmp.Compare(a.PkgPath, b.PkgPath)
	})
	var found []counted
	for _, p := range loaded {
		c := count(p.Fset, p.Syntax, p.TypesInfo)
		if c.files == 0 {
			continue
		}
		c.name = strings.TrimPrefix(p.PkgPath, p.Module.Path+"/")
		for i, arrow := range c.upwardList {
			c.upwardList[i] = c.name + ": " + arrow
		}
		found = append(found, c)
	}
	return found, nil
}

// count counts the references between the files of one package.
func count(fset *token.FileSet, files []*ast.File, info *types.Info) counted {
	var c counted
	g := graph{}
	base := map[string]string{} // by path: another package may have a file of the same name
	for _, f := range files {
		if ast.IsGenerated(f) {
			continue
		}
		c.files++
		c.lines += fset.File(f.FileStart).LineCount()
		path := fset.File(f.FileStart).Name()
		base[path] = filepath.Base(path)
		g[base[path]] = map[string]int{}
	}
	for name, used := range info.Uses {
		from, to := base[pathOf(fset, name.Pos())], base[pathOf(fset, used.Pos())]
		if from == "" || to == "" || from == to {
			continue
		}
		g[from][to]++
	}
	for _, to := range g {
		c.arrows += len(to)
		for n := range maps.Values(to) {
			c.references += n
		}
	}
	for _, up := range g.upward(g.order()) {
		c.upward++
		c.upwardList = append(c.upwardList,
			fmt.Sprintf("%s -> %s (%d references)", up.from, up.to, g[up.from][up.to]))
	}
	return c
}

// pathOf returns the path of the file at a position; "" for names of the language.
func pathOf(fset *token.FileSet, at token.Pos) string {
	if file := fset.File(at); file != nil {
		return file.Name()
	}
	return ""
}

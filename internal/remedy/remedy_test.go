package remedy

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestRemedy(t *testing.T) {
	t.Parallel()
	inner := Errorf("pay; then retry", "no funds: %w", fs.ErrNotExist)
	for name, c := range map[string]struct {
		err           error
		cause, remedy string
	}{
		"plain":  {errors.New("a; b"), "a; b", ""},
		"remedy": {inner, "no funds: file does not exist", "pay; then retry"},
		"wrapped": {fmt.Errorf("alice: %w", inner), "alice: no funds: file does not exist",
			"pay; then retry"},
		"nested": {
			Errorf("replace it", "alice: %w", inner),
			"alice: no funds: file does not exist; pay; then retry",
			"replace it",
		},
	} {
		cause, remedy := Of(c.err)
		if cause != c.cause || remedy != c.remedy {
			t.Errorf("%s: %q, %q; want %q, %q", name, cause, remedy, c.cause, c.remedy)
		}
	}
	if !errors.Is(inner, fs.ErrNotExist) {
		t.Error("the cause is not unwrapped")
	}
}

func TestPackages_Removed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"pgembed: start: no server":     "start: no server",
		"open: engine: track: behind":   "open: behind",
		"bookstore: closed":             "bookstore: closed",
		"PostgreSQL exited\npgembed: x": "PostgreSQL exited\nx",
	} {
		if got := WithoutPackages(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// TestPackages_OfErrors_Known checks that the name of each package of the programs that begins
// one of its errors is known.
func TestPackages_OfErrors_Known(t *testing.T) {
	t.Parallel()
	others := []string{"bench", "clients", "e2e", "examples", "gen", "node_modules", "sim",
		"third_party", "tools"}
	found := map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(others, name) || strings.HasSuffix(name, "test") ||
			len(name) > 2 && name[0] == '.'):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, text := range errorTexts(file) {
			if name := file.Name.Name; strings.HasPrefix(text, name+": ") {
				found[name] = true
				if WithoutPackages(text) == text {
					t.Errorf("%s: error %q keeps the name of its package", path, text)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 10 {
		t.Errorf("found only %v", found)
	}
}

// errorTexts are the texts of the errors that a file makes.
func errorTexts(file *ast.File) (texts []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is || len(call.Args) == 0 {
			return true
		}
		function, is := call.Fun.(*ast.SelectorExpr)
		text, isText := call.Args[0].(*ast.BasicLit)
		if is && isText && text.Kind == token.STRING &&
			(function.Sel.Name == "Errorf" || function.Sel.Name == "New") {
			if value, err := strconv.Unquote(text.Value); err == nil {
				texts = append(texts, value)
			}
		}
		return true
	})
	return texts
}

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
)

// maxAssigned is the number of values that one assignment may list.
const maxAssigned = 2

// assignments returns the assignments that list more values. One call that returns several values
// is a single value here.
func assignments(name, text string) []finding {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler reports it
	}
	var found []finding
	ast.Inspect(file, func(n ast.Node) bool {
		values := 0
		switch n := n.(type) {
		case *ast.AssignStmt:
			values = len(n.Rhs)
		case *ast.ValueSpec:
			values = len(n.Values)
		}
		if values > maxAssigned {
			found = append(found, finding{rule: "parallel assignment: at most two values",
				line: files.Position(n.Pos()).Line, strict: true,
				text: "put each value on its own line"})
		}
		return true
	})
	return found
}

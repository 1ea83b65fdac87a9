package arch

import (
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Module is the path that the imports of our own packages start with.
const Module = "github.com/fencepost/fencepost"

// List returns the packages of the module in the folder root, as the go command would compile them
// on this machine.
//
// It reads the files directly instead of running `go list`: Go reruns a cached test only if a file
// changed that the test process opened.
func List(root string) ([]Package, error) {
	var packages []Package
	err := filepath.WalkDir(root, func(folder string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			return nil
		}
		if folder != root && outside(folder, entry.Name()) {
			return fs.SkipDir
		}
		pkg, err := read(root, folder)
		if err == nil && pkg.Path != "" {
			packages = append(packages, pkg)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	return packages, nil
}

// outside reports whether the go command ignores packages there.
func outside(folder, name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" ||
		name == "node_modules" {
		return true
	}
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// read returns the package in a folder, or one without a path if there is none.
func read(root, folder string) (Package, error) {
	built, err := build.ImportDir(folder, 0)
	if noGo := new(build.NoGoError); errors.As(err, &noGo) {
		return Package{}, nil
	}
	if err != nil {
		return Package{}, err
	}
	path, err := filepath.Rel(root, folder)
	if err != nil {
		return Package{}, err
	}
	pkg := Package{Path: filepath.ToSlash(path)}
	for _, imported := range built.Imports {
		if below, ours := strings.CutPrefix(imported, Module+"/"); ours {
			pkg.Imports = append(pkg.Imports, below)
		}
	}
	return pkg, nil
}

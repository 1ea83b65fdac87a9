// Command notices writes the license texts of all code that the programs link.
//
//	go run -C tools ./notices ../NOTICE
//
// It reads the license files beside each linked package and above it, up to the root of its module,
// from the module cache. A linked module without a license is an error.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const head = `Fencepost is licensed under the Apache License 2.0 (see LICENSE). Its programs link
the modules below, each under its own license. go-ethereum is licensed under the LGPL 3.0: its
source is the unmodified module of this version, and "make build" links the programs with another
one.

This file is generated: go run -C tools ./notices ../NOTICE
`

// inSource has the licenses that modules state in their source only.
var inSource = map[string]string{
	"github.com/holiman/bloomfilter/v2 v2.0.3": `Copyright © 2014, 2015, 2018 Barry Allard

MIT license

Copyright © 2020 Martin Holst Swende, continued on the work of Barry Allard
`,
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func run(target string) error {
	packages, err := linked("..", "./cmd/...")
	if err != nil {
		return err
	}
	users := map[string][]string{} // modules by license text
	found := map[string]bool{}
	for _, p := range packages {
		name, root := p.origin()
		if name == "" {
			continue
		}
		texts, err := licenses(p.Dir, root)
		if err != nil {
			return err
		}
		found[name] = found[name] || len(texts) > 0
		for _, text := range texts {
			if !slices.Contains(users[text], name) {
				users[text] = append(users[text], name)
			}
		}
	}
	for name, ok := range found {
		if text := inSource[name]; !ok && text != "" {
			users[text] = append(users[text], name)
		} else if !ok {
			return fmt.Errorf("%s has no license file", name)
		}
	}
	return os.WriteFile(target, []byte(head+sections(users)), 0o644)
}

// sections prints each text once, below the modules that it applies to.
func sections(users map[string][]string) string {
	var all []string
	for text, modules := range users {
		slices.Sort(modules)
		all = append(all, "\n"+strings.Repeat("=", 80)+"\n"+strings.Join(modules, "\n")+"\n"+
			strings.Repeat("-", 80)+"\n\n"+text)
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

type pkg struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path string }
	}
}

// origin returns the module of a package and its root; empty for our own.
func (p pkg) origin() (name, root string) {
	switch {
	case p.Standard:
		root, _, _ = strings.Cut(p.Dir, string(filepath.Separator)+"src"+string(filepath.Separator))
		return "the Go standard library", root
	case p.Module == nil || p.Module.Main || p.Module.Replace != nil:
		return "", ""
	}
	return p.Module.Path + " " + p.Module.Version, p.Module.Dir
}

// linked lists the packages of programs for one fixed system, so that the result is the same on
// all.
func linked(dir, pattern string) (all []pkg, err error) {
	list := exec.Command("go", "list", "-deps", "-tags=aws,gcp,azure,pkcs11",
		"-json=Dir,Standard,Module", pattern)
	list.Dir = dir
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

var licenseFile = regexp.MustCompile(
	`^(?i)(licen[cs]e|copying|notice)([-.](lesser|md|txt|apache|mit|bsd|libyaml))?$`)

// licenses returns the texts in a folder and those above it, up to the root.
func licenses(dir, root string) (texts []string, err error) {
	for {
		files, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if !licenseFile.MatchString(file.Name()) || !file.Type().IsRegular() {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, file.Name()))
			if err != nil {
				return nil, err
			}
			lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
			for i := range lines {
				lines[i] = strings.TrimRight(lines[i], " \t")
			}
			texts = append(texts, strings.Trim(strings.Join(lines, "\n"), "\n")+"\n")
		}
		if dir == root || len(dir) <= len(root) {
			return texts, nil
		}
		dir = filepath.Dir(dir)
	}
}

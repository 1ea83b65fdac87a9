package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fencepost/fencepost/internal/remedy"
)

const (
	maxFileBytes   = 4 << 20
	maxURLFileSize = 4 << 10
)

// ForeignVariables have the prefix of the configuration but are no keys: the commands use them.
var ForeignVariables = []string{Prefix + "CONFIG", Prefix + "SERVER", Prefix + "TOKEN_FILE"}

// Source lists the inputs of a configuration.
type Source struct {
	File    string   // path of the YAML file; empty: none
	Environ []string // in the format of os.Environ
	Set     []string // "key=value", the last of a key wins
	Ignore  []string // environment variables with this prefix that another program uses
}

// Load reads and checks a configuration. The error has the type Problems, unless the file cannot be
// read.
func Load(s Source) (*Config, error) {
	c, problems, err := Survey(s)
	switch {
	case err != nil:
		return nil, err
	case len(problems) > 0:
		return nil, problems
	}
	return c, nil
}

// Survey reads and checks a configuration like Load, and returns the valid part of an invalid one:
// keys with a problem are left empty. The result is for inspection, not for running a node. The
// error means that the file cannot be read.
func Survey(s Source) (*Config, Problems, error) {
	r := &reader{
		file: s.File, folder: filepath.Dir(s.File), bad: map[string]bool{},
		origins: map[string]Origin{}, presets: map[string]defaultValue{},
		index: map[string]int{}, elementPaths: map[string][]string{},
		overrides: overrides{
			collect(s.Environ, s.Ignore),
			map[string]string{},
			map[string]string{},
		},
	}
	root, err := r.parseFile(s.File)
	if err != nil {
		return nil, nil, err
	}
	readable := len(r.problems) == 0
	r.setFlags(s.Set)
	c := Config{file: s.File}
	if readable { // otherwise there are no keys to check
		readFields(r, schema(), &c, position{node: root})
		r.leftovers()
		c.elementPaths = r.elementPaths
		r.findURLs(&c)
		r.relate(&c)
	}
	c.Settings = r.settings
	return &c, r.sorted(), nil
}

// parseFile returns the root of the file; nil if it is empty, or invalid and reported.
func (r *reader) parseFile(path string) (*yaml.Node, error) {
	if path == "" {
		r.file = "configuration"
		return nil, nil
	}
	content, err := readLimited(path, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(
			"config: file %s does not exist; set --config or FENCEPOST_CONFIG to another file",
			path)
	}
	if err != nil {
		return nil, fmt.Errorf("config: read the file: %w", err)
	}
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		r.malformed(err)
		return nil, nil
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		r.problem(r.at(second.Line), "", "a second document starts here",
			"delete the line --- and the text after it, or the document before it")
	case !errors.Is(err, io.EOF):
		r.malformed(err)
	}
	return document.Content[0], nil
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func (r *reader) malformed(err error) {
	what, line := err.Error(), 0
	if m := yamlError.FindStringSubmatch(what); m != nil {
		line, _ = strconv.Atoi(m[1]) // 0 when there is none, as of the first line
		what = m[2]
	}
	where := "check this line and the one before it: "
	if line == 0 {
		where = ""
	}
	r.problem(r.at(line), "", "not valid YAML: "+what,
		where+"indent with spaces, and quote text that contains \": \" or \"#\"")
}

// findURL chooses between the URL of a database, under the key url, and the file that holds it: the
// later source wins.
func (r *reader) findURL(section, what string, required bool, url *Secret, path string) {
	key, file := section+".url", section+".url_file"
	if r.bad[key] || r.bad[file] {
		return
	}
	fromURL, hasURL := r.origins[key]
	fromFile, hasFile := r.origins[file]
	switch {
	case !hasURL && !hasFile && required:
		r.problem(r.at(0), key, "missing", "set it, or "+file+", or set "+variable(key))
	case hasURL && hasFile && fromURL.Layer == fromFile.Layer:
		r.problem(fromFile, file, key+" is set too", "keep one of them")
	case hasFile && (!hasURL || fromFile.Layer > fromURL.Layer):
		r.readURL(fromFile, key, file, what, url, path)
	}
}

func (r *reader) readURL(origin Origin, key, file, what string, url *Secret, path string) {
	content, err := readLimited(path, maxURLFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		r.problem(origin, file, fmt.Sprintf("file %s does not exist", path),
			"write the "+what+" URL into it, and make it readable for this user only")
		return
	}
	if err != nil {
		r.problem(origin, file, "cannot read the file: "+err.Error(), remedy.OfFile(err))
		return
	}
	if *url, err = postgres().parse(strings.TrimSpace(string(content))); err != nil {
		r.wrong(origin, file, err)
		return
	}
	r.note(key, url.String(), origin)
}

func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("%s exceeds %d bytes, so it is probably the wrong file", path, limit)
	}
	return content, err
}

// sorted sorts the problems of the file by line, before the others.
func (r *reader) sorted() Problems {
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		if a.Origin.Layer != b.Origin.Layer {
			return int(a.Origin.Layer) - int(b.Origin.Layer)
		}
		return a.Origin.Line - b.Origin.Line
	})
	return r.problems
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

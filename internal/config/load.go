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
)

const (
	maxFileBytes   = 4 << 20
	maxURLFileSize = 4 << 10
)

// Source is where a configuration is read from.
type Source struct {
	File    string   // path of the YAML file; empty: there is none
	Environ []string // as os.Environ gives it
	Set     []string // "key=value", the last of a key wins
	Ignore  []string // environment variables of this prefix that belong to somebody else
}

// Load reads a configuration and checks all of it. The error is of type Problems, except when the file cannot be read at all.
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

// Survey reads a configuration and checks all of it as Load does, and gives what could be read of one that is wrong: keys with a problem are left empty in it. That is
// for looking further, not for running. The error is that the file cannot be read at all.
func Survey(s Source) (*Config, Problems, error) {
	r := &reader{
		file: s.File, folder: filepath.Dir(s.File), bad: map[string]bool{}, origins: map[string]Origin{},
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
	if readable { // else there are no keys to judge by
		readFields(r, schema(), &c, place{node: root})
		r.leftovers()
		r.findDatabase(&c)
		c.elementPaths = r.elementPaths
		r.relate(&c)
	}
	c.Settings = r.settings
	return &c, r.sorted(), nil
}

// parseFile gives the top of the file; nil when it is empty, or was wrong and reported.
func (r *reader) parseFile(path string) (*yaml.Node, error) {
	if path == "" {
		r.file = "configuration"
		return nil, nil
	}
	content, err := readLimited(path, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(
			"config: file %s does not exist; name another with --config or FENCEPOST_CONFIG", path)
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
		r.problem(r.at(second.Line), "", "a second document begins here",
			"delete the line ---, or what follows it")
	case !errors.Is(err, io.EOF):
		r.malformed(err)
	}
	return document.Content[0], nil
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func (r *reader) malformed(err error) {
	what, line := err.Error(), 0
	if m := yamlError.FindStringSubmatch(what); m != nil {
		line, _ = strconv.Atoi(m[1]) // 0 when there is none
		what = m[2]
	}
	r.problem(r.at(line), "", "it is not YAML: "+what,
		"look at this line and the one before it: YAML is indented with spaces, and a text with \": \" or \"#\" in it needs quotes")
}

// findDatabase settles whether the URL or the file that holds it counts: the one of the later layer.
func (r *reader) findDatabase(c *Config) {
	const url, file = "database.url", "database.url_file"
	if r.bad[url] || r.bad[file] {
		return
	}
	fromURL, hasURL := r.origins[url]
	fromFile, hasFile := r.origins[file]
	switch {
	case !hasURL && !hasFile:
		r.problem(r.at(0), url, "it is missing", "write it, or "+file+", or set "+variable(url))
	case hasURL && hasFile && fromURL.Layer == fromFile.Layer:
		r.problem(fromFile, file, "database.url is written too", "keep one of them")
	case hasFile && (!hasURL || fromFile.Layer > fromURL.Layer):
		r.readDatabaseURL(c, fromFile)
	}
}

func (r *reader) readDatabaseURL(c *Config, origin Origin) {
	const key = "database.url_file"
	content, err := readLimited(c.Database.URLFile, maxURLFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		r.problem(origin, key, fmt.Sprintf("file %s does not exist", c.Database.URLFile),
			"write the URL of the database into it, readable by this user only")
		return
	}
	if err != nil {
		r.problem(origin, key, "the file cannot be read: "+err.Error(),
			"make it readable for this user")
		return
	}
	c.Database.URL, err = postgres().parse(strings.TrimSpace(string(content)))
	if err != nil {
		r.wrong(origin, key, err)
		return
	}
	r.note("database.url", c.Database.URL.String(), origin)
}

func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("%s has more than %d bytes, so it is something else", path, limit)
	}
	return content, err
}

// sorted puts the problems of the file in its order, and the others behind them.
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

package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxElements bounds every list.
const maxElements = 10_000

// reader walks the table of keys and the file in parallel.
type reader struct {
	file      string // name of the file in errors
	folder    string
	overrides overrides

	problems     Problems
	bad          map[string]bool   // keys with a problem
	origins      map[string]Origin // source of each key's value
	settings     []Setting
	index        map[string]int          // of a key in settings
	elementPaths map[string][]string     // paths of the elements of a list
	presets      map[string]defaultValue // of the keys that a chain's profile sets
	// every key that can be set, including those of list elements
	known []string
}

func (r *reader) problem(origin Origin, key, what, remedy string) {
	r.bad[key] = true
	r.problems = append(r.problems, Problem{origin, origin.String(), key, what, remedy})
}

func (r *reader) at(line int) Origin { return Origin{InFile, r.file, line} }

// note records a value for `config show`; a later note of the same key replaces an earlier one.
func (r *reader) note(key, shown string, origin Origin) {
	r.origins[key] = origin
	if i, ok := r.index[key]; ok {
		r.settings[i] = Setting{key, shown, origin.String()}
		return
	}
	r.index[key] = len(r.settings)
	r.settings = append(r.settings, Setting{key, shown, origin.String()})
}

// scalar returns the text of a key and its origin. ok is false if there is no value; a missing
// required value is reported.
func (r *reader) scalar(e entry, at position) (text string, origin Origin, ok bool) {
	if !e.fixed {
		if text, origin, ok := r.override(e, at.path); ok {
			return text, origin, true
		}
	}
	if at.node != nil {
		if s, ok := r.scalarNode(e, at.node, at.path); ok {
			return s.text, s.origin, true
		}
		return "", Origin{}, false
	}
	if e.required {
		r.missing(e, at)
	}
	unset := r.byDefault(e, at.path)
	return unset.text, unset.origin, unset.text != ""
}

type scalar struct {
	text   string
	origin Origin
}

func (r *reader) scalarNode(e entry, n *yaml.Node, path string) (scalar, bool) {
	n = follow(n)
	switch {
	case n.Kind != yaml.ScalarNode:
		r.problem(r.at(n.Line), path, "expected one value, not a group or list",
			fmt.Sprintf("set one value (%s)", e.about))
	case n.Value == "" || n.ShortTag() == "!!null":
		r.problem(r.at(n.Line), path, "no value",
			orDefault(r.byDefault(e, path).text, fmt.Sprintf("set a value (%s)", e.about)))
	default:
		// The text as written, regardless of its YAML type: 0x12 stays an address, and 1e3 a name.
		return scalar{n.Value, r.at(n.Line)}, true
	}
	return scalar{}, false
}

func orDefault(byDefault, remedy string) string {
	if byDefault == "" {
		return remedy
	}
	return fmt.Sprintf("%s, or delete the line for the default %s", remedy, byDefault)
}

// scalars returns the list of texts of a key. ok is false if there is no value; a missing required
// value is reported.
func (r *reader) scalars(e entry, at position) ([]scalar, bool) {
	if text, origin, ok := r.override(e, at.path); ok {
		var all []scalar
		for part := range strings.SplitSeq(text, ",") {
			all = append(all, scalar{strings.TrimSpace(part), origin})
		}
		return all, true
	}
	n := follow(at.node)
	if n == nil || n.ShortTag() == "!!null" || n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		if e.required {
			r.missing(e, at)
		}
		return nil, false
	}
	if n.Kind != yaml.SequenceNode {
		r.problem(r.at(n.Line), at.path, "not a list",
			fmt.Sprintf("use %s: [one, two]", e.name))
		return nil, false
	}
	if !r.short(n, at.path) {
		return nil, false
	}
	var all []scalar
	for i, item := range n.Content {
		s, ok := r.scalarNode(e, item, fmt.Sprintf("%s[%d]", at.path, i))
		if !ok {
			r.bad[at.path] = true
			return nil, false
		}
		all = append(all, s)
	}
	return all, true
}

func (r *reader) short(n *yaml.Node, path string) bool {
	if len(n.Content) <= maxElements {
		return true
	}
	r.problem(r.at(n.Line), path,
		fmt.Sprintf("the list has %d elements, above the maximum of %d", len(n.Content),
			maxElements),
		"distribute them over several nodes")
	return false
}

func (r *reader) missing(e entry, at position) {
	remedy := fmt.Sprintf("add it (%s)", e.about)
	if e.inner != nil {
		remedy = "add at least one, with its keys"
	}
	if !e.fixed && e.inner == nil &&
		!strings.Contains(at.path, "[") { // an element without a name has no variables
		remedy += ", or set " + variable(at.path)
	}
	r.problem(r.at(at.line), at.path, "missing", remedy)
}

// keys returns the keys of a group and reports unknown ones.
func (r *reader) keys(entries []entry, at position) map[string]*yaml.Node {
	n := follow(at.node)
	if n == nil || n.ShortTag() == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.problem(r.at(n.Line), at.path, "not a group of keys",
			"put each key on its own indented line, as key: value")
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
	}
	nodes := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		path := join(at.path, key.Value)
		switch first, twice := nodes[key.Value]; {
		case key.ShortTag() == "!!merge":
			r.problem(r.at(key.Line), path, "merge keys are not supported", "write the keys out")
		case !slices.Contains(names, key.Value):
			r.problem(r.at(key.Line), path, "unknown key", r.suggest(key.Value, names))
		case twice:
			r.problem(r.at(key.Line), path,
				fmt.Sprintf("duplicate key, first set near line %d", first.Line),
				"keep one of them")
		default:
			nodes[key.Value] = value
		}
	}
	return nodes
}

// suggest returns a remedy for an unknown key: a similar key of the group, or the same key in
// another group.
func (r *reader) suggest(key string, names []string) string {
	if meant := nearest(key, names); meant != "" {
		return fmt.Sprintf("did you mean %q?", meant)
	}
	for _, path := range paths("", entries(schema())) {
		if path == key || strings.HasSuffix(path, "."+key) {
			return fmt.Sprintf("did you mean %s?", path)
		}
		if i := strings.Index("."+path, "."+key+"."); i >= 0 {
			return fmt.Sprintf("did you mean %s?", path[:i+len(key)])
		}
	}
	return "delete it, or choose one of " + strings.Join(names, ", ")
}

// elements returns the positions of the elements of a list. An element's path has its name if that
// is valid, otherwise its index.
func (r *reader) elements(e entry, at position) []position {
	n := follow(at.node)
	if n == nil || n.ShortTag() == "!!null" || n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		if e.required {
			r.missing(e, at)
		}
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.problem(r.at(n.Line), at.path, "not a list",
			"start each element with \"- name: ...\"")
		return nil
	}
	if !r.short(n, at.path) {
		return nil
	}
	var all []position
	lines := map[string]int{}
	for i, item := range n.Content {
		item = follow(item)
		path := fmt.Sprintf("%s[%d]", at.path, i)
		if name, line := nameOf(item); name != "" {
			if first, twice := lines[name]; twice {
				r.problem(r.at(line), path+".name",
					fmt.Sprintf("the name %q is already used in line %d", name, first),
					"use unique names")
			} else {
				lines[name] = line
				path = join(at.path, name)
			}
		}
		all = append(all, position{path, item, item.Line})
		r.elementPaths[at.path] = append(r.elementPaths[at.path], path)
	}
	return all
}

// nameOf returns the name of an element and its line; empty if it has no valid name.
func nameOf(n *yaml.Node) (string, int) {
	if n.Kind != yaml.MappingNode {
		return "", 0
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		value := follow(n.Content[i+1])
		if n.Content[i].Value == "name" && value.Kind == yaml.ScalarNode {
			if name, err := label().parse(value.Value); err == nil {
				return name, value.Line
			}
		}
	}
	return "", 0
}

// follow resolves an alias.
func follow(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

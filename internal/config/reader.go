package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxElements bounds every list.
const maxElements = 10_000

// reader walks the table of keys and the file side by side.
type reader struct {
	file      string // as errors call it
	folder    string
	overrides overrides

	problems     Problems
	bad          map[string]bool   // keys with a problem
	origins      map[string]Origin // where the value of a key was written
	settings     []Setting
	index        map[string]int      // of a key in settings
	elementPaths map[string][]string // paths of the elements of a list
	known        []string            // every key that can be written, lists with their elements
}

func (r *reader) problem(origin Origin, key, what, remedy string) {
	r.bad[key] = true
	r.problems = append(r.problems, Problem{origin, origin.String(), key, what, remedy})
}

func (r *reader) at(line int) Origin { return Origin{InFile, r.file, line} }

// note keeps a value for `config show`; a later note of the same key replaces the earlier.
func (r *reader) note(key, shown string, origin Origin) {
	r.origins[key] = origin
	if i, ok := r.index[key]; ok {
		r.settings[i] = Setting{key, shown, origin.String()}
		return
	}
	r.index[key] = len(r.settings)
	r.settings = append(r.settings, Setting{key, shown, origin.String()})
}

// scalar is the text of a key and where it was written; ok is false when there is none, which has been reported if it matters.
func (r *reader) scalar(e entry, at place) (text string, origin Origin, ok bool) {
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
	return e.byDefault, Origin{Layer: ByDefault}, e.byDefault != ""
}

type scalar struct {
	text   string
	origin Origin
}

func (r *reader) scalarNode(e entry, n *yaml.Node, path string) (scalar, bool) {
	n = follow(n)
	switch {
	case n.Kind != yaml.ScalarNode:
		r.problem(r.at(n.Line), path, "it has a group or list where one value belongs",
			fmt.Sprintf("write one value (%s)", e.about))
	case n.Value == "" || n.ShortTag() == "!!null":
		r.problem(r.at(n.Line), path, "it has no value",
			orDefault(e, fmt.Sprintf("give it one (%s)", e.about)))
	default:
		// The text as it was written, whatever type YAML sees in it: so 0x12 stays an address, and 1e3 a name.
		return scalar{n.Value, r.at(n.Line)}, true
	}
	return scalar{}, false
}

func orDefault(e entry, remedy string) string {
	if e.byDefault == "" {
		return remedy
	}
	return fmt.Sprintf("%s, or delete the line for the default %s", remedy, e.byDefault)
}

// scalars is the list of texts of a key; ok is false when there is none, which has been reported if it matters.
func (r *reader) scalars(e entry, at place) ([]scalar, bool) {
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
		r.problem(r.at(n.Line), at.path, "it is not a list",
			fmt.Sprintf("write %s: [one, two]", e.name))
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
		fmt.Sprintf("the list has %d elements, and %d is the most", len(n.Content), maxElements),
		"divide them among nodes")
	return false
}

func (r *reader) missing(e entry, at place) {
	remedy := fmt.Sprintf("add it (%s)", e.about)
	if e.inner != nil {
		remedy = "add at least one, with its keys"
	}
	if !e.fixed && e.inner == nil &&
		!strings.Contains(at.path, "[") { // an element without a name has no variables
		remedy += ", or set " + variable(at.path)
	}
	r.problem(r.at(at.line), at.path, "it is missing", remedy)
}

// keys divides a group by its keys and reports those that are not in the table.
func (r *reader) keys(entries []entry, at place) map[string]*yaml.Node {
	n := follow(at.node)
	if n == nil || n.ShortTag() == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.problem(r.at(n.Line), at.path, "it is not a group of keys",
			"write its keys on the lines below, each indented and as key: value")
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
			r.problem(r.at(key.Line), path, "merge keys are not understood", "write the keys out")
		case !slices.Contains(names, key.Value):
			r.problem(r.at(key.Line), path, "there is no such key", r.suggest(key.Value, names))
		case twice:
			r.problem(r.at(key.Line), path,
				fmt.Sprintf("it is written twice, first near line %d", first.Line),
				"keep one of them")
		default:
			nodes[key.Value] = value
		}
	}
	return nodes
}

// suggest says which key somebody meant: a near one of this group, or one of the same name that belongs elsewhere.
func (r *reader) suggest(key string, names []string) string {
	if meant := nearest(key, names); meant != "" {
		return fmt.Sprintf("did you mean %q?", meant)
	}
	for _, path := range paths("", entries(schema())) {
		if path == key || strings.HasSuffix(path, "."+key) {
			return fmt.Sprintf("did you mean %s?", path)
		}
	}
	return "delete it, or choose one of " + strings.Join(names, ", ")
}

// elements are the places of the elements of a list. Their path has the name that the element gives itself, if it is a good one, else its index.
func (r *reader) elements(e entry, at place) []place {
	n := follow(at.node)
	if n == nil || n.ShortTag() == "!!null" || n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		if e.required {
			r.missing(e, at)
		}
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.problem(r.at(n.Line), at.path, "it is not a list",
			"begin each element with \"- name: ...\"")
		return nil
	}
	if !r.short(n, at.path) {
		return nil
	}
	var all []place
	lines := map[string]int{}
	for i, item := range n.Content {
		item = follow(item)
		path := fmt.Sprintf("%s[%d]", at.path, i)
		if name, line := nameOf(item); name != "" {
			if first, twice := lines[name]; twice {
				r.problem(r.at(line), path+".name",
					fmt.Sprintf("the name %q is taken by line %d", name, first),
					"give each a name of its own")
			} else {
				lines[name] = line
				path = join(at.path, name)
			}
		}
		all = append(all, place{path, item, item.Line})
		r.elementPaths[at.path] = append(r.elementPaths[at.path], path)
	}
	return all
}

// nameOf is the name that an element gives itself, and its line; empty when it gives none that is good.
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

// follow goes from an alias to what it stands for.
func follow(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// entry describes a key in the reference.
type entry struct {
	name, text string
	about      string // format of a value; empty for a section
	byDefault  string // as text; empty: none
	required   bool
	fixed      bool // only the file can set it
	secret     bool
	list       bool
	inner      []entry // the keys of a section
}

// field is a key that belongs into a T.
type field[T any] struct {
	entry
	read func(r *reader, e entry, into *T, at position)
}

func (f field[T]) must() field[T]   { f.required = true; return f }
func (f field[T]) inFile() field[T] { f.fixed = true; return f }

// value defines a key with one value.
func value[T, V any](name string, k kind[V], byDefault, text string, in func(*T) *V) field[T] {
	return field[T]{
		entry{name: name, text: text, about: k.about, byDefault: byDefault, secret: isSecret[V]()},
		func(r *reader, e entry, into *T, at position) {
			raw, origin, ok := r.scalar(e, at)
			if !ok {
				return
			}
			v, err := k.parse(raw)
			if err != nil {
				r.wrong(origin, at.path, err)
				return
			}
			*in(into) = v
			r.note(at.path, show(e, v, raw), origin)
		},
	}
}

// file defines a key whose value is a path. In the file it is relative to the file's folder,
// otherwise to the working folder.
func file[T any](name, text string, in func(*T) *string) field[T] {
	f := value(name, path(), "", text, in)
	read := f.read
	f.read = func(r *reader, e entry, into *T, at position) {
		read(r, e, into, at)
		p := in(into)
		if *p != "" && !filepath.IsAbs(*p) && r.origins[at.path].Layer == InFile {
			*p = filepath.Join(r.folder, *p)
			r.note(at.path, *p, r.origins[at.path])
		}
	}
	return f
}

// files defines a key with a list of paths, relative as in file.
func files[T any](name, text string, in func(*T) *[]string) field[T] {
	f := values(name, path(), text, in)
	read := f.read
	f.read = func(r *reader, e entry, into *T, at position) {
		read(r, e, into, at)
		all := *in(into)
		if len(all) == 0 || r.origins[at.path].Layer != InFile {
			return
		}
		for i, p := range all {
			if !filepath.IsAbs(p) {
				all[i] = filepath.Join(r.folder, p)
			}
		}
		r.note(at.path, strings.Join(all, ","), r.origins[at.path])
	}
	return f
}

// values defines a key with a list of values, separated by commas outside the file.
func values[T, V any](name string, k kind[V], text string, in func(*T) *[]V) field[T] {
	return field[T]{
		entry{
			name:   name,
			text:   text,
			about:  "list of: " + k.about,
			list:   true,
			secret: isSecret[V](),
		},
		func(r *reader, e entry, into *T, at position) {
			raw, ok := r.scalars(e, at)
			if !ok {
				return
			}
			good := true
			all := make([]V, 0, len(raw))
			for i, s := range raw {
				v, err := k.parse(s.text)
				if err != nil {
					r.wrong(s.origin, fmt.Sprintf("%s[%d]", at.path, i), err)
					good = false
				}
				all = append(all, v)
			}
			if !good {
				r.bad[at.path] = true
				return
			}
			*in(into) = all
			var texts []string
			for i, v := range all {
				texts = append(texts, show(e, v, raw[i].text))
			}
			r.note(at.path, strings.Join(texts, ","), raw[0].origin)
		},
	}
}

func isSecret[V any]() bool {
	_, is := any(*new(V)).(Secret)
	return is
}

func show[V any](e entry, v V, raw string) string {
	if e.secret {
		return fmt.Sprint(v) // a Secret, which redacts itself
	}
	return raw
}

// section defines a key with keys of its own.
func section[T, S any](name, text string, in func(*T) *S, fields ...field[S]) field[T] {
	return field[T]{
		entry{name: name, text: text, inner: entries(fields)},
		func(r *reader, _ entry, into *T, at position) {
			readFields(r, fields, in(into), at)
		},
	}
}

// choice defines a section that is one of several: its required keys are missing only if it is in
// the file, and only then is there a value.
func choice[T, S any](name, text string, in func(*T) **S, fields ...field[S]) field[T] {
	return field[T]{
		entry{name: name, text: text, inner: entries(fields)},
		func(r *reader, _ entry, into *T, at position) {
			if at.node == nil {
				return
			}
			var one S
			readFields(r, fields, &one, at)
			*in(into) = &one
		},
	}
}

// list defines a key with a list of sections, each with a unique name.
func list[T, E any](name, text string, in func(*T) *[]E, fields ...field[E]) field[T] {
	return field[T]{
		entry{name: name, text: text, list: true, inner: entries(fields)},
		func(r *reader, e entry, into *T, at position) {
			for _, element := range r.elements(e, at) {
				var one E
				readFields(r, fields, &one, element)
				*in(into) = append(*in(into), one)
			}
		},
	}
}

func readFields[T any](r *reader, fields []field[T], into *T, at position) {
	nodes := r.keys(entries(fields), at)
	for _, f := range fields {
		inner := position{path: join(at.path, f.name), node: nodes[f.name], line: at.line}
		if inner.node != nil {
			inner.line = inner.node.Line
		}
		f.read(r, f.entry, into, inner)
	}
}

func entries[T any](fields []field[T]) []entry {
	all := make([]entry, len(fields))
	for i, f := range fields {
		all[i] = f.entry
	}
	return all
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// position is the reader's position.
type position struct {
	path string
	node *yaml.Node // nil: not in the file
	line int        // of the node, or of the section that lacks it
}

// wrong records the error of a parser.
func (r *reader) wrong(origin Origin, key string, err error) {
	var w wrong
	if !errors.As(err, &w) {
		w = wrong{"it cannot be parsed", "see docs/configuration.md for the format"}
	}
	r.problem(origin, key, w.what, w.remedy)
}

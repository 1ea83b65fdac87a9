package config

import (
	"fmt"
	"strings"
)

// Problem is one error in a configuration.
type Problem struct {
	Origin Origin `json:"-"`
	Where  string `json:"where"` // the origin in words
	Key    string `json:"key,omitempty"`
	What   string `json:"what"`
	Remedy string `json:"remedy"` // empty if unknown
}

// String returns the problem as one line.
func (p Problem) String() string {
	parts := []string{p.Where}
	if p.Key != "" {
		parts = append(parts, p.Key)
	}
	text := strings.Join(append(parts, p.What), ": ")
	if p.Remedy != "" {
		text += "; " + p.Remedy
	}
	return text
}

// Problems are all errors in a configuration, in the order of the file.
type Problems []Problem

// Error returns one line for one problem, and a heading with a line per problem otherwise.
func (p Problems) Error() string {
	if len(p) == 1 {
		return p[0].String()
	}
	lines := []string{fmt.Sprintf("the configuration has %d problems:", len(p))}
	for _, problem := range p {
		lines = append(lines, "  "+problem.String())
	}
	return strings.Join(lines, "\n")
}

// Origin is the source of a value. Later layers override earlier ones.
type Origin struct {
	Layer Layer
	Name  string // file, environment variable or profile
	Line  int    // in the file; 0 is the file as a whole
}

// Layer is a kind of source.
type Layer int

// The layers.
const (
	ByDefault Layer = iota
	InProfile       // of a chain
	InFile
	InEnvironment
	InFlags
)

// String returns the source as text, such as "fencepost.yaml:7".
func (o Origin) String() string {
	switch o.Layer {
	case InFile:
		if o.Line > 0 {
			return fmt.Sprintf("%s:%d", o.Name, o.Line)
		}
		return o.Name
	case InEnvironment:
		return "environment " + o.Name
	case InFlags:
		return "--set"
	case InProfile:
		return "profile " + o.Name
	default:
		return "default"
	}
}

// wrong is the error of a parser: the cause and the remedy.
type wrong struct{ what, remedy string }

func (w wrong) Error() string { return w.what + "; " + w.remedy }

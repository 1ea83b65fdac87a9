package config

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Origin Origin `json:"-"`
	Where  string `json:"where"` // the origin in words
	Key    string `json:"key,omitempty"`
	What   string `json:"what"`
	Remedy string `json:"remedy"`
}

// String is one line.
func (p Problem) String() string {
	parts := []string{p.Where}
	if p.Key != "" {
		parts = append(parts, p.Key)
	}
	return fmt.Sprintf("%s: %s; %s", strings.Join(parts, ": "), p.What, p.Remedy)
}

// Problems is everything that is wrong with a configuration, in the order of the file.
type Problems []Problem

// Error is one line when there is one problem, else a line for each under a heading.
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

// Origin is where a value was written. Later layers win over earlier ones.
type Origin struct {
	Layer Layer
	Name  string // file, or environment variable
	Line  int    // in the file; 0 is the file as a whole
}

// Layer is a kind of place where a value can be written.
type Layer int

// The layers.
const (
	ByDefault Layer = iota
	InFile
	InEnvironment
	InFlags
)

// String names the place.
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
	default:
		return "default"
	}
}

// wrong is what a parser says about a value: what is wrong, and what to do.
type wrong struct{ what, remedy string }

func (w wrong) Error() string { return w.what + "; " + w.remedy }

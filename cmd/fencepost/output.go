package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// print writes a result: as JSON when that was asked for, else as a person reads it.
func (p *program) print(result any, human func(io.Writer) error) error {
	if !p.json {
		return human(p.out)
	}
	e := json.NewEncoder(p.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(result); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// table writes aligned columns under a heading.
func table(heading []string, rows [][]string) func(io.Writer) error {
	return func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, row := range append([][]string{heading}, rows...) {
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
		if err := t.Flush(); err != nil {
			return fmt.Errorf("print the table: %w", err)
		}
		return nil
	}
}

// line writes one line.
func line(format string, args ...any) func(io.Writer) error {
	return func(w io.Writer) error {
		if _, err := fmt.Fprintf(w, format+"\n", args...); err != nil {
			return fmt.Errorf("print the result: %w", err)
		}
		return nil
	}
}

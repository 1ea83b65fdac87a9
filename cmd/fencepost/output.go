package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// print writes a result, as JSON with --json.
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
			for i, text := range row { // some of it is chosen by clients, such as a request_id
				if i > 0 {
					fmt.Fprint(t, "\t")
				}
				fmt.Fprint(t, plain(text))
			}
			fmt.Fprintln(t)
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

// plain makes untrusted text safe to print on one line: control characters and characters that
// change the text direction become spaces.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, text)
}

// cellWidth is the maximum width of free text in a table, in characters; --json has all of it.
const cellWidth = 100

// cell is free text for a table.
func cell(text string) string {
	runes := []rune(plain(text))
	if len(runes) > cellWidth {
		return string(runes[:cellWidth-3]) + "..."
	}
	return shown(string(runes))
}

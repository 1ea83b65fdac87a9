package main

import (
	"go/scanner"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is where a text is read.
type kind int

const (
	comment kind = iota
	document
	message
	kinds
)

func (k kind) String() string { return [...]string{"comments", "documents", "messages"}[k] }

// maxWidth is the width of a line in columns, with tabs of four.
const maxWidth = 100

type finding struct {
	file, rule, text string
	line             int
	kind             kind
	// strict findings have no budget.
	strict bool
}

type checked struct {
	found []finding
	words [kinds]int
}

// A passage is text of one kind, with the line that it begins in.
type passage struct {
	kind kind
	line int
	text string
}

func check(name, text string) checked {
	var c checked
	for _, p := range passages(name, text) {
		c.words[p.kind] += len(strings.Fields(p.text))
		for _, r := range rules {
			for _, at := range r.find(p.text) {
				c.found = append(c.found, finding{rule: r.name, kind: p.kind,
					line: p.line + strings.Count(p.text[:at], "\n"), text: around(p.text, at)})
			}
		}
	}
	c.found = append(c.found, widths(name, text)...)
	if strings.HasSuffix(name, "_test.go") {
		c.found = append(c.found, testNames(text)...)
	}
	return c
}

// around returns the line of a text that holds the byte at.
func around(text string, at int) string {
	from := strings.LastIndexByte(text[:at], '\n') + 1
	line, _, _ := strings.Cut(text[from:], "\n")
	return strings.TrimSpace(line)
}

func passages(name, text string) []passage {
	switch filepath.Ext(name) {
	case ".go":
		return ofGo(name, text)
	case ".md":
		return ofMarkdown(text)
	case ".proto", ".ts", ".java":
		return lineComments(text, regexp.MustCompile(`(?m)(?:^|\s)(?://+|/?\*+)[ \t](.*)$`))
	case ".sql":
		return lineComments(text, regexp.MustCompile(`(?m)(?:^|\s)--[ \t](.*)$`))
	case "", ".yaml", ".yml", ".sh", ".mod":
		return lineComments(text, regexp.MustCompile(`(?m)(?:^|\s)#[ \t](.*)$`))
	}
	return nil
}

func lineComments(text string, pattern *regexp.Regexp) []passage {
	var all []passage
	for _, m := range pattern.FindAllStringSubmatchIndex(text, -1) {
		all = append(all, passage{comment, 1 + strings.Count(text[:m[2]], "\n"), text[m[2]:m[3]]})
	}
	return all
}

// ofGo returns comments, and as messages the strings that are sentences.
func ofGo(name, text string) []passage {
	var all []passage
	files := token.NewFileSet()
	file := files.AddFile(name, files.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	for {
		pos, tok, literal := s.Scan()
		switch tok {
		case token.EOF:
			return all
		case token.COMMENT:
			if !strings.HasPrefix(literal, "//go:") {
				all = append(all, passage{comment, file.Line(pos), literal})
			}
		case token.STRING:
			value, err := strconv.Unquote(literal)
			// Tests hold the messages of others; what they print is read by developers.
			if err == nil && isMessage(value) && !strings.HasSuffix(name, "_test.go") {
				all = append(all, passage{message, file.Line(pos), value})
			}
		}
	}
}

var statement = regexp.MustCompile(`(?i)^\s*(?:--|SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER)\b`)

// isMessage reports whether a string is text for people: several words, and no statement of SQL.
func isMessage(s string) bool {
	return strings.Count(strings.TrimSpace(s), " ") >= 2 && !statement.MatchString(s)
}

var inlineCode = regexp.MustCompile("`[^`\n]*`")

// ofMarkdown returns the text without its code.
func ofMarkdown(text string) []passage {
	var all []passage
	fenced := false
	line := 0
	for l := range strings.Lines(text) {
		line++
		if strings.HasPrefix(strings.TrimSpace(l), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			all = append(all, passage{document, line, inlineCode.ReplaceAllString(l, "`x`")})
		}
	}
	return all
}

var url = regexp.MustCompile(`https?://\S{40,}`)

// widths finds lines that are too wide. Tables of Markdown and long addresses cannot be wrapped.
func widths(name, text string) []finding {
	switch filepath.Ext(name) {
	case ".json", ".jsonl", ".csv", ".txt", ".xml", ".sum", ".hex", ".abi", ".bin", ".sol":
		return nil
	}
	var found []finding
	line := 0
	for l := range strings.Lines(text) {
		line++
		l = strings.TrimRight(l, "\n")
		if name == "LICENSE" || strings.HasSuffix(name, ".md") && strings.HasPrefix(l, "|") || url.MatchString(l) {
			continue
		}
		if utf8.RuneCountInString(strings.ReplaceAll(l, "\t", "    ")) > maxWidth {
			found = append(found, finding{rule: "width: over 100 columns", line: line, text: strings.TrimSpace(l),
				kind: comment, strict: true})
		}
	}
	return found
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

func testNames(text string) []finding {
	var found []finding
	for _, m := range testName.FindAllStringSubmatchIndex(text, -1) {
		if name := text[m[2]:m[3]]; sentence(name) {
			found = append(found, finding{rule: "test name: TestThing_Condition_Result", kind: comment, strict: true,
				line: 1 + strings.Count(text[:m[2]], "\n"), text: name})
		}
	}
	return found
}

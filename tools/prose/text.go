package main

import (
	"go/scanner"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
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

const (
	// maxWidth is the width of a line in columns, with tabs of four.
	maxWidth = 100
	// maxSentence is the number of words that one sentence of a document may have.
	maxSentence = 40
)

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
	// mean is the number of words per sentence of a document, 0 elsewhere.
	mean float64
}

// A passage is text of one kind that begins in a line of the file, and has the file's line breaks.
type passage struct {
	kind kind
	line int
	text string
}

func check(name, text string) checked {
	var c checked
	all := passages(name, text)
	for _, p := range all {
		c.words[p.kind] += len(strings.Fields(p.text))
		for _, r := range rules {
			for _, at := range r.find(p.text) {
				c.found = append(c.found, p.finding(r.name, at))
			}
		}
	}
	switch {
	case filepath.Ext(name) == ".md":
		var long []finding
		c.mean, long = sentences(all)
		c.found = append(c.found, long...)
	case strings.HasSuffix(name, "_test.go"):
		c.found = append(c.found, testNames(text)...)
	}
	if filepath.Ext(name) == ".go" {
		c.found = append(c.found, assignments(name, text)...)
	}
	c.found = append(c.found, widths(name, text)...)
	slices.SortStableFunc(c.found, func(a, b finding) int { return a.line - b.line })
	return c
}

// finding is of a rule at an offset in the passage, shown with its line.
func (p passage) finding(rule string, at int) finding {
	from := strings.LastIndexByte(p.text[:at], '\n') + 1
	line, _, _ := strings.Cut(p.text[from:], "\n")
	return finding{rule: rule, kind: p.kind, line: p.line + strings.Count(p.text[:at], "\n"),
		text: strings.TrimSpace(line)}
}

func passages(name, text string) []passage {
	switch filepath.Ext(name) {
	case ".go":
		return ofGo(name, text)
	case ".md":
		return ofMarkdown(text)
	case ".proto":
		// These comments are the documents and the clients that are generated from them.
		return commented(document, text, regexp.MustCompile(`(?:^|\s)//[ \t]?(.*)$`))
	case ".ts", ".js", ".java":
		return commented(comment, text,
			regexp.MustCompile(`(?:^|\s)(?://+|/\*+|\*+/?)(?:[ \t](.*))?$`))
	case ".sql":
		return commented(comment, text, regexp.MustCompile(`(?:^|\s)--[ \t]?(.*)$`))
	case "", ".yaml", ".yml", ".sh", ".mod":
		return commented(comment, text, regexp.MustCompile(`(?:^|\s)#[ \t]?(.*)$`))
	}
	return nil
}

// commented joins the comments of consecutive lines, so that a phrase may cross lines.
func commented(k kind, text string, pattern *regexp.Regexp) []passage {
	var all []passage
	last := -1
	line := 0
	for l := range strings.Lines(text) {
		line++
		m := pattern.FindStringSubmatch(strings.TrimRight(l, "\n"))
		switch {
		case m == nil:
		case line == last+1:
			all[len(all)-1].text += "\n" + m[1]
			last = line
		default:
			all = append(all, passage{k, line, m[1]})
			last = line
		}
	}
	return all
}

var slashes = regexp.MustCompile(`(?m)^\s*//[ \t]?`)

// ofGo returns the comments, and as messages the strings that are text for people.
func ofGo(name, text string) []passage {
	var all []passage
	files := token.NewFileSet()
	file := files.AddFile(name, files.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	last := -1
	for {
		pos, tok, literal := s.Scan()
		switch tok {
		case token.EOF:
			return all
		case token.COMMENT:
			if strings.HasPrefix(literal, "//go:") {
				continue
			}
			line := file.Line(pos)
			literal = slashes.ReplaceAllString(literal, "")
			if line == last+1 && all[len(all)-1].kind == comment {
				all[len(all)-1].text += "\n" + literal
			} else {
				all = append(all, passage{comment, line, literal})
			}
			last = line + strings.Count(literal, "\n")
		case token.STRING:
			value, err := strconv.Unquote(literal)
			// Strings of tests are often the messages of other programs, and developers read them.
			if err == nil && isMessage(value) && !strings.HasSuffix(name, "_test.go") {
				all = append(all, passage{message, file.Line(pos), value})
			}
		}
	}
}

var statement = regexp.MustCompile(
	`(?i)^\s*(?:--|SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER)\b`)

// isMessage reports whether a string is text for people: several words, and not SQL.
func isMessage(s string) bool {
	return strings.Count(strings.TrimSpace(s), " ") >= 2 && !statement.MatchString(s)
}

var (
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	target     = regexp.MustCompile(`\]\([^)\s]*\)`)
	item       = regexp.MustCompile(`^\s*(?:[-*]|\d+\.)\s+`)
)

// ofMarkdown returns paragraphs, list items, headings and rows of tables, without code.
func ofMarkdown(text string) []passage {
	var all []passage
	fenced := false
	open := false // the next line may belong to the last passage
	line := 0
	for l := range strings.Lines(text) {
		line++
		if strings.HasPrefix(strings.TrimSpace(l), "```") {
			fenced = !fenced
			open = false
			continue
		}
		if fenced {
			continue
		}
		l = inlineCode.ReplaceAllString(strings.TrimRight(l, "\n"), "`x`")
		l = target.ReplaceAllString(l, "]")
		switch row := isRow(l); {
		case strings.TrimSpace(l) == "":
			open = false
		case open && !row && !item.MatchString(l):
			all[len(all)-1].text += "\n" + l
		default:
			all = append(all, passage{document, line, l})
			open = !row && !strings.HasPrefix(l, "#")
		}
	}
	return all
}

func isRow(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "|") }

// end is the end of a sentence, or of a cell in a table.
var end = regexp.MustCompile(`[.!?][)"*_]*(?:\s+|$)|\s\|(?:\s|$)`)

// sentences returns the words per sentence of a document without its headings and tables, and the
// sentences that are too long, in tables as well.
func sentences(all []passage) (mean float64, long []finding) {
	words, count := 0, 0
	for _, p := range all {
		if strings.HasPrefix(p.text, "#") {
			continue
		}
		from := len(item.FindString(p.text))
		for _, e := range append(end.FindAllStringIndex(p.text, -1), []int{len(p.text), 0}) {
			if e[0] < from { // the number of a list item
				continue
			}
			n := len(wordy.FindAllString(p.text[from:e[0]], -1))
			if n > maxSentence {
				start := from + len(p.text[from:]) - len(strings.TrimLeft(p.text[from:], " \n"))
				long = append(long, p.finding("sentence: over 40 words, split it", start))
			}
			from = e[1]
			if n > 0 && !isRow(p.text) {
				words += n
				count++
			}
		}
	}
	return float64(words) / float64(max(count, 1)), long
}

// wordy matches a word; punctuation alone is not one.
var wordy = regexp.MustCompile(`\S*\w\S*`)

var url = regexp.MustCompile(`https?://\S{40,}`)

// notProse are files whose lines are data, or may be as wide as their program writes them.
var notProse = []string{
	".json", ".jsonl", ".csv", ".txt", ".xml", ".sum", ".hex", ".abi", ".bin", ".sol", ".mod",
}

// widths finds lines that are too wide. Tables of Markdown and long addresses cannot be wrapped.
func widths(name, text string) []finding {
	if slices.Contains(notProse, filepath.Ext(name)) {
		return nil
	}
	var found []finding
	line := 0
	for l := range strings.Lines(text) {
		line++
		l = strings.TrimRight(l, "\n")
		if filepath.Ext(name) == ".md" && isRow(l) || url.MatchString(l) {
			continue
		}
		if utf8.RuneCountInString(strings.ReplaceAll(l, "\t", "    ")) > maxWidth {
			found = append(found, finding{rule: "width: over 100 columns", line: line,
				text: strings.TrimSpace(l), kind: comment, strict: true})
		}
	}
	return found
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

func testNames(text string) []finding {
	var found []finding
	for _, m := range testName.FindAllStringSubmatchIndex(text, -1) {
		if name := text[m[2]:m[3]]; sentence(name) {
			found = append(found, finding{rule: "test name: TestThing_Condition_Result", text: name,
				kind: comment, strict: true, line: 1 + strings.Count(text[:m[2]], "\n")})
		}
	}
	return found
}

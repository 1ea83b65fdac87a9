package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/typo"
)

const (
	maxFileRows     = 1_000_000
	maxFileProblems = 20
	maxRowBytes     = 4 << 20
	maxRequestID    = 128
)

// fileColumns are the columns of a CSV file and the keys of a line of JSON. A label has a column
// named label:KEY, or is an entry of labels in JSON.
var fileColumns = []string{"id", "to", "value", "data", "gas_limit", "submitter"}

const labelColumn = "label:"

// fileProblems are the mistakes of a file.
type fileProblems struct{ config.Problems }

func (f fileProblems) Unwrap() error { return f.Problems }

// cells are the values of one row, by column, and the place of each.
type cells struct {
	line   int
	values map[string]string
	place  func(column string) string
}

// fileReader reads a file row by row. It holds one row at a time.
type fileReader struct {
	name     string // without the folder
	in       *rowLimit
	each     func(cells) bool // takes a row; false: no more
	rows     int
	line     int // of the last row
	problems config.Problems
}

// scanFile passes each row of a file to a function, until it returns false. It returns the mistakes
// of the format.
func scanFile(path string, each func(*fileReader, cells) bool) (config.Problems, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--from-file: %w; correct the path", err)
	}
	defer f.Close()
	in := bufio.NewReader(f)
	if mark, _ := in.Peek(3); string(mark) == "\xef\xbb\xbf" { // Windows programs write it
		_, _ = in.Discard(len(mark))
	}
	r := &fileReader{name: filepath.Base(path), in: &rowLimit{in: in}}
	r.each = func(c cells) bool {
		r.in.bytes = 0
		r.rows++
		r.line = c.line
		r.checkText(c)
		if r.rows > maxFileRows {
			r.problem(fmt.Sprintf("%s:%d", r.name, c.line), "", "split the file",
				"more than %d rows", maxFileRows)
			return false
		}
		return each(r, c) && len(r.problems) < maxFileProblems
	}
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".csv":
		r.readCSV()
	case ".ndjson", ".jsonl":
		r.readJSON()
	default:
		return nil, usageError{fmt.Sprintf(
			"--from-file %q: the name must end with .csv, .ndjson or .jsonl", path)}
	}
	if failed := r.in.failed; failed != nil {
		return nil, fmt.Errorf("--from-file: %w", failed)
	}
	return r.problems, nil
}

// rowLimit bounds the bytes of one row: of a quote that is never closed, the row would be the rest
// of the file.
type rowLimit struct {
	in     io.Reader
	bytes  int   // since the last row
	failed error // of the file
}

var errLongRow = fmt.Errorf("row is longer than %d bytes", maxRowBytes)

// Read reads from the file.
func (l *rowLimit) Read(p []byte) (int, error) {
	if l.bytes > maxRowBytes {
		return 0, errLongRow
	}
	n, err := l.in.Read(p)
	l.bytes += n
	if err != nil && !errors.Is(err, io.EOF) {
		l.failed = err
	}
	return n, err
}

// checkText rejects values that the API cannot carry, in the order of the columns.
func (r *fileReader) checkText(c cells) {
	for _, column := range slices.Sorted(maps.Keys(c.values)) {
		if value := c.values[column]; !utf8.ValidString(value) || !utf8.ValidString(column) {
			r.problem(c.place(column), strings.ToValidUTF8(column, "?"), notUTF8, "not valid UTF-8")
		}
	}
}

const notUTF8 = "save the file as UTF-8"

func (r *fileReader) problem(where, column, remedy, what string, args ...any) {
	if len(r.problems) < maxFileProblems {
		r.problems = append(r.problems, config.Problem{Where: where, Key: column,
			What: fmt.Sprintf(what, args...), Remedy: remedy})
	}
}

func (r *fileReader) readCSV() {
	in := csv.NewReader(r.in)
	in.TrimLeadingSpace = true
	heading, err := in.Read()
	if err != nil || !r.readHeading(heading) {
		if err != nil {
			r.problem(r.name+":1", "", "start with a line of column names: id,to,value",
				"no heading")
		}
		return
	}
	r.line = 1
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			r.badRecord(err)
			return
		}
		line, _ := in.FieldPos(0)
		c := cells{line, map[string]string{}, func(column string) string {
			i := max(0, slices.Index(heading, column))
			at, position := in.FieldPos(i)
			return fmt.Sprintf("%s:%d:%d", r.name, at, position)
		}}
		for i, column := range heading {
			c.values[column] = strings.TrimSpace(record[i])
		}
		if !r.each(c) {
			return
		}
	}
}

func (r *fileReader) badRecord(err error) {
	line, why := r.line+1, err
	if bad, ok := errors.AsType[*csv.ParseError](err); ok {
		line, why = bad.Line, bad.Err
	}
	remedy := "give each row as many cells as the heading; quote cells with commas"
	if errors.Is(err, errLongRow) {
		remedy = "close the quotes of each cell"
	}
	r.problem(fmt.Sprintf("%s:%d", r.name, line), "", remedy, "%v", why)
}

func (r *fileReader) readHeading(heading []string) bool {
	before := len(r.problems)
	for i, column := range heading {
		heading[i] = strings.TrimSpace(column)
		r.checkColumn(r.name+":1", heading[i])
		if slices.Index(heading, heading[i]) < i {
			r.problem(r.name+":1", heading[i], "remove one of them", "column appears twice")
		}
	}
	if !slices.Contains(heading, "id") {
		r.problem(r.name+":1", "id", "add a column with a key that is unique for each row",
			"column is missing")
	}
	return len(r.problems) == before
}

// assigned are the parts of a transaction that clients do not set, with the remedy.
var assigned = map[string]string{
	"from": "the sender is the account of --submitter or --pool",
	"nonce": "Fencepost assigns nonces; \"fencepost nonce allocate\" reserves one for a " +
		"transaction that you sign",
}

func (r *fileReader) checkColumn(where, column string) {
	if slices.Contains(fileColumns, column) ||
		strings.HasPrefix(column, labelColumn) && len(column) > len(labelColumn) {
		return
	}
	remedy := "use " + strings.Join(fileColumns, ", ") + " or label:KEY"
	if assigned[column] != "" {
		remedy = assigned[column]
	} else if near := typo.Nearest(column, fileColumns, mostTypos); near != "" {
		remedy = fmt.Sprintf("did you mean %q?", near)
	}
	r.problem(where, column, remedy, "unknown column")
}

func (r *fileReader) readJSON() {
	in := bufio.NewScanner(r.in)
	in.Buffer(nil, maxRowBytes)
	line := 0
	for in.Scan() {
		line++
		text := bytes.TrimSpace(in.Bytes())
		if len(text) == 0 {
			continue
		}
		where := fmt.Sprintf("%s:%d", r.name, line)
		c := cells{line, map[string]string{}, func(string) string { return where }}
		if !utf8.Valid(text) { // the decoder would replace it
			r.problem(where, "", notUTF8, "not valid UTF-8")
			continue
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(text, &object); err != nil {
			r.problem(where, "", "write one JSON object on each line", "%v", err)
			if len(r.problems) >= maxFileProblems {
				return
			}
			continue
		}
		for key, value := range object {
			r.readMember(c, where, key, value)
		}
		if !r.each(c) {
			return
		}
	}
	if err := in.Err(); err != nil && r.in.failed == nil {
		r.problem(fmt.Sprintf("%s:%d", r.name, line+1), "", "write one JSON object on each line",
			"%v", errLongRow)
	}
}

func (r *fileReader) readMember(c cells, where, key string, value json.RawMessage) {
	if key == "labels" {
		labels := map[string]string{}
		if json.Unmarshal(value, &labels) != nil {
			r.problem(where, key, `write {"key": "value"}`, "labels are not an object of strings")
		}
		for name, text := range labels {
			c.values[labelColumn+name] = text
		}
		return
	}
	r.checkColumn(where, key)
	var text string
	if json.Unmarshal(value, &text) == nil {
		c.values[key] = text
		return
	}
	var number json.Number
	if json.Unmarshal(value, &number) != nil {
		r.problem(where, key, "write text or a number", "value is neither text nor a number")
		return
	}
	c.values[key] = number.String()
}

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/typo"
	"github.com/fencepost/fencepost/txn"
)

const (
	maxFileRows     = 1_000_000
	maxFileBytes    = 512 << 20
	maxFileProblems = 20
	maxRequestID    = 128
)

// fileColumns are the columns of a CSV file and the keys of a line of JSON. A label has a column
// named label:KEY, or is an entry of labels in JSON.
var fileColumns = []string{"id", "to", "value", "data", "gas_limit", "submitter"}

const labelColumn = "label:"

// fileRow is a transaction of a file.
type fileRow struct {
	line    int
	request *pb.CreateTxRequest
}

// fileProblems are the mistakes of a file.
type fileProblems struct{ config.Problems }

func (f fileProblems) Unwrap() error { return f.Problems }

// cells are the values of one row, by column, and the place of each.
type cells struct {
	line   int
	values map[string]string
	place  func(column string) string
}

// fileReader reads the rows of a file.
type fileReader struct {
	name     string
	defaults *pb.CreateTxRequest // submitter, terms and labels of all rows
	rows     []fileRow
	seen     map[string]int // line of each submitter and id
	problems config.Problems
}

// readRows reads a file of transactions, and reports all mistakes at once.
func readRows(path string, defaults *pb.CreateTxRequest) ([]fileRow, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--from-file: %w; correct the path", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("--from-file: %w", err)
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("--from-file: %s exceeds %d bytes; split it", path, maxFileBytes)
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // Windows programs write this mark
	r := &fileReader{name: filepath.Base(path), defaults: defaults, seen: map[string]int{}}
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".csv":
		r.readCSV(text)
	case ".ndjson", ".jsonl":
		r.readJSON(text)
	default:
		return nil, usageError{fmt.Sprintf(
			"--from-file %q: the name must end with .csv, .ndjson or .jsonl", path)}
	}
	switch {
	case len(r.problems) > 0:
		return nil, fileProblems{r.problems}
	case len(r.rows) == 0:
		return nil, fmt.Errorf("--from-file: %s has no rows; add one for each transaction", path)
	}
	return r.rows, nil
}

func (r *fileReader) problem(where, column, remedy, what string, args ...any) {
	if len(r.problems) < maxFileProblems {
		r.problems = append(r.problems, config.Problem{Where: where, Key: column,
			What: fmt.Sprintf(what, args...), Remedy: remedy})
	}
}

// full reports whether no more rows need to be read.
func (r *fileReader) full(line int) bool {
	if len(r.rows) >= maxFileRows {
		r.problem(fmt.Sprintf("%s:%d", r.name, line), "", "split the file",
			"more than %d rows", maxFileRows)
	}
	return len(r.rows) >= maxFileRows || len(r.problems) >= maxFileProblems
}

func (r *fileReader) readCSV(text []byte) {
	in := csv.NewReader(bytes.NewReader(text))
	in.TrimLeadingSpace = true
	heading, err := in.Read()
	if err != nil || !r.readHeading(heading) {
		if err != nil {
			r.problem(r.name+":1", "", "start with a line of column names: id,to,value",
				"no heading")
		}
		return
	}
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			line, why := 0, err
			if bad, ok := errors.AsType[*csv.ParseError](err); ok {
				line, why = bad.Line, bad.Err
			}
			r.problem(fmt.Sprintf("%s:%d", r.name, line), "",
				"give each row as many cells as the heading; quote cells with commas", "%v", why)
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
		if r.add(c); r.full(line) {
			return
		}
	}
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

func (r *fileReader) checkColumn(where, column string) {
	if slices.Contains(fileColumns, column) ||
		strings.HasPrefix(column, labelColumn) && len(column) > len(labelColumn) {
		return
	}
	remedy := "use " + strings.Join(fileColumns, ", ") + " or label:KEY"
	if near := typo.Nearest(column, fileColumns, mostTypos); near != "" {
		remedy = fmt.Sprintf("did you mean %q?", near)
	}
	r.problem(where, column, remedy, "unknown column")
}

func (r *fileReader) readJSON(text []byte) {
	line := 0
	for text := range bytes.Lines(text) {
		line++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		where := fmt.Sprintf("%s:%d", r.name, line)
		var object map[string]json.RawMessage
		if err := json.Unmarshal(text, &object); err != nil {
			r.problem(where, "", "write one JSON object on each line", "%v", err)
			if r.full(line) {
				return
			}
			continue
		}
		c := cells{line, map[string]string{}, func(string) string { return where }}
		for key, value := range object {
			r.readMember(c, where, key, value)
		}
		if r.add(c); r.full(line) {
			return
		}
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

// add checks a row. It reports the first mistake of each cell.
func (r *fileReader) add(c cells) {
	before := len(r.problems)
	wrong := func(column, remedy, what string, args ...any) {
		r.problem(c.place(column), column, remedy, what, args...)
	}
	q := proto.CloneOf(r.defaults)
	q.Payload, q.RequestId = &pb.Payload{Value: "0"}, c.values["id"]
	if id := q.GetRequestId(); id == "" || len(id) > maxRequestID {
		wrong("id", "write a unique key of 1 to 128 characters", "%d characters", len(id))
	}
	if name := c.values["submitter"]; name != "" {
		q.Submitter = name
	}
	if q.GetSubmitter() == "" {
		wrong("submitter", "add the column, or give --submitter", "missing")
	}
	r.payload(c, q.GetPayload(), wrong)
	for column, value := range c.values {
		if key, is := strings.CutPrefix(column, labelColumn); is && value != "" {
			if q.Labels == nil {
				q.Labels = map[string]string{}
			}
			q.Labels[key] = value
		}
	}
	key := q.GetSubmitter() + "\x00" + q.GetRequestId()
	if first, twice := r.seen[key]; twice && q.GetRequestId() != "" {
		wrong("id", "give each row another id", "%q is also the id of line %d", q.GetRequestId(),
			first)
	}
	r.seen[key] = c.line
	if len(r.problems) == before {
		r.rows = append(r.rows, fileRow{c.line, q})
	}
}

func (r *fileReader) payload(c cells, p *pb.Payload,
	wrong func(column, remedy, what string, args ...any)) {
	if text := c.values["value"]; text != "" {
		wei, err := parseAmount(text)
		if err != nil {
			wrong("value", "write wei, or a unit, like 0.1ether", "%q is not an amount", text)
		}
		p.Value = wei
	}
	data, err := parseData(c.values["data"])
	if err != nil {
		wrong("data", "write bytes like 0xd09de08a", "not \"0x\" and pairs of hex digits")
	}
	p.Data = data
	if text := c.values["gas_limit"]; text != "" {
		if p.GasLimit, err = strconv.ParseUint(text, 10, 63); err != nil {
			wrong("gas_limit", "write a whole number, or leave it empty", "%q is not a gas limit",
				text)
		}
	}
	switch p.To = c.values["to"]; {
	case p.GetTo() == "" && len(data) == 0:
		wrong("to", "write the recipient's address", "missing")
	case p.GetTo() != "":
		if _, err := txn.ParseAddress(p.GetTo()); err != nil {
			wrong("to", "write \"0x\" and 40 hex digits", "%q: %v", p.GetTo(), err)
		}
	}
}

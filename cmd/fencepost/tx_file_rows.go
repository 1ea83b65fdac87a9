package main

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/txn"
)

// rowFile is a checked file of transactions. Its rows are read again to be sent: only a number for
// each row is held in memory.
type rowFile struct {
	path     string
	defaults *pb.CreateTxRequest // submitter, terms and labels of all rows
	rows     int
	info     os.FileInfo
}

// checkFile reads a file of transactions, and reports all mistakes at once. After each row it calls
// checked with the number of rows so far.
func checkFile(path string, defaults *pb.CreateTxRequest, checked func(rows int)) (*rowFile,
	error) {
	f := &rowFile{path: path, defaults: defaults}
	var err error
	if f.info, err = os.Stat(path); err != nil {
		return nil, fmt.Errorf("--from-file: %w; correct the path", err)
	}
	if !f.info.Mode().IsRegular() {
		return nil, fmt.Errorf("--from-file: %s is not a file, and is read more than once; "+
			"write the rows to a file", path)
	}
	seed := maphash.MakeSeed()
	var ids []uint64
	problems, err := scanFile(path, func(r *fileReader, c cells) bool {
		q := r.request(c, defaults)
		ids = append(ids, maphash.String(seed, rowKey(q)))
		checked(r.rows)
		return true
	})
	if err != nil {
		return nil, err
	}
	f.rows = len(ids)
	slices.Sort(ids)
	if problems, err = f.duplicates(seed, repeated(ids), problems); err != nil {
		return nil, err
	}
	switch {
	case len(problems) > 0:
		return nil, fileProblems{problems}
	case f.rows == 0:
		return nil, fmt.Errorf("--from-file: %s has no rows; add one for each transaction", path)
	}
	return f, nil
}

// rowKey identifies the transaction of a row.
func rowKey(q *pb.CreateTxRequest) string { return q.GetSubmitter() + "\x00" + q.GetRequestId() }

// repeated returns the numbers that appear more than once in a sorted list, up to one more than the
// problems that are reported.
func repeated(sorted []uint64) map[uint64]bool {
	found := map[uint64]bool{}
	for i := 1; i < len(sorted) && len(found) <= maxFileProblems; i++ {
		if sorted[i] == sorted[i-1] {
			found[sorted[i]] = true
		}
	}
	return found
}

// duplicates adds the rows that have the id of another to the problems. It reads the file again,
// and compares only rows whose hash appears twice.
func (f *rowFile) duplicates(seed maphash.Seed, hashes map[uint64]bool,
	problems config.Problems) (config.Problems, error) {
	if len(hashes) == 0 || len(problems) >= maxFileProblems {
		return problems, nil
	}
	first := map[string]int{} // line of each key
	_, err := scanFile(f.path, func(r *fileReader, c cells) bool {
		q := &pb.CreateTxRequest{RequestId: c.values["id"], Submitter: c.values["submitter"]}
		if q.GetSubmitter() == "" {
			q.Submitter = f.defaults.GetSubmitter()
		}
		key := rowKey(q)
		if q.GetRequestId() == "" || !hashes[maphash.String(seed, key)] {
			return true
		}
		line, twice := first[key]
		if !twice {
			first[key] = c.line
			return true
		}
		problems = append(problems, config.Problem{
			Where: c.place("id"), Key: "id", Remedy: "give each row another id",
			What: fmt.Sprintf("%q is also the id of line %d", q.GetRequestId(), line),
		})
		return len(problems) < maxFileProblems
	})
	return problems, err
}

// changed reports whether the file is another one than was checked.
func (f *rowFile) changed() bool {
	now, err := os.Stat(f.path)
	return err != nil || now.Size() != f.info.Size() || !now.ModTime().Equal(f.info.ModTime())
}

// each reads the file again and passes each request with its line to a function, until it fails.
func (f *rowFile) each(do func(line int, q *pb.CreateTxRequest) error) error {
	if f.changed() { // its rows were not checked
		return fmt.Errorf("--from-file: %s changed after it was checked and nothing was sent; "+
			"repeat the command", f.path)
	}
	var failed error
	problems, err := scanFile(f.path, func(r *fileReader, c cells) bool {
		q := r.request(c, f.defaults)
		if len(r.problems) == 0 && r.rows <= f.rows {
			failed = do(c.line, q)
		}
		return failed == nil && len(r.problems) == 0
	})
	if failed != nil || err != nil {
		return cmp.Or(failed, err)
	}
	if len(problems) > 0 || f.changed() {
		return fmt.Errorf("--from-file: %s changed while it was sent; compare its rows with "+
			"\"fencepost tx list\"", f.path)
	}
	return nil
}

// request checks a row and returns its transaction. It reports the first mistake of each cell.
func (r *fileReader) request(c cells, defaults *pb.CreateTxRequest) *pb.CreateTxRequest {
	wrong := func(column, remedy, what string, args ...any) {
		r.problem(c.place(column), column, remedy, what, args...)
	}
	q := proto.CloneOf(defaults)
	q.Payload, q.RequestId = &pb.Payload{Value: "0"}, c.values["id"]
	if id := q.GetRequestId(); id == "" || len(id) > maxRequestID {
		wrong("id", "write a unique key of 1 to 128 characters", "%d characters", len(id))
	}
	if name := c.values["submitter"]; name != "" {
		q.Submitter = name
	}
	switch {
	case q.GetSubmitter() == "" && q.GetPool() == "":
		wrong("submitter", "add the column, or give --submitter or --pool", "missing")
	case q.GetSubmitter() != "" && q.GetPool() != "":
		wrong("submitter", "remove the column, or omit --pool", "--pool chooses the account")
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
	return q
}

func (r *fileReader) payload(c cells, p *pb.Payload,
	wrong func(column, remedy, what string, args ...any)) {
	if text := c.values["value"]; text != "" {
		wei, err := parseAmount(text)
		if err != nil {
			wrong("value", amountForms, "%q is not an amount", text)
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

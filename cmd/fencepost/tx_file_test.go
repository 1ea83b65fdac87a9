package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/rpc/code"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// payoutFile writes a file of transactions.
func (l *ledger) payoutFile(name, text string) string {
	l.t.Helper()
	path := filepath.Join(l.t.TempDir(), name)
	l.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// fromFile runs the command and returns its summary.
func (l *ledger) fromFile(code int, path string, flags ...string) summary {
	l.t.Helper()
	args := append([]string{"tx", "create", "--json", "--from-file", path}, flags...)
	out, errs, got := l.start(args...).end()
	if got != code {
		l.t.Fatalf("%q gave %d: %s%s", args, got, out, errs)
	}
	var s summary
	l.unmarshal(out, &s)
	return s
}

func TestTxCreate_FromFile_Resumes(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	l.work()
	var text strings.Builder
	text.WriteString("id,to,value,label:batch\n")
	for i := range 250 {
		fmt.Fprintf(&text, "pay-%d,%s,%d,nov\n", i, recipient, i)
	}
	text.WriteString("bad-1," + recipient + ",1wei,nov\n")
	lines := strings.SplitAfter(text.String(), "\n")
	part := l.payoutFile("part.csv", strings.Join(lines[:101], ""))
	if s := l.fromFile(exitDone, part, "--submitter", "alice"); s.Created != 100 || s.Rows != 100 {
		t.Errorf("a part: %+v", s)
	}
	all := l.payoutFile("all.csv", text.String())
	s := l.fromFile(exitFailed, all, "--submitter", "alice", "--wait")
	if s.Created != 151 || s.Existing != 100 || s.Open != 0 || s.Final["CONFIRMED"] != 250 ||
		s.Final["FAILED_FINAL"] != 1 || len(s.Failures) != 1 || s.Failures[0].Line != 252 ||
		s.Failures[0].ID != "bad-1" || s.Failures[0].Reason == "" {
		t.Errorf("all: %+v", s)
	}
	if s = l.fromFile(exitFailed, all, "--submitter", "alice"); s.Created != 0 ||
		s.Existing != 251 || s.Final["CONFIRMED"] != 250 {
		t.Errorf("again: %+v", s)
	}
	changed := l.payoutFile("changed.csv", lines[0]+"pay-1,"+recipient+",5,nov\n")
	if s = l.fromFile(exitFailed, changed, "--submitter", "alice"); s.Refused != 1 ||
		s.Failures[0].Reason != "IDEMPOTENCY_KEY_REUSED" {
		t.Errorf("another value under the same id: %+v", s)
	}
	rows := l.payoutFile("more.ndjson", `{"id":"j1","submitter":"alice","to":"`+recipient+
		`","value":7,"labels":{"batch":"nov"}}`+"\n\n"+`{"id":"j2","submitter":"alice","to":"`+
		recipient+`","value":"0.5gwei","gas_limit":30000,"data":"0x01"}`+"\n")
	if s = l.fromFile(exitDone, rows, "--wait"); s.Created != 2 || s.Final["CONFIRMED"] != 2 {
		t.Errorf("NDJSON: %+v", s)
	}
	var listed struct{ Txs []struct{ RequestID string } }
	l.unmarshal(l.good("tx", "list", "--label", "batch=nov", "--limit", "1000", "--json"), &listed)
	if len(listed.Txs) != 252 {
		t.Errorf("%d transactions have the label", len(listed.Txs))
	}
	if out := l.good("tx", "create", "--from-file", rows); !strings.Contains(out, "CONFIRMED 2") {
		t.Errorf("the summary is %s", out)
	}
}

// Rows with much data are sent in calls that a node accepts.
func TestTxCreate_FromFile_LargeRows(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	var text strings.Builder
	text.WriteString("\xef\xbb\xbf") // as Windows programs begin a file
	for i := range 90 {
		fmt.Fprintf(&text, `{"id":"big-%d","to":%q,"data":"0x%s"}`+"\r\n", i, recipient,
			strings.Repeat("ab", 60_000))
	}
	path := l.payoutFile("big.ndjson", text.String())
	if s := l.fromFile(exitDone, path, "--submitter", "alice"); s.Created != 90 {
		t.Errorf("large rows: %+v", s)
	}
}

func TestTxCreate_FromFile_Mistakes(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	for name, c := range map[string]struct {
		file, text string
		want       []string // place and column of each problem
	}{
		"every cell": {"p.csv", "id,to,value,data,gas_limit\n" +
			"a," + recipient + ",1,,\n" +
			",0x12,x,0xf,-1\n" +
			"a,,,,\n",
			[]string{"p.csv:3:1 id", "p.csv:3:13 gas_limit", "p.csv:3:2 to", "p.csv:3:7 value",
				"p.csv:3:9 data", "p.csv:4:1 id", "p.csv:4:3 to"}},
		"unknown column": {"p.csv", "id,too,label:\n",
			[]string{"p.csv:1 label:", "p.csv:1 too"}},
		"not UTF-8": {"p.csv", "id,to,label:run\ncaf\xe9," + recipient + ",\nb," + recipient +
			",\xff\n", []string{"p.csv:2:1 id", "p.csv:3:46 label:run"}},
		"JSON not UTF-8": {"p.ndjson", "{\"id\":\"caf\xe9\",\"to\":\"" + recipient + "\"}\n",
			[]string{"p.ndjson:1 "}},
		"no id": {"p.csv", "to,value\n", []string{"p.csv:1 id"}},
		"bad row in the middle": {"p.csv", "id,to\n" + manyRows(0, 300) + "bad,0x12\n" +
			manyRows(300, 600), []string{"p.csv:302:5 to"}},
		"duplicate far away": {"p.csv", "id,to\n" + manyRows(0, 600) + manyRows(7, 8),
			[]string{"p.csv:602:1 id"}},
		"duplicate in JSON": {"p.ndjson", strings.Repeat(`{"id":"a","to":"`+recipient+"\"}\n", 3),
			[]string{"p.ndjson:2 id", "p.ndjson:3 id"}},
		"open quote": {"p.csv", "id,to\n\"" + strings.Repeat("x", maxRowBytes+9000),
			[]string{"p.csv:2 "}},
		"long line":  {"p.ndjson", strings.Repeat("x", maxRowBytes+1), []string{"p.ndjson:1 "}},
		"ragged row": {"p.csv", "id,to\na\n", []string{"p.csv:2 "}},
		"JSON": {"p.ndjson", "{\"id\":\"a\",\"to\":\"" + recipient + "\",\"vale\":1}\nx\n",
			[]string{"p.ndjson:1 vale", "p.ndjson:2 "}},
	} {
		t.Run(name, func(t *testing.T) {
			path := l.payoutFile(c.file, c.text)
			out, errs, code := l.start("tx", "create", "--json", "--submitter", "alice",
				"--from-file", path).end()
			var f failure
			l.unmarshal(errs, &f)
			var got []string
			for _, p := range f.Problems {
				got = append(got, p.Where+" "+p.Key)
			}
			slices.Sort(got)
			if code != exitFailed || out != "" || !slices.Equal(got, c.want) {
				t.Errorf("%d %s%q, want %q", code, out, got, c.want)
			}
		})
	}
	var listed struct{ Txs []struct{} }
	if l.unmarshal(l.good("tx", "list", "--json"), &listed); len(listed.Txs) > 0 {
		t.Errorf("%d rows of files with mistakes are queued", len(listed.Txs))
	}
	l.bad(exitUsage, "--value", "tx", "create", "--from-file", "p.csv", "--value", "1")
	l.bad(exitUsage, ".ndjson", "tx", "create", "--from-file", l.payoutFile("p.txt", "x"))
	l.bad(exitUsage, "--not-after", "tx", "create", "--from-file", "p.csv", "--not-after", "10m")
	l.bad(exitFailed, "p.csv", "tx", "create", "--from-file", "/nowhere/p.csv")
}

// manyRows are rows of a CSV file with the ids from first to before last.
func manyRows(first, last int) string {
	var text strings.Builder
	for i := first; i < last; i++ {
		fmt.Fprintf(&text, "row-%d,%s\n", i, recipient)
	}
	return text.String()
}

// A file that changes while it is sent is reported: rows may be missing.
func TestRowFile_Changed_Reported(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "p.csv")
	write := func(text string) {
		if err := os.WriteFile(path, []byte("id,to\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(manyRows(0, 3))
	f, err := checkFile(path, &pb.CreateTxRequest{Submitter: "alice"}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"longer": manyRows(0, 4), "shorter": manyRows(0, 2), "invalid": "row-0,0x12\n",
	} {
		write(text)
		if f.each(func(int, *pb.CreateTxRequest) error { return nil }) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A file that changes between check and sending is not sent: its rows were not checked.
func TestRowFile_ChangedBefore_NothingSent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "p.csv")
	write := func(text string) {
		if err := os.WriteFile(path, []byte("id,to\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(manyRows(0, 3))
	f, err := checkFile(path, &pb.CreateTxRequest{Submitter: "alice"}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	write(manyRows(0, 2) + manyRows(0, 2))
	sent := 0
	if err = f.each(func(int, *pb.CreateTxRequest) error { sent++; return nil }); err == nil ||
		sent != 0 {
		t.Errorf("%d rows were sent: %v", sent, err)
	}
}

// answering is a node that answers each row with the code that its id names.
type answering struct {
	pb.UnimplementedTxServiceServer
	short bool // the last row has no answer
}

func (a answering) BatchCreateTx(_ context.Context,
	r *pb.BatchCreateTxRequest) (*pb.BatchCreateTxResponse, error) {
	answer := &pb.BatchCreateTxResponse{}
	for _, ask := range r.GetRequests() {
		result := &pb.BatchCreateTxResult{Created: true, Result: &pb.BatchCreateTxResult_Tx{
			Tx: &pb.Tx{TxId: uuid.NewString(), State: pb.TxState_TX_STATE_QUEUED}}}
		name, _, _ := strings.Cut(ask.GetRequestId(), "-")
		if c, is := code.Code_value[name]; is && c != 0 {
			result = &pb.BatchCreateTxResult{Result: &pb.BatchCreateTxResult_Error{
				Error: &rpcstatus.Status{Code: c, Message: "no"}}}
		}
		answer.Results = append(answer.Results, result)
	}
	if a.short {
		answer.Results = answer.Results[1:]
	}
	return answer, nil
}

// TestTxCreate_FromFile_OutcomeUnknown: only a certain answer counts as refused. A row that may be
// queued is neither, and the command asks to be repeated.
func TestTxCreate_FromFile_OutcomeUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ids     []string
		short   bool
		refused int
		unsure  bool
	}{
		"accepted":      {[]string{"OK-1", "OK-2"}, false, 0, false},
		"refused":       {[]string{"OK-1", "FAILED_PRECONDITION-1"}, false, 1, false},
		"internal":      {[]string{"INTERNAL-1", "OK-1"}, false, 0, true},
		"unknown":       {[]string{"OK-1", "UNKNOWN-1"}, false, 0, true},
		"cancelled":     {[]string{"CANCELLED-1", "OK-1"}, false, 0, true},
		"a row missing": {[]string{"OK-1", "OK-2"}, true, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			node := grpc.NewServer()
			pb.RegisterTxServiceServer(node, answering{short: c.short})
			go func() { _ = node.Serve(listener) }()
			t.Cleanup(node.Stop)
			text := "id,to\n"
			for _, id := range c.ids {
				text += id + "," + recipient + "\n"
			}
			path := filepath.Join(t.TempDir(), "p.csv")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, errs, exit := newShell(t).run("tx", "create", "--json", "--submitter", "alice",
				"--from-file", path, "--server", listener.Addr().String())
			var s summary
			if err := json.Unmarshal([]byte(out), &s); err != nil {
				t.Fatalf("%s%s: %v", out, errs, err)
			}
			unsure := s.Created+s.Refused < s.Rows
			if s.Refused != c.refused || unsure != c.unsure ||
				(exit == exitDone) != (c.refused == 0 && !c.unsure) {
				t.Errorf("gave %d: %+v%s", exit, s, errs)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	l.create("one")
	var s struct {
		Status struct {
			Totals struct{ Submitters, Queued string }
		}
	}
	l.unmarshal(l.good("status", "--json"), &s)
	if s.Status.Totals.Submitters != "1" || s.Status.Totals.Queued != "1" {
		t.Errorf("%+v", s)
	}
	if out := l.good("status"); !strings.Contains(out, "queued") {
		t.Errorf("the screen is %s", out)
	}
	watch := l.start("status", "--watch", "--every", "100ms", "--json")
	l.eventually("two screens", func() bool {
		return strings.Count(watch.out.String(), "\n") >= 2
	})
	watch.interrupt()
	if _, errs, code := watch.end(); code != exitDone {
		t.Errorf("%d %s", code, errs)
	}
}

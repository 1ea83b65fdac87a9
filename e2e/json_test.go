package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// curl calls the node with the curl program and returns the status code and the body.
func (n *node) curl(t *testing.T, arguments ...string) (code, body string) {
	t.Helper()
	path := arguments[len(arguments)-1]
	arguments = append(
		[]string{"--silent", "--show-error", "--max-time", "60", "--write-out", "\n%{http_code}"},
		append(arguments[:len(arguments)-1], "http://"+n.addr+path)...)
	cmd := exec.CommandContext(t.Context(), "curl", arguments...)
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("curl %s: %v %s", strings.Join(arguments, " "), err, wrong.String())
	}
	at := bytes.LastIndexByte(out, '\n')
	return string(out[at+1:]), string(out[:at])
}

// post sends JSON.
func (n *node) post(t *testing.T, path, body string) (code, answer string) {
	t.Helper()
	return n.curl(t, "--header", "Content-Type: application/json", "--data", body, path)
}

// at reads a field of a JSON object by its path.
func at(t *testing.T, text, path string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for name := range strings.SplitSeq(path, ".") {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return fmt.Sprint(value)
}

// TestJSON_Curl: with curl alone a transaction is created, found, watched to its end, and another
// one is cancelled.
func TestJSON_Curl(t *testing.T) {
	t.Parallel()
	c := embedded(t, time.Second, 1)
	n := newNode(t, c, nodeOptions{confirmations: 1, poll: 100 * time.Millisecond})
	submitter := n.names[0]
	create := func(request string) (code, body string) {
		return n.post(
			t,
			"/api/v1/tx",
			fmt.Sprintf(
				`{"submitter":%q,"requestId":%q,"payload":`+
					`{"to":"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed","value":"1"},`+
					`"labels":{"by":"curl"}}`,
				submitter, request),
		)
	}
	code, body := create("r1")
	if code != "202" {
		t.Fatalf("created: %s %s", code, body)
	}
	first := at(t, body, "tx.txId")
	if code, body := create("r1"); code != "200" || at(t, body, "tx.txId") != first {
		t.Errorf("created again: %s %s", code, body)
	}
	// The queue is longer than a block takes, so the last one is still in it.
	last := ""
	for i := range 5 {
		_, body := create(fmt.Sprint("more-", i))
		last = at(t, body, "tx.txId")
	}
	if code, body := n.post(t, "/api/v1/tx/"+last+"/cancel", ""); code != "200" ||
		at(t, body, "outcome") != "CANCEL_OUTCOME_CANCELLED" {
		t.Errorf("cancelled: %s %s", code, body)
	}
	if code, body := n.curl(
		t, "/api/v1/tx/by-request?submitter="+submitter+"&request_id=r1",
	); code != "200" ||
		at(t, body, "tx.txId") != first {
		t.Errorf("by request: %s %s", code, body)
	}
	n.curlWatches(t, first)
	if code, body := n.curl(t, "/api/v1/tx/"+first); code != "200" ||
		at(t, body, "tx.state") != "TX_STATE_CONFIRMED" ||
		at(t, body, "tx.executed") != "EXECUTED_SUCCESS" {
		t.Errorf("in the end: %s %s", code, body)
	}
	if code, body := n.curl(
		t, "/api/v1/tx?labels=by%3Dcurl&states=TX_STATE_CANCELLED",
	); code != "200" ||
		!strings.Contains(body, last) ||
		strings.Contains(body, first) {
		t.Errorf("listed: %s %s", code, body)
	}
	if code, body := n.curl(t, "/api/v1/submitters/"+submitter); code != "200" ||
		at(t, body, "submitter.name") != submitter {
		t.Errorf("submitter: %s %s", code, body)
	}
	if code, body := n.curl(t, "/api/v1/tx/17"); code != "400" ||
		!strings.Contains(body, "INVALID_FIELD") {
		t.Errorf("refused: %s %s", code, body)
	}
}

// TestReference_CurlLines runs the lines of docs/api.md as they stand there.
func TestReference_CurlLines(t *testing.T) {
	t.Parallel()
	n := newNode(t, embedded(t, 500*time.Millisecond, 1),
		nodeOptions{confirmations: 1, poll: 100 * time.Millisecond})
	text, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := typed(t, "curl", string(text))
	want := []string{
		`"TX_STATE_QUEUED"`,
		`"curl-1"`,
		`"TX_STATE_CONFIRMED"`,
		`"TX_STATE_CONFIRMED"`,
		`"txId"`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	id := ""
	for i, line := range lines {
		out := bash(t, t.TempDir(),
			strings.NewReplacer("127.0.0.1:9090", n.addr, "alice", n.names[0]).Replace(line),
			"TX_ID="+id)
		if !strings.Contains(strings.ReplaceAll(out, " ", ""), want[i]) {
			t.Errorf("%s does not say %s:\n%s", line, want[i], out)
		}
		if i == 0 {
			id = at(t, out, "tx.txId")
		}
	}
}

// curlWatches follows a transaction to its end, as lines and as server-sent events.
func (n *node) curlWatches(t *testing.T, id string) {
	t.Helper()
	path := "/api/v1/tx/" + id + "/events?until_final=true"
	code, body := n.curl(t, "--no-buffer", path)
	lines := strings.Split(strings.TrimSpace(body), "\n")
	seq := 0
	for _, line := range lines {
		if got := at(t, line, "event.seq"); got != "<nil>" {
			if seq++; got != fmt.Sprint(seq) {
				t.Errorf("event %d is %s", seq, line)
			}
		}
	}
	if final := at(t, lines[len(lines)-1], "event.state"); code != "200" ||
		final != "TX_STATE_CONFIRMED" {
		t.Errorf("watched: %s %s", code, body)
	}
	code, body = n.curl(t, "--no-buffer", "--header", "Accept: text/event-stream", path)
	if got := strings.Count(body, "event: event\ndata: {"); code != "200" || got != seq {
		t.Errorf("%d server-sent events, want %d: %s %s", got, seq, code, body)
	}
}

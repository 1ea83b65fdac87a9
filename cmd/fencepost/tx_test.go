package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

func TestTxCreateIsIdempotent(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	line := []string{
		"tx",
		"create",
		"--submitter",
		"alice",
		"--to",
		recipient,
		"--value",
		"0.1ether",
		"--data",
		"0x0102",
		"--gas-limit",
		"50000",
		"--request-id",
		"r1",
	}
	id := l.find(`^transaction (\S+) of alice queued; request_id r1\n$`, l.good(line...))
	if again := l.good(line...); again != "transaction "+id+" of alice already exists and is "+
		"QUEUED; request_id r1\n" {
		t.Errorf("the second time it prints %s", again)
	}
	l.bad(
		exitFailed,
		`see "fencepost tx get --submitter alice --request-id r1" (IDEMPOTENCY_KEY_REUSED)`,
		append(line, "--value", "7")...)

	made := l.find(`request_id (\S{36})\n$`,
		l.good("tx", "create", "--submitter", "alice", "--to", recipient))
	var tx struct {
		TxID, RequestID string
		Payload         struct{ To, Value, Data, GasLimit string }
		RetrySafe       *bool
		Operator        struct{ QueueSeq string }
	}
	l.unmarshal(l.good("tx", "get", "--submitter", "alice", "--request-id", made, "--json"), &tx)
	if tx.RequestID != made || tx.RetrySafe == nil || tx.Operator.QueueSeq == "" {
		t.Errorf("got %+v", tx)
	}
	l.unmarshal(l.good("tx", "get", id, "--json"), &tx)
	if tx.TxID != id || tx.Payload.To != recipient || tx.Payload.Value != "100000000000000000" ||
		tx.Payload.Data != "AQI=" ||
		tx.Payload.GasLimit != "50000" {
		t.Errorf("got %+v", tx)
	}
}

func TestTxCreateWithTerms(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	line := []string{
		"tx",
		"create",
		"--submitter",
		"alice",
		"--to",
		recipient,
		"--request-id",
		"r1",
		"--speed",
		"Fast",
		"--max-fee-gwei",
		"0.5",
		"--cancel-late",
		"--not-after",
	}
	before := time.Now()
	out := l.good(append(line, "10m")...)
	id, at := l.find(`^transaction (\S+) of alice queued`, out), l.find(
		`queued, not after (\S+Z); request_id r1\n$`, out)
	if parsed, err := time.Parse(time.RFC3339, at); err != nil ||
		parsed.Before(before.Add(10*time.Minute-time.Millisecond)) ||
		parsed.After(time.Now().Add(10*time.Minute)) {
		t.Errorf("10m from now is %s, %v", at, err)
	}
	if out := l.good(append(line, at)...); out != "transaction "+id+" of alice already exists "+
		"and is QUEUED, not after "+at+"; request_id r1\n" {
		t.Errorf("the second time it prints %s", out)
	}
	l.bad(exitFailed, "(IDEMPOTENCY_KEY_REUSED)", append(line, "10m1s")...)
	l.rows(l.good("tx", "get", id), `speed +FAST`, `max_fee +500000000 wei \(0.5 gwei\)`,
		`not_after +`+regexp.QuoteMeta(at), `cancel_late +yes`)
	l.bad(exitFailed, "--not-after: ", "tx", "create", "--submitter", "alice", "--to",
		recipient, "--not-after", "2020-01-02T15:04:05Z")
	plain := l.good("tx", "get", l.create("r2"))
	for _, name := range []string{"speed", "max_fee", "not_after", "cancel_late"} {
		if strings.Contains(plain, name) {
			t.Errorf("%s is shown without a flag:\n%s", name, plain)
		}
	}
}

func TestTxLabels(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	line := []string{"tx", "create", "--submitter", "alice", "--to", recipient, "--request-id"}
	out := l.good(append(line, "r1", "--label", "order=17", "--label", "note=a=b, c")...)
	id := l.find(`^transaction (\S+) of alice queued`, out)
	other := l.find(`^transaction (\S+) of alice queued`,
		l.good(append(line, "r2", "--label", "order=18")...))
	l.rows(l.good("tx", "get", id), `labels +note=a=b, c order=17`)
	if out := l.good(
		"tx", "list", "--label", "order=17", "--label", "note=a=b, c",
	); !strings.Contains(
		out, id) ||
		strings.Contains(out, other) {
		t.Errorf("listed:\n%s", out)
	}
	l.bad(exitFailed, "(INVALID_FIELD)", "tx", "watch", id, "--label",
		"order=17")
	for _, bad := range []string{"order", "order=18"} {
		l.bad(
			exitUsage,
			`--label "`+bad+`"`,
			append(line, "r3", "--label", "order=17", "--label", bad)...)
	}
}

// The command in the error is the same request, also if the time was given as a duration.
func TestTxCreate_OutcomeUnknown_PrintsDeadline(t *testing.T) {
	t.Parallel()
	_, errs, code := newShell(t).run("tx", "create", "--submitter", "alice", "--to", recipient,
		"--server", "127.0.0.1:1", "--not-after", "10m")
	if code != exitFailed ||
		!regexp.MustCompile(
			`repeat the command with --request-id [0-9a-f-]{36} --not-after 20\S+Z `).MatchString(
			errs,
		) {
		t.Errorf("gave %d: %s", code, errs)
	}
}

func TestWatch_ConfirmationSteps(t *testing.T) {
	t.Parallel()
	refs := []*pb.BlockRef{
		{Number: 18, Hash: "0xa"},
		{Number: 19, Hash: "0xb"},
		{Number: 20, Hash: "0xc"},
	}
	receipt := &pb.Receipt{BlockNumber: 17}
	kind := pb.TxEventKind_TX_EVENT_KIND_CONFIRMATIONS
	for _, c := range []struct {
		event *pb.TxEvent
		want  string
	}{
		{
			&pb.TxEvent{Kind: kind, TxHash: "0x1", Receipt: receipt, Confirmations: refs[:1]},
			"block 18 0xa",
		},
		{
			&pb.TxEvent{
				Kind: kind, TxHash: "0x1", Receipt: receipt, Confirmations: refs, NewFork: true,
			},
			"new fork, blocks 18 to 20 0xc",
		},
		{
			&pb.TxEvent{
				Kind: pb.TxEventKind_TX_EVENT_KIND_INCLUDED, TxHash: "0x1", Receipt: receipt,
				NewFork: true,
			},
			"block 17, 0x1",
		},
		{
			&pb.TxEvent{
				Kind: pb.TxEventKind_TX_EVENT_KIND_INCLUDED, TxHash: "0x2",
				Receipt: &pb.Receipt{BlockNumber: 17, Kind: "CANCEL"},
			},
			"block 17, (cancel transaction), 0x2",
		},
		{&pb.TxEvent{Kind: pb.TxEventKind_TX_EVENT_KIND_REPLACED, TxHash: "0x2"}, "0x2"},
	} {
		details := slices.DeleteFunc(stepDetails(c.event), func(d string) bool { return d == "" })
		if got := strings.Join(details, ", "); got != c.want {
			t.Errorf("%v is %q, want %q", c.event, got, c.want)
		}
	}
	for name, want := range map[string]string{
		shownBlocks(nil): "", shownBlocks(refs[:2]): "blocks 18 to 19 0xb",
	} {
		if name != want {
			t.Errorf("shown as %q, want %q", name, want)
		}
	}
}

func TestTxGet_Fields(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	id := l.create("r1")
	parsed, err := txn.ParseTxID(id)
	l.must(err)
	l.live(parsed, false)
	out := l.good("tx", "get", id)
	for _, row := range []string{
		`tx_id +` + id, `submitter +alice`, `state +FAILED_FINAL`, `version +[1-9]`,
		`executed +REVERTED`, `reason +REVERTED`, `last_error +the call was reverted`,
		`to +` + recipient, `value +0 wei`, `block +17 0x09`, `included +ORIGINAL$`,
		`gas +21000 at 0 gwei`, `nonce +0`, `attempt 1 +ORIGINAL 0x[0-9a-f]{64}, ` +
			`gas limit 21000, fee cap 0.000000007 gwei, tip 0 gwei`, `final +20`,
	} {
		if !regexp.MustCompile(`(?m)^` + row).MatchString(out) {
			t.Errorf("%q is not in\n%s", row, out)
		}
	}
	hash := regexp.MustCompile(`attempt 1 +ORIGINAL (0x[0-9a-f]{64})`).FindStringSubmatch(out)
	if hash == nil || l.good("tx", "get", hash[1]) != out {
		t.Errorf("not the same by hash %v", hash)
	}
	if bare := strings.TrimPrefix(hash[1], "0x"); l.good("tx", "get", bare) != out {
		t.Errorf("not the same by hash %s", bare)
	}
	for _, h := range []string{hash[1], strings.TrimPrefix(hash[1], "0x")} {
		watched, errs, code := l.start("tx", "watch", h).end()
		if code != exitFailed || !strings.Contains(watched, "FAILED_FINAL") {
			t.Errorf("watch %s: %d, %s, %s", h, code, watched, errs)
		}
	}
	l.bad(exitUsage, "tx get HASH", "tx", "cancel", hash[1])
	l.bad(exitFailed, "(TX_NOT_FOUND)", "tx", "get", "0x"+strings.Repeat("ab", 32))
	l.bad(exitFailed, "(TX_NOT_FOUND)", "tx", "watch", "0x"+strings.Repeat("ab", 32))
	l.bad(exitUsage, `HASH "0x12"`, "tx", "get", "0x12")
	if strings.Contains(out, "retry_safe") {
		t.Errorf("it was executed, and a retry is called safe:\n%s", out)
	}
	l.bad(exitFailed, "(TX_NOT_FOUND)", "tx", "get",
		"01a21fca-9bb7-8000-8000-058ead4b4abd")
	for _, id := range []string{"17", "01a21fca-9bb7-4000-8000-058ead4b4abd"} {
		l.bad(exitUsage, `TX_ID "`+id+`"`, "tx", "get", id)
	}
}

func TestTxList(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	ids := []string{}
	for i := range 4 {
		ids = append(ids, l.create(fmt.Sprint("r", i)))
	}
	l.good("tx", "cancel", ids[1])
	out, errs, code := l.start("tx", "list", "--submitter", "alice", "--limit", "3").end()
	rows := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitDone ||
		!strings.Contains(errs, "more than 3") ||
		len(rows) != 4 ||
		!strings.HasPrefix(rows[0], "TX_ID ") ||
		!strings.HasPrefix(rows[1], ids[3]) {
		t.Errorf("gave %d: %s%s", code, out, errs)
	}
	out = l.good("tx", "list", "--state", "cancelled")
	if !strings.Contains(out, ids[1]) || strings.Contains(out, ids[0]) ||
		!strings.Contains(out, "CANCELLED_BY_CALLER") {
		t.Errorf("listed %s", out)
	}
	var list struct {
		Txs []struct{ TxID, State string }
	}
	l.unmarshal(l.good("tx", "list", "--json"), &list)
	if len(list.Txs) != 4 || list.Txs[3].TxID != ids[0] || list.Txs[0].State != "TX_STATE_QUEUED" {
		t.Errorf("listed %+v", list)
	}
	l.bad(exitFailed,
		"(SUBMITTER_NOT_FOUND)",
		"tx", "list", "--submitter", "bob")
}

// TestTxListWide shows the fields to compare with the chain after a restore.
func TestTxListWide(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	l.good("tx", "create", "--submitter", "alice", "--to", recipient, "--value", "7gwei", "--data",
		"0xc0ffee", "--request-id", "r1")
	l.rows(l.good("tx", "list", "--state", "QUEUED", "--wide"), `TX_ID .* TX_HASH +TO +VALUE +DATA`,
		`\S+ +alice +r1 +QUEUED.* `+recipient+` +7000000000 +0xc0ffee`)
}

func TestTxCancel(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	queued, done := l.create("r1"), l.create("r2")
	for range 2 {
		if out := l.good(
			"tx", "cancel", queued, "--reason", "wrong amount",
		); out != "transaction "+queued+" is cancelled and will never be executed\n" {
			t.Errorf("printed %s", out)
		}
	}
	l.rows(l.good("submitter", "log", "alice"),
		`\d+ +20\S+Z +CANCEL +ops +- +`+queued+` +wrong amount +20\S+Z +APPLIED`)
	id, err := txn.ParseTxID(done)
	l.must(err)
	l.live(id, true)
	if out := l.good(
		"tx", "cancel", done,
	); out != "transaction "+done+" was already final, nothing changed: it is CONFIRMED\n" {
		t.Errorf("printed %s", out)
	}
}

var stepForm = regexp.MustCompile(
	`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  \S{36}  alice  +(\d)  (\S+) +(\S+)(.*)$`)

// steps extracts the kinds and states from the output of a watch.
func steps(t *testing.T, out string) (steps []string) {
	for row := range strings.Lines(out) {
		m := stepForm.FindStringSubmatch(strings.TrimSuffix(row, "\n"))
		if m == nil {
			t.Fatalf("line %q", row)
		}
		steps = append(steps, m[1]+" "+m[2]+" "+m[3])
	}
	return steps
}

const goodLife = "1 QUEUED QUEUED, 2 ALLOCATED ALLOCATED, 3 SUBMITTED TRACKING/PENDING, 4 " +
	"INCLUDED TRACKING/INCLUDED, 5 CONFIRMED CONFIRMED"

func TestTxWatch_EndsWhenFinal(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	l.work()
	out := l.good("tx", "create", "--submitter", "alice", "--to", recipient, "--watch")
	first, rest, _ := strings.Cut(out, "\n")
	id := l.find(`^transaction (\S+) of alice queued`, first)
	if got := strings.Join(steps(t, rest), ", "); got != goodLife {
		t.Errorf("printed %s", got)
	}
	if !strings.Contains(rest, "  block 17  0x") {
		t.Errorf("no block in %s", rest)
	}
	if again := l.good("tx", "watch", id); again != rest {
		t.Errorf("later it prints %s", again)
	}
	lines := strings.Split(strings.TrimSpace(l.good("tx", "watch", id, "--json")), "\n")
	if len(lines) != 5 {
		t.Fatalf("JSON in %d lines: %s", len(lines), lines)
	}
	var m struct {
		Event       struct{ Seq, Kind string }
		ResumeToken string
	}
	if err := json.Unmarshal([]byte(lines[4]), &m); err != nil || m.Event.Seq != "5" ||
		m.Event.Kind != "TX_EVENT_KIND_CONFIRMED" ||
		m.ResumeToken == "" {
		t.Errorf("line %s is %+v, %v", lines[4], m, err)
	}

	out, errs, code := l.start("tx", "create", "--submitter", "alice", "--to", recipient,
		"--request-id", "bad", "--watch").end()
	if code != exitFailed || !strings.Contains(out, "5  FAILED ") ||
		!strings.Contains(errs, "was executed and reverted: the call was reverted (REVERTED)") {
		t.Errorf("gave %d: %s%s", code, out, errs)
	}
	out, errs, code = l.start("tx", "create", "--submitter", "alice", "--to", recipient,
		"--request-id", "bad too", "--wait").end()
	if code != exitFailed || !strings.Contains(out, "state          FAILED_FINAL") ||
		!strings.Contains(errs, "(REVERTED)") {
		t.Errorf("gave %d: %s%s", code, out, errs)
	}
	if out := l.good(
		"tx", "create", "--submitter", "alice", "--to", recipient, "--wait",
	); !strings.Contains(
		out, "CONFIRMED") {
		t.Errorf("printed %s", out)
	}
}

// A watch survives a restart of its node and resumes.
func TestTxWatch_NodeRestarts_Resumes(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	id := l.create("r1")
	one, many := l.start("tx", "watch", "--submitter", "alice", "--request-id", "r1"), l.start("tx",
		"watch", "--submitter", "alice")
	one.prints("  1  QUEUED ")
	many.prints("(current)")
	l.stop()
	l.eventually("the break", func() bool {
		return strings.Contains(one.errs.String(), "(DRAINING)") &&
			strings.Contains(many.errs.String(), "(DRAINING)")
	})
	parsed, err := txn.ParseTxID(id)
	l.must(err)
	l.live(parsed, true)
	l.serve(l.addr)
	out, _, code := one.end()
	if got := strings.Join(steps(t, out), ", "); code != exitDone || got != goodLife {
		t.Errorf("gave %d: %s", code, got)
	}
	many.prints("5  CONFIRMED ")
	many.interrupt()
	out, _, code = many.end()
	_, live, _ := strings.Cut(out, "\n")
	if got := strings.Join(steps(t, live), ", "); code != exitDone ||
		"1 QUEUED QUEUED, "+got != goodLife {
		t.Errorf("gave %d: %s", code, got)
	}
}

func TestTxWatch_Interrupted(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	s := l.start("tx", "watch", l.create("r1"))
	s.prints("QUEUED")
	s.interrupt()
	if _, errs, code := s.end(); code != exitFailed || !strings.Contains(errs, "interrupted") {
		t.Errorf("gave %d: %s", code, errs)
	}
	l.bad(exitFailed, "(TX_NOT_FOUND)", "tx", "watch", "--submitter", "alice",
		"--request-id", "never")
}

// A watch by state omits all other steps.
func TestTxWatchByState(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	kept, dropped := l.create("r1"), l.create("r2")
	queued, both := l.start("tx", "watch", "--submitter", "alice", "--state", "QUEUED"), l.start(
		"tx", "watch", "--all", "--state", "queued,Cancelled")
	all := []*started{queued, both}
	for _, s := range all {
		s.prints(kept)
		s.prints(dropped)
	}
	l.good("tx", "cancel", dropped)
	both.prints("  2  CANCELLED ")
	late := l.create("r3")
	for i, s := range all {
		s.prints(late)
		s.interrupt()
		if out, _, code := s.end(); code != exitDone || strings.Count(out, "\n") != 3+i {
			t.Errorf("gave %d: %s", code, out)
		}
	}
}

package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

func TestSubmitterCommands(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	add := []string{
		"submitter",
		"add",
		"bob",
		"--chain-id",
		"31337",
		"--address",
		strings.ToLower(recipient),
		"--signer",
		"local",
	}
	account := "eip155:31337:" + recipient
	if out := l.good(
		append(add, "--start-from", "chain")...,
	); out != "submitter bob is registered: account "+
		""+account+", signer local, starts from chain\n" {
		t.Errorf("printed %s", out)
	}
	if out := l.good(add...); out != "submitter bob was already registered: account "+
		account+", signer local, starts from 0\n" {
		t.Errorf("printed %s", out)
	}
	l.bad(exitFailed, "(SUBMITTER_EXISTS)", append(add, "--signer", "other")...)
	l.bad(
		exitUsage,
		`--address: `,
		append(add, "--address", "0x12")...)

	out := l.good("submitter", "list")
	row := regexp.MustCompile(`(?m)^bob +` + account + ` +ACTIVE +- +- +0 +0$`)
	if !row.MatchString(out) ||
		!regexp.MustCompile(`(?m)^alice +\S+ +ACTIVE +a/boot +0 +0 +0$`).MatchString(out) {
		t.Errorf("listed\n%s", out)
	}
	out, errs, code := l.start("submitter", "list", "--limit", "1").end()
	if code != exitDone || strings.Contains(out, "bob") || !strings.Contains(errs, "more than 1") {
		t.Errorf("gave %d: %s%s", code, out, errs)
	}
	var list struct {
		Submitters []struct{ Name, Queued string }
	}
	l.unmarshal(l.good("submitter", "list", "--json"), &list)
	if len(list.Submitters) != 2 || list.Submitters[1].Name != "bob" ||
		list.Submitters[1].Queued != "0" {
		t.Errorf("listed %+v", list)
	}
	l.create("r1")
	out = l.good("submitter", "show", "alice")
	for _, row := range []string{
		`owner +a/boot`, `queued +1`, `in_flight +0`, `next_nonce +0`, `mode +STRICT`,
		`fencing_token +1`, `start_from +0`,
	} {
		if !regexp.MustCompile(`(?m)^` + row + `$`).MatchString(out) {
			t.Errorf("%q is not in\n%s", row, out)
		}
	}
	l.bad(exitFailed, "(SUBMITTER_NOT_FOUND)", "submitter", "show", "carl")
}

// TestSubmitterRows_SeveralLedgers_Named: a list names the ledgers of a node that has several.
func TestSubmitterRows_SeveralLedgers_Named(t *testing.T) {
	t.Parallel()
	alice, bob := &pb.Submitter{Name: "alice"}, &pb.Submitter{Name: "bob", Ledger: "us1"}
	if heads, rows := submitterRows([]*pb.Submitter{alice}); slices.Contains(heads, "LEDGER") ||
		len(rows[0]) != len(heads) {
		t.Errorf("one ledger: %v %v", heads, rows)
	}
	heads, rows := submitterRows([]*pb.Submitter{bob})
	if at := slices.Index(heads, "LEDGER"); at < 0 || len(rows) != 1 || rows[0][at] != "us1" {
		t.Errorf("several ledgers: %v %v", heads, rows)
	}
	if fields := submitterFields(bob, time.Now()); !slices.Contains(fields,
		field{"ledger", "us1"}) {
		t.Errorf("shown without its ledger: %v", fields)
	}
}

func TestSubmitterUpdate(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	l.bad(exitFailed, "(NOT_YET_APPLIED)", "submitter",
		"update", "alice", "--on-failure", "pause")
	l.work()
	if out := l.good(
		"submitter", "update", "alice", "--on-failure", "pause",
	); out != "submitter alice: on failure PAUSE, no fee limit, mode STRICT\n" {
		t.Errorf("printed %s", out)
	}
	if out := l.good(
		"submitter", "update", "alice", "--max-fee-gwei", "80.5",
	); out != "submitter alice: on failure PAUSE, max fee 80500000000 wei (80.5 gwei) per gas, "+
		"mode STRICT\n" {
		t.Errorf("printed %s", out)
	}
	l.rows(l.good("submitter", "log", "alice"),
		`\d+ +20\S+Z +UPDATE +ops +- +- +- +20\S+Z +APPLIED`)
	l.rows(l.good("submitter", "show", "alice"), `on_failure +PAUSE`,
		`max_fee +80500000000 wei \(80.5 gwei\)`)
	var s struct{ OnFailure, MaxFee string }
	l.unmarshal(
		l.good("submitter", "update", "alice", "--max-fee-gwei", "0", "--on-failure", "Continue",
			"--json"),
		&s,
	)
	if s.OnFailure != "FAILURE_POLICY_CONTINUE" || s.MaxFee != "" {
		t.Errorf("updated: %+v", s)
	}
	if out := l.good("submitter", "show", "alice"); strings.Contains(out, "max_fee") {
		t.Errorf("no limit is shown as\n%s", out)
	}
	// Policies of an added account: alice's owner applies them, bob has no owner.
	address := txn.Address{1}
	out := l.good("submitter", "add", "alice", "--chain-id", "31337", "--address", address.Hex(),
		"--signer", "local", "--on-failure", "pause")
	if !strings.HasPrefix(out, "submitter alice was already registered: ") ||
		!strings.HasSuffix(out,
			"; on failure PAUSE, no fee limit, mode STRICT\n") {
		t.Errorf("printed %s", out)
	}
	l.bad(exitFailed, "(NOT_YET_APPLIED)",
		"submitter", "add", "bob", "--chain-id", "31337", "--address", recipient, "--signer",
		"local", "--max-fee-gwei", "5")
	l.rows(l.good("submitter", "show", "bob"), `max_fee +5000000000 wei \(5 gwei\)`)
}

func TestSubmitterShow_PausedByPolicy(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	l.commit(txn.Change{Status: txn.Paused, StatusReason: "transaction x (request \"r\") reverted"})
	l.rows(l.good("submitter", "show", "alice"), `status +PAUSED`, `paused +20\S+Z`,
		`paused_by +fencepost \(on_failure\)`, `paused_why +transaction x \(request "r"\) reverted`,
		`Paused because a transaction reverted .*`,
		`  fencepost submitter resume alice --pause 1`)
	l.rows(l.good("submitter", "log", "alice"),
		`\d+ +20\S+Z +PAUSE ON_FAILURE +fencepost +- +- +transaction x .* reverted +20\S+Z `+
			`+APPLIED`)
	l.bad(exitFailed,
		"(SUBMITTER_PAUSED)",
		"tx", "create", "--submitter", "alice", "--to", recipient)
}

func TestSubmitterPauseAndResume(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	id, err := txn.ParseTxID(l.create("before"))
	l.must(err)
	l.live(id, true)
	l.bad(exitFailed, "(NOT_YET_APPLIED)", "submitter",
		"pause", "alice", "--reason", "moving funds")
	l.work()
	if out := l.good(
		"submitter", "pause", "alice", "--reason", "moving funds",
	); out != "submitter alice is PAUSED (0 queued, 0 in flight); "+
		"resume with \"fencepost submitter resume alice\"\n" {
		t.Errorf("printed %s", out)
	}
	if _, errs, code := l.start(
		"submitter", "pause", "alice", "--reason", "key leaked",
	).end(); code != exitDone ||
		!strings.Contains(errs, "moving funds") {
		t.Errorf("paused again: %d, %s", code, errs)
	}
	l.bad(exitFailed,
		`"fencepost submitter resume alice" (SUBMITTER_PAUSED)`,
		"tx", "create", "--submitter", "alice", "--to", recipient)
	var s struct{ Status string }
	out := l.good("tx", "create", "--submitter", "alice", "--to", recipient, "--request-id",
		"before") // it was accepted before
	if !strings.Contains(out, "already exists") {
		t.Errorf("printed %s", out)
	}
	l.unmarshal(l.good("submitter", "resume", "alice", "--operator", "night shift", "--json"), &s)
	if out := l.good(
		"submitter", "resume", "alice",
	); out != "submitter alice is ACTIVE; 0 queued, 0 in flight\n" {
		t.Errorf("printed %s", out)
	}
	l.rows(l.good("submitter", "log", "alice"),
		`\d+ +20\S+Z +RESUME +night shift +- +- +- +20\S+Z +APPLIED`,
		`\d+ +20\S+Z +PAUSE +ops +- +- +moving funds +20\S+Z +APPLIED`)
	if s.Status != "SUBMITTER_STATUS_ACTIVE" {
		t.Errorf("resumed: %+v", s)
	}
}

func TestSubmitterAdd_Mode(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	add := func(name string, account byte, more ...string) []string {
		address := txn.Address{account}
		return append([]string{"submitter", "add", name, "--chain-id", "31337", "--address",
			address.Hex(), "--signer", "local"}, more...)
	}
	l.good(add("carol", 7, "--mode", "pipelined", "--max-in-flight", "32")...)
	l.rows(l.good("submitter", "show", "carol"), `mode +PIPELINED \(up to 32 in flight\)`)
	l.good(add("dave", 8, "--mode", "pipelined")...)
	l.rows(l.good("submitter", "show", "dave"), `mode +PIPELINED \(up to 16 in flight\)`)
	l.bad(exitFailed, "(SUBMITTER_EXISTS)", add("dave", 8)...)
	l.bad(exitFailed, "--max-in-flight", add("erin", 9, "--max-in-flight", "2")...)
	l.bad(exitUsage, "--mode", add("erin", 9, "--mode", "parallel")...)
	l.bad(exitFailed, "--max-in-flight",
		"submitter", "update", "dave", "--mode", "strict", "--max-in-flight", "2")
	l.bad(exitFailed, "--max-in-flight", "submitter", "update", "dave", "--max-in-flight", "0")
	l.bad(exitFailed, "--max-in-flight", "submitter", "update", "dave", "--max-in-flight", "1025")
}

// A lease lasts only while an account has an owner.
func TestLeaseFields_NoOwner_NoTimes(t *testing.T) {
	t.Parallel()
	l := &pb.LeaseInfo{FencingToken: 7, ExpireTime: timestamppb.New(time.Unix(0, 0))}
	for _, f := range leaseFields(l, time.Unix(0, 0)) {
		if strings.Contains(f.name, "until") || strings.Contains(f.name, "since") {
			t.Errorf("shown: %+v", f)
		}
	}
}

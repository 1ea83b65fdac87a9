package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// deciding applies commands like an owner whose account has this nonce on chain and whose attempts
// are in no block. It runs until the test, or the returned function, ends it.
func (l *ledger) deciding(nonce txn.Nonce) (end func()) {
	ctx, cancel := context.WithCancel(l.ctx)
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			inboxes, err := l.store.Inboxes(l.ctx, []txn.SubmitterID{l.id}, 1)
			if err != nil {
				panic(err) // not Fatal: it runs beside the test
			}
			for _, c := range inboxes[l.id].Commands {
				l.decide(
					c,
					inboxes[l.id].Queue,
					txn.Account{
						Latest:    nonce,
						Pending:   nonce,
						Settled:   nonce,
						Head:      100,
						HeadHash:  txn.Hash{100},
						CommandID: c.ID,
					},
				)
			}
		}
	})
	end = sync.OnceFunc(func() { cancel(); working.Wait() })
	l.t.Cleanup(end)
	return end
}

func (l *ledger) decide(c txn.Command, queue []txn.Tx, account txn.Account) {
	ledger, err := l.store.Load(l.ctx, l.lease)
	if err != nil {
		panic(err)
	}
	view := txn.View{
		Now: time.Now(), Policy: txn.Policy{
			Confirmations: 2, ReleaseDepth: 1, AuditDepth: 8, ResubmitInterval: time.Hour,
			ResubmitMax: 9,
		},
		Submitter: ledger.Submitter, Cursor: ledger.Cursor, Open: ledger.Open, Queue: queue,
		Commands: []txn.Command{c}, Account: &account, Head: account.Head,
		NonceUse: &txn.NonceUse{
			CommandID: c.ID, By: &txn.Consumer{Block: 7, TxHash: txn.Hash{0xee}},
		},
		Inclusion: func(txn.Hash) txn.Inclusion { return txn.Inclusion{Known: true} },
	}
	switch step := txn.Decide(&view).(type) {
	case txn.Record:
		l.commit(step.Change)
	case *txn.Replace:
		made := txn.Replacement{
			Outcome: txn.Outcome{Class: txn.Accepted},
			Signed:  txn.Signed{Hash: txn.Hash{7 + byte(len(step.Tx.Attempts))}, Raw: []byte{8}},
		}
		fees, ok := step.BumpedFees(txn.Fees{})
		made.Fees, made.AboveLimit = fees, !ok
		l.commit(txn.Replaced(&view, step, made))
	default:
		panic(fmt.Sprintf("command %d leads to %T", c.ID, step))
	}
}

// rows checks that lines of a table of fields are there.
func (l *ledger) rows(out string, want ...string) {
	l.t.Helper()
	for _, row := range want {
		if !regexp.MustCompile(`(?m)^` + row + `$`).MatchString(out) {
			l.t.Errorf("%q is not in\n%s", row, out)
		}
	}
}

func TestSubmitterProtectAndExit(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	end := l.deciding(0)
	protect := []string{"submitter", "protect", "alice", "--reason", "key may have leaked"}
	for range 2 {
		out := l.good(protect...)
		if !strings.HasPrefix(out,
			"submitter alice is ACTIVE, PROTECTED: protection 1, BY_OPERATOR; ") {
			t.Errorf("printed %s", out)
		}
	}
	l.rows(
		l.good("submitter", "show", "alice"),
		`status +ACTIVE, PROTECTED`,
		`protection +1`,
		`protected +20\S+Z`,
		`reason +BY_OPERATOR`,
		`evidence +key may have leaked`,
		`owner_since +20\S+Z \(\d+s\)`,
		`No nonce is allocated until you decide:`,
		`  fencepost submitter exit-protect alice --protection 1 --reason "..." --resume +`+
			`# continue at nonce 0`,
		`  fencepost submitter exit-protect alice --protection 1 --reason "..." --align-forward `+
			`+# continue at the account's settled nonce.*`,
	)
	l.bad(exitFailed,
		"(SUBMITTER_PROTECTED)",
		"tx", "create", "--submitter", "alice", "--to", recipient)
	exit := []string{
		"submitter",
		"exit-protect",
		"alice",
		"--protection",
		"1",
		"--reason",
		"all is well",
	}
	l.bad(exitFailed, "(PROTECTION_CHANGED)", "submitter", "exit-protect", "alice",
		"--reason", "x", "--protection", "2", "--align-forward")
	end()

	end = l.deciding(3)
	l.bad(
		exitFailed,
		"(DECISION_REFUSED)",
		append(exit, "--resume")...)
	out := l.good(append(exit, "--align-forward", "--operator", "night shift")...)
	l.rows(out, `protection +1`, `reason +BY_OPERATOR`, `evidence +key may have leaked`,
		`protection 1 of submitter alice ended by ALIGN_FORWARD \(operator night shift\); next `+
			`nonce 3 \(was 0\), nonces 0 to 2 recorded as a gap; 0 queued, 0 in flight`)
	if out := l.good(append(exit, "--align-forward")...); !strings.HasPrefix(out,
		"protection 1 of submitter alice was already ended by ALIGN_FORWARD; ") {
		t.Errorf("the second time it prints %s", out)
	}
	l.bad(exitFailed, "(PROTECTION_CHANGED)", append(exit, "--resume")...)
	l.rows(l.good("submitter", "show", "alice"), `status +ACTIVE`, `next_nonce +3`, `init_nonce +0`,
		`gap +0 to 2, 20\S+: all is well`)
	end()

	log := l.good("submitter", "log", "alice")
	l.rows(
		log,
		`ID +ASKED +COMMAND +OPERATOR +CALLER +TX_ID +REASON +DECIDED +RESULT`,
		`\d+ +20\S+Z +EXIT_PROTECT ALIGN_FORWARD \(protection 1\) +night shift +- +- +all is well `+
			`+20\S+Z +APPLIED`,
		`\d+ +20\S+Z +EXIT_PROTECT RESUME \(protection 1\) +ops +- +- +all is well +20\S+Z `+
			`+REFUSED: .*`,
		`\d+ +20\S+Z +PROTECT \(protection 1\) +ops +- +- +key may have leaked +20\S+Z +APPLIED`,
	)
	var list struct {
		Commands []struct{ Kind, Result string }
	}
	l.unmarshal(l.good("submitter", "log", "alice", "--json"), &list)
	if len(list.Commands) != 3 || list.Commands[0].Kind != "EXIT_PROTECT" ||
		!strings.HasPrefix(list.Commands[1].Result, "REFUSED") {
		t.Errorf("listed %+v", list)
	}
	if out, errs, code := l.start(
		"submitter", "log", "alice", "--limit", "1",
	).end(); code != exitDone ||
		strings.Count(out, "\n") != 2 ||
		!strings.Contains(errs, "more than 1") {
		t.Errorf("gave %d: %s%s", code, out, errs)
	}
}

func TestTxResolve(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	lost, waits := l.create("r1"), l.create("r2")
	id, err := txn.ParseTxID(lost)
	l.must(err)
	l.move(id, txn.EventAllocated, txn.Allocated, func(s *txn.Status, c *txn.Change) {
		s.Nonce = new(txn.Nonce(0))
		s.TxHash = txn.Hash{7}
		c.Take = &txn.Take{Nonce: 0}
	})
	l.move(id, txn.EventStuck, txn.Stuck, func(s *txn.Status, c *txn.Change) {
		s.Reason, s.LastError = txn.ReasonNonceElsewhere, "nonce 0 was used outside this ledger"
		c.Protect = &txn.Protection{
			Expect:   1,
			Reason:   txn.ReasonNonceElsewhere,
			Evidence: "seen twice",
		}
	})
	l.rows(l.good("submitter", "show", "alice"),
		`blocking +`+lost+` STUCK, nonce 0, accepted 20\S+Z; NONCE_USED_ELSEWHERE: nonce 0 was `+
			`used outside this ledger`,
		`queue_head +`+waits+` QUEUED, accepted 20\S+Z`,
		`  fencepost tx resolve `+lost+` --expect-version 3 --reason "..." --fail +# first: .*`,
		`  fencepost tx resolve `+lost+` --expect-version 3 --reason "..." --requeue +# `+
			`.*--unproven.*`)
	resolve := []string{"tx", "resolve", lost, "--reason", "sent by hand"}
	end := l.deciding(0)
	l.bad(exitFailed, "(DECISION_REFUSED)", append(resolve, "--fail")...)
	end()
	if asked, err := l.store.Commands(l.ctx, l.id, 0, 1); err != nil || len(asked) != 1 ||
		asked[0].Expect != 3 {
		t.Errorf("the decision names another version than the one that was shown: %+v, %v", asked,
			err)
	}
	l.deciding(1)
	l.bad(
		exitFailed,
		"(DECISION_REFUSED)",
		append(resolve, "--fail", "--expect-version", "2")...)
	out := l.good(append(resolve, "--requeue", "--expect-version", "3")...)
	l.rows(out, `state +STUCK`, `version +3`, `reason +NONCE_USED_ELSEWHERE`,
		`last_error +nonce 0 was used outside this ledger`, `nonce +0`,
		`attempt 1 +ORIGINAL 0x07.*`,
		`transaction `+lost+` was requeued, .*; it is QUEUED now`)
	l.rows(l.good("submitter", "show", "alice"), `queue_head +`+lost+` QUEUED, .*`,
		`gap +0, given up by `+lost+`, 20\S+Z: .*`)
	if out := l.good("tx", "cancel", lost); !strings.HasPrefix(out,
		"transaction "+lost+" was requeued: the cancel is recorded") {
		t.Errorf("printed %s", out)
	}
	l.bad(exitFailed, "(DECISION_REFUSED)", "tx", "resolve", waits, "--fail", "--reason", "x")
	l.bad(exitUsage, "--resume and --align-forward", "submitter", "exit-protect",
		"alice", "--protection", "1", "--keep-queue", "--reason", "x")
	l.bad(exitUsage, `TX_ID "17"`, "tx", "resolve", "17", "--fail",
		"--reason", "x")
}

// flying is a transaction whose nonce is taken and which a node has.
func (l *ledger) flying(request string) (text string, id txn.TxID) {
	l.t.Helper()
	text = l.create(request)
	id, err := txn.ParseTxID(text)
	l.must(err)
	l.move(id, txn.EventAllocated, txn.Allocated, func(s *txn.Status, c *txn.Change) {
		s.Nonce = new(txn.Nonce(0))
		s.TxHash = txn.Hash{7}
		c.Take = &txn.Take{Nonce: 0}
	})
	l.move(id, txn.EventSubmitted, txn.Tracking,
		func(s *txn.Status, _ *txn.Change) {
			s.Sub = txn.Pending
			s.SubmitAttempts = 1
			s.Accepted = 1
		})
	return text, id
}

func TestTxSpeedUpAndRetry(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	flying, id := l.flying("r1")
	queued := l.create("r2")
	l.bad(exitFailed, "(DECISION_REFUSED)", "tx", "speed-up",
		queued)
	end := l.deciding(0)
	want := "transaction " + flying + ": attempt 2 (BUMP " +
		"0x0800000000000000000000000000000000000000000000000000000000000000, gas limit 21000, " +
		"fee cap 0.000000008 gwei, tip 0.000000001 gwei) is recorded for nonce 0"
	if out := l.good(
		"tx", "speed-up", flying, "--reason", "customer waits",
	); !strings.HasPrefix(out, want) {
		t.Errorf("printed %s, want %s", out, want)
	}
	end()
	l.rows(l.good("tx", "get", flying),
		`attempt 1 +ORIGINAL 0x07.*, tip 0 gwei \(newest accepted by a node\)`,
		`attempt 2 +BUMP 0x08.*, tip 0.000000001 gwei`)
	l.rows(l.good("submitter", "log", "alice"),
		`\d+ +20\S+Z +SPEED_UP +ops +- +`+flying+` +customer waits +20\S+Z +APPLIED`)

	l.move(id, txn.EventStuck, txn.Stuck, func(s *txn.Status, _ *txn.Change) {
		s.Sub = txn.None
		s.Reason = txn.ReasonResubmitExhausted
		s.SubmitAttempts = 9
	})
	l.rows(l.good("submitter", "show", "alice"),
		`The transaction at nonce 0 is STUCK\..*`,
		`  fencepost tx speed-up `+flying+` +# .*`,
		`  fencepost tx cancel `+flying+` +# .*`,
		`  fencepost tx resolve `+flying+` --expect-version 5 --reason "..." --retry +# .*`)
	end = l.deciding(0)
	l.rows(l.good("tx", "resolve", flying, "--bump", "--reason", "customer waits"),
		`transaction `+flying+` has a replacement .*; it is STUCK now`)
	l.rows(l.good("tx", "get", flying), `attempt 3 +BUMP .*`)
	for range 2 {
		l.rows(l.good("tx", "resolve", flying, "--retry", "--reason", "endpoint is back"),
			`transaction `+flying+` is rebroadcast .*; it is TRACKING/PENDING now`)
	}
	end()
	out := l.good("tx", "cancel", flying)
	if !strings.HasPrefix(out,
		"transaction "+flying+" is in flight (TRACKING/PENDING): the cancel is recorded") {
		t.Errorf("printed %s", out)
	}
}

func TestNextSteps(t *testing.T) {
	t.Parallel()
	protected := func(reason string) *pb.Protection {
		return &pb.Protection{
			ProtectionId: 3, Reason: reason,
		}
	}
	waiting := func(state pb.TxState, reason string) *pb.Waiting {
		return &pb.Waiting{TxId: "T", State: state, Nonce: new(uint64(5)), Reason: reason}
	}
	const stuck, tracking = pb.TxState_TX_STATE_STUCK, pb.TxState_TX_STATE_TRACKING
	for name, c := range map[string]struct {
		s       *pb.Submitter
		heading string
		first   string
		lines   int
	}{
		"nothing":    {&pb.Submitter{}, "", "", 0},
		"on its way": {&pb.Submitter{Blocking: waiting(tracking, "")}, "", "", 0},
		"stuck": {
			&pb.Submitter{
				Blocking: waiting(stuck, "FEE_CAP_REACHED"),
			}, "The transaction at nonce 5 is STUCK",
			"tx speed-up T", 3,
		},
		"used elsewhere": {
			&pb.Submitter{Blocking: waiting(stuck, "NONCE_USED_ELSEWHERE")},
			"Nonce 5 was used elsewhere. Decide:",
			"tx resolve T --expect-version 0 --reason \"...\" --fail", 2,
		},
		"protected": {
			&pb.Submitter{Protection: protected("BY_OPERATOR")},
			"An operator protected it; the evidence is their reason.\nNo nonce is allocated",
			"--resume", 2,
		},
		"protected, lost": {
			&pb.Submitter{
				Protection: protected("NONCE_USED_ELSEWHERE"),
				Blocking:   waiting(stuck, "NONCE_USED_ELSEWHERE"),
			},
			"The account's key was used elsewhere", "first: ", 4,
		},
		"protected, stuck": {
			&pb.Submitter{
				Protection: protected("BY_OPERATOR"), Blocking: waiting(stuck, "FEE_CAP_REACHED"),
			},
			"An operator protected it", "--resume", 2,
		},
		"protected, ran": {
			&pb.Submitter{
				Protection: protected("REQUEUED_AND_RAN"),
				QueueHead:  &pb.Waiting{TxId: "Q", Reason: "REQUEUED_AND_RAN"},
			},
			"A requeued transaction was executed",
			"tx watch Q", 3,
		},
		"protected, ran, in a block": {
			&pb.Submitter{Protection: protected("REQUEUED_AND_RAN")},
			"A requeued transaction was executed", "--resume", 2,
		},
		"protected, ended and ran": {
			&pb.Submitter{
				Protection: protected("ENDED_AND_RAN"), Blocking: waiting(stuck, "ENDED_AND_RAN"),
			},
			"A transaction that had ended as not executed",
			"tx watch T", 3,
		},
		"protected, ran, undone": {
			&pb.Submitter{
				Protection: protected("ENDED_AND_RAN"),
				Blocking:   waiting(stuck, "NONCE_USED_ELSEWHERE"),
			},
			"A transaction that had ended as not executed", "first: ", 4,
		},
		"protected by a later version": {
			&pb.Submitter{Protection: protected("SOMETHING_NEW")},
			"No nonce is allocated until you decide:", "--resume", 2,
		},
		"ran, decided on": {
			&pb.Submitter{Blocking: waiting(stuck, "REQUEUED_AND_RAN")},
			"It was given up but executed", "tx watch T", 1,
		},
		"ended and ran, decided on": {
			&pb.Submitter{Blocking: waiting(stuck, "ENDED_AND_RAN")},
			"It was given up but executed", "tx watch T", 1,
		},
		"ran, in the queue": {
			&pb.Submitter{
				QueueHead: &pb.Waiting{
					TxId: "Q", State: pb.TxState_TX_STATE_QUEUED, Reason: "REQUEUED_AND_RAN",
				},
			},
			"It was given up but executed", "tx watch Q", 1,
		},
		"reorged, decided on": {
			&pb.Submitter{Blocking: waiting(stuck, "REORGED_AFTER_FINAL")},
			"The transaction at nonce 5 was final", "tx watch T", 1,
		},
		"protected, reorg": {
			&pb.Submitter{
				Protection: protected("REORGED_AFTER_FINAL"),
				Blocking:   waiting(stuck, "REORGED_AFTER_FINAL"),
			},
			"No nonce is allocated until the reorged transactions", "--resume", 2,
		},
	} {
		heading, steps := nextSteps(c.s, nil)
		if !strings.HasPrefix(heading, c.heading) || (heading == "") != (c.heading == "") ||
			len(steps) != c.lines ||
			c.lines > 0 && !strings.Contains(steps[0], c.first) {
			t.Errorf("%s: %q and %q", name, heading, steps)
		}
	}
}

// No command is shown first that the shown state will refuse.
func TestNextSteps_Accepted(t *testing.T) {
	t.Parallel()
	protected := func(reason string, seen uint64) *pb.Submitter {
		s := &pb.Submitter{
			NextNonce:  new(uint64(3)),
			Protection: &pb.Protection{ProtectionId: 1, Reason: reason},
		}
		if seen > 0 {
			s.Protection.ChainNonce = &seen
		}
		return s
	}
	lost := func(s *pb.Submitter) *pb.Submitter {
		s.Blocking = &pb.Waiting{
			TxId:   "T",
			State:  pb.TxState_TX_STATE_STUCK,
			Nonce:  new(uint64(2)),
			Reason: txn.ReasonNonceElsewhere,
		}
		return s
	}
	// before marks its transactions as restored from the backup.
	before := func(s *pb.Submitter, queued int64) *pb.Submitter {
		if s.Queued = queued; queued > 0 {
			s.QueueHead = &pb.Waiting{TxId: "Q", State: pb.TxState_TX_STATE_QUEUED, Restored: true}
		}
		if s.Blocking != nil {
			s.Blocking.Restored = true
		}
		return s
	}
	compare := []string{
		"tx list --submitter  --state QUEUED   # first: cancel those",
		"tx cancel TX_ID",
	}[:2:2]
	const compared = "queued transactions have not run on chain and will be sent"
	const elsewhere = txn.ReasonNonceElsewhere
	cancelled := &pb.Tx{
		Operator: &pb.OperatorDetails{
			Attempts: []*pb.Attempt{{Kind: "ORIGINAL"}, {Kind: "CANCEL"}},
		},
	}
	for name, c := range map[string]struct {
		s    *pb.Submitter
		lost *pb.Tx
		want []string // in each line after the command, in order
	}{
		"the chain is ahead": {
			protected(elsewhere, 5), nil,
			[]string{
				"--align-forward ",
				"--resume   # continue at nonce 3; refused while the next nonce on chain is " +
					"higher, where it was 5",
			},
		},
		"its pool is": {
			protected(elsewhere, 4), nil, []string{"--align-forward ", "where it was 4"},
		},
		"the cursor has caught up": {
			protected(elsewhere, 3), nil, []string{"--resume ", "--align-forward "},
		},
		"another protection": {
			protected("BY_OPERATOR", 5), nil, []string{"--resume ", "--align-forward "},
		},
		"lost, and no more": {
			lost(protected(elsewhere, 3)), &pb.Tx{},
			[]string{"--fail ", "--requeue ", "--resume ", "--align-forward "},
		},
		"lost, and more": {
			lost(protected(elsewhere, 4)), &pb.Tx{},
			[]string{"--fail ", "--requeue ", "--align-forward ", "--resume "},
		},
		"lost, and its cancel asked": {
			lost(protected(elsewhere, 3)), &pb.Tx{CancelRequested: true},
			[]string{
				"--fail   # first: end the STUCK transaction at nonce 2; it is being cancelled",
				"--resume ", "--align-forward ",
			},
		},
		"lost, and being cancelled": {
			lost(protected(elsewhere, 3)), cancelled,
			[]string{"--fail ", "--resume ", "--align-forward "},
		},
		"lost, and restored": {
			before(lost(protected(txn.ProtectRestored, 0)), 0), &pb.Tx{},
			[]string{
				"--fail ", "--requeue --unproven ", "--resume   # continue at nonce 3",
				"--align-forward ",
			},
		},
		"restored, and queued": {
			before(protected(txn.ProtectRestored, 0), 2), nil,
			append(
				compare, "--resume --keep-queue   # continue at nonce 3; "+compared,
				"--align-forward --keep-queue ",
			),
		},
		"restored before, queued": {
			before(protected("BY_OPERATOR", 0), 2), nil,
			append(compare, "--resume --keep-queue ", compared),
		},
		"restored before, ahead": {
			before(protected(elsewhere, 5), 2), nil,
			append(
				compare, "--align-forward --keep-queue ",
				"--resume --keep-queue   # continue at nonce 3; "+compared+"; refused while",
			),
		},
		"restored before, lost": {
			before(lost(protected(elsewhere, 3)), 2), &pb.Tx{},
			append(
				append([]string{"--fail ", "--requeue --unproven "}, compare...),
				"--resume --keep-queue ", "--align-forward --keep-queue ",
			),
		},
		"restored, lost, resumed": {
			before(lost(&pb.Submitter{}), 2), &pb.Tx{},
			[]string{"--fail ", "--requeue --unproven "},
		},
		"restored before, all ended": {
			before(protected("BY_OPERATOR", 0), 0), nil,
			[]string{"--resume   #", "--align-forward   #"},
		},
	} {
		_, steps := nextSteps(c.s, c.lost)
		good := len(steps) == len(c.want)
		for i := 0; good && i < len(steps); i++ {
			good = strings.Contains(steps[i], c.want[i])
		}
		if !good {
			t.Errorf("%s: %q, want %q", name, steps, c.want)
		}
	}
}

func TestDecisions_PrintedAsFlags(t *testing.T) {
	t.Parallel()
	const said = "say ALIGN_FORWARD_KEEP_QUEUE or ALIGN_FORWARD, RESUME_KEEP_QUEUE or RESUME, " +
		"FAIL or FAIL_UNPROVEN, REQUEUE or REQUEUE_UNPROVEN; it is FAILED_FINAL (REQUEUED_AND_RAN)"
	const typed = "say --align-forward --keep-queue or --align-forward, --resume --keep-queue or " +
		"--resume, --fail or --fail --unproven, --requeue or --requeue --unproven; it is " +
		"FAILED_FINAL (REQUEUED_AND_RAN)"
	if got := inFlags(said); got != typed {
		t.Errorf("printed %s", got)
	}
	if got := shownEvidence(
		&pb.Protection{Reason: txn.ProtectRestored, Evidence: "leave with ALIGN_FORWARD"},
	); got != "leave with --align-forward" {
		t.Errorf("evidence %s", got)
	}
	if got := shownEvidence(
		&pb.Protection{Reason: txn.ProtectByOperator, Evidence: "REQUEUE was wrong"},
	); got != "REQUEUE was wrong" {
		t.Errorf("user text is printed as %s", got)
	}
}

// TestProtectionReasons_Explained: "submitter show" explains every documented reason.
func TestProtectionReasons_Explained(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readDoc(t, "docs/operations.md"),
		"| reason | evidence | before you decide |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	reasons := regexp.MustCompile(`(?m)^\| ([A-Z_]+) \|`).FindAllStringSubmatch(table, -1)
	if len(reasons) != len(protectedWhy)+1 {
		t.Errorf("%d reasons in the document, and %d are explained, with that of a reorg",
			len(reasons), len(protectedWhy)+1)
	}
	for _, reason := range reasons {
		if heading, _ := nextSteps(
			&pb.Submitter{Protection: &pb.Protection{Reason: reason[1]}}, nil,
		); strings.HasPrefix(
			heading, "No nonce is allocated until you decide:") {
			t.Errorf("%s is not explained", reason[1])
		}
	}
}

func TestTxResolveFail(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	lost := l.create("r1")
	id, err := txn.ParseTxID(lost)
	l.must(err)
	l.move(id, txn.EventAllocated, txn.Allocated, func(s *txn.Status, c *txn.Change) {
		s.Nonce = new(txn.Nonce(0))
		s.TxHash = txn.Hash{7}
		c.Take = &txn.Take{Nonce: 0}
	})
	l.move(id, txn.EventStuck, txn.Stuck,
		func(s *txn.Status, _ *txn.Change) { s.Reason = txn.ReasonNonceElsewhere })
	l.deciding(1)
	for range 2 {
		var tx struct {
			State, Executed string
			RetrySafe       bool
		}
		l.unmarshal(
			l.good("tx", "resolve", lost, "--fail", "--reason", "not needed any more", "--json"),
			&tx)
		if tx.State != "TX_STATE_FAILED_FINAL" || tx.Executed != "EXECUTED_NO" || !tx.RetrySafe {
			t.Errorf("resolved: %+v", tx)
		}
	}
	if out := l.good("tx", "resolve", lost, "--fail", "--reason", "again"); !strings.HasSuffix(out,
		"transaction "+lost+" is FAILED_FINAL and will never be executed\n") {
		t.Errorf("printed %s", out)
	}
	l.bad(exitFailed, "(DECISION_REFUSED)", "tx",
		"resolve", lost, "--requeue", "--reason", "x")
}

// Recovery needs stopped nodes. It protects every account, or pauses it if it has not sent, and
// invalidates earlier fencing tokens.
func TestRecover(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	queued := l.create("r1")
	_, _, err := l.store.Register(
		l.ctx,
		store.Registration{
			Name:      "unsent",
			Chain:     31337,
			Address:   txn.Address{7},
			Signer:    "local",
			Mode:      txn.Strict,
			StartFrom: "chain",
		},
	)
	l.must(err)
	line := "recover --yes --schema " + l.db.Schema + " --database-url " + l.db.URL
	if out, errs, code := migrating(t, "", line); code != exitFailed || out != "" ||
		!strings.Contains(errs, "in use") {
		t.Errorf("gave %d: %s%s", code, out, errs)
	}
	l.must(l.store.Release(l.ctx, []*store.Lease{l.lease}))
	out, errs, code := migrating(t, "", line)
	if code != exitDone ||
		!regexp.MustCompile(
			`^ledger recovered: 1 submitter under PROTECT \(DATABASE_RESTORED\), 1 `+
				`submitter paused, feed epoch \d{13}\n`).MatchString(
			out,
		) {
		t.Errorf("gave %d: %s%s", code, out, errs)
	}
	l.rows(l.good("submitter", "show", "alice"), `status +ACTIVE, PROTECTED`,
		`reason +DATABASE_RESTORED`, `protection +\d{13}`, `evidence +.*restored.*`)
	l.rows(l.good("submitter", "show", "unsent"), `status +PAUSED`)
	if out := l.good("submitter", "log", "unsent"); !strings.Contains(out, "PAUSE") ||
		!strings.Contains(out, "restored") {
		t.Errorf("printed %s", out)
	}
	if out := l.good("tx", "cancel", queued); !strings.HasPrefix(out,
		"transaction "+queued+" is cancelled and no longer sent: ") {
		t.Errorf("printed %s", out)
	}
	l.rows(l.good("tx", "get", queued), `state +CANCELLED`, `executed +UNKNOWN`,
		`reason +RESTORED_UNKNOWN`)
	if out := l.good("tx", "get", queued); strings.Contains(out, "retry_safe") {
		t.Errorf("printed %s", out)
	}
	l.bad(exitFailed, "(RESTORED_UNKNOWN)", "tx",
		"watch", queued)
	if outcome, err := l.store.Commit(
		l.lease, txn.Change{Status: txn.Paused},
	); outcome == store.Done {
		t.Errorf("a lease from before the recovery writes: %v", err)
	}
	var done struct {
		Submitters, Paused int
		FeedEpoch          string
	}
	out, _, _ = migrating(t, "", line+" --json")
	l.unmarshal(out, &done)
	if done.Submitters != 1 || done.Paused != 1 || len(done.FeedEpoch) != 13 {
		t.Errorf("recovered: %+v", done)
	}
	var adopted struct {
		Events    *int
		FeedEpoch string
	}
	out, _, _ = migrating(t, "", line+" --moved --json")
	l.unmarshal(out, &adopted)
	if adopted.Events == nil || *adopted.Events != 0 || len(adopted.FeedEpoch) != 13 {
		t.Errorf("adopted in place: %s", out)
	}
	if _, errs, code := migrating(
		t, "postgres://user:hidden@127.0.0.1:1/none", "recover --yes",
	); code != exitFailed ||
		strings.Contains(errs, "hidden") ||
		!strings.Contains(errs, "127.0.0.1:1") {
		t.Errorf("gave %d: %s", code, errs)
	}
}

// The result of RETRY ends with the recorded error, which mentions a race with its cancel.
func TestTxResolve_RetryResult(t *testing.T) {
	t.Parallel()
	const raced, again = "races its cancel", "is rebroadcast with a reset broadcast counter; " +
		"it is TRACKING/PENDING now"
	for name, c := range map[string]struct {
		cancelRequested bool
		recorded, want  string
	}{
		"on its way": {
			false, "",
			again,
		},
		"being cancelled, and it was final": {true, "its block left the chain",
			again + ": its block left the chain"},
		"given up by its deadline": {
			false, raced,
			again + ": " + raced,
		},
	} {
		tx := &pb.Tx{
			State:           pb.TxState_TX_STATE_TRACKING,
			SubState:        pb.TxSubState_TX_SUB_STATE_PENDING,
			CancelRequested: c.cancelRequested,
			LastError:       c.recorded,
		}
		if got := resolved(tx, pb.StuckDecision_STUCK_DECISION_RETRY); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// FAIL of a transaction that was executed after all reports that.
func TestTxResolve_FailResult(t *testing.T) {
	t.Parallel()
	const ran = "executed at nonce 4 in block 17 after it was requeued"
	for want, tx := range map[string]*pb.Tx{
		"is FAILED_FINAL and will never be executed": {
			State: pb.TxState_TX_STATE_FAILED_FINAL, Executed: pb.Executed_EXECUTED_NO,
			LastError: "an operator failed it: its nonce was used elsewhere",
		},
		"is CONFIRMED: " + ran: {
			State: pb.TxState_TX_STATE_CONFIRMED, Executed: pb.Executed_EXECUTED_SUCCESS,
			LastError: ran,
		},
		"is STUCK: " + ran: {
			State: pb.TxState_TX_STATE_STUCK, Executed: pb.Executed_EXECUTED_UNKNOWN,
			LastError: ran,
		},
	} {
		for _, decision := range []pb.StuckDecision{
			pb.StuckDecision_STUCK_DECISION_FAIL, pb.StuckDecision_STUCK_DECISION_FAIL_UNPROVEN,
		} {
			if got := resolved(tx, decision); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
}

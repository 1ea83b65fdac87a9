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

// deciding decides on commands as an owner would to which the chain shows an account that stands still at a nonce, and none of our attempts in a block. It
// goes on until the test, or the function that it returns, ends it.
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
		Now: time.Now(), Policy: txn.Policy{Confirmations: 2, ReleaseDepth: 1, AuditDepth: 8, ResubmitInterval: time.Hour, ResubmitMax: 9},
		Submitter: ledger.Submitter, Cursor: ledger.Cursor, Open: ledger.Open, Queue: queue, Commands: []txn.Command{c}, Account: &account, Head: account.Head,
		NonceUse:  &txn.NonceUse{CommandID: c.ID, By: &txn.Consumer{Block: 7, TxHash: txn.Hash{0xee}}},
		Inclusion: func(txn.Hash) txn.Inclusion { return txn.Inclusion{Known: true} },
	}
	switch step := txn.Decide(&view).(type) {
	case txn.Record:
		l.commit(step.Change)
	case *txn.Replace:
		made := txn.Replacement{Outcome: txn.Outcome{Class: txn.Accepted}, Signed: txn.Signed{Hash: txn.Hash{7 + byte(len(step.Tx.Attempts))}, Raw: []byte{8}}}
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
	protect := []string{"submitter", "protect", "alice", "--reason", "key may\nhave leaked"}
	for range 2 {
		if out := l.good(protect...); out != "submitter alice is ACTIVE, PROTECTED: protection 1, BY_OPERATOR; \"fencepost submitter show alice\" tells how to end it\n" {
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
		`No nonce is taken until you decide:`,
		`  fencepost submitter exit-protect alice --protection 1 --reason "..." --resume +# go on at nonce 0`,
		`  fencepost submitter exit-protect alice --protection 1 --reason "..." --align-forward +# go on at the account's settled nonce.*`,
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
		`protection 1 of submitter alice is ended: ALIGN_FORWARD is recorded, by night shift, and the next nonce to be taken is 3 \(was 0\); nonces 0 to 2 are recorded as a gap; nothing is queued, nothing is in flight`)
	if out := l.good(append(exit, "--align-forward")...); !strings.HasPrefix(out,
		"protection 1 of submitter alice was ended by this decision (ALIGN_FORWARD) before, so nothing was done now; ") {
		t.Errorf("the second time it prints %s", out)
	}
	l.bad(exitFailed, "(PROTECTION_CHANGED)", append(exit, "--resume")...)
	l.rows(l.good("submitter", "show", "alice"), `status +ACTIVE`, `next_nonce +3`, `init_nonce +0`,
		`gap +0 to 2, 20\S+: all is well`)
	end()

	log := l.good("submitter", "log", "alice")
	l.rows(
		log,
		`ID +ASKED +COMMAND +OPERATOR +TX_ID +REASON +DECIDED +RESULT`,
		`\d+ +20\S+Z +EXIT_PROTECT ALIGN_FORWARD \(protection 1\) +night shift +- +all is well +20\S+Z +APPLIED`,
		`\d+ +20\S+Z +EXIT_PROTECT RESUME \(protection 1\) +ops +- +all is well +20\S+Z +REFUSED: the account's next nonce is 3 .*; align forward \(ALIGN_FORWARD\) once it has settled`,
		`\d+ +20\S+Z +PROTECT \(protection 1\) +ops +- +key may have leaked +20\S+Z +APPLIED`,
	)
	var list struct {
		Commands []struct{ Kind, Result string }
	}
	l.unmarshal(l.good("submitter", "log", "alice", "--json"), &list)
	if len(list.Commands) != 3 || list.Commands[0].Kind != "EXIT_PROTECT" ||
		!strings.HasSuffix(list.Commands[1].Result, "settled") {
		t.Errorf("listed %+v", list)
	}
	if out, errs, code := l.start("submitter", "log", "alice", "--limit", "1").end(); code != exitDone ||
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
		s.Nonce, s.TxHash, c.Take = new(txn.Nonce(0)), txn.Hash{7}, &txn.Take{Nonce: 0}
	})
	l.move(id, txn.EventStuck, txn.Stuck, func(s *txn.Status, c *txn.Change) {
		s.Reason, s.LastError = txn.ReasonNonceElsewhere, "nonce 0 was used by something else"
		c.Protect = &txn.Protection{
			Expect:   1,
			Reason:   txn.ReasonNonceElsewhere,
			Evidence: "seen twice",
		}
	})
	l.rows(l.good("submitter", "show", "alice"),
		`blocking +`+lost+` STUCK, nonce 0, accepted 20\S+Z; NONCE_USED_ELSEWHERE: nonce 0 was used by something else`,
		`queue_head +`+waits+` QUEUED, accepted 20\S+Z`,
		`  fencepost tx resolve `+lost+` --expect-version 3 --reason "..." --fail +# first: what holds nonce 0 is STUCK.*`,
		`  fencepost tx resolve `+lost+` --expect-version 3 --reason "..." --requeue +# .*--unproven.*`)
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
		`last_error +nonce 0 was used by something else`, `nonce +0`, `attempt 1 +ORIGINAL 0x07.*`,
		`transaction `+lost+` went back into the queue, to be sent under another nonce; it is QUEUED now`)
	l.rows(l.good("submitter", "show", "alice"), `queue_head +`+lost+` QUEUED, .*`,
		`gap +0, given up by `+lost+`, 20\S+Z: .*`)
	if out := l.good("tx", "cancel", lost); !strings.HasPrefix(out,
		"transaction "+lost+" had a nonce before it went back into the queue: the cancel is recorded, and its owner ends it once") {
		t.Errorf("printed %s", out)
	}
	l.bad(exitFailed, "(DECISION_REFUSED)", "tx", "resolve", waits, "--fail", "--reason", "x")
	l.bad(exitUsage, "give one of --resume and --align-forward", "submitter", "exit-protect",
		"alice", "--protection", "1", "--keep-queue", "--reason", "x")
	l.bad(exitUsage, `TX_ID "17" is not the id of a transaction`, "tx", "resolve", "17", "--fail",
		"--reason", "x")
}

// flying is a transaction whose nonce is taken and which a node has.
func (l *ledger) flying(request string) (text string, id txn.TxID) {
	l.t.Helper()
	text = l.create(request)
	id, err := txn.ParseTxID(text)
	l.must(err)
	l.move(id, txn.EventAllocated, txn.Allocated, func(s *txn.Status, c *txn.Change) {
		s.Nonce, s.TxHash, c.Take = new(txn.Nonce(0)), txn.Hash{7}, &txn.Take{Nonce: 0}
	})
	l.move(id, txn.EventSubmitted, txn.Tracking,
		func(s *txn.Status, _ *txn.Change) { s.Sub, s.SubmitAttempts, s.Accepted = txn.Pending, 1, 1 })
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
	want := "transaction " + flying + ": attempt 2 (BUMP 0x0800000000000000000000000000000000000000000000000000000000000000, gas limit 21000, fee cap 0.000000008 gwei, tip 0.000000001 gwei) is recorded for nonce 0; " +
		"it is handed over next, and at most one of the forms is included. \"fencepost tx watch " + flying + "\" tells which\n"
	if out := l.good("tx", "speed-up", flying, "--reason", "customer waits"); out != want {
		t.Errorf("printed %s, want %s", out, want)
	}
	end()
	l.rows(l.good("tx", "get", flying),
		`attempt 1 +ORIGINAL 0x07.*, tip 0 gwei \(the newest that a node took\)`,
		`attempt 2 +BUMP 0x08.*, tip 0.000000001 gwei`)
	l.rows(l.good("submitter", "log", "alice"),
		`\d+ +20\S+Z +SPEED_UP +ops +`+flying+` +customer waits +20\S+Z +APPLIED`)

	l.move(id, txn.EventStuck, txn.Stuck, func(s *txn.Status, _ *txn.Change) {
		s.Sub, s.Reason, s.SubmitAttempts = txn.None, txn.ReasonResubmitExhausted, 9
	})
	l.rows(l.good("submitter", "show", "alice"),
		`What has nonce 0 is STUCK; it is followed and handed over, and you can:`,
		`  fencepost tx speed-up `+flying+` +# offer more`,
		`  fencepost tx cancel `+flying+` +# send one .*`,
		`  fencepost tx resolve `+flying+` --expect-version 5 --reason "..." --retry +# count its hand-overs anew; if it is being cancelled, hand the original over once more`)
	end = l.deciding(0)
	l.rows(l.good("tx", "resolve", flying, "--bump", "--reason", "customer waits"),
		`transaction `+flying+` has another form that offers more, which is handed over next; it is STUCK now`)
	l.rows(l.good("tx", "get", flying), `attempt 3 +BUMP .*`)
	for range 2 {
		l.rows(l.good("tx", "resolve", flying, "--retry", "--reason", "endpoint is back"),
			`transaction `+flying+` is on its way again, with its hand-overs counted anew; it is TRACKING/PENDING now`)
	}
	end()
	out := l.good("tx", "cancel", flying)
	if out != "transaction "+flying+" has a nonce already (it is TRACKING/PENDING), so the chain decides: the cancel is recorded, one that does nothing is sent next under the same nonce, "+
		"and whichever is included first wins; \"fencepost tx watch "+flying+"\" tells how it ends\n" {
		t.Errorf("printed %s", out)
	}
}

// What is shown of an account tells who can decide on what.
func TestNextSteps(t *testing.T) {
	t.Parallel()
	protected := func(reason string) *pb.Protection { return &pb.Protection{ProtectionId: 3, Reason: reason} }
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
		"nothing":                      {&pb.Submitter{}, "", "", 0},
		"on its way":                   {&pb.Submitter{Blocking: waiting(tracking, "")}, "", "", 0},
		"stuck":                        {&pb.Submitter{Blocking: waiting(stuck, "FEE_CAP_REACHED")}, "What has nonce 5 is STUCK", "tx speed-up T", 3},
		"used elsewhere":               {&pb.Submitter{Blocking: waiting(stuck, "NONCE_USED_ELSEWHERE")}, "Nonce 5 was used by somebody else. Decide:", "tx resolve T --expect-version 0 --reason \"...\" --fail", 2},
		"protected":                    {&pb.Submitter{Protection: protected("BY_OPERATOR")}, "Somebody stopped it by hand; the evidence is the reason that they gave.\nNo nonce is taken until you decide:", "--resume", 2},
		"protected, lost":              {&pb.Submitter{Protection: protected("NONCE_USED_ELSEWHERE"), Blocking: waiting(stuck, "NONCE_USED_ELSEWHERE")}, "Somebody else has used the account's key", "first: what holds nonce 5", 4},
		"protected, stuck":             {&pb.Submitter{Protection: protected("BY_OPERATOR"), Blocking: waiting(stuck, "FEE_CAP_REACHED")}, "Somebody stopped it by hand", "--resume", 2},
		"protected, ran":               {&pb.Submitter{Protection: protected("REQUEUED_AND_RAN"), QueueHead: &pb.Waiting{TxId: "Q", Reason: "REQUEUED_AND_RAN"}}, "A transaction that was given back to the queue ran all the same, as the evidence says. It ends by itself", "tx watch Q", 3},
		"protected, ran, in a block":   {&pb.Submitter{Protection: protected("REQUEUED_AND_RAN")}, "A transaction that was given back to the queue ran", "--resume", 2},
		"protected, ended and ran":     {&pb.Submitter{Protection: protected("ENDED_AND_RAN"), Blocking: waiting(stuck, "ENDED_AND_RAN")}, "A transaction that had ended as never run ran all the same, as the evidence says: whoever acted on that must know.", "tx watch T", 3},
		"protected, ran, undone":       {&pb.Submitter{Protection: protected("ENDED_AND_RAN"), Blocking: waiting(stuck, "NONCE_USED_ELSEWHERE")}, "A transaction that had ended as never run ran", "first: what holds nonce 5", 4},
		"protected by a later version": {&pb.Submitter{Protection: protected("SOMETHING_NEW")}, "No nonce is taken until you decide:", "--resume", 2},
		"ran, decided on":              {&pb.Submitter{Blocking: waiting(stuck, "REQUEUED_AND_RAN")}, "It ran although it had been given up, and ends by itself", "tx watch T", 1},
		"ended and ran, decided on":    {&pb.Submitter{Blocking: waiting(stuck, "ENDED_AND_RAN")}, "It ran although it had been given up, and ends by itself", "tx watch T", 1},
		"ran, in the queue":            {&pb.Submitter{QueueHead: &pb.Waiting{TxId: "Q", State: pb.TxState_TX_STATE_QUEUED, Reason: "REQUEUED_AND_RAN"}}, "It ran although", "tx watch Q", 1},
		"reorged, decided on":          {&pb.Submitter{Blocking: waiting(stuck, "REORGED_AFTER_FINAL")}, "What has nonce 5 was final, and left the chain.", "tx watch T", 1},
		"protected, reorg":             {&pb.Submitter{Protection: protected("REORGED_AFTER_FINAL"), Blocking: waiting(stuck, "REORGED_AFTER_FINAL")}, "No nonce is taken until all that was final before is final again", "--resume", 2},
	} {
		heading, ways := waysOut(c.s, nil)
		if !strings.HasPrefix(heading, c.heading) || (heading == "") != (c.heading == "") ||
			len(ways) != c.lines ||
			c.lines > 0 && !strings.Contains(ways[0], c.first) {
			t.Errorf("%s: %q and %q", name, heading, ways)
		}
	}
}

// No decision is proposed first, or at all, that will be refused by what is shown.
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
	before := func(s *pb.Submitter, queued int64) *pb.Submitter { // what it has was in the ledger when that was restored
		if s.Queued = queued; queued > 0 {
			s.QueueHead = &pb.Waiting{TxId: "Q", State: pb.TxState_TX_STATE_QUEUED, Restored: true}
		}
		if s.Blocking != nil {
			s.Blocking.Restored = true
		}
		return s
	}
	compare := []string{"tx list --submitter  --state QUEUED   # first: any of these may have run after the backup", "tx cancel TX_ID"}[:2:2]
	const compared = "what is still queued was compared with the chain, has not run, and will be sent"
	const elsewhere = txn.ReasonNonceElsewhere
	cancelled := &pb.Tx{
		Operator: &pb.OperatorDetails{
			Attempts: []*pb.Attempt{{Kind: "ORIGINAL"}, {Kind: "CANCEL"}},
		},
	}
	for name, c := range map[string]struct {
		s    *pb.Submitter
		lost *pb.Tx
		want []string // what each line has after the command, in order
	}{
		"the chain is ahead":         {protected(elsewhere, 5), nil, []string{"--align-forward ", "--resume   # go on at nonce 3; refused while the account's next nonce is above that on chain, where it was 5"}},
		"its pool is":                {protected(elsewhere, 4), nil, []string{"--align-forward ", "where it was 4"}},
		"the cursor has caught up":   {protected(elsewhere, 3), nil, []string{"--resume ", "--align-forward "}},
		"another protection":         {protected("BY_OPERATOR", 5), nil, []string{"--resume ", "--align-forward "}},
		"lost, and no more":          {lost(protected(elsewhere, 3)), &pb.Tx{}, []string{"--fail ", "--requeue ", "--resume ", "--align-forward "}},
		"lost, and more":             {lost(protected(elsewhere, 4)), &pb.Tx{}, []string{"--fail ", "--requeue ", "--align-forward ", "--resume "}},
		"lost, and its cancel asked": {lost(protected(elsewhere, 3)), &pb.Tx{CancelRequested: true}, []string{"--fail   # first: what holds nonce 2 is STUCK; this ends it, as it shall not run any more", "--resume ", "--align-forward "}},
		"lost, and being cancelled":  {lost(protected(elsewhere, 3)), cancelled, []string{"--fail ", "--resume ", "--align-forward "}},
		"lost, and restored":         {before(lost(protected(txn.ProtectRestored, 0)), 0), &pb.Tx{}, []string{"--fail ", "--requeue --unproven ", "--resume   # go on at nonce 3", "--align-forward "}},
		"restored, and queued":       {before(protected(txn.ProtectRestored, 0), 2), nil, append(compare, "--resume --keep-queue   # go on at nonce 3; "+compared, "--align-forward --keep-queue ")},
		"restored before, queued":    {before(protected("BY_OPERATOR", 0), 2), nil, append(compare, "--resume --keep-queue ", compared)},
		"restored before, ahead":     {before(protected(elsewhere, 5), 2), nil, append(compare, "--align-forward --keep-queue ", "--resume --keep-queue   # go on at nonce 3; "+compared+"; refused while")},
		"restored before, lost":      {before(lost(protected(elsewhere, 3)), 2), &pb.Tx{}, append(append([]string{"--fail ", "--requeue --unproven "}, compare...), "--resume --keep-queue ", "--align-forward --keep-queue ")},
		"restored, lost, resumed":    {before(lost(&pb.Submitter{}), 2), &pb.Tx{}, []string{"--fail ", "--requeue --unproven "}},
		"restored before, all ended": {before(protected("BY_OPERATOR", 0), 0), nil, []string{"--resume   #", "--align-forward   #"}},
	} {
		_, ways := waysOut(c.s, c.lost)
		good := len(ways) == len(c.want)
		for i := 0; good && i < len(ways); i++ {
			good = strings.Contains(ways[i], c.want[i])
		}
		if !good {
			t.Errorf("%s: %q, want %q", name, ways, c.want)
		}
	}
}

// What a node calls a decision is told as it is typed here; what only sounds like one is left alone.
func TestDecisions_PrintedAsFlags(t *testing.T) {
	t.Parallel()
	const said = "say ALIGN_FORWARD_KEEP_QUEUE or ALIGN_FORWARD, RESUME_KEEP_QUEUE or RESUME, FAIL or FAIL_UNPROVEN, REQUEUE or REQUEUE_UNPROVEN; it is FAILED_FINAL (REQUEUED_AND_RAN)"
	const typed = "say --align-forward --keep-queue or --align-forward, --resume --keep-queue or --resume, --fail or --fail --unproven, --requeue or --requeue --unproven; it is FAILED_FINAL (REQUEUED_AND_RAN)"
	if got := inFlags(said); got != typed {
		t.Errorf("told %s", got)
	}
	if got := shownEvidence(&pb.Protection{Reason: txn.ProtectRestored, Evidence: "leave with ALIGN_FORWARD"}); got != "leave with --align-forward" {
		t.Errorf("evidence %s", got)
	}
	if got := shownEvidence(&pb.Protection{Reason: txn.ProtectByOperator, Evidence: "REQUEUE was wrong"}); got != "REQUEUE was wrong" {
		t.Errorf("what somebody wrote is told as %s", got)
	}
}

// TestProtectionReasons_Explained: what the document knows as a reason, "submitter show" explains.
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
		if heading, _ := waysOut(&pb.Submitter{Protection: &pb.Protection{Reason: reason[1]}}, nil); strings.HasPrefix(
			heading, "No nonce is taken until you decide:") {
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
		s.Nonce, s.TxHash, c.Take = new(txn.Nonce(0)), txn.Hash{7}, &txn.Take{Nonce: 0}
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
		"transaction "+lost+" is FAILED_FINAL: it did not run and never will\n") {
		t.Errorf("printed %s", out)
	}
	l.bad(exitFailed, "(DECISION_REFUSED)", "tx",
		"resolve", lost, "--requeue", "--reason", "x")
}

// A ledger is recovered when nobody works on it: every account is protected, or paused if it has not sent; and a token of before writes nothing.
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
		!strings.Contains(errs, "the ledger is in use") ||
		!strings.Contains(errs, "stop all nodes") {
		t.Errorf("gave %d: %s%s", code, out, errs)
	}
	l.must(l.store.Release(l.ctx, []*store.Lease{l.lease}))
	out, errs, code := migrating(t, "", line)
	if code != exitDone ||
		!regexp.MustCompile(
			`^the ledger is recovered: 1 submitter under PROTECT \(DATABASE_RESTORED\), 1 submitter that had not sent paused, feed epoch \d{13}\n`).MatchString(
			out,
		) {
		t.Errorf("gave %d: %s%s", code, out, errs)
	}
	l.rows(l.good("submitter", "show", "alice"), `status +ACTIVE, PROTECTED`,
		`reason +DATABASE_RESTORED`, `protection +\d{13}`, `evidence +the database was restored .*`)
	l.rows(l.good("submitter", "show", "unsent"), `status +PAUSED`)
	if out := l.good("submitter", "log", "unsent"); !strings.Contains(out, "PAUSE") ||
		!strings.Contains(out, "the database was restored") {
		t.Errorf("printed %s", out)
	}
	const unsure = "it is ended (CANCELLED_BY_CALLER), but it may have run: the ledger was restored from a backup that has it"
	if out := l.good("tx", "cancel", queued); !strings.HasPrefix(out,
		"transaction "+queued+" is cancelled and is not sent any more: "+unsure) {
		t.Errorf("printed %s", out)
	}
	l.rows(l.good("tx", "get", queued), `state +CANCELLED`, `executed +UNKNOWN`,
		`reason +RESTORED_UNKNOWN`)
	if out := l.good("tx", "get", queued); strings.Contains(out, "retry_safe") {
		t.Errorf("printed %s", out)
	}
	l.bad(exitFailed, "(RESTORED_UNKNOWN)", "tx",
		"watch", queued)
	if outcome, err := l.store.Commit(l.lease, txn.Change{Status: txn.Paused}); outcome == store.Done {
		t.Errorf("a lease of before the recovery writes: %v", err)
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
	if _, errs, code := migrating(t, "postgres://user:hidden@127.0.0.1:1/none", "recover --yes"); code != exitFailed ||
		strings.Contains(errs, "hidden") ||
		!strings.Contains(errs, "refused") {
		t.Errorf("gave %d: %s", code, errs)
	}
}

// What a RETRY has led to is told in the words that were recorded, for they know whether an original races its cancel.
func TestTxResolve_RetryResult(t *testing.T) {
	t.Parallel()
	const raced = "an operator had it handed over again although not_after passed and a cancel was sent: whichever of the two is in a block first wins"
	for name, c := range map[string]struct {
		cancelRequested bool
		recorded, want  string
	}{
		"on its way": {false, "", "is on its way again, with its hand-overs counted anew; it is TRACKING/PENDING now"},
		"being cancelled, and it was final": {true, "its block left the chain",
			"is on its way again, with its hand-overs counted anew; it is TRACKING/PENDING now: its block left the chain"},
		"given up by its deadline": {false, raced, "is on its way again, with its hand-overs counted anew; it is TRACKING/PENDING now: " + raced},
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

// FAIL ends what had run before by that receipt, and what it has ended may turn out to have run: neither is told as never run.
func TestTxResolve_FailResult(t *testing.T) {
	t.Parallel()
	const ran = "it was given back to the queue, and ran all the same under nonce 4, in block 17"
	for want, tx := range map[string]*pb.Tx{
		"is FAILED_FINAL: it did not run and never will": {State: pb.TxState_TX_STATE_FAILED_FINAL, Executed: pb.Executed_EXECUTED_NO, LastError: "an operator ended it"},
		"is CONFIRMED: " + ran:                           {State: pb.TxState_TX_STATE_CONFIRMED, Executed: pb.Executed_EXECUTED_SUCCESS, LastError: ran},
		"is STUCK: " + ran:                               {State: pb.TxState_TX_STATE_STUCK, Executed: pb.Executed_EXECUTED_UNKNOWN, LastError: ran},
	} {
		for _, decision := range []pb.StuckDecision{pb.StuckDecision_STUCK_DECISION_FAIL, pb.StuckDecision_STUCK_DECISION_FAIL_UNPROVEN} {
			if got := resolved(tx, decision); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
}

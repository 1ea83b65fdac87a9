package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/rpc"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

const (
	resume  = pb.ProtectionDecision_PROTECTION_DECISION_RESUME
	align   = pb.ProtectionDecision_PROTECTION_DECISION_ALIGN_FORWARD
	fail    = pb.StuckDecision_STUCK_DECISION_FAIL
	requeue = pb.StuckDecision_STUCK_DECISION_REQUEUE
	retry   = pb.StuckDecision_STUCK_DECISION_RETRY
)

// at returns an account whose nonce does not change.
func at(nonce txn.Nonce) txn.Account {
	return txn.Account{
		Latest:   nonce,
		Pending:  nonce,
		Settled:  nonce,
		Head:     100,
		HeadHash: txn.Hash{100},
	}
}

// decide applies the pending commands as an engine would, with this account on chain and no attempt
// in a block.
func (o *owner) decide(account txn.Account) {
	inboxes, err := o.store.Inboxes(o.ctx, []txn.SubmitterID{o.id}, 1)
	if err != nil {
		panic(err) // not Fatal: owners run beside the test
	}
	for _, c := range inboxes[o.id].Commands {
		ledger, err := o.store.Load(o.ctx, o.lease)
		if err != nil {
			panic(err)
		}
		account.CommandID = c.ID
		view := txn.View{
			Now: time.Now(), Policy: txn.Policy{Confirmations: 2, ReleaseDepth: 1, AuditDepth: 8,
				ResubmitInterval: time.Hour, ResubmitMax: 9},
			Submitter: ledger.Submitter, Cursor: ledger.Cursor, Open: ledger.Open,
			Queue: inboxes[o.id].Queue, Commands: []txn.Command{c}, Account: &account,
			Head: account.Head,
			NonceUse: &txn.NonceUse{CommandID: c.ID,
				By: &txn.Consumer{Block: 7, TxHash: txn.Hash{0xee}}},
			Inclusion: func(txn.Hash) txn.Inclusion { return txn.Inclusion{Known: true} },
		}
		switch step := txn.Decide(&view).(type) {
		case txn.Record:
			o.commit(step.Change)
			if step.Change.Unprotect != nil {
				o.next = step.Change.Unprotect.To
			}
		case *txn.Replace:
			o.commit(txn.Replaced(&view, step, replacement(step)))
		default:
			panic(fmt.Sprintf("command %d leads to %T", c.ID, step))
		}
	}
}

// replacement returns another signed attempt, without market fees.
func replacement(s *txn.Replace) txn.Replacement {
	p := txn.Replacement{
		Outcome: txn.Outcome{Class: txn.Accepted},
		Signed: txn.Signed{
			Hash: txn.Hash{byte(len(s.Tx.Attempts) + 1)},
			Raw:  []byte{byte(len(s.Tx.Attempts) + 1)},
		},
	}
	fees, ok := s.BumpedFees(txn.Fees{})
	p.Fees, p.AboveLimit = fees, !ok
	return p
}

// runDecisions applies commands until the test ends or end is called.
func (o *owner) runDecisions(account txn.Account) (end func()) {
	ctx, stop := context.WithCancel(o.ctx)
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			o.decide(account)
		}
	})
	end = sync.OnceFunc(func() { stop(); working.Wait() })
	o.t.Cleanup(end)
	return end
}

// loseNonce makes a transaction STUCK because its nonce was used by another one, and protects its
// submitter.
func (o *owner) loseNonce(id txn.TxID) {
	tx := o.read(id)
	w := txn.Write{
		Tx:      id,
		Version: tx.Version,
		From:    tx.State,
		Kind:    txn.EventStuck,
		Next:    tx.Status,
	}
	w.Next.State, w.Next.Sub = txn.Stuck, txn.None
	w.Next.Version = tx.Version + 1
	w.Next.Reason = txn.ReasonNonceElsewhere
	o.commit(txn.Change{
		Protect: &txn.Protection{
			Expect:   o.next,
			Reason:   txn.ReasonNonceElsewhere,
			Evidence: "seen twice",
		},
		Writes: []txn.Write{w},
	})
}

func (n *node) exit(protection int64, decision pb.ProtectionDecision) (*pb.Submitter, error) {
	r, err := n.subs.ExitProtect(n.ctx, &pb.ExitProtectRequest{
		Submitter:    "alice",
		ProtectionId: protection,
		Decision:     decision,
		Reason:       "looked",
		Operator:     "ops",
	})
	return r.GetSubmitter(), err
}

func (n *node) resolve(id string, decision pb.StuckDecision) (*pb.Tx, error) {
	r, err := n.subs.ResolveStuck(n.ctx,
		&pb.ResolveStuckRequest{TxId: id, Decision: decision, Reason: "looked", Operator: "ops"})
	return r.GetTx(), err
}

func (n *node) submitter() *pb.Submitter {
	n.t.Helper()
	r, err := n.subs.GetSubmitter(n.ctx, &pb.GetSubmitterRequest{Submitter: "alice"})
	n.must(err)
	return r.GetSubmitter()
}

func (n *node) protect() *pb.Protection {
	n.t.Helper()
	r, err := n.subs.ProtectSubmitter(n.ctx, &pb.ProtectSubmitterRequest{
		Submitter: "alice",
		Reason:    "key may have leaked",
		Operator:  "ops",
	})
	n.must(err)
	return r.GetSubmitter().GetProtection()
}

// A protection takes effect, its errors name the way out, and it is ended once. Repeated calls
// return OK.
func TestProtect_ThenResume_RepeatsAddNoCommand(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	before := n.create("alice", "r0").GetTxId()
	o.runDecisions(at(0))
	for range 2 {
		if p := n.protect(); p.GetProtectionId() != 1 || p.GetReason() != "BY_OPERATOR" ||
			p.GetEvidence() != "key may have leaked" ||
			p.GetTime() == nil {
			t.Errorf("protected: %v", p)
		}
	}
	_, err := n.txs.CreateTx(h.ctx,
		&pb.CreateTxRequest{Submitter: "alice", RequestId: "r1", Payload: payload()})
	s := wantStatus(t, err, codes.FailedPrecondition, "SUBMITTER_PROTECTED")
	for _, part := range []string{"protection 1 (BY_OPERATOR)", "fencepost submitter show alice"} {
		if !strings.Contains(s.Message(), part) {
			t.Errorf("%q lacks %q", s.Message(), part)
		}
	}
	if again := n.create("alice", "r0").GetTxId(); again != before {
		t.Errorf("the same request under protection is transaction %s, want %s", again, before)
	}
	for range 2 {
		s, err := n.exit(1, resume)
		h.must(err)
		if s.GetProtection() != nil || s.GetNextNonce() != 0 {
			t.Errorf("resumed: %v", s)
		}
	}
	n.create("alice", "r1")
	_, err = n.exit(1, align)
	if s := wantStatus(t, err, codes.Aborted, "PROTECTION_CHANGED"); !strings.Contains(s.Message(),
		"protection 1 was ended by RESUME at 20") {
		t.Errorf("another decision: %v", err)
	}
	if p := n.protect(); p.GetProtectionId() != 2 {
		t.Errorf("protected again: %v", p)
	}
	s2, err := n.exit(1, resume) // late: it must not end the second protection
	h.must(err)
	if s2.GetProtection().GetProtectionId() != 2 {
		t.Errorf("a repeat has ended another protection: %v", s2)
	}
	if got := h.count("submitter_command"); got != 3 {
		t.Errorf("%d commands, want 3: two protections and one exit", got)
	}
}

// A decision that contradicts the chain is rejected with the owner's message. An accepted alignment
// reports the skipped nonces.
func TestExitProtect_EvidenceDecides_RejectedOrAligned(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	o.protect()
	end := o.runDecisions(
		txn.Account{Latest: 4, Pending: 4, Settled: 3, Head: 100, HeadHash: txn.Hash{100}})
	for decision, message := range map[pb.ProtectionDecision]string{
		resume: `submitter "alice": the account's next nonce is 4 on chain`,
		align:  `submitter "alice": the account is not settled`,
	} {
		_, err := n.exit(1, decision)
		s := wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED")
		if !strings.HasPrefix(s.Message(), message) {
			t.Errorf("%v: %q, want %q", decision, s.Message(), message)
		}
	}
	end()
	o.runDecisions(at(4))
	s, err := n.exit(1, align)
	h.must(err)
	if s.GetProtection() != nil || s.GetNextNonce() != 4 {
		t.Errorf("aligned: %v", s)
	}
	gaps := n.submitter().GetGaps()
	if len(gaps) != 1 || gaps[0].GetFirstNonce() != 0 || gaps[0].GetLastNonce() != 3 ||
		gaps[0].GetTxId() != "" ||
		gaps[0].GetReason() != "looked" ||
		gaps[0].GetTime() == nil {
		t.Errorf("gaps: %v", gaps)
	}
	n.protect()
	_, err = n.exit(2, resume)
	h.must(err)
	// each had its own decision
	for protection, other := range map[int64]pb.ProtectionDecision{1: resume, 2: align} {
		_, err = n.exit(protection, resume+align-other)
		h.must(err)
		_, err = n.exit(protection, other)
		wantStatus(t, err, codes.Aborted, "PROTECTION_CHANGED")
	}
}

// Transactions queued in a restored ledger are reported, and block both exits until the operator
// confirms the comparison.
func TestExitProtect_Restored_NeedsKeepQueue(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	n.create("alice", "r1")
	if head := n.submitter().GetQueueHead(); head == nil || head.GetRestored() {
		t.Errorf("before: %v", head)
	}
	h.must(h.store.Release(h.ctx, []*store.Lease{o.lease}))
	h.recover()
	var err error
	o.lease, err = h.store.AcquireOne(h.ctx, o.id)
	h.must(err)
	o.runDecisions(at(0))
	s := n.submitter()
	if !s.GetQueueHead().GetRestored() || s.GetProtection().GetReason() != txn.ProtectRestored {
		t.Errorf("after: %v", s)
	}
	for _, plain := range []pb.ProtectionDecision{resume, align} {
		_, err = n.exit(s.GetProtection().GetProtectionId(), plain)
		if s := wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED"); !strings.Contains(
			s.Message(), "RESUME_KEEP_QUEUE") {
			t.Errorf("%v: %v", plain, err)
		}
	}
	s, err = n.exit(s.GetProtection().GetProtectionId(),
		pb.ProtectionDecision_PROTECTION_DECISION_RESUME_KEEP_QUEUE)
	if err != nil || s.GetProtection() != nil || s.GetQueued() != 1 {
		t.Errorf("compared: %v, %v", s, err)
	}
}

// A submitter whose account was never read has no cursor to protect.
func TestProtect_NeverStarted_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.register("alice")
	lease, err := h.store.AcquireOne(h.ctx, id)
	h.must(err)
	o := &owner{harness: h, store: h.store, id: id, lease: lease}
	o.runDecisions(at(0))
	_, err = h.serve().subs.ProtectSubmitter(h.ctx,
		&pb.ProtectSubmitterRequest{Submitter: "alice", Reason: "r"})
	if s := wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED"); !strings.Contains(
		s.Message(), "pause it instead") {
		t.Errorf("%v", err)
	}
}

// The call asks for the protection that follows the pending exit.
func TestProtect_ExitPending_NewProtection(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	o.protect()
	_, err := h.store.AddCommand(h.ctx, o.id,
		store.Ask{Kind: txn.CommandExitProtect, Action: txn.ActionResume, Expect: 1, Reason: "r"})
	h.must(err)
	protected := make(chan *pb.Protection, 1)
	go func() { protected <- n.protect() }()
	h.eventually("the command", func() bool { return len(o.commands()) == 2 })
	o.decide(at(0))
	if p := <-protected; p.GetProtectionId() != 2 {
		t.Errorf("protected: %v", p)
	}
}

// The call asks for a protection that only a decision ends.
func TestProtect_AutomaticProtectionInForce_Replaced(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	o.commit(txn.Change{
		Protect: &txn.Protection{
			Expect:   o.next,
			Reason:   txn.ReasonReorgedFinal,
			Evidence: "block 7",
		},
	})
	o.runDecisions(at(0))
	if p := n.protect(); p.GetProtectionId() != 2 || p.GetReason() != txn.ProtectByOperator {
		t.Errorf("protected: %v", p)
	}
}

// Only the owner knows whether a protection for a nonce used elsewhere may end automatically.
func TestProtect_NonceUsedElsewhere_OwnerDecides(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	o.protect()
	o.runDecisions(at(0))
	if p := n.protect(); p.GetProtectionId() != 1 || p.GetReason() != txn.ReasonNonceElsewhere {
		t.Errorf("protected: %v", p)
	}
	c, err := o.store.Commands(t.Context(), o.id, 0, 10)
	if err != nil || len(c) != 2 || c[0].Kind != txn.CommandProtect ||
		c[0].Result != txn.ResultAlreadyProtected {
		t.Errorf("%+v %v", c, err)
	}
}

// Repeated calls leave one command, and their errors report it as recorded.
func TestDecisions_NoOwner_OneCommand(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(limits(func(l *Limits) { l.CommandWait = 30 * time.Millisecond }))
	o, free := h.own(h.register("alice")), h.own(h.register("free"))
	id, other := n.create("alice", "r1").GetTxId(), n.create("alice", "r2").GetTxId()
	o.allocate(txID(t, id))
	o.loseNonce(txID(t, id))
	for range 2 {
		for _, r := range []struct {
			method string
			ask    proto.Message
		}{
			{protectSub, &pb.ProtectSubmitterRequest{Submitter: "free", Reason: "r"}},
			{exitProtect, &pb.ExitProtectRequest{Submitter: "alice", ProtectionId: 1,
				Decision: resume, Reason: "r"}},
			{exitProtect, &pb.ExitProtectRequest{Submitter: "alice", ProtectionId: 1,
				Decision: align, Reason: "r"}},
			{resolveStuck, &pb.ResolveStuckRequest{TxId: id, Decision: fail, Reason: "r"}},
			{resolveStuck, &pb.ResolveStuckRequest{TxId: id, Decision: requeue, Reason: "r"}},
			{resolveStuck, &pb.ResolveStuckRequest{TxId: other, Decision: fail, Reason: "r"}},
		} {
			wantStatus(t, n.call(r.method, r.ask), codes.DeadlineExceeded, "NOT_YET_APPLIED")
		}
	}
	if of, ofFree := len(o.commands()), len(free.commands()); of != 5 || ofFree != 1 {
		t.Errorf("%d and %d commands, want 5 and 1", of, ofFree)
	}
}

// A STUCK transaction is decided on once, and only if its nonce was used by another transaction.
func TestResolveStuck_Requeue_DecidedOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	done, lost := n.create("alice", "done").GetTxId(), n.create("alice", "lost").GetTxId()
	o.finalize(txID(t, done))
	refused := func(id string, decision pb.StuckDecision, word string) {
		t.Helper()
		_, err := n.resolve(id, decision)
		s := wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED")
		if !strings.HasPrefix(s.Message(), "transaction "+id+": ") ||
			!strings.Contains(s.Message(), word) {
			t.Errorf("%q, want %q", s.Message(), word)
		}
	}
	refused(done, fail, "CONFIRMED")
	end := o.runDecisions(at(1))
	refused(lost, fail, "not in flight")
	end()
	o.allocate(txID(t, lost))
	end = o.runDecisions(at(1))
	refused(lost, requeue, "ALLOCATED")
	end()
	o.loseNonce(txID(t, lost))
	if b := n.submitter().GetBlocking(); b.GetTxId() != lost || b.GetNonce() != 1 ||
		b.GetState() != pb.TxState_TX_STATE_STUCK ||
		b.GetReason() != txn.ReasonNonceElsewhere {
		t.Errorf("blocking: %v", b)
	}
	end = o.runDecisions(at(1))
	refused(lost, fail, "nonce 1 is ")
	end()
	o.runDecisions(at(2))
	before := h.count("submitter_command")
	for range 2 {
		tx, err := n.resolve(lost, requeue)
		h.must(err)
		if tx.GetState() != pb.TxState_TX_STATE_QUEUED || tx.GetRetrySafe() {
			t.Errorf("requeued: %v", tx)
		}
	}
	if got := h.count("submitter_command") - before; got != 1 {
		t.Errorf("%d commands for one decision", got)
	}
	s := n.submitter()
	if s.GetBlocking() != nil || s.GetQueueHead().GetTxId() != lost ||
		s.GetQueueHead().GetRequestId() != "lost" ||
		s.GetQueueHead().Nonce != nil ||
		s.GetQueueHead().GetCreateTime() == nil {
		t.Errorf("waiting: %v and %v", s.GetBlocking(), s.GetQueueHead())
	}
	if g := s.GetGaps(); len(g) != 1 || g[0].GetTxId() != lost || g[0].GetFirstNonce() != 1 ||
		g[0].GetLastNonce() != 1 {
		t.Errorf("gaps: %v", g)
	}
}

// staleStore does not see pending commands, like a node that reads just before another one writes.
type staleStore struct{ Store }

func (staleStore) Inboxes(context.Context, []txn.SubmitterID,
	...int) (map[txn.SubmitterID]store.Inbox, error) {
	return nil, nil
}

// FAIL means not executed, so the intent may be sent again. Two equal decisions at the same time
// both return OK, although the owner rejects the second command; a different one does not.
func TestResolveStuck_ConcurrentFail_BothOK(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve(func(o *Options) { o.Store = staleStore{h.store} })
	id := n.create("alice", "r1").GetTxId()
	o.allocate(txID(t, id))
	o.loseNonce(txID(t, id))
	answers := make(chan error, 3)
	ask := func(decision pb.StuckDecision) {
		tx, err := n.resolve(id, decision)
		if err == nil &&
			(tx.GetState() != pb.TxState_TX_STATE_FAILED_FINAL ||
				tx.GetExecuted() != pb.Executed_EXECUTED_NO || !tx.GetRetrySafe()) {
			err = fmt.Errorf("failed: %v", tx)
		}
		answers <- err
	}
	go ask(fail)
	go ask(fail)
	h.eventually("two commands", func() bool { return len(o.commands()) == 2 })
	go ask(requeue)
	h.eventually("three commands", func() bool { return len(o.commands()) == 3 })
	o.decide(at(1))
	refused := 0
	for range 3 {
		if err := <-answers; err != nil {
			wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED")
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d rejected, want only the different decision", refused)
	}
}

// The second command finds no protection, but its goal is reached.
func TestExitProtect_Concurrent_BothOK(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve(func(o *Options) { o.Store = staleStore{h.store} })
	o.protect()
	answers := make(chan error, 3)
	ask := func(decision pb.ProtectionDecision) {
		_, err := n.exit(1, decision)
		answers <- err
	}
	go ask(resume)
	go ask(resume)
	h.eventually("two commands", func() bool { return len(o.commands()) == 2 })
	go ask(align)
	h.eventually("three commands", func() bool { return len(o.commands()) == 3 })
	o.decide(at(0))
	refused := 0
	for range 3 {
		if err := <-answers; err != nil {
			wantStatus(t, err, codes.Aborted, "PROTECTION_CHANGED")
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d rejected, want only the different decision", refused)
	}
	// The first command ended it, not the newest.
	_, err := n.exit(1, resume)
	h.must(err)
	_, err = n.exit(1, align)
	wantStatus(t, err, codes.Aborted, "PROTECTION_CHANGED")
}

// Calls that wait for an owner have time for it. All others end when the database does not respond.
func TestTimeout_MethodsThatWait_Longer(t *testing.T) {
	t.Parallel()
	quick := []string{
		"RegisterSubmitter",
		"GetSubmitter",
		"ListSubmitters",
		"ListCommands",
		"CreateTx",
		"BatchCreateTx",
		"SimulateTx",
		"GetTx",
		"ListTxs",
		"CancelTx",
		"ApproveTx",
		"DenyTx",
		"GetStatus",
		"ListNodes",
		"ListChains",
		"ListBalances",
		"ListCosts",
	}
	for _, service := range []grpc.ServiceDesc{pb.SubmitterService_ServiceDesc,
		pb.TxService_ServiceDesc, pb.StatusService_ServiceDesc} {
		for _, m := range service.Methods {
			if full := "/" + service.ServiceName + "/" + m.MethodName; rpc.AwaitsOwner(
				full) == slices.Contains(
				quick,
				m.MethodName,
			) {
				t.Errorf("%s waits for an owner: %v", m.MethodName, rpc.AwaitsOwner(full))
			}
		}
	}
}

func TestListCommands_Pages(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	id := n.create("alice", "r1").GetTxId()
	o.allocate(txID(t, id))
	end := o.runDecisions(at(0))
	n.protect()
	_, err := n.exit(1, resume)
	h.must(err)
	_, err = n.subs.PauseSubmitter(h.ctx,
		&pb.PauseSubmitterRequest{Submitter: "alice", Reason: "moving"})
	h.must(err)
	end()
	_, err = n.txs.CancelTx(h.ctx, &pb.CancelTxRequest{TxId: id})
	h.must(err)

	got, ask := []string{}, &pb.ListCommandsRequest{Submitter: "alice", PageSize: 2}
	for pages := 0; pages == 0 || ask.GetPageToken() != ""; pages++ {
		r, err := n.subs.ListCommands(h.ctx, ask)
		h.must(err)
		if len(r.GetCommands()) > 2 {
			t.Errorf("a page of %d, want 2 at most", len(r.GetCommands()))
		}
		for _, c := range r.GetCommands() {
			if c.GetCommandId() < 1 || c.GetCreateTime() == nil ||
				(c.GetApplyTime() == nil) != (c.GetResult() == "") {
				t.Errorf("command %v", c)
			}
			got = append(
				got,
				fmt.Sprint(c.GetKind(), ",", c.GetAction(), ",", c.GetReason(), ",",
					c.GetOperator(), ",", c.GetTxId() == id, ",", c.GetResult()),
			)
		}
		ask.PageToken = r.GetNextPageToken()
	}
	want := []string{
		"CANCEL,,,,true,",
		"PAUSE,,moving,,false,APPLIED",
		"EXIT_PROTECT,RESUME,looked,ops,false,APPLIED",
		"PROTECT,,key may have leaked,ops,false,APPLIED",
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed\n%q, want\n%q", got, want)
	}
}

package e2e

import (
	"context"
	"encoding/binary"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// The steps of the frozen-owner tests; see commitCases.

func (f *frozen) nothing() {}

// auditDepth is the depth that no reorg is assumed to reach: four times the nodes' confirmations.
const auditDepth = 12

func (f *frozen) chain(method string, args ...any) {
	if err := f.cl.chain.Client.Client().CallContext(
		context.Background(), nil, method, args...,
	); err != nil {
		f.t.Errorf("%s: %v", method, err)
	}
}

func (f *frozen) mine()        { f.chain("dev_mine", 1) }
func (f *frozen) dropPending() { f.chain("dev_dropPending") }

// reorg removes the block of the first transaction and all above it. Their transactions return to
// the pool.
func (f *frozen) reorg() {
	f.t.Helper()
	var block uint64
	f.scan(&block, "SELECT receipt_block FROM managed_tx WHERE tx_id = $1", f.tx)
	f.chain("dev_reorg", f.head()-block+1, "return")
}

func (f *frozen) head() uint64 {
	f.t.Helper()
	head, err := f.cl.chain.BlockNumber(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	return head
}

// reverting is refused before it has a nonce, and failed once that was so on some blocks.
func (f *frozen) reverting() *fencepostv1.Payload {
	return &fencepostv1.Payload{Data: []byte{0x60, 0, 0x60, 0, 0xfd}}
}

// revertingOnceSent reverts in each block after the newest.
func (f *frozen) revertingOnceSent() *fencepostv1.Payload {
	head := binary.BigEndian.AppendUint32(nil, uint32(f.head()))
	code := append(
		[]byte{0x43, 0x63},
		head...) // NUMBER, the newest
	code = append(code, 0x10, 0x60, 0x0b, 0x57, 0x00, 0x5b, 0x60, 0x00, 0x60, 0x00,
		0xfd) // if the latter is less, go to 0x0b; stop; 0x0b: revert
	return &fencepostv1.Payload{Data: code}
}

// awaits waits until the ledger has an event, from any node.
func awaits(kind txn.Kind) func(*frozen, *member) {
	return func(f *frozen, _ *member) { f.awaitEvent(kind) }
}

func (f *frozen) awaitEvent(kind txn.Kind) {
	f.t.Helper()
	eventually(f.t, 40*time.Second, string(kind)+" is reported", func() error {
		if f.kind.mines {
			f.mine()
		}
		return f.holds("SELECT count(*) > 0 FROM tx_event WHERE submitter_id = $1 AND kind = $2",
			string(kind))
	})
}

func (f *frozen) createDuring(other *member) {
	other.node.create(f.t, f.submitter, "during", transfer)
}

// haveCancelled has the form that cancels in a block, with one less above it than makes it final.
func (f *frozen) haveCancelled(m *member) {
	f.t.Helper()
	f.must(func(ctx context.Context) error {
		_, err := m.CancelTx(ctx, &fencepostv1.CancelTxRequest{TxId: f.tx})
		return err
	})
	f.await("the cancel is in the pool", "accepted_attempt = 2")
	f.mineAndFollow(3)
}

// haveSecond has another one wait for its turn.
func (f *frozen) haveSecond(m *member) { m.node.create(f.t, f.submitter, "second", transfer) }

// haveLate is haveSecond of one whose deadline passes meanwhile.
func (f *frozen) haveLate(m *member) {
	f.t.Helper()
	f.must(func(ctx context.Context) error {
		_, err := m.CreateTx(ctx, &fencepostv1.CreateTxRequest{
			Submitter: f.submitter, RequestId: "second", Payload: transfer,
			Terms: &fencepostv1.Terms{NotAfter: timestamppb.New(time.Now().Add(2 * time.Second))},
		})
		return err
	})
	f.await("the deadline has passed", "bool_or(not_after < clock_timestamp())")
}

// haveMore has one in the pool, and another one that waits for its turn for as long as that is in
// no block.
func (f *frozen) haveMore(m *member) {
	f.t.Helper()
	f.haveSecond(m)
	f.await("the second is sent", "count(*) FILTER (WHERE state = 'TRACKING') = 1")
	m.node.create(f.t, f.submitter, "third", transfer)
}

func (f *frozen) haveReorged(m *member) {
	f.t.Helper()
	f.haveMore(m)
	f.reorg()
	f.awaitProtection()
}

func (f *frozen) haveStuck(*member) {
	f.t.Helper()
	f.awaitEvent(txn.EventStuck)
}

// loseNonce uses the nonce of the broadcast transaction elsewhere.
func (f *frozen) loseNonce(*member) {
	f.t.Helper()
	if _, err := f.cl.chain.spend(f.key, 0); err != nil {
		f.t.Fatal(err)
	}
	f.mine()
}

func (f *frozen) haveLost(m *member) {
	f.t.Helper()
	f.loseNonce(m)
	eventually(f.t, 20*time.Second, "the lost nonce is found", func() error {
		f.mine()
		return f.isProtected()
	})
	f.chain("dev_mine", auditDepth)
}

// failLost fails the transaction that has lost its nonce, once it is reported.
func (f *frozen) failLost(other *member) {
	f.t.Helper()
	f.awaitEvent(txn.EventStuck)
	f.chain("dev_mine", auditDepth)
	eventually(f.t, 20*time.Second, "it is failed", func() error {
		_, err := other.ResolveStuck(f.t.Context(),
			f.decision(fencepostv1.StuckDecision_STUCK_DECISION_FAIL))
		return err
	})
	f.exitProtection(other, 1)
}

// haveForeign queues a transaction under a protection and uses the next nonce elsewhere.
func (f *frozen) haveForeign(m *member) {
	f.t.Helper()
	f.haveSecond(m)
	f.protectAndAwait(m)
	f.mine()
	f.await("the first is in a block", "bool_or(sub_state = 'INCLUDED')")
	if _, err := f.cl.chain.spend(f.key, 1); err != nil {
		f.t.Fatal(err)
	}
	f.chain("dev_mine", auditDepth+1)
}

func (f *frozen) pauseOnFailure(m *member) {
	f.t.Helper()
	f.must(func(ctx context.Context) error {
		_, err := m.UpdateSubmitter(ctx, &fencepostv1.UpdateSubmitterRequest{
			Submitter: f.submitter, OnFailure: fencepostv1.FailurePolicy_FAILURE_POLICY_PAUSE,
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"on_failure"}},
		})
		return err
	})
}

func (f *frozen) pauseNow(m *member) {
	f.t.Helper()
	f.must(func(ctx context.Context) error {
		_, err := m.PauseSubmitter(ctx, &fencepostv1.PauseSubmitterRequest{Submitter: f.submitter})
		return err
	})
}

func (f *frozen) resumeNow(m *member) {
	f.t.Helper()
	f.must(func(ctx context.Context) error {
		_, err := m.ResumeSubmitter(ctx,
			&fencepostv1.ResumeSubmitterRequest{Submitter: f.submitter})
		return err
	})
}

// pauseAgain and resumeAgain revert the effect of the held commit, once the other node has made it.
func (f *frozen) pauseAgain(other *member) {
	f.t.Helper()
	f.awaitStatus(txn.Active)
	f.pauseNow(other)
}

func (f *frozen) resumeAgain(other *member) {
	f.t.Helper()
	f.awaitStatus(txn.Paused)
	f.resumeNow(other)
}

func (f *frozen) awaitStatus(status txn.SubmitterStatus) {
	f.t.Helper()
	eventually(f.t, 20*time.Second, "the submitter is "+string(status), func() error {
		return f.holds("SELECT status = $2 FROM submitter WHERE submitter_id = $1", string(status))
	})
}

func (f *frozen) awaitProtection() {
	f.t.Helper()
	eventually(f.t, 20*time.Second, "the submitter is protected", f.isProtected)
}

func (f *frozen) isProtected() error {
	return f.holds(
		"SELECT protect_reason IS NOT NULL FROM submitter_nonce_cursor WHERE submitter_id = $1")
}

// protectAndAwait has a node protect the submitter.
func (f *frozen) protectAndAwait(through *member) {
	f.t.Helper()
	f.must(func(ctx context.Context) error {
		_, err := through.ProtectSubmitter(ctx, f.protection())
		return err
	})
}

// exitProtection ends a protection.
func (f *frozen) exitProtection(through *member, id int64) {
	f.t.Helper()
	eventually(f.t, 20*time.Second, "the protection is ended", func() error {
		_, err := through.ExitProtect(f.t.Context(),
			f.ending(id, fencepostv1.ProtectionDecision_PROTECTION_DECISION_RESUME))
		return err
	})
}

func (f *frozen) exitFirstProtection(through *member)  { f.exitProtection(through, 1) }
func (f *frozen) exitSecondProtection(through *member) { f.exitProtection(through, 2) }

func (f *frozen) exitProtectionAgain(other *member) {
	f.t.Helper()
	f.awaitProtection()
	f.exitProtection(other, 1)
}

func (f *frozen) protectAgain(other *member) {
	f.t.Helper()
	f.exitProtection(other, 1) // new blocks may have refused the first
	f.protectAndAwait(other)
}

// must retries only while no node is available.
func (f *frozen) must(call func(context.Context) error) {
	f.t.Helper()
	eventually(f.t, 20*time.Second, "the call is answered", func() error {
		err := call(f.t.Context())
		if err != nil && status.Code(err) != codes.Unavailable {
			f.t.Fatal(err)
		}
		return err
	})
}

func (f *frozen) cancel() {
	f.call(
		func(ctx context.Context, m *member) {
			_,
				_ = m.CancelTx(ctx, &fencepostv1.CancelTxRequest{TxId: f.tx})
		})
}

func (f *frozen) speedUp() {
	f.call(func(ctx context.Context, m *member) {
		_, _ = m.SpeedUpTx(ctx, &fencepostv1.SpeedUpTxRequest{TxId: f.tx})
	})
}

func (f *frozen) retry()   { f.resolve(fencepostv1.StuckDecision_STUCK_DECISION_RETRY) }
func (f *frozen) requeue() { f.resolve(fencepostv1.StuckDecision_STUCK_DECISION_REQUEUE) }

func (f *frozen) resolve(how fencepostv1.StuckDecision) {
	f.call(func(ctx context.Context, m *member) { _, _ = m.ResolveStuck(ctx, f.decision(how)) })
}

func (f *frozen) decision(how fencepostv1.StuckDecision) *fencepostv1.ResolveStuckRequest {
	return &fencepostv1.ResolveStuckRequest{
		TxId:     f.tx,
		Decision: how,
		Reason:   "the test goes on",
		Operator: "e2e",
	}
}

func (f *frozen) update() {
	f.call(func(ctx context.Context, m *member) {
		_, _ = m.UpdateSubmitter(
			ctx,
			&fencepostv1.UpdateSubmitterRequest{
				Submitter:  f.submitter,
				MaxFee:     "1000000000000",
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"max_fee"}},
			},
		)
	})
}

func (f *frozen) pause() {
	f.call(func(ctx context.Context, m *member) {
		_, _ = m.PauseSubmitter(ctx, &fencepostv1.PauseSubmitterRequest{Submitter: f.submitter})
	})
}

func (f *frozen) resume() {
	f.call(func(ctx context.Context, m *member) {
		_, _ = m.ResumeSubmitter(ctx, &fencepostv1.ResumeSubmitterRequest{Submitter: f.submitter})
	})
}

func (f *frozen) protect() {
	f.call(func(ctx context.Context, m *member) { _, _ = m.ProtectSubmitter(ctx, f.protection()) })
}

func (f *frozen) exitProtect() {
	f.decideProtection(fencepostv1.ProtectionDecision_PROTECTION_DECISION_RESUME)
}
func (f *frozen) align() {
	f.decideProtection(fencepostv1.ProtectionDecision_PROTECTION_DECISION_ALIGN_FORWARD)
}

func (f *frozen) decideProtection(how fencepostv1.ProtectionDecision) {
	f.call(func(ctx context.Context, m *member) { _, _ = m.ExitProtect(ctx, f.ending(1, how)) })
}

func (f *frozen) protection() *fencepostv1.ProtectSubmitterRequest {
	return &fencepostv1.ProtectSubmitterRequest{
		Submitter: f.submitter,
		Reason:    "a test",
		Operator:  "e2e",
	}
}

func (f *frozen) ending(id int64,
	how fencepostv1.ProtectionDecision) *fencepostv1.ExitProtectRequest {
	return &fencepostv1.ExitProtectRequest{
		Submitter:    f.submitter,
		ProtectionId: id,
		Decision:     how,
		Reason:       "the test goes on",
		Operator:     "e2e",
	}
}

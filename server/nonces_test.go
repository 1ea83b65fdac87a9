package server

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// external registers a submitter in mode EXTERNAL whose owner answers requests by the rules of
// package txn, without a chain.
func (h *harness) external(name string) txn.SubmitterID {
	h.t.Helper()
	id := h.register(name)
	mode := txn.External
	h.must(h.store.SetPolicies(h.ctx, id, store.PolicyChange{Mode: &mode}))
	leases, err := h.store.Acquire(h.ctx, []txn.SubmitterID{id})
	h.must(err)
	if _, err := h.store.Commit(leases[0], txn.Change{
		Init: &txn.CursorInit{Block: 1, BlockHash: txn.Hash{1}}}); err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(h.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			h.answerNonces(ctx, leases[0])
		}
	}()
	h.t.Cleanup(func() { stop(); <-done })
	return id
}

// answerNonces takes one step of an owner.
func (h *harness) answerNonces(ctx context.Context, l *store.Lease) {
	of, err := h.store.NonceRequests(ctx, []txn.SubmitterID{l.Submitter()})
	if err != nil || len(of[l.Submitter()]) == 0 {
		return
	}
	ledger, err := h.store.Load(ctx, l)
	if err != nil {
		return
	}
	v := txn.View{
		Now: time.Now(), Submitter: ledger.Submitter, Cursor: ledger.Cursor, Open: ledger.Open,
		Account:   &txn.Account{},
		Inclusion: func(txn.Hash) txn.Inclusion { return txn.Inclusion{Known: true} },
		External: txn.ExternalView{
			Nonces: ledger.Nonces, Requests: of[l.Submitter()], ReadAt: time.Now(),
		},
	}
	if step, ok := txn.Decide(&v).(txn.Record); ok {
		_, _ = h.store.Commit(l, step.Change) // a lost one is decided again
	}
}

// withToken returns the context of a call with a token.
func withToken(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

func withNonces(o *Options) { o.Nonces = NonceOptions{Enabled: true} }

func TestNonces_AllocateReportRelease(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.external("alice")
	n := h.serve(withNonces)
	nonces := pb.NewNonceServiceClient(n.conn)
	seen := map[string]bool{}
	allocate := func(key string) *pb.Nonce {
		t.Helper()
		r, err := nonces.AllocateNonce(h.ctx, &pb.AllocateNonceRequest{
			Submitter: "alice", RequestId: key, Holder: "test", Ttl: durationpb.New(time.Minute)})
		h.must(err)
		if r.GetCreated() != !seen[key] {
			t.Fatalf("%s: created is %v", key, r.GetCreated())
		}
		seen[key] = true
		return r.GetNonce()
	}
	first := allocate("k0")
	if again := allocate("k0"); again.GetReservationId() != first.GetReservationId() ||
		first.GetNonce() != 0 || first.GetState() != pb.NonceState_NONCE_STATE_RESERVED ||
		first.GetHolder() != "test" || first.GetExpireTime() == nil {
		t.Fatalf("allocated %v, repeated %v", first, again)
	}
	_, err := nonces.AllocateNonce(h.ctx, &pb.AllocateNonceRequest{
		Submitter: "alice", RequestId: "k0", Holder: "another process"})
	wantStatus(t, err, codes.AlreadyExists, "IDEMPOTENCY_KEY_REUSED")
	_, err = nonces.GetNonce(h.ctx, &pb.GetNonceRequest{ReservationId: "x"})
	if err == nil || !strings.Contains(err.Error(), "as returned by AllocateNonce") {
		t.Errorf("not a reservation: %v", err)
	}
	second := allocate("k1")
	released, err := nonces.ReleaseNonce(h.ctx, &pb.ReleaseNonceRequest{
		ReservationId: second.GetReservationId(), NeverSigned: true, Reason: "not needed"})
	h.must(err)
	if got := released.GetNonce(); got.GetState() != pb.NonceState_NONCE_STATE_RECYCLABLE ||
		got.GetReason() != txn.NonceNeverSigned {
		t.Fatalf("released: %v", got)
	}
	reported, err := nonces.RecordNonceHash(h.ctx, &pb.RecordNonceHashRequest{
		ReservationId: first.GetReservationId(), TxHash: txn.Hash{7}.Hex()})
	h.must(err)
	if got := reported.GetNonce(); got.GetState() != pb.NonceState_NONCE_STATE_PENDING ||
		len(got.GetTxHashes()) != 1 {
		t.Fatalf("reported: %v", got)
	}
	_, err = nonces.ReleaseNonce(h.ctx, &pb.ReleaseNonceRequest{
		ReservationId: first.GetReservationId(), NeverSigned: true})
	wantStatus(t, err, codes.FailedPrecondition, "NONCE_STATE")
	// no handler runs for a nonce that is not RESERVED, so any process may wait for it
	if r, err := nonces.AllocateNonce(h.ctx, &pb.AllocateNonceRequest{Submitter: "alice",
		RequestId: "k0", Holder: "another process"}); err != nil || r.GetCreated() ||
		r.GetNonce().GetState() != pb.NonceState_NONCE_STATE_PENDING {
		t.Fatalf("%v, %v", r, err)
	}
	// the released reservation names its nonce no more
	ended := func() {
		t.Helper()
		_, err := nonces.AllocateNonce(h.ctx, &pb.AllocateNonceRequest{Submitter: "alice",
			RequestId: "k1"})
		wantStatus(t, err, codes.FailedPrecondition, "NONCE_STATE")
	}
	ended()
	third := allocate("k2")
	if third.GetNonce() != 1 {
		t.Fatalf("the released nonce is not reserved again: %v", third)
	}
	ended()
	// it shows its own end, and not the reservation that has the nonce now
	shown, err := nonces.GetNonce(h.ctx, &pb.GetNonceRequest{
		ReservationId: second.GetReservationId()})
	h.must(err)
	if got := shown.GetNonce(); got.GetReservationId() != second.GetReservationId() ||
		got.GetNonce() != 1 || got.GetState() != pb.NonceState_NONCE_STATE_RECYCLABLE ||
		got.GetReason() != txn.NonceNeverSigned || got.GetMessage() != "not needed" ||
		got.GetHolder() != "test" || got.GetStateTime() == nil || got.GetExpireTime() != nil {
		t.Fatalf("the ended reservation shows %v", got)
	}
	again, err := nonces.ReleaseNonce(h.ctx, &pb.ReleaseNonceRequest{
		ReservationId: second.GetReservationId(), NeverSigned: true})
	h.must(err)
	if again.GetNonce().GetReservationId() != second.GetReservationId() {
		t.Fatalf("released again: %v", again)
	}
	if got, err := nonces.GetNonce(h.ctx, &pb.GetNonceRequest{Submitter: "alice",
		Nonce: 1}); err != nil ||
		got.GetNonce().GetReservationId() != third.GetReservationId() {
		t.Fatalf("%v, %v", got, err)
	}
	// its holder signed after all: refused, and shown
	_, err = nonces.RecordNonceHash(h.ctx, &pb.RecordNonceHashRequest{
		ReservationId: second.GetReservationId(), TxHash: txn.Hash{8}.Hex()})
	wantStatus(t, err, codes.FailedPrecondition, "NONCE_STATE")
	shown, err = nonces.GetNonce(h.ctx, &pb.GetNonceRequest{Submitter: "alice", Nonce: 1})
	h.must(err)
	if n := shown.GetNonce(); !n.GetNeedsOperator() || n.GetReason() != txn.NonceFormerSigned ||
		len(n.GetTxHashes()) != 1 {
		t.Fatalf("shown as %v", n)
	}
	page, err := nonces.ListNonces(h.ctx, &pb.ListNoncesRequest{Submitter: "alice", PageSize: 1})
	h.must(err)
	next, err := nonces.ListNonces(h.ctx, &pb.ListNoncesRequest{Submitter: "alice", PageSize: 1,
		PageToken: page.GetNextPageToken()})
	h.must(err)
	if len(page.GetNonces()) != 1 || page.GetNonces()[0].GetNonce() != 1 ||
		len(next.GetNonces()) != 1 || next.GetNonces()[0].GetNonce() != 0 ||
		next.GetNextPageToken() != "" {
		t.Fatalf("pages %v and %v", page, next)
	}
}

func TestNonces_Refusals(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.external("alice")
	h.register("bob")
	on, off := h.serve(withNonces), h.serve()
	allocate := func(n *node, submitter string) error {
		_, err := pb.NewNonceServiceClient(n.conn).AllocateNonce(h.ctx,
			&pb.AllocateNonceRequest{Submitter: submitter, RequestId: "k"})
		return err
	}
	wantStatus(t, allocate(off, "alice"), codes.FailedPrecondition, "NONCE_API_DISABLED")
	wantStatus(t, allocate(on, "bob"), codes.FailedPrecondition, "SUBMITTER_MODE")
	_, err := on.txs.CreateTx(h.ctx, &pb.CreateTxRequest{Submitter: "alice", RequestId: "r",
		Payload: payload()})
	wantStatus(t, err, codes.FailedPrecondition, "SUBMITTER_MODE")
	_, err = pb.NewNonceServiceClient(on.conn).ReleaseNonce(h.ctx, &pb.ReleaseNonceRequest{
		ReservationId: "0b4ac48f-6a4d-4b2e-9f4a-7c7c0c0a1b11", NeverSigned: true})
	wantStatus(t, err, codes.NotFound, "NONCE_NOT_FOUND")
	_, err = pb.NewNonceServiceClient(on.conn).ReleaseNonce(h.ctx, &pb.ReleaseNonceRequest{
		ReservationId: "0b4ac48f-6a4d-4b2e-9f4a-7c7c0c0a1b11"})
	wantStatus(t, err, codes.InvalidArgument, "INVALID_FIELD")
	for size, refused := range map[int]struct {
		code   codes.Code
		reason string
	}{
		128 << 10:   {codes.NotFound, "NONCE_NOT_FOUND"},
		128<<10 + 1: {codes.InvalidArgument, "INVALID_FIELD"},
	} {
		_, err = pb.NewNonceServiceClient(on.conn).SubmitSigned(h.ctx, &pb.SubmitSignedRequest{
			ReservationId: "0b4ac48f-6a4d-4b2e-9f4a-7c7c0c0a1b11", RawTx: make([]byte, size)})
		wantStatus(t, err, refused.code, refused.reason)
	}
}

// TestNonces_OtherCaller_Denied: a reservation is used by the caller that made it, and nonces are
// for callers with the right to them.
func TestNonces_OtherCaller_Denied(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.external("alice")
	n := h.serve(withNonces, func(o *Options) {
		for name, nonces := range map[string]bool{"one": true, "two": true, "plain": false} {
			o.Callers = append(o.Callers, auth.Caller{Name: name, Tokens: []string{name + "-token"},
				Submitters: []string{"alice"}, Nonces: nonces})
		}
	})
	nonces := pb.NewNonceServiceClient(n.conn)
	r, err := nonces.AllocateNonce(withToken(h.ctx, "one-token"),
		&pb.AllocateNonceRequest{Submitter: "alice", RequestId: "k"})
	h.must(err)
	_, err = nonces.AllocateNonce(withToken(h.ctx, "two-token"),
		&pb.AllocateNonceRequest{Submitter: "alice", RequestId: "k"})
	wantStatus(t, err, codes.AlreadyExists, "IDEMPOTENCY_KEY_REUSED")
	release := &pb.ReleaseNonceRequest{ReservationId: r.GetNonce().GetReservationId(),
		NeverSigned: true}
	for _, token := range []string{"two-token", "plain-token"} {
		_, err = nonces.ReleaseNonce(withToken(h.ctx, token), release)
		wantStatus(t, err, codes.PermissionDenied, "PERMISSION_DENIED")
	}
	_, err = nonces.ResolveNonce(withToken(h.ctx, "one-token"), &pb.ResolveNonceRequest{
		Submitter: "alice", ReservationId: release.GetReservationId(), Reason: "x",
		Decision: pb.NonceDecision_NONCE_DECISION_NEVER_SIGNED})
	wantStatus(t, err, codes.PermissionDenied, "PERMISSION_DENIED")
	_, err = nonces.ReleaseNonce(withToken(h.ctx, "one-token"), release)
	h.must(err)
	// also once another reservation has the nonce
	_, err = nonces.AllocateNonce(withToken(h.ctx, "two-token"),
		&pb.AllocateNonceRequest{Submitter: "alice", RequestId: "k2"})
	h.must(err)
	_, err = nonces.RecordNonceHash(withToken(h.ctx, "two-token"), &pb.RecordNonceHashRequest{
		ReservationId: release.GetReservationId(), TxHash: txn.Hash{7}.Hex()})
	wantStatus(t, err, codes.PermissionDenied, "PERMISSION_DENIED")
}

func TestNonces_NeedsOperator_ListedAndCounted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, name := range []string{"alice", "bob", "carol"} {
		h.external(name)
	}
	n := h.serve(statusCallers, withNonces)
	ops := withToken(h.ctx, tokenOf("ops"))
	nonces := pb.NewNonceServiceClient(n.conn)
	for _, name := range []string{"alice", "bob", "carol"} {
		r, err := nonces.AllocateNonce(ops,
			&pb.AllocateNonceRequest{Submitter: name, RequestId: "k0"})
		h.must(err)
		_, err = nonces.QuarantineNonce(ops,
			&pb.QuarantineNonceRequest{ReservationId: r.GetNonce().GetReservationId()})
		h.must(err)
	}
	_, err := h.db.Pool.Exec(h.ctx, `UPDATE external_nonce SET needs_operator = TRUE,
		version = version + 1 WHERE submitter_id IN
		(SELECT submitter_id FROM submitter WHERE name IN ('alice', 'bob'))`)
	h.must(err)
	for caller, want := range map[string][]string{"one": {"alice"}, "ops": {"alice", "bob"}} {
		ctx := withToken(h.ctx, tokenOf(caller))
		listed, err := n.subs.ListSubmitters(ctx, &pb.ListSubmittersRequest{
			Conditions: []pb.SubmitterCondition{
				pb.SubmitterCondition_SUBMITTER_CONDITION_NONCE_NEEDS_OPERATOR,
			},
		})
		h.must(err)
		var names []string
		for _, s := range listed.GetSubmitters() {
			names = append(names, s.GetName())
		}
		got, err := n.status.GetStatus(ctx, &pb.GetStatusRequest{})
		h.must(err)
		count := got.GetTotals().GetUndecidedNonces()
		if !slices.Equal(names, want) || count != int64(len(want)) {
			t.Errorf("%s: %v and %d, want %v", caller, names, count, want)
		}
	}
}

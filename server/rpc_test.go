package server

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func TestCreateTx_SameKeyManyClients_OneTransaction(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	nodes := []*node{h.serve(), h.serve(func(o *Options) { o.Store = h.open("b") })}
	responses := make([]*pb.CreateTxResponse, 100)
	var wg sync.WaitGroup
	for i := range responses {
		wg.Go(func() {
			var err error
			ask := &pb.CreateTxRequest{Submitter: "alice", RequestId: "r1", Payload: payload()}
			if responses[i], err = nodes[i%2].txs.CreateTx(h.ctx, ask); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	created := 0
	for _, r := range responses {
		if r.GetTx().GetTxId() != responses[0].GetTx().GetTxId() ||
			r.GetTx().GetRequestId() != "r1" ||
			r.GetTx().GetVersion() != 1 {
			t.Errorf("responses differ: %v and %v", r.GetTx(), responses[0].GetTx())
		}
		if r.GetCreated() {
			created++
		}
	}
	if rows := h.count("managed_tx"); created != 1 || rows != 1 {
		t.Errorf("%d responses report created, %d rows; want 1 and 1",
			created, rows)
	}
}

func TestGetTx_Lifecycle(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	ask := &pb.CreateTxRequest{
		Submitter: "alice",
		RequestId: "r1",
		Payload: &pb.Payload{
			To:       strings.ToLower(recipient),
			Value:    "7",
			Data:     []byte{1, 2},
			GasLimit: 50_000,
		},
	}
	r, err := n.txs.CreateTx(h.ctx, ask)
	h.must(err)
	tx := r.GetTx()
	if tx.GetState() != pb.TxState_TX_STATE_QUEUED ||
		tx.GetExecuted() != pb.Executed_EXECUTED_UNKNOWN ||
		tx.GetRetrySafe() ||
		tx.GetFinalTime() != nil {
		t.Errorf("created: %v", tx)
	}
	if p := tx.GetPayload(); p.GetTo() != recipient || p.GetValue() != "7" ||
		!bytes.Equal(p.GetData(), []byte{1, 2}) ||
		p.GetGasLimit() != 50_000 {
		t.Errorf("the payload came back as %v", p)
	}
	o.finalize(txID(t, tx.GetTxId()))

	byKey, err := n.txs.GetTx(h.ctx, byKey("alice", "r1"))
	h.must(err)
	tx = byKey.GetTx()
	if tx.GetState() != pb.TxState_TX_STATE_CONFIRMED ||
		tx.GetExecuted() != pb.Executed_EXECUTED_SUCCESS ||
		tx.GetRetrySafe() ||
		tx.GetVersion() != 5 ||
		tx.GetFinalTime() == nil ||
		tx.GetReceipt().GetEffectiveGasPrice() != "1500000000" ||
		tx.GetReceipt().GetTxHash() != tx.GetTxHash() {
		t.Errorf("confirmed: %v", tx)
	}
	if tx.GetOperator() != nil {
		t.Errorf("the operator view is returned without a request: %v", tx.GetOperator())
	}
	full, err := n.txs.GetTx(h.ctx,
		&pb.GetTxRequest{Key: byID(tx.GetTxId()).Key, View: pb.TxView_TX_VIEW_OPERATOR})
	h.must(err)
	details := full.GetTx().GetOperator()
	if details.Nonce == nil || details.GetNonce() != 0 ||
		details.GetFencingToken() != int64(o.lease.Token()) ||
		len(details.GetAttempts()) != 1 ||
		details.GetAttempts()[0].GetFeeCap() != "2000000000" ||
		details.GetAttempts()[0].GetKind() != "ORIGINAL" {
		t.Errorf("operator's view: %v", details)
	}
}

// gRPC clients accept 4 MiB by default. Pages and batch responses with the most call data
// are smaller.
func TestResponses_LargestData_FitClientLimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	want := 0
	for part := range 2 {
		requests := make([]*pb.CreateTxRequest, 33)
		for i := range requests {
			requests[i] = createRequest("alice", fmt.Sprint(part, "-", i), "1")
			requests[i].Payload.Data = make([]byte, 126<<10)
		}
		for _, r := range n.batch(requests...) {
			if want++; !r.GetCreated() || r.GetTx().GetPayload().GetValue() != "1" ||
				r.GetTx().GetPayload().GetData() != nil {
				t.Fatalf("result %d of a batch is %v", want, r)
			}
		}
	}
	got := 0
	for ask := (&pb.ListTxsRequest{}); got == 0 || ask.GetPageToken() != ""; {
		r, err := n.txs.ListTxs(h.ctx, ask)
		h.must(err)
		for _, tx := range r.GetTxs() {
			if len(tx.GetPayload().GetData()) != 126<<10 {
				t.Fatalf("the call data of %s is %d bytes", tx.GetTxId(),
					len(tx.GetPayload().GetData()))
			}
		}
		if got += len(r.GetTxs()); len(r.GetTxs()) == 0 {
			t.Fatal("an empty page")
		}
		ask.PageToken = r.GetNextPageToken()
	}
	if got != want {
		t.Errorf("the pages have %d transactions, want %d", got, want)
	}
	n.http("GET", "/api/v1/tx", "").want(t, 200)
	one := h.serve(func(o *Options) { o.Limits.PayloadBytes = 6 << 20 })
	one.dial(one.conn.Target(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	fillPage := createRequest("alice", "large", "1")
	fillPage.Payload.Data = make([]byte, 5<<20)
	one.batch(fillPage)
	r, err := one.txs.ListTxs(h.ctx, &pb.ListTxsRequest{PageSize: 10})
	h.must(err)
	if len(r.GetTxs()) != 1 || r.GetNextPageToken() == "" {
		t.Errorf("a page with a long row has %d rows", len(r.GetTxs()))
	}
}

func TestListTxs_Pages(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	want := map[string][]string{}
	for _, name := range []string{"alice", "bob"} {
		h.register(name)
		for i := range 5 {
			id := n.create(name, fmt.Sprint(i)).GetTxId()
			want[name], want[""] = append(want[name], id), append(want[""], id)
		}
	}
	for submitter, ids := range want {
		slices.Reverse(ids) // the newest first
		for _, view := range []pb.TxView{pb.TxView_TX_VIEW_BASIC, pb.TxView_TX_VIEW_OPERATOR} {
			got := []string{}
			ask := &pb.ListTxsRequest{
				Submitter: submitter,
				PageSize:  2,
				View:      view,
				States:    []pb.TxState{pb.TxState_TX_STATE_QUEUED},
			}
			for pages := 0; pages == 0 || ask.GetPageToken() != ""; pages++ {
				r, err := n.txs.ListTxs(h.ctx, ask)
				h.must(err)
				for _, tx := range r.GetTxs() {
					got = append(got, tx.GetTxId())
				}
				if len(r.GetTxs()) > 2 {
					t.Errorf("a page of %d, want 2 at most", len(r.GetTxs()))
				}
				ask.PageToken = r.GetNextPageToken()
			}
			if !slices.Equal(got, ids) {
				t.Errorf("of %q the pages have %v, want %v", submitter, got, ids)
			}
		}
	}
	ask := &pb.ListTxsRequest{
		PageSize: 1,
		States:   []pb.TxState{pb.TxState_TX_STATE_STUCK, pb.TxState_TX_STATE_QUEUED},
	}
	first, err := n.txs.ListTxs(h.ctx, ask)
	h.must(err)
	slices.Reverse(ask.States)
	if ask.PageToken = first.GetNextPageToken(); ask.GetPageToken() == "" {
		t.Fatal("one page")
	}
	if _, err := n.txs.ListTxs(h.ctx, ask); err != nil {
		t.Errorf("the same states in another order: %v", err)
	}
	r, err := n.txs.ListTxs(h.ctx,
		&pb.ListTxsRequest{States: []pb.TxState{pb.TxState_TX_STATE_CONFIRMED}})
	h.must(err)
	if len(r.GetTxs()) != 0 || r.GetNextPageToken() != "" {
		t.Errorf("a list of nothing is %v", r)
	}
}

func TestCancelTx(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	cases := []struct {
		name     string
		prepare  func(txn.TxID)
		outcome  pb.CancelOutcome
		state    pb.TxState
		commands int
	}{
		{"queued", func(txn.TxID) {}, pb.CancelOutcome_CANCEL_OUTCOME_CANCELLED,
			pb.TxState_TX_STATE_CANCELLED, 0},
		{"confirmed", o.finalize, pb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FINAL,
			pb.TxState_TX_STATE_CONFIRMED, 0},
		{"allocated", o.allocate, pb.CancelOutcome_CANCEL_OUTCOME_REQUESTED,
			pb.TxState_TX_STATE_ALLOCATED, 1},
	}
	for _, c := range cases {
		id := n.create("alice", c.name).GetTxId()
		c.prepare(txID(t, id))
		for range 2 { // a repeated cancel returns the same
			r, err := n.txs.CancelTx(h.ctx, &pb.CancelTxRequest{TxId: id})
			h.must(err)
			if r.GetOutcome() != c.outcome || r.GetTx().GetState() != c.state {
				t.Errorf("%s: %v in state %v, want %v in %v", c.name, r.GetOutcome(),
					r.GetTx().GetState(), c.outcome, c.state)
			}
			requested := c.outcome != pb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FINAL
			if got := r.GetTx().GetCancelRequested(); got != requested {
				t.Errorf("%s: %v, and cancel_requested is %v", c.name, r.GetOutcome(), got)
			}
			safe := c.state == pb.TxState_TX_STATE_CANCELLED
			if got := r.GetTx().GetRetrySafe(); got != safe {
				t.Errorf("%s: retry_safe is %v", c.name, got)
			}
		}
		if got := len(o.commands()); got != c.commands {
			t.Errorf("%s: %d commands for the owner, want %d", c.name, got, c.commands)
		}
	}
}

// A transaction queued in a restored ledger may have executed since the backup. A cancellation that
// reported it as not executed could make its client pay twice.
func TestCancelTx_Restored_OutcomeUnknown(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	id := n.create("alice", "r1").GetTxId()
	h.must(h.store.Release(h.ctx, []*store.Lease{o.lease}))
	h.recover()
	for range 2 { // a repeated cancel returns the same
		r, err := n.txs.CancelTx(h.ctx, &pb.CancelTxRequest{TxId: id})
		h.must(err)
		tx := r.GetTx()
		if r.GetOutcome() != pb.CancelOutcome_CANCEL_OUTCOME_CANCELLED ||
			tx.GetState() != pb.TxState_TX_STATE_CANCELLED ||
			tx.GetFinalTime() == nil {
			t.Errorf("cancelled: %v", r)
		}
		if tx.GetExecuted() != pb.Executed_EXECUTED_UNKNOWN || tx.GetRetrySafe() ||
			tx.GetReason() != txn.ReasonRestored ||
			!strings.Contains(tx.GetLastError(), "may have executed") {
			t.Errorf("it may have executed, and is reported as %v", tx)
		}
	}
}

func TestSubmitters_RegisterAndList(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	ask := &pb.RegisterSubmitterRequest{
		Name:    "bob",
		ChainId: chainID,
		Address: strings.ToLower(recipient),
		Signer:  "local",
	}
	for i := range 2 {
		r, err := n.subs.RegisterSubmitter(h.ctx, ask)
		h.must(err)
		s := r.GetSubmitter()
		if r.GetCreated() != (i == 0) || s.GetAddress() != recipient ||
			s.GetAccountId() != "eip155:31337:"+recipient ||
			s.GetMode() != pb.SubmitterMode_SUBMITTER_MODE_STRICT ||
			s.GetStartFrom() != "0" ||
			s.NextNonce != nil ||
			s.GetStatus() != pb.SubmitterStatus_SUBMITTER_STATUS_ACTIVE ||
			s.GetLease().GetOwnerNode() != "" ||
			s.GetLease().GetExpireTime() != nil {
			t.Errorf("registered: %v", r)
		}
	}
	for _, name := range []string{"dora", "carl", "anna"} {
		h.register(name)
	}
	o := h.own(h.register("erna"))
	o.protect()
	n.create("bob", "r1")

	names, list := []string{}, &pb.ListSubmittersRequest{PageSize: 2}
	for pages := 0; pages == 0 || list.GetPageToken() != ""; pages++ {
		r, err := n.subs.ListSubmitters(h.ctx, list)
		h.must(err)
		for _, s := range r.GetSubmitters() {
			names = append(names, s.GetName())
		}
		list.PageToken = r.GetNextPageToken()
	}
	if want := []string{"anna", "bob", "carl", "dora", "erna"}; !slices.Equal(names, want) {
		t.Errorf("listed %v, want %v", names, want)
	}
	bob, err := n.subs.GetSubmitter(h.ctx,
		&pb.GetSubmitterRequest{Submitter: "eip155:31337:" + strings.ToLower(recipient)})
	h.must(err)
	if bob.GetSubmitter().GetName() != "bob" || bob.GetSubmitter().GetQueued() != 1 {
		t.Errorf("by account id: %v", bob)
	}
	erna, err := n.subs.GetSubmitter(h.ctx, &pb.GetSubmitterRequest{Submitter: "erna"})
	h.must(err)
	s := erna.GetSubmitter()
	if s.GetLease().GetOwnerNode() != "a/boot" || s.GetProtection().GetEvidence() == "" ||
		s.NextNonce == nil ||
		s.GetLease().GetFencingToken() != 1 {
		t.Errorf("with an owner: %v", s)
	}
}

func TestPauseAndResume_OwnerApplies_Returns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	paused := make(chan error, 1)
	go func() {
		r, err := n.subs.PauseSubmitter(h.ctx,
			&pb.PauseSubmitterRequest{Submitter: "alice", Reason: "audit"})
		if err == nil &&
			r.GetSubmitter().GetStatus() != pb.SubmitterStatus_SUBMITTER_STATUS_PAUSED {
			err = fmt.Errorf("returned before it was applied: %v", r)
		}
		paused <- err
	}()
	h.eventually("the command", func() bool { return len(o.commands()) == 1 })
	if c := o.commands()[0]; c.Kind != txn.CommandPause || c.Reason != "audit" {
		t.Errorf("command %+v", c)
	}
	select {
	case err := <-paused:
		t.Fatalf("returned (%v) before the owner did anything", err)
	default:
	}
	o.apply(o.commands()[0])
	h.must(<-paused)

	// Once paused, the call needs no owner.
	h.must(h.store.Release(h.ctx, []*store.Lease{o.lease}))
	r, err := n.subs.PauseSubmitter(h.ctx, &pb.PauseSubmitterRequest{Submitter: "alice"})
	h.must(err)
	if owner := r.GetSubmitter().GetLease().GetOwnerNode(); owner != "" {
		t.Errorf("the lease is released, but %q is reported as owner", owner)
	}
	if got := h.count("submitter_command"); got != 1 {
		t.Errorf("%d commands, want 1: it is paused already", got)
	}

	o.lease, err = h.store.AcquireOne(h.ctx, o.id)
	h.must(err)
	ctx, stop := context.WithCancel(h.ctx)
	var working sync.WaitGroup
	working.Go(func() { o.work(ctx) })
	defer working.Wait()
	defer stop()
	resumed, err := n.subs.ResumeSubmitter(h.ctx, &pb.ResumeSubmitterRequest{Submitter: "alice"})
	h.must(err)
	if resumed.GetSubmitter().GetStatus() != pb.SubmitterStatus_SUBMITTER_STATUS_ACTIVE {
		t.Errorf("resumed: %v", resumed)
	}
}

// The error precedes the client's own deadline, and a repeated call waits for the same command.
func TestPause_NoOwner_TimesOutWithReason(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(limits(func(l *Limits) { l.CommandWait = 30 * time.Millisecond }))
	for range 2 {
		_, err := n.subs.PauseSubmitter(h.ctx, &pb.PauseSubmitterRequest{Submitter: "alice"})
		wantStatus(t, err, codes.DeadlineExceeded, "NOT_YET_APPLIED")
	}
	patient := h.serve(limits(func(l *Limits) { l.CommandWait = time.Hour }))
	ctx, cancel := context.WithTimeout(h.ctx, 500*time.Millisecond)
	defer cancel()
	_, err := patient.subs.PauseSubmitter(ctx, &pb.PauseSubmitterRequest{Submitter: "alice"})
	wantStatus(t, err, codes.DeadlineExceeded, "NOT_YET_APPLIED")
	if got := h.count("submitter_command"); got != 1 {
		t.Errorf("%d commands, want 1", got)
	}

	// A resume is recorded behind the pause, although the submitter is still active.
	_, err = n.subs.ResumeSubmitter(h.ctx, &pb.ResumeSubmitterRequest{Submitter: "alice"})
	wantStatus(t, err, codes.DeadlineExceeded, "NOT_YET_APPLIED")
	if got := h.count("submitter_command"); got != 2 {
		t.Errorf("%d commands, want 2", got)
	}
}

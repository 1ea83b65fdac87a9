package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// Times have microseconds.
func TestTerms_RoundTrip_PartOfIdempotency(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	create := func(terms *pb.Terms) (*pb.CreateTxResponse, error) {
		return n.txs.CreateTx(h.ctx, &pb.CreateTxRequest{
			Submitter: "alice",
			RequestId: "r1",
			Payload:   payload(),
			Terms:     terms,
		})
	}
	given := &pb.Terms{
		Speed:      pb.TxSpeed_TX_SPEED_FAST,
		MaxFee:     "0030",
		NotAfter:   timestamppb.New(at.Add(999)),
		CancelLate: true,
	}
	first, err := create(given)
	h.must(err)
	want := &pb.Terms{
		Speed:      pb.TxSpeed_TX_SPEED_FAST,
		MaxFee:     "30",
		NotAfter:   timestamppb.New(at),
		CancelLate: true,
	}
	if !proto.Equal(first.GetTx().GetTerms(), want) {
		t.Errorf("created with %v, want %v", first.GetTx().GetTerms(), want)
	}
	given.NotAfter = timestamppb.New(at.Add(1)) // the same to the microsecond
	again, err := create(given)
	h.must(err)
	if again.GetCreated() || again.GetTx().GetTxId() != first.GetTx().GetTxId() ||
		!proto.Equal(again.GetTx().GetTerms(), want) {
		t.Errorf("the same request is %v", again)
	}
	for _, other := range []*pb.Terms{
		nil, {}, {Speed: want.Speed, MaxFee: want.MaxFee, NotAfter: want.NotAfter},
		{Speed: pb.TxSpeed_TX_SPEED_SLOW, MaxFee: "30", NotAfter: want.NotAfter,
			CancelLate: true},
		{Speed: want.Speed, MaxFee: "31", NotAfter: want.NotAfter, CancelLate: true},
		{Speed: want.Speed, MaxFee: "30", NotAfter: timestamppb.New(at.Add(time.Microsecond)),
			CancelLate: true},
	} {
		_, err := create(other)
		wantStatus(t, err, codes.AlreadyExists, "IDEMPOTENCY_KEY_REUSED")
	}
}

func TestTerms_Defaults_EqualNone(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	id := n.create("alice", "r1").GetTxId()
	for _, terms := range []*pb.Terms{nil, {}, {Speed: pb.TxSpeed_TX_SPEED_STANDARD}} {
		r, err := n.txs.CreateTx(h.ctx, &pb.CreateTxRequest{
			Submitter: "alice",
			RequestId: "r1",
			Payload:   payload(),
			Terms:     terms,
		})
		h.must(err)
		if r.GetTx().GetTxId() != id || r.GetTx().GetTerms() != nil {
			t.Errorf("with %v it is %v", terms, r.GetTx())
		}
	}
}

// Deadlines of all years have microseconds. One beyond the range of the contract does not break
// reads or lists.
func TestDeadline_FarYear_Readable(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	for i, text := range []string{"2255-06-05T23:47:34.740993Z", "2300-01-01T00:00:00.123457Z",
		"9999-12-31T23:59:59.999998Z", "9999-12-31T23:59:59.999999999Z"} {
		at, err := time.Parse(time.RFC3339Nano, text)
		h.must(err)
		ask := &pb.CreateTxRequest{
			Submitter: "alice",
			RequestId: fmt.Sprint(i),
			Payload:   payload(),
			Terms:     &pb.Terms{NotAfter: timestamppb.New(at)},
		}
		for range 2 {
			created, err := n.txs.CreateTx(h.ctx, ask)
			h.must(err)
			if got := created.GetTx().GetTerms().GetNotAfter().AsTime(); !got.Equal(
				at.Truncate(time.Microsecond)) {
				t.Errorf("not_after %s is returned as %v", text, got)
			}
		}
		n.http("GET", "/api/v1/tx/by-request?submitter=alice&request_id="+fmt.Sprint(i), "").want(t,
			http.StatusOK)
	}
	_, err := h.db.Pool.Exec(h.ctx,
		// as earlier releases wrote the latest ones
		"UPDATE managed_tx SET not_after = '10000-01-01T00:00:00Z'")
	h.must(err)
	n.http("GET", "/api/v1/tx", "").want(t, http.StatusOK)
}

// skewedClock is a wrong clock.
type skewedClock struct {
	clock.Real
	by time.Duration
}

func (c skewedClock) Now() time.Time { return c.Real.Now().Add(c.by) }

// A new request after its deadline is rejected. The database's clock decides, not the node's.
func TestCreateTx_RepeatedAfterDeadline_SameTransaction(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	ahead, behind := h.serve(func(o *Options) { o.Clock = skewedClock{by: time.Hour} }), h.serve(
		func(o *Options) { o.Clock = skewedClock{by: -time.Hour} })
	soon := time.Now().Add(700 * time.Millisecond)
	ask := &pb.CreateTxRequest{
		Submitter: "alice",
		RequestId: "r1",
		Payload:   payload(),
		Terms:     &pb.Terms{NotAfter: timestamppb.New(soon)},
	}
	first, err := ahead.txs.CreateTx(h.ctx, ask)
	h.must(err)
	h.eventually("the deadline passes", func() bool { return time.Now().After(soon) })
	for _, n := range []*node{ahead, behind} {
		again, err := n.txs.CreateTx(h.ctx, ask)
		h.must(err)
		if !first.GetCreated() || again.GetCreated() ||
			again.GetTx().GetTxId() != first.GetTx().GetTxId() {
			t.Errorf("first %v, after the deadline %v", first, again)
		}
		other := proto.CloneOf(ask)
		other.RequestId = "r2"
		_, err = n.txs.CreateTx(h.ctx, other)
		wantStatus(t, err, codes.InvalidArgument, "INVALID_FIELD")
	}
	if rows := h.count("managed_tx"); rows != 1 {
		t.Errorf("%d transactions, want 1", rows)
	}
}

// The call returns when the replacement is recorded. If none is possible, the error is the owner's
// message.
func TestSpeedUpTx_InFlight_ReplacedOncePerCall(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	id, queued := n.create("alice", "r1").GetTxId(), n.create("alice", "r2").GetTxId()
	speedUp := func(id string) (*pb.Tx, error) {
		r, err := n.txs.SpeedUpTx(h.ctx,
			&pb.SpeedUpTxRequest{TxId: id, Reason: "slow", Operator: "ops"})
		return r.GetTx(), err
	}
	refused := func(id, word string) {
		t.Helper()
		_, err := speedUp(id)
		s := wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED")
		if !strings.HasPrefix(s.Message(), "transaction "+id+": ") ||
			!strings.Contains(s.Message(), word) {
			t.Errorf("%q, want %q", s.Message(), word)
		}
	}
	refused(queued, "QUEUED")
	if got := h.count("submitter_command"); got != 0 {
		t.Errorf("%d commands although no owner is needed", got)
	}
	o.allocate(txID(t, id))
	o.submit(txID(t, id))
	end := o.runDecisions(at(0))
	for attempts := 2; attempts <= 3; attempts++ {
		tx, err := speedUp(id)
		h.must(err)
		if tx.GetTxHash() != (txn.Hash{byte(attempts)}).Hex() ||
			tx.GetState() != pb.TxState_TX_STATE_TRACKING {
			t.Errorf("replaced: %v", tx)
		}
	}
	full, err := n.txs.GetTx(h.ctx,
		&pb.GetTxRequest{Key: byID(id).Key, View: pb.TxView_TX_VIEW_OPERATOR})
	h.must(err)
	all := full.GetTx().GetOperator().GetAttempts()
	if len(all) != 3 || all[1].GetKind() != "BUMP" || all[2].GetFeeCap() <= all[1].GetFeeCap() ||
		len(all[2].GetFeeCap()) != len(all[1].GetFeeCap()) {
		t.Errorf("attempts: %v", all)
	}
	end()
	o.include(txID(t, id))
	o.runDecisions(at(0))
	refused(id, "already included")
	o.confirm(txID(t, id))
	refused(id, "CONFIRMED")
	log, err := n.subs.ListCommands(h.ctx, &pb.ListCommandsRequest{Submitter: "alice"})
	h.must(err)
	if c := log.GetCommands(); len(c) != 3 || c[2].GetKind() != "SPEED_UP" ||
		c[2].GetReason() != "slow" ||
		c[2].GetOperator() != "ops" ||
		c[2].GetTxId() != id ||
		c[2].GetResult() != "APPLIED" {
		t.Errorf("commands: %v", c)
	}
}

func TestSpeedUpAndUpdate_NoOwner_OneCommand(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve(limits(func(l *Limits) { l.CommandWait = 30 * time.Millisecond }))
	id := n.create("alice", "r1").GetTxId()
	o.allocate(txID(t, id))
	update := &pb.UpdateSubmitterRequest{
		Submitter:  "alice",
		OnFailure:  pb.FailurePolicy_FAILURE_POLICY_PAUSE,
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"on_failure"}},
	}
	for range 2 {
		wantStatus(t, n.call(speedUpTx, &pb.SpeedUpTxRequest{TxId: id}), codes.DeadlineExceeded,
			"NOT_YET_APPLIED")
		wantStatus(t, n.call(updateSub, update), codes.DeadlineExceeded, "NOT_YET_APPLIED")
	}
	if got := len(o.commands()); got != 2 {
		t.Errorf("%d commands, want 2", got)
	}
	// applied by the next owner
	if p := n.submitter().GetOnFailure(); p != pb.FailurePolicy_FAILURE_POLICY_PAUSE {
		t.Errorf("on_failure is %v", p)
	}
}

// The owner is notified each time.
func TestUpdateSubmitter_Mask_OnlyNamedFields(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	o.runDecisions(at(0))
	const goOn, pause = pb.FailurePolicy_FAILURE_POLICY_CONTINUE,
		pb.FailurePolicy_FAILURE_POLICY_PAUSE
	if s := n.submitter(); s.GetOnFailure() != goOn || s.GetMaxFee() != "" {
		t.Errorf("at first: %v", s)
	}
	for i, c := range []struct {
		onFailure  pb.FailurePolicy
		maxFee     string
		mask       []string
		wantPolicy pb.FailurePolicy
		wantFee    string
	}{
		{pause, "8", []string{"on_failure"}, pause, ""},
		// fields outside the mask are not validated either
		{pause, "0", []string{"on_failure"}, pause, ""},
		{pause, "1.5", []string{"on_failure"}, pause, ""},
		{goOn, "9", []string{"max_fee"}, pause, "9"},
		{17, "9", []string{"max_fee"}, pause, "9"},
		{goOn, "", []string{"max_fee", "on_failure"}, goOn, ""},
		{pause, "115792089237316195423570985008687907853269984665640564039457584007913129639935",
			[]string{"on_failure", "max_fee", "max_fee"}, pause,
			"115792089237316195423570985008687907853269984665640564039457584007913129639935"},
		{0, "", []string{"on_failure"}, goOn,
			"115792089237316195423570985008687907853269984665640564039457584007913129639935"},
	} {
		r, err := n.subs.UpdateSubmitter(h.ctx, &pb.UpdateSubmitterRequest{
			Submitter:  "alice",
			OnFailure:  c.onFailure,
			MaxFee:     c.maxFee,
			UpdateMask: &fieldmaskpb.FieldMask{Paths: c.mask},
		})
		h.must(err)
		if s := r.GetSubmitter(); s.GetOnFailure() != c.wantPolicy || s.GetMaxFee() != c.wantFee {
			t.Errorf("after update %d: %v and %q, want %v and %q", i, s.GetOnFailure(),
				s.GetMaxFee(), c.wantPolicy, c.wantFee)
		}
		got := h.count("submitter_command WHERE kind = 'UPDATE' AND result = 'APPLIED'")
		if got != i+1 {
			t.Errorf("after update %d the owner was notified %d times", i, got)
		}
	}
}

func TestUpdateSubmitter_Concurrent_BothKept(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	o.runDecisions(at(0))
	other, err := h.db.Pool.Begin(h.ctx)
	h.must(err)
	_, err = other.Exec(h.ctx, "UPDATE submitter SET max_fee = 7")
	h.must(err)
	updated := make(chan error, 1)
	go func() {
		_, err := n.subs.UpdateSubmitter(h.ctx, &pb.UpdateSubmitterRequest{
			Submitter: "alice", OnFailure: pb.FailurePolicy_FAILURE_POLICY_PAUSE,
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"on_failure"}},
		})
		updated <- err
	}()
	waits := fmt.Sprintf("pg_stat_activity WHERE %d = ANY (pg_blocking_pids(pid))",
		other.Conn().PgConn().PID())
	h.eventually("the update waits", func() bool { return h.count(waits) > 0 })
	h.must(other.Commit(h.ctx))
	h.must(<-updated)
	if s := n.submitter(); s.GetOnFailure() != pb.FailurePolicy_FAILURE_POLICY_PAUSE ||
		s.GetMaxFee() != "7" {
		t.Errorf("%v and %q", s.GetOnFailure(), s.GetMaxFee())
	}
}

// Repeated calls return OK.
func TestResolveStuck_Retry_OncePerStuckState(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	id, other := n.create("alice", "r1").GetTxId(), n.create("alice", "r2").GetTxId()
	o.allocate(txID(t, id))
	o.submit(txID(t, id))
	end := o.runDecisions(at(0))
	_, err := n.resolve(id, retry)
	if s := wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED"); !strings.Contains(
		s.Message(), "not STUCK") {
		t.Errorf("in flight: %v", err)
	}
	for spell := 1; spell <= 2; spell++ {
		end()
		o.move(txID(t, id), txn.EventStuck, txn.Stuck,
			func(s *txn.Status) {
				s.Sub, s.SubmitAttempts = txn.None, 9
				s.Reason = txn.ReasonResubmitExhausted
			})
		end = o.runDecisions(at(0))
		for range 2 {
			tx, err := n.resolve(id, retry)
			h.must(err)
			if tx.GetState() != pb.TxState_TX_STATE_TRACKING || tx.GetReason() != "" {
				t.Errorf("retried: %v", tx)
			}
		}
		if got := h.count("submitter_command WHERE result = 'APPLIED'"); got != spell {
			t.Errorf("%d decisions were carried out, want %d", got, spell)
		}
	}
	end()
	o.include(txID(t, id))
	o.confirm(txID(t, id))
	if _, err := n.resolve(id, retry); err != nil {
		t.Errorf("repeated at the end: %v", err)
	}
	o.finalize(txID(t, other))
	_, err = n.resolve(other, retry)
	wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED")
}

func TestResolveStuck_BumpAndCancel_AppliedOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	bump, cancel := pb.StuckDecision_STUCK_DECISION_BUMP, pb.StuckDecision_STUCK_DECISION_CANCEL
	id := n.create("alice", "r1").GetTxId()
	o.allocate(txID(t, id))
	o.submit(txID(t, id))
	end := o.runDecisions(at(0))
	for _, decision := range []pb.StuckDecision{bump, cancel} {
		_, err := n.resolve(id, decision)
		wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED")
	}
	end()
	o.move(txID(t, id), txn.EventStuck, txn.Stuck,
		func(s *txn.Status) {
			s.Sub, s.SubmitAttempts = txn.None, 9
			s.Reason = txn.ReasonResubmitExhausted
		})
	end = o.runDecisions(at(0))
	defer end()
	for _, decision := range []pb.StuckDecision{bump, cancel} {
		seen, err := n.txs.GetTx(t.Context(),
			&pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: id}})
		h.must(err)
		version := seen.GetTx().GetVersion()
		for range 2 {
			answer, err := n.subs.ResolveStuck(t.Context(), &pb.ResolveStuckRequest{
				TxId:          id,
				Decision:      decision,
				Reason:        "it takes too long",
				ExpectVersion: version,
			})
			h.must(err)
			if tx := answer.GetTx(); tx.GetState() != pb.TxState_TX_STATE_STUCK ||
				tx.GetVersion() != version+1 ||
				tx.GetCancelRequested() != (decision == cancel) {
				t.Errorf("%v: %v", decision, tx)
			}
		}
	}
}

// The outcome is accurate at every point of the race.
func TestCancelTx_InFlight_OneCommand(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	requested := pb.CancelOutcome_CANCEL_OUTCOME_REQUESTED
	for name, c := range map[string]struct {
		end     func(txn.TxID)
		outcome pb.CancelOutcome
		reason  string
		safe    bool
	}{
		"wins": {func(id txn.TxID) {
			o.move(id, txn.EventCancelled, txn.Cancelled,
				func(s *txn.Status) {
					s.Sub, s.Executed = txn.None, txn.No
					s.Reason = txn.ReasonCancelled
				})
		}, pb.CancelOutcome_CANCEL_OUTCOME_CANCELLED, "CANCELLED_BY_CALLER", true},
		"loses": {func(id txn.TxID) {
			o.move(id, txn.EventConfirmed, txn.Confirmed,
				func(s *txn.Status) {
					s.Sub, s.Executed = txn.None, txn.Success
					s.Reason = txn.ReasonCancelLost
				})
		}, pb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FINAL, "CANCEL_LOST", false},
	} {
		before := h.count("submitter_command")
		id := n.create("alice", name).GetTxId()
		o.allocate(txID(t, id))
		o.submit(txID(t, id))
		cancel := func(outcome pb.CancelOutcome, asked bool) *pb.Tx {
			t.Helper()
			r, err := n.txs.CancelTx(h.ctx, &pb.CancelTxRequest{TxId: id})
			h.must(err)
			if r.GetOutcome() != outcome || r.GetTx().GetCancelRequested() != asked {
				t.Errorf("%s: %v with %v", name, r.GetOutcome(), r.GetTx())
			}
			return r.GetTx()
		}
		cancel(requested, true) // although the owner has not read it yet
		o.decide(at(0))
		cancel(requested, true)
		o.include(txID(t, id))
		if tx := cancel(requested, true); tx.GetRetrySafe() {
			t.Errorf("%s: undecided, and a retry is called safe", name)
		}
		c.end(txID(t, id))
		if tx := cancel(c.outcome, true); tx.GetReason() != c.reason ||
			tx.GetRetrySafe() != c.safe {
			t.Errorf("%s: %v", name, tx)
		}
		if got := h.count("submitter_command") - before; got != 1 {
			t.Errorf("%s: %d commands, want 1", name, got)
		}
	}
}

// reportBlocks records confirmations, and the event about them.
func (o *owner) reportBlocks(id txn.TxID, newFork bool, all, received []txn.BlockRef) {
	tx := o.read(id)
	w := txn.Write{
		Tx:      id,
		Version: tx.Version,
		From:    tx.State,
		Kind:    txn.EventConfirmations,
		Next:    tx.Status,
		NewFork: newFork,
		Above:   received,
	}
	w.Next.Version, w.Next.Above = tx.Version+1, all
	o.commit(txn.Change{Writes: []txn.Write{w}})
}

// A watcher can maintain the recorded confirmations across a fork. The operator view shows accepted
// broadcasts and pool sightings.
func TestConfirmations_Reported(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	text := n.create("alice", "r1").GetTxId()
	id := txID(t, text)
	o.allocate(id)
	o.move(id, txn.EventSubmitted, txn.Tracking,
		func(s *txn.Status) {
			s.Sub, s.Diagnosis = txn.Pending, txn.InPool
			s.SubmitAttempts, s.Accepted = 1, 1
		})
	o.include(id)
	ref := func(number uint64, b byte) txn.BlockRef {
		return txn.BlockRef{Number: number,
			Hash: txn.Hash{b}}
	}
	o.reportBlocks(id, false, []txn.BlockRef{ref(10, 1), ref(11, 2)},
		[]txn.BlockRef{ref(10, 1), ref(11, 2)})
	o.reportBlocks(id, false, []txn.BlockRef{ref(10, 1), ref(11, 2), ref(12, 3)},
		[]txn.BlockRef{ref(12, 3)})
	fork := []txn.BlockRef{ref(10, 1), ref(11, 4)}
	o.reportBlocks(id, true, fork, fork)
	o.confirm(id)

	stream := n.watch(
		&pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: text}, UntilFinal: true})
	kept, forks := []string{}, 0
	for kind := pb.TxEventKind(0); kind != pb.TxEventKind_TX_EVENT_KIND_CONFIRMED; {
		m, err := stream.Recv()
		h.must(err)
		kind = m.GetEvent().GetKind()
		if m.GetEvent().GetNewFork() {
			kept, forks = nil, forks+1
		}
		for _, c := range m.GetEvent().GetConfirmations() {
			kept = append(kept, fmt.Sprint(c.GetNumber(), c.GetHash()))
		}
	}
	full, err := n.txs.GetTx(h.ctx,
		&pb.GetTxRequest{Key: byID(text).Key, View: pb.TxView_TX_VIEW_OPERATOR})
	h.must(err)
	want := []string{}
	for _, c := range full.GetTx().GetConfirmations() {
		want = append(want, fmt.Sprint(c.GetNumber(), c.GetHash()))
	}
	if len(want) != 2 || !slices.Equal(kept, want) || forks != 1 {
		t.Errorf("a watcher has kept %v over %d forks, and the ledger has %v", kept, forks, want)
	}
	if d := full.GetTx().GetOperator(); d.GetAcceptedAttempt() != 1 ||
		d.GetDiagnosis() != "IN_POOL" {
		t.Errorf("operator's view: %v", d)
	}
}

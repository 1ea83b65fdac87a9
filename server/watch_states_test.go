package server

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// markStuck makes a transaction STUCK.
func (o *owner) markStuck(id txn.TxID) { o.move(id, txn.EventStuck, txn.Stuck, nil) }

func (o *owner) unmarkStuck(id txn.TxID) {
	o.move(id, txn.EventUnstuck, txn.Tracking, func(s *txn.Status) { s.Sub = txn.Pending })
}

// finalizeViaStuck takes a queued transaction to CONFIRMED by way of STUCK: seven events with
// QUEUED.
func (o *owner) finalizeViaStuck(id txn.TxID) {
	for _, step := range []func(txn.TxID){
		o.allocate, o.submit, o.markStuck, o.unmarkStuck, o.include, o.confirm,
	} {
		step(id)
	}
}

const stuckState, confirmedState = pb.TxState_TX_STATE_STUCK, pb.TxState_TX_STATE_CONFIRMED

// Covers snapshots, live events and streams resumed on another node.
func TestWatchMany_States_MatchingOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	tiny := limits(func(l *Limits) { l.RingEvents, l.PageEvents = 4, 2 })
	nodes := []*node{h.serve(tiny), h.serve(tiny, func(o *Options) { o.Store = h.open("b") })}
	alice, bob := h.own(h.register("alice")), h.own(h.register("bob"))
	create := func(submitter, team string) txn.TxID {
		r, err := nodes[0].txs.CreateTx(h.ctx,
			labelled(submitter, rand(), map[string]string{"team": team}))
		h.must(err)
		return txID(t, r.GetTx().GetTxId())
	}
	first := create("alice", "a")
	alice.allocate(first)
	alice.submit(first)
	alice.markStuck(first)
	create("alice", "a") // stays QUEUED

	requests := []*pb.WatchTxRequest{watchAll(), watchAll(), watchSubmitter("alice")}
	requests[0].States = []pb.TxState{stuckState, confirmedState, stuckState}
	requests[1].States, requests[1].Labels = []pb.TxState{stuckState}, []string{"team=a"}
	requests[2].States = []pb.TxState{confirmedState} // matches no snapshot
	where := []string{
		"e.state IN ('STUCK', 'CONFIRMED')",
		"e.state = 'STUCK' AND t.labels->>'team' = 'a'",
		"e.state = 'CONFIRMED' AND s.name = 'alice'",
	}
	watchers := make([]*collector, len(requests))
	for i, ask := range requests {
		watchers[i] = collect(t, nodes[0].watch(ask))
		for _, snapshot := range []bool{true, false} {
			if snapshot && i == 2 {
				continue
			}
			m, err := watchers[i].stream.Recv()
			if h.must(err); snapshot != (m.GetSnapshot().GetTxId() == first.String()) ||
				!snapshot && m.GetHeartbeat() == nil {
				t.Errorf("the watch for %v starts with %v", ask.GetStates(), m)
			}
		}
	}
	alice.unmarkStuck(first)
	alice.include(first)
	alice.confirm(first)
	for range 3 {
		alice.finalizeViaStuck(create("alice", "a"))
		bob.finalizeViaStuck(create("bob", "b"))
		bob.finalize(create("bob", "a"))
	}
	last := create("alice", "a")
	alice.finalizeViaStuck(last)
	ends := []uint64{7, 4, 7}
	for i, c := range watchers {
		want := h.eventsWhere("JOIN managed_tx t USING (submitter_id, tx_id) WHERE " + where[i])
		delete(want, fmt.Sprint(first, "/4")) // sent as a snapshot
		c.holes = true
		c.until(last.String(), ends[i]).compare(
			fmt.Sprintf("the watch for %v", requests[i].GetStates()), want)
		for n, m := range c.got {
			delete(want, fmt.Sprint(m.GetEvent().GetTxId(), "/", m.GetEvent().GetSeq()))
			if len(want) == 0 {
				break
			}
			ask := proto.CloneOf(requests[i])
			slices.Reverse(ask.States) // their order does not matter
			ask.ResumeToken = m.GetResumeToken()
			resumed := collect(t, nodes[n%2].watch(ask))
			resumed.holes = true
			resumed.until(last.String(), ends[i]).compare(
				fmt.Sprintf("the watch for %v, resumed after message %d", ask.GetStates(), n), want)
		}
	}
}

// The stream ends when the transaction is final, whether or not that state is selected. It can be
// resumed after each message.
func TestWatchOne_States_EndsWithTransaction(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n, other := h.serve(), h.serve(func(o *Options) { o.Store = h.open("b") })
	id := n.create("alice", "r1").GetTxId()
	requests := map[string]*pb.WatchTxRequest{
		"stuck": watchID(id), "stuck or confirmed": watchID(id),
	}
	requests["stuck"].States = []pb.TxState{stuckState}
	requests["stuck or confirmed"].States = []pb.TxState{confirmedState, stuckState}
	streams := map[string]pb.TxService_WatchTxClient{}
	for name, ask := range requests {
		ask.UntilFinal = true
		streams[name] = n.watch(ask)
		if m, err := streams[name].Recv(); err != nil || m.GetHeartbeat() == nil {
			t.Fatalf("%s: starts with %v: %v", name, m, err)
		}
	}
	o.finalizeViaStuck(txID(t, id))
	want := map[string][]uint64{"stuck": {4}, "stuck or confirmed": {4, 7}}
	for name, ask := range requests {
		received := readAll(t, streams[name])
		if got := seqs(received); !slices.Equal(got, want[name]) {
			t.Errorf("%s: received %v, want %v", name, got, want[name])
		}
		if got := seqs(readAll(t, other.watch(ask))); !slices.Equal(got, want[name]) {
			t.Errorf("%s: after the end received %v, want %v", name, got, want[name])
		}
		for i, m := range received {
			ask.ResumeToken = m.GetResumeToken()
			if got := seqs(readAll(t, other.watch(ask))); !slices.Equal(got, want[name][i+1:]) {
				t.Errorf("%s: resumed after %d events: %v", name, i+1, got)
			}
		}
	}
}

func seqs(all []*pb.WatchTxResponse) (seqs []uint64) {
	for _, m := range all {
		if m.GetEvent() != nil {
			seqs = append(seqs, m.GetEvent().GetSeq())
		}
	}
	return seqs
}

// A stream resumed from a heartbeat does not scan the skipped events again.
func TestToken_NoMatchingEvents_Advances(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	s := newCountingStore(h.store, 2)
	n := h.serve(limits(func(l *Limits) { l.RingEvents, l.PageEvents = 4, 2 }))
	other := h.serve(limits(func(l *Limits) { l.RingEvents, l.PageEvents = 4, 2 }),
		func(o *Options) { o.Store = s })
	one := n.create("alice", "r1").GetTxId()
	for _, ask := range []*pb.WatchTxRequest{watchAll(), watchSubmitter("alice"), watchID(one)} {
		ask.States, ask.Heartbeat = []pb.TxState{stuckState}, durationpb.New(time.Second)
		stream := n.watch(ask)
		m, err := stream.Recv()
		h.must(err)
		before := m.GetResumeToken()
		id := txID(t, one)
		if ask.GetTxId() == "" {
			id = txID(t, n.create("alice", rand()).GetTxId())
		}
		o.finalize(id)
		for stands := false; !stands; {
			if m, err = stream.Recv(); err != nil || m.GetHeartbeat() == nil ||
				m.GetHeartbeat().GetBehind() {
				t.Fatalf("received %v: %v", m, err)
			}
			stands = m.GetResumeToken() != before && !h.leftAfter(m.GetResumeToken(), ask)
		}
		s.own.Store(0)
		ask.ResumeToken = m.GetResumeToken()
		resumed := other.watch(ask)
		if m, err = resumed.Recv(); err != nil || m.GetHeartbeat() == nil {
			t.Fatalf("resumed: %v: %v", m, err)
		}
		if pages := s.own.Load(); pages > 1 {
			t.Errorf("%v: resumed from a heartbeat it read %d pages", ask.GetTarget(), pages)
		}
	}
}

// leftAfter reports whether there are events after a token.
func (h *harness) leftAfter(token string, ask *pb.WatchTxRequest) bool {
	target := feed.Target{States: feed.States(txn.Stuck)}
	if ask.GetTxId() != "" {
		target.Tx = txID(h.t, ask.GetTxId())
	} else if ask.GetSubmitter() != "" {
		id, err := h.store.Lookup(h.ctx, ask.GetSubmitter())
		h.must(err)
		target.Submitter = id
	}
	at, err := feed.ParseToken(token, target)
	h.must(err)
	if ask.GetTxId() != "" {
		return at.Seq() < h.mustTx(h.store.Tx(h.ctx, target.Tx)).Version
	}
	_, head, err := h.store.FeedHead(h.ctx)
	h.must(err)
	events, err := h.store.EventsSince(h.ctx, nil, at.Position().Seen, head, at.Position().After,
		target.Submitter, 1)
	h.must(err)
	return len(events) > 0
}

func (h *harness) mustTx(info store.TxInfo, err error) store.TxInfo {
	h.t.Helper()
	h.must(err)
	return info
}

// eagerClock is a clock whose timers of one duration fire at once.
type eagerClock struct {
	clock.Real
	of time.Duration
}

func (e eagerClock) NewTimer(d time.Duration) *clock.Timer {
	if d != e.of {
		return e.Real.NewTimer(d)
	}
	fired := make(chan time.Time)
	close(fired)
	return clock.NewTimer(fired, func() bool { return false },
		func(time.Duration) bool { return false })
}

// A resumed stream sends heartbeats while it scans events that do not match. Without them, clients
// would reconnect without progress.
func TestHeartbeat_StreamBehind_MarkedBehind(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	const beat = 7 * time.Second
	n := h.serve(limits(func(l *Limits) { l.RingEvents, l.PageEvents = 2, 2 }),
		func(o *Options) { o.Clock = eagerClock{of: beat} })
	ask := watchAll()
	ask.States, ask.Heartbeat = []pb.TxState{stuckState}, durationpb.New(beat)
	m, err := n.watch(ask).Recv()
	h.must(err)
	ask.ResumeToken = m.GetResumeToken()
	for range 3 {
		o.finalize(txID(t, n.create("alice", rand()).GetTxId()))
	}
	stuck := n.create("alice", rand()).GetTxId()
	o.finalizeViaStuck(txID(t, stuck))
	for behind := 0; ; behind++ {
		m, err := n.watch(ask).Recv() // reads one message of each stream
		h.must(err)
		if e := m.GetEvent(); e != nil {
			if e.GetTxId() != stuck || behind < 3 {
				t.Errorf("received %v after %d heartbeats", e, behind)
			}
			return
		}
		if !m.GetHeartbeat().GetBehind() || m.GetResumeToken() == ask.GetResumeToken() {
			t.Fatalf("after %d heartbeats: %v", behind, m)
		}
		ask.ResumeToken = m.GetResumeToken()
	}
}

package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func watchIDs(ids ...string) *pb.WatchTxRequest {
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Txs{Txs: &pb.TxIds{TxIds: ids}}}
}

// untilFinal requests a stream that ends with its transactions.
func untilFinal(ask *pb.WatchTxRequest) *pb.WatchTxRequest {
	ask.UntilFinal = true
	return ask
}

// unusedID returns an id that no transaction of the submitter has.
func unusedID(t testing.TB, of txn.SubmitterID, seconds int) txn.TxID {
	t.Helper()
	id, err := txn.NewTxID(time.Unix(int64(seconds), 0), of)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// reversed returns the same ids in another order and spelling.
func reversed(ids []string) (same []string) {
	for _, id := range slices.Backward(ids) {
		same = append(same, strings.ToUpper(id))
	}
	return same
}

// readSnapshots reads the snapshots of a stream, and the heartbeat that ends them.
func readSnapshots(t testing.TB,
	stream pb.TxService_WatchTxClient) (versions map[string]uint64, token string) {
	t.Helper()
	versions = map[string]uint64{}
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetSnapshot() == nil {
			if m.GetHeartbeat() == nil || m.GetResumeToken() == "" {
				t.Fatalf("after the snapshots: %v", m)
			}
			return versions, m.GetResumeToken()
		}
		versions[m.GetSnapshot().GetTxId()] = m.GetSnapshot().GetVersion()
	}
}

// eventsOf returns the events of transactions after the versions of their snapshots.
func (h *harness) eventsOf(versions map[string]uint64) map[string]bool {
	all := map[string]bool{}
	for id, version := range versions {
		for key := range h.eventsWhere("WHERE e.tx_id = $1 AND e.seq > $2", id, int64(version)) {
			all[key] = true
		}
	}
	return all
}

// The transactions belong to several accounts. A stream resumed after any message, on either node,
// receives exactly the rest. The rings are tiny, so that most events are read from the ledger.
func TestWatchTxs_BusyLedger_OwnEventsOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	tiny := func(l *Limits) {
		l.RingEvents, l.PageEvents = 4, 2
		l.FeedPoll = 10 * time.Millisecond
	}
	nodes := []*node{
		h.serve(limits(tiny)),
		h.serve(limits(tiny), func(o *Options) { o.Store = h.open("b") }),
	}
	names := []string{"alice", "bob", "carol"}
	var owners []*owner
	var ids []string
	for _, name := range names {
		owners = append(owners, h.own(h.register(name)))
		for i := range 6 {
			if id := nodes[0].create(name, rand()).GetTxId(); i%2 == 0 && name != "carol" {
				ids = append(ids, id)
			}
		}
	}
	owners[0].finalize(txID(t, ids[0])) // final before the stream starts
	watcher := collect(t, nodes[0].watch(watchIDs(ids...)))
	shown, _ := readSnapshots(t, watcher.stream)
	if len(shown) != len(ids) || shown[ids[0]] != 5 {
		t.Fatalf("snapshots of %v: %v", ids, shown)
	}
	var working sync.WaitGroup
	ctx, stop := context.WithCancel(h.ctx)
	defer working.Wait()
	defer stop()
	for i, o := range owners {
		working.Go(func() { o.work(ctx) })
		working.Go(func() {
			for range 4 {
				nodes[i%2].create(names[i], rand())
			}
		})
	}
	h.eventually("the end of all that is watched",
		func() bool { return len(h.eventsOf(shown)) == 4*(len(ids)-1) })
	want := h.eventsOf(shown)
	watcher.upTo(len(want))
	watcher.compare("the watch of several", want)
	for i, m := range watcher.got[:len(watcher.got)-1] {
		delete(want, fmt.Sprint(m.GetEvent().GetTxId(), "/", m.GetEvent().GetSeq()))
		ask := watchIDs(reversed(ids)...)
		ask.ResumeToken = m.GetResumeToken()
		collect(t, nodes[i%2].watch(ask)).upTo(
			len(want)).compare(fmt.Sprintf("resumed after message %d", i), want)
	}
}

// Transactions that were final from the start are sent as snapshots. A stream resumed after any
// message, on another node too, sends the rest and ends.
func TestWatchTxs_UntilFinal_EndsWithLast(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	tiny := limits(func(l *Limits) { l.RingEvents, l.PageEvents = 4, 2 })
	n, other := h.serve(tiny), h.serve(tiny, func(o *Options) { o.Store = h.open("b") })
	var ids []string
	for range 4 {
		ids = append(ids, n.create("alice", rand()).GetTxId())
	}
	o.finalize(txID(t, ids[2]))
	stream := n.watch(untilFinal(watchIDs(ids...)))
	shown, token := readSnapshots(t, stream)
	if len(shown) != 4 || shown[ids[2]] != 5 {
		t.Fatalf("snapshots: %v", shown)
	}
	for _, i := range []int{3, 0, 1} {
		o.finalize(txID(t, n.create("alice", rand()).GetTxId()))
		o.finalize(txID(t, ids[i]))
	}
	received := readAll(t, stream)
	var want []string
	for _, i := range []int{3, 0, 1} {
		for seq := range 4 {
			want = append(want, fmt.Sprint(ids[i], "/", seq+2))
		}
	}
	if got := keysOf(received); !slices.Equal(got, want) {
		t.Fatalf("received %v, want %v", got, want)
	}
	for i := range len(want) + 1 {
		ask := untilFinal(watchIDs(reversed(ids)...))
		if ask.ResumeToken = token; i > 0 {
			ask.ResumeToken = received[i-1].GetResumeToken()
		}
		if got := keysOf(readAll(t, other.watch(ask))); !slices.Equal(got, want[i:]) {
			t.Errorf("resumed after %d events: %v", i, got)
		}
	}
	// All are final from the start.
	again := other.watch(untilFinal(watchIDs(ids...)))
	if shown, _ := readSnapshots(t, again); len(shown) != 4 || shown[ids[0]] != 5 {
		t.Errorf("snapshots of final transactions: %v", shown)
	}
	if rest := readAll(t, again); len(rest) != 0 {
		t.Errorf("events of final transactions: %v", rest)
	}
}

func keysOf(all []*pb.WatchTxResponse) (keys []string) {
	for _, m := range all {
		if e := m.GetEvent(); e != nil {
			keys = append(keys, fmt.Sprint(e.GetTxId(), "/", e.GetSeq()))
		}
	}
	return keys
}

// The stream ends when all transactions are final, whether or not their states are selected.
func TestWatchTxs_States_MatchingOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n, other := h.serve(), h.serve(func(o *Options) { o.Store = h.open("b") })
	ids := []string{
		n.create("alice", "r1").GetTxId(),
		n.create("alice", "r2").GetTxId(),
		n.create("alice", "r3").GetTxId(),
	}
	first := txID(t, ids[0])
	o.allocate(first)
	o.submit(first)
	o.markStuck(first)
	ask := func(states ...pb.TxState) *pb.WatchTxRequest {
		r := untilFinal(watchIDs(ids...))
		r.States = states
		return r
	}
	stuck, both := n.watch(ask(stuckState)), n.watch(ask(confirmedState, stuckState))
	for _, stream := range []pb.TxService_WatchTxClient{stuck, both} {
		if shown, _ := readSnapshots(t, stream); len(shown) != 1 || shown[ids[0]] != 4 {
			t.Errorf("snapshots: %v", shown)
		}
	}
	o.unmarkStuck(first)
	o.include(first)
	o.confirm(first)
	o.finalize(txID(t, ids[1]))
	o.finalizeViaStuck(txID(t, ids[2]))
	received := readAll(t, stuck)
	if got := keysOf(received); !slices.Equal(got, []string{ids[2] + "/4"}) {
		t.Errorf("for STUCK: %v", got)
	}
	if got := keysOf(readAll(t, both)); !slices.Equal(got,
		[]string{ids[0] + "/7", ids[1] + "/5", ids[2] + "/4", ids[2] + "/7"}) {
		t.Errorf("for STUCK or CONFIRMED: %v", got)
	}
	resume := ask(stuckState)
	resume.ResumeToken = received[len(received)-1].GetResumeToken()
	if rest := readAll(t, other.watch(resume)); len(keysOf(rest)) != 0 {
		t.Errorf("resumed: %v", rest)
	}
}

// Covers running and resumed streams.
func TestWatchTxs_ReorgAfterFinality_Continues(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	one, two := n.create("alice", "r1").GetTxId(), n.create("alice", "r2").GetTxId()
	finalize := n.watch(untilFinal(watchIDs(one, two)))
	_, token := readSnapshots(t, finalize)
	o.finalize(txID(t, one))
	o.move(txID(t, one), txn.EventReorged, txn.Stuck,
		func(s *txn.Status) { s.Executed, s.Receipt = txn.Unknown, nil })
	o.finalize(txID(t, two))
	resume := untilFinal(watchIDs(one, two))
	resume.ResumeToken = token
	streams := []pb.TxService_WatchTxClient{finalize, n.watch(resume)}
	for _, stream := range streams {
		for range 9 {
			if _, err := stream.Recv(); err != nil {
				t.Fatalf("the stream ends too early: %v", err)
			}
		}
	}
	o.move(txID(t, one), txn.EventConfirmed, txn.Confirmed, func(s *txn.Status) {
		s.Executed = txn.Success
		s.Receipt = &txn.Receipt{
			TxHash:      s.TxHash,
			BlockNumber: 10,
			BlockHash:   txn.Hash{10},
			Success:     true,
		}
	})
	for i, stream := range streams {
		if got := keysOf(readAll(t, stream)); !slices.Equal(got, []string{one + "/7"}) {
			t.Errorf("after the reorg, stream %d returns %v", i, got)
		}
	}
}

// The token of any number of transactions is one position, and advances past the events of others.
func TestWatchTxs_Resumed_SkipsOtherEvents(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	s := newCountingStore(h.store, 2)
	n := h.serve(limits(func(l *Limits) { l.RingEvents, l.PageEvents = 4, 2 }),
		func(o *Options) { o.Store = s })
	ids := []string{n.create("alice", "r1").GetTxId(), n.create("alice", "r2").GetTxId()}
	_, token := readSnapshots(t, n.watch(watchIDs(ids...)))
	for range 5 {
		o.finalize(txID(t, n.create("alice", rand()).GetTxId()))
	}
	o.allocate(txID(t, ids[1]))
	s.own.Store(0)
	ask := watchIDs(ids...)
	ask.ResumeToken, ask.Heartbeat = token, durationpb.New(time.Second)
	stream := n.watch(ask)
	m, err := stream.Recv()
	h.must(err)
	if e := m.GetEvent(); e.GetTxId() != ids[1] || e.GetSeq() != 2 || s.own.Load() != 1 {
		t.Errorf("after %d reads: %v", s.own.Load(), m)
	}
	if m, err = stream.Recv(); err != nil || m.GetHeartbeat() == nil ||
		m.GetHeartbeat().GetBehind() {
		t.Errorf("then %v: %v", m, err)
	}
	many := make([]txn.TxID, 100)
	for i := range many {
		many[i] = unusedID(t, 1, i)
	}
	tokenOf := func(ids []txn.TxID) string {
		return feed.MultiToken(feed.Target{Txs: feed.NewIDSet(ids)}, store.Position{})
	}
	if a, b := tokenOf(many), tokenOf(many[:2]); len(a) != len(b) || a == b {
		t.Errorf("the token of 100 transactions is %q, of 2 %q", a, b)
	}
}

// Errors name the ids that are unknown, repeated or forbidden. Forbidden ids are checked before any
// ledger read, with the same error as for one id.
func TestWatchTxs_InvalidIDs_Named(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ofAlice, bob := h.register("alice"), h.register("bob")
	caller := role{token: "caller-0123456789abcdef"}
	n := h.serve(func(o *Options) {
		o.Callers = []auth.Caller{
			{Name: "caller", Tokens: []string{caller.token}, Submitters: []string{"alice"}},
			{
				Name:       "all",
				Tokens:     []string{"all-0123456789abcdef"},
				Submitters: []string{auth.AllSubmitters},
			},
		}
	})
	create := func(name string) string {
		r, err := n.txs.CreateTx(role{token: "all-0123456789abcdef"}.in(h.ctx), createFor(name))
		h.must(err)
		return r.GetTx().GetTxId()
	}
	mine, bobs := create("alice"), create("bob")
	gone, goneToo := unusedID(t, ofAlice, 1).String(), unusedID(t, ofAlice, 2).String()
	never := unusedID(t, bob, 1).String()
	const foreign = "7b0c9a52-6f0e-4a39-9d0c-0c8ad1a0f001"
	statusOf := func(ask *pb.WatchTxRequest, code codes.Code, reason string) *grpcstatus.Status {
		t.Helper()
		stream, err := n.txs.WatchTx(caller.in(h.ctx), ask)
		h.must(err)
		_, err = stream.Recv()
		return wantStatus(t, err, code, reason)
	}
	received := func(ask *pb.WatchTxRequest, code codes.Code, reason string) string {
		t.Helper()
		return statusOf(ask, code, reason).Message()
	}
	for _, id := range []string{bobs, never} {
		one := received(watchID(id), codes.PermissionDenied, "PERMISSION_DENIED")
		if several := received(watchIDs(mine, foreign, gone, id), codes.PermissionDenied,
			"PERMISSION_DENIED"); several != one {
			t.Errorf("for one id: %q, for several: %q", one, several)
		}
	}
	if one, several := received(watchID(gone), codes.NotFound, "TX_NOT_FOUND"),
		received(watchIDs(mine, gone), codes.NotFound, "TX_NOT_FOUND"); several != one {
		t.Errorf("for one id: %q, for several: %q", one, several)
	}
	message := received(watchIDs(goneToo, mine, gone), codes.NotFound, "TX_NOT_FOUND")
	if !strings.HasPrefix(message, "transactions "+gone+", "+goneToo+": ") {
		t.Errorf("for two unknown ids: %q", message)
	}
	lost := []string{mine}
	for i := range 20 {
		lost = append(lost, unusedID(t, ofAlice, i).String())
	}
	message = received(watchIDs(lost...), codes.NotFound, "TX_NOT_FOUND")
	if more := fmt.Sprintf(" and %d more: ", len(lost)-1-status.MaxViolations); !strings.Contains(
		message, more) {
		t.Errorf("for twenty unknown ids: %q", message)
	}
	twice := statusOf(watchIDs(mine, strings.ToUpper(mine)), codes.InvalidArgument, "INVALID_FIELD")
	wantFault(t, twice, "txs.tx_ids[1]", mine)
	stream, err := n.txs.WatchTx(caller.in(h.ctx), watchIDs(mine))
	h.must(err)
	_, token := readSnapshots(t, stream)
	two := watchIDs(mine, gone)
	two.ResumeToken = token
	received(two, codes.InvalidArgument, "INVALID_FIELD")
	restored := watchIDs(gone) // missing in a restored ledger
	restored.ResumeToken =
		feed.MultiToken(feed.Target{Txs: feed.NewIDSet([]txn.TxID{txID(t, gone)})},
			store.Position{Epoch: 99, Seen: "1:1:"})
	received(restored, codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
	head, err := h.store.Head(h.ctx)
	h.must(err)
	for name, at := range map[string]store.Position{
		"future": {Epoch: head.Epoch, Timeline: head.Timeline,
			Seen: fmt.Sprintf("%[1]d:%[1]d:", head.Next+1_000_000)},
		"lost timeline": {Epoch: head.Epoch, Timeline: head.Timeline + 1, Seen: "100:100:"},
	} {
		ask := watchIDs(mine)
		ask.ResumeToken =
			feed.MultiToken(feed.Target{Txs: feed.NewIDSet([]txn.TxID{txID(t, mine)})}, at)
		t.Log(name)
		received(ask, codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
	}
}

// severalRefusals are the refusals of a watch of several transactions.
func severalRefusals(other, tx, alien string) []refusal {
	ask := func(ids []string, change func(*pb.WatchTxRequest)) proto.Message {
		r := watchIDs(ids...)
		change(r)
		return r
	}
	token := func(text string) func(*pb.WatchTxRequest) {
		return func(r *pb.WatchTxRequest) { r.ResumeToken = text }
	}
	ofOthers := feed.MultiToken(feed.Target{Txs: feed.NewIDSet([]txn.TxID{{1}})},
		store.Position{Epoch: 1, Seen: "1:1:"})
	return []refusal{
		bad("no ids", watchTx, watchIDs(), "txs.tx_ids", "at least 1 item"),
		bad("too many ids", watchTx, watchIDs(slices.Repeat([]string{other}, 101)...),
			"txs.tx_ids", "no more than 100 item"),
		bad("not a UUID among several", watchTx, watchIDs(other, "1"), "txs.tx_ids[1]",
			"must be a valid UUID"),
		bad("two UUIDs in one among several", watchTx, watchIDs(other+","+tx), "txs.tx_ids[0]",
			"without commas"),
		bad("one of several twice", watchTx, watchIDs(tx, strings.ToUpper(tx)), "txs.tx_ids[1]",
			"repeats "+tx),
		noTx("unknown UUIDs among several", watchTx, watchIDs(tx, other)),
		bad("labels of several", watchTx,
			ask([]string{tx}, func(r *pb.WatchTxRequest) { r.Labels = []string{"a=b"} }), "labels",
			"omit them"),
		bad("token of one, for several", watchTx, ask([]string{tx}, token(alien)), "resume_token",
			"different stream"),
		bad("token of others, for several", watchTx, ask([]string{tx}, token(ofOthers)),
			"resume_token", "different stream"),
		bad("token of several, for all", watchTx, watchBad(token(ofOthers)), "resume_token",
			"different stream"),
		bad("token of several mangled", watchTx, ask([]string{tx}, token("i.what")), "resume_token",
			"different stream"),
		unknown("unknown field among several", watchTx,
			ask([]string{tx}, func(r *pb.WatchTxRequest) { with(r.GetTxs(), 9) }), "txs.9",
			"TxIds"),
	}
}

func TestWatchTxs_Lines(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	one, two := n.create("alice", "r1").GetTxId(), n.create("alice", "r2").GetTxId()
	const path = "/api/v1/tx/by-ids/events"
	l := n.stream(path + "?tx_ids=" + one + "&tx_ids=" + two + "&until_final=true")
	if a, b := l.message(), l.message(); a.GetSnapshot().GetTxId() != two ||
		b.GetSnapshot().GetTxId() != one {
		t.Errorf("it starts with %v and %v", a, b)
	}
	l.message()
	o.finalize(txID(t, one))
	o.finalize(txID(t, two))
	token := ""
	for range 8 {
		m := l.message()
		if m.GetEvent() == nil {
			t.Fatalf("it continues with %v", m)
		}
		token = m.GetResumeToken()
	}
	if line, more := l.next(); more {
		t.Errorf("after the last event: %q", line)
	}
	for _, name := range []string{"tx_ids", "txIds", "txs.tx_ids", "txs.txIds"} {
		again := n.stream(
			path + "?" + name + "=" + two + "&" + name + "=" + one +
				"&until_final=true&resume_token=" + token)
		if again.code != http.StatusNoContent {
			t.Errorf("%s: resumed after the end: %d", name, again.code)
		}
	}
	for query, reason := range map[string]string{"": "INVALID_FIELD", "?tx_ids=17": "INVALID_FIELD",
		"?tx_ids=" + one + "&tx_ids=" + one: "INVALID_FIELD", "?submitter=alice": "UNKNOWN_FIELD"} {
		n.http("GET", path+query, "").wantError(t, 400, codes.InvalidArgument, reason)
	}
	n.http("GET", path+"?tx_ids="+unusedID(t, o.id, 1).String(), "").wantError(t, 404,
		codes.NotFound, "TX_NOT_FOUND")
	hundred := make([]string, 100)
	for i := range hundred {
		hundred[i] = unusedID(t, o.id, i).String()
	}
	n.http("GET", path+"?tx_ids="+strings.Join(hundred, "&tx_ids="), "").wantError(t, 404,
		codes.NotFound, "TX_NOT_FOUND")
}

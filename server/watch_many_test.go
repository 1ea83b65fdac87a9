package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// collector reads a stream of many transactions, and checks the order of its events.
type collector struct {
	t      testing.TB
	stream pb.TxService_WatchTxClient
	got    []*pb.WatchTxResponse
	holes  bool // the stream selects events
	seen   map[string]bool
	last   map[string]uint64
}

func collect(t testing.TB, stream pb.TxService_WatchTxClient) *collector {
	return &collector{t: t, stream: stream, seen: map[string]bool{}, last: map[string]uint64{}}
}

// until reads up to an event of a transaction.
func (c *collector) until(id string, seq uint64) *collector {
	for c.take() {
		if e := c.got[len(c.got)-1].GetEvent(); e.GetTxId() == id && e.GetSeq() == seq {
			break
		}
	}
	return c
}

// upTo reads until it has that many events.
func (c *collector) upTo(events int) *collector {
	for len(c.got) < events && c.take() {
	}
	return c
}

// take reads up to the next event.
func (c *collector) take() bool {
	for {
		m, err := c.stream.Recv()
		if err != nil {
			c.t.Error(err)
			return false
		}
		e := m.GetEvent()
		if e == nil {
			continue
		}
		key := fmt.Sprint(e.GetTxId(), "/", e.GetSeq())
		if last := c.last[e.GetTxId()]; c.seen[key] ||
			last != 0 && (e.GetSeq() <= last || !c.holes && e.GetSeq() != last+1) {
			c.t.Errorf("event %s follows event %d of its transaction", key, last)
		}
		c.seen[key], c.last[e.GetTxId()] = true, e.GetSeq()
		c.got = append(c.got, m)
		return true
	}
}

// events returns the events of a submitter in the ledger, or of all.
func (h *harness) events(submitter string) map[string]bool {
	return h.eventsWhere("WHERE $1 = '' OR s.name = $1", submitter)
}

func (h *harness) eventsWhere(condition string, arguments ...any) map[string]bool {
	rows, err := h.db.Pool.Query(
		h.ctx,
		"SELECT e.tx_id::TEXT || '/' || e.seq FROM tx_event e JOIN submitter s USING "+
			"(submitter_id) "+condition,
		arguments...)
	h.must(err)
	defer rows.Close()
	all := map[string]bool{}
	for rows.Next() {
		var key string
		h.must(rows.Scan(&key))
		all[key] = true
	}
	h.must(rows.Err())
	return all
}

func (c *collector) compare(what string, want map[string]bool) {
	c.t.Helper()
	for key := range want {
		if !c.seen[key] {
			c.t.Errorf("%s: event %s was never delivered", what, key)
		}
	}
	if len(c.seen) != len(want) {
		c.t.Errorf("%s: %d events, want %d", what, len(c.seen), len(want))
	}
}

// Writers run on two nodes. Every watcher on either node receives every event once and in order;
// one that resumes anywhere, on either node, receives exactly the rest. The rings are tiny, so that
// most events are read from the ledger.
func TestWatchMany_ConcurrentWriters_EveryEventOnce(t *testing.T) {
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
	const submitters, each = 4, 5
	names := []string{}
	ctx, stop := context.WithCancel(h.ctx)
	var owners sync.WaitGroup
	for i := range submitters {
		names = append(names, fmt.Sprintf("s%d", i))
		o := h.own(h.register(names[i]))
		owners.Go(func() { o.work(ctx) })
	}
	defer owners.Wait()
	defer stop()

	watchers := map[string][]*collector{}
	for _, n := range nodes {
		watchers[""] = append(watchers[""], collect(t, n.watch(watchAll())))
		for _, name := range names {
			watchers[name] = append(watchers[name], collect(t, n.watch(watchSubmitter(name))))
		}
	}
	for _, of := range watchers {
		for _, c := range of {
			_, err := c.stream.Recv() // the first heartbeat
			h.must(err)
		}
	}
	var writers sync.WaitGroup
	for i, name := range names {
		writers.Go(func() {
			for j := range each {
				id := nodes[i%2].create(name, rand()).GetTxId()
				writers.Go(func() {
					ask := watchID(id)
					ask.UntilFinal = true
					got := kinds(readAll(t, nodes[j%2].watch(ask)))
					if !slices.Equal(got, lifecycle) {
						t.Errorf("the watch of one transaction returns %v", got)
					}
				})
			}
		})
	}
	writers.Wait()
	h.eventually("the end of all transactions",
		func() bool { return h.count("managed_tx WHERE state <> 'CONFIRMED'") == 0 })
	stop()
	owners.Wait()
	for name, of := range watchers {
		// The event of a transaction created now comes last.
		marker := nodes[0].create(cmp.Or(name, names[0]), rand()).GetTxId()
		events := h.events(name)
		for i, c := range of {
			c.until(marker, 1).compare(fmt.Sprintf("watcher %d of %q", i, name), events)
		}
	}
	checkResumes(h, nodes, watchers[""][0])
}

// checkResumes resumes a stream after each of its messages, on both nodes in turn.
func checkResumes(h *harness, nodes []*node, c *collector) {
	marker := c.got[len(c.got)-1].GetEvent().GetTxId()
	rest := map[string]bool{}
	for i := len(c.got) - 2; i >= 0; i-- {
		next := c.got[i+1].GetEvent()
		rest[fmt.Sprint(next.GetTxId(), "/", next.GetSeq())] = true
		ask := watchAll()
		ask.ResumeToken = c.got[i].GetResumeToken()
		ctx, cancel := context.WithCancel(h.ctx)
		stream, err := nodes[i%2].txs.WatchTx(ctx, ask)
		h.must(err)
		resumed := collect(h.t, stream)
		resumed.until(marker, 1).compare(
			fmt.Sprintf("resumed after message %d of %d", i, len(c.got)), rest)
		cancel()
	}
}

// The token comes from a node that has read further.
func TestResume_NodeBehindToken_Waits(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	ahead := h.serve()
	behind := h.serve(limits(func(l *Limits) { l.FeedPoll = time.Hour }),
		func(o *Options) { o.Store = h.open("b") })
	streams := []pb.TxService_WatchTxClient{ahead.watch(watchAll()), behind.watch(watchAll())}
	for _, stream := range streams {
		_, err := stream.Recv()
		h.must(err)
	}
	token, seen := "", map[string]bool{}
	for range 5 {
		id := ahead.create("alice", rand()).GetTxId()
		m, err := streams[0].Recv()
		if h.must(err); m.GetEvent().GetTxId() != id {
			t.Fatalf("received %v", m)
		}
		token, seen[id] = m.GetResumeToken(), true
	}
	ask := watchAll()
	ask.ResumeToken = token
	resumed := behind.watch(ask)
	id := ahead.create("alice", rand()).GetTxId()
	ask.ResumeToken = "" // a new stream makes the node read
	_, err := behind.watch(ask).Recv()
	h.must(err)
	m, err := resumed.Recv()
	if h.must(err); m.GetEvent().GetTxId() != id {
		t.Errorf("the resumed stream returns %v, delivered before: %v", m,
			seen[m.GetEvent().GetTxId()])
	}
}

// countingStore counts the reads of the store.
type countingStore struct {
	Store
	heads, pages, own, other *atomic.Int64
	tailer                   int // limit of the feed's own reads
}

func newCountingStore(s Store, pageEvents int) countingStore {
	return countingStore{
		s,
		new(atomic.Int64),
		new(atomic.Int64),
		new(atomic.Int64),
		new(atomic.Int64),
		feed.PagesPerRead * pageEvents,
	}
}

func (c countingStore) Head(ctx context.Context) (store.Head, error) {
	c.heads.Add(1)
	return c.Store.Head(ctx)
}

func (c countingStore) EventsSince(ctx context.Context, page []store.EventInfo, since, until string,
	after store.EventKey, of txn.SubmitterID, limit int) ([]store.EventInfo, error) {
	if limit == c.tailer {
		c.pages.Add(1)
	} else {
		c.own.Add(1)
	}
	return c.Store.EventsSince(ctx, page, since, until, after, of, limit)
}

func (c countingStore) EventsSinceOf(ctx context.Context, since, until string, after store.EventKey,
	ids []txn.TxID, limit int) ([]store.EventInfo, error) {
	c.own.Add(1)
	return c.Store.EventsSinceOf(ctx, since, until, after, ids, limit)
}

func (c countingStore) EventsOfTx(ctx context.Context, id txn.TxID, after int64,
	limit int) ([]store.EventInfo, error) {
	c.own.Add(1)
	return c.Store.EventsOfTx(ctx, id, after, limit)
}

func (c countingStore) Tx(ctx context.Context, id txn.TxID) (store.TxInfo, error) {
	c.other.Add(1)
	return c.Store.Tx(ctx, id)
}

func (c countingStore) Txs(ctx context.Context, filter store.TxFilter) ([]store.TxInfo, error) {
	c.other.Add(1)
	return c.Store.Txs(ctx, filter)
}

// The database load does not depend on the number of watchers.
func TestWatch_ThousandStreams_OneReader(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	s := newCountingStore(h.store, 100)
	n := h.serve(func(o *Options) { o.Store, o.Limits.FeedPoll = s, 200*time.Millisecond })
	id := n.create("alice", "r1").GetTxId()
	requests := []*pb.WatchTxRequest{watchID(id), watchSubmitter("alice"), watchAll()}
	streams := make([]pb.TxService_WatchTxClient, 1000)
	var opening sync.WaitGroup
	for i := range streams {
		ask := proto.CloneOf(requests[i%3])
		ask.Heartbeat = durationpb.New(5 * time.Minute)
		opening.Go(func() {
			stream, err := n.txs.WatchTx(h.ctx, ask)
			for standing := false; err == nil && !standing; {
				var m *pb.WatchTxResponse
				m, err = stream.Recv()
				standing = m.GetSnapshot() == nil
			}
			if err != nil {
				t.Error(err)
			}
			streams[i] = stream
		})
	}
	opening.Wait()
	for _, c := range []*atomic.Int64{s.heads, s.pages, s.own, s.other} {
		c.Store(0)
	}
	o.finalize(txID(t, id))
	for i, stream := range streams {
		for want := range 4 {
			m, err := stream.Recv()
			if h.must(err); m.GetEvent().GetSeq() != uint64(want+2) {
				t.Fatalf("stream %d returns %v, want event %d", i, m, want+2)
			}
		}
	}
	// The feed also reads when another database of the cluster commits. On a busy machine, a few
	// watchers fall behind it.
	pages, own := s.pages.Load(), s.own.Load()+s.other.Load()
	if most := int64(len(streams) / 10); pages > 200 || own > most {
		t.Errorf(
			"4 events cost the tailer %d pages, and 1000 watchers %d pages and %d other reads of "+
				"their own",
			pages, s.own.Load(), s.other.Load())
	}
	t.Logf("1000 watchers, 4 events: %d heads, %d pages", s.heads.Load(), s.pages.Load())
}

func TestFeed_NoStreams_NotRead(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	s := newCountingStore(h.store, 100)
	n := h.serve(func(o *Options) { o.Store = s })
	n.create("alice", "r1")
	if got := s.heads.Load(); got != 0 {
		t.Errorf("%d reads before there was a watcher", got)
	}
	ctx, cancel := context.WithCancel(h.ctx)
	stream, err := n.txs.WatchTx(ctx, watchAll())
	h.must(err)
	_, err = stream.Recv()
	h.must(err)
	h.eventually("polling", func() bool { return s.heads.Load() > 3 })
	cancel()
	h.eventually("the end of the stream", func() bool {
		return n.server.feed.Idle()
	})
	before := s.heads.Load()
	n.create("alice", "r2")
	if got := s.heads.Load(); got != before {
		t.Errorf("%d more reads without a watcher", got-before)
	}
}

// It delays no other stream.
func TestSlowReader_FallsBehindRing_ReceivesEverything(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	s := newCountingStore(h.store, 10)
	n := h.serve(limits(func(l *Limits) { l.RingEvents, l.PageEvents = 20, 10 }),
		func(o *Options) { o.Store = s })
	// Static windows: otherwise the transport would buffer ever more for a local client.
	n.dial(n.conn.Target(), grpc.WithStaticStreamWindowSize(1<<16),
		grpc.WithStaticConnWindowSize(1<<20))
	slow, fast := collect(t, n.watch(watchAll())), collect(t, n.watch(watchAll()))
	for _, c := range []*collector{slow, fast} {
		_, err := c.stream.Recv()
		h.must(err)
	}
	o.lastError = strings.Repeat("x", 4000) // events exceed the buffers of the transport
	for range 20 {
		id := n.create("alice", rand()).GetTxId()
		o.finalize(txID(t, id))
		fast.until(id, 5)
	}
	marker := n.create("alice", rand()).GetTxId()
	events := h.events("")
	fast.until(marker, 1).compare("the fast reader", events)
	slow.until(marker, 1).compare("the slow reader", events)
	if s.own.Load() == 0 {
		t.Error("the slow reader was never behind, so the test proves nothing")
	}
}

// Covers snapshots, live events and resumed streams.
func TestWatchMany_Labels_MatchingOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(limits(func(l *Limits) { l.RingEvents, l.PageEvents = 4, 2 }))
	owners := map[string]*owner{
		"alice": h.own(h.register("alice")),
		"bob":   h.own(h.register("bob")),
	}
	create := func(submitter string, labels map[string]string) string {
		r, err := n.txs.CreateTx(h.ctx, labelled(submitter, rand(), labels))
		h.must(err)
		return r.GetTx().GetTxId()
	}
	all := map[string]string{"order": "17", "note": "x"}
	first := create("alice", all)
	lives := [][2]string{
		{"alice", first},
		{"alice", create("alice", map[string]string{"order": "18", "note": "x"})},
		{"bob", create("bob", map[string]string{"note": "x"})},
	}
	requests := map[string]*pb.WatchTxRequest{"alice": watchSubmitter("alice"), "": watchAll()}
	requests["alice"].Labels = []string{"order=17"}
	requests[""].Labels = []string{"order=17", "note=x", "order=17"}
	watchers := map[string]*collector{}
	for who, ask := range requests {
		watchers[who] = collect(t, n.watch(ask))
		snapshot, err := watchers[who].stream.Recv()
		h.must(err)
		beat, err := watchers[who].stream.Recv()
		h.must(err)
		if snapshot.GetSnapshot().GetTxId() != first || beat.GetHeartbeat() == nil {
			t.Errorf("the watch of %q starts with %v and %v", who, snapshot, beat)
		}
	}
	for range 3 {
		for _, labels := range []map[string]string{all, {"order": "17"},
			{"order": "18", "note": "x"}, nil} {
			lives = append(lives, [2]string{"alice", create("alice", labels)},
				[2]string{"bob", create("bob", labels)})
		}
	}
	for _, l := range lives {
		owners[l[0]].finalize(txID(t, l[1]))
	}
	marker := create("alice", all)
	for who, c := range watchers {
		where := map[string]string{"alice": "s.name = 'alice' AND t.labels->>'order' = '17'",
			"": "t.labels->>'order' = '17' AND t.labels->>'note' = 'x'"}[who]
		want := h.eventsWhere("JOIN managed_tx t USING (submitter_id, tx_id) WHERE " + where)
		delete(want, first+"/1") // sent as a snapshot
		c.until(marker, 1).compare(fmt.Sprintf("the watch of %q", who), want)
		for i := range c.got {
			ask := proto.CloneOf(requests[who])
			slices.Reverse(ask.Labels) // their order does not matter
			e := c.got[i].GetEvent()
			if delete(want, fmt.Sprint(e.GetTxId(), "/", e.GetSeq())); len(want) == 0 {
				break
			}
			ask.ResumeToken = c.got[i].GetResumeToken()
			collect(t, n.watch(ask)).until(marker,
				1).compare(fmt.Sprintf("the watch of %q, resumed after message %d", who, i), want)
		}
	}
}

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func watchID(id string) *pb.WatchTxRequest {
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: id}}
}

func watchSubmitter(name string) *pb.WatchTxRequest {
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: name}}
}

func watchAll() *pb.WatchTxRequest {
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_All{All: &pb.AllTxs{}}}
}

// life is what a transaction that goes well tells.
var life = []pb.TxEventKind{
	pb.TxEventKind_TX_EVENT_KIND_QUEUED, pb.TxEventKind_TX_EVENT_KIND_ALLOCATED, pb.TxEventKind_TX_EVENT_KIND_SUBMITTED,
	pb.TxEventKind_TX_EVENT_KIND_INCLUDED, pb.TxEventKind_TX_EVENT_KIND_CONFIRMED,
}

// toTheEnd reads a stream until it ends with OK.
func toTheEnd(t testing.TB, stream pb.TxService_WatchTxClient) (all []*pb.WatchTxResponse) {
	t.Helper()
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
}

func kinds(all []*pb.WatchTxResponse) (kinds []pb.TxEventKind) {
	for _, m := range all {
		kinds = append(kinds, m.GetEvent().GetKind())
	}
	return kinds
}

// A watch of one transaction tells its whole life, ends by itself, and can be resumed after each of its messages, on another node too.
func TestWatchOneUntilFinal(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	o := k.own(k.register("alice"))
	n, other := k.serve(), k.serve(func(o *Options) { o.Store = k.open("b") })
	id := n.create("alice", "r1").GetTxId()
	ask := watchID(id)
	ask.UntilFinal = true
	stream := n.watch(ask)
	first, err := stream.Recv()
	k.must(err)
	o.live(txID(t, id))
	all := append([]*pb.WatchTxResponse{first}, toTheEnd(t, stream)...)
	if !slices.Equal(kinds(all), life) {
		t.Fatalf("told %v", kinds(all))
	}
	for i, m := range all {
		if e := m.GetEvent(); e.GetSeq() != uint64(i+1) || e.GetSubmitter() != "alice" || e.GetTxId() != id || e.GetTime() == nil {
			t.Errorf("event %d is %v", i, e)
		}
	}
	if e := all[3].GetEvent(); e.GetReceipt().GetBlockNumber() != 9 || e.GetSubState() != pb.TxSubState_TX_SUB_STATE_INCLUDED {
		t.Errorf("included: %v", e)
	}
	byKey := &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Request{Request: &pb.RequestKey{Submitter: "alice", RequestId: "r1"}}, UntilFinal: true}
	for i := range append(all, nil) {
		for _, ask := range []*pb.WatchTxRequest{ask, byKey} {
			if i > 0 {
				ask.ResumeToken = all[i-1].GetResumeToken()
			}
			if got := kinds(toTheEnd(t, other.watch(ask))); !slices.Equal(got, life[i:]) {
				t.Errorf("resumed after %d events it tells %v", i, got)
			}
		}
	}
}

// A transaction that left a final state again is not final: the watch goes on.
func TestWatchOneOutlivesAReorgAfterFinality(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	o := k.own(k.register("alice"))
	n := k.serve()
	id := txID(t, n.create("alice", "r1").GetTxId())
	o.live(id)
	o.move(id, txn.EventReorged, txn.Stuck, func(s *txn.Status) { s.Executed, s.Receipt = txn.Unknown, nil })
	ask := watchID(id.String())
	ask.UntilFinal = true
	stream := n.watch(ask)
	for range 6 {
		_, err := stream.Recv()
		k.must(err)
	}
	o.move(id, txn.EventConfirmed, txn.Confirmed, func(s *txn.Status) {
		s.Executed = txn.Success
		s.Receipt = &txn.Receipt{TxHash: s.TxHash, BlockNumber: 10, BlockHash: txn.Hash{10}, Success: true}
	})
	if got := kinds(toTheEnd(t, stream)); !slices.Equal(got, life[4:]) {
		t.Errorf("after the reorg it tells %v", got)
	}
}

// lossy is the real store whose feed lacks an event.
type lossy struct {
	Store
	lost txn.Kind
}

func (l lossy) EventsSince(ctx context.Context, since, until string, after store.EventKey, of txn.SubmitterID, limit int) ([]store.EventInfo, error) {
	events, err := l.Store.EventsSince(ctx, since, until, after, of, limit)
	return slices.DeleteFunc(events, func(e store.EventInfo) bool { return e.Kind == l.lost }), err
}

// The watch of one transaction takes nothing from the feed but the time to look.
func TestWatchOneDoesNotTrustTheFeed(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	o := k.own(k.register("alice"))
	n := k.serve(func(o *Options) { o.Store = lossy{k.store, txn.EventSubmitted} })
	id := n.create("alice", "r1").GetTxId()
	ask := watchID(id)
	ask.UntilFinal = true
	stream := n.watch(ask)
	first, err := stream.Recv()
	k.must(err)
	o.live(txID(t, id))
	if got := kinds(append([]*pb.WatchTxResponse{first}, toTheEnd(t, stream)...)); !slices.Equal(got, life) {
		t.Errorf("told %v", got)
	}
}

// A new watch of many shows what is not final, then says where it stands, then tells what happens.
func TestWatchManyBeginsWithSnapshots(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	o := k.own(k.register("alice"))
	k.register("bob")
	n := k.serve(limits(func(l *Limits) { l.PageEvents = 2 }))
	ids := map[string]string{}
	for _, name := range []string{"final", "flying", "queued", "waiting", "last"} {
		ids[name] = n.create("alice", name).GetTxId()
	}
	o.live(txID(t, ids["final"]))
	o.allocate(txID(t, ids["flying"]))
	bobs := n.create("bob", "other").GetTxId()

	for _, ask := range []*pb.WatchTxRequest{watchSubmitter("alice"), watchAll()} {
		want := []string{ids["last"], ids["waiting"], ids["queued"], ids["flying"]}
		if ask.GetAll() != nil {
			want = append(want, bobs)
		}
		slices.Sort(want)
		slices.Reverse(want)
		stream := n.watch(ask)
		got := []string{}
		m, err := stream.Recv()
		for ; err == nil && m.GetSnapshot() != nil; m, err = stream.Recv() {
			got = append(got, m.GetSnapshot().GetTxId())
		}
		k.must(err)
		if !slices.Equal(got, want) {
			t.Errorf("snapshots of %v, want %v", got, want)
		}
		if m.GetHeartbeat() == nil || m.GetResumeToken() == "" {
			t.Errorf("the snapshots are followed by %v", m)
		}
		_, err = k.store.CancelQueued(k.ctx, txID(t, ids["last"]))
		k.must(err)
		m, err = stream.Recv()
		k.must(err)
		if m.GetEvent().GetTxId() != ids["last"] || m.GetEvent().GetSeq() != 2 {
			t.Errorf("the first event is %v", m)
		}
		ids["last"] = n.create("alice", rand()).GetTxId()
	}
}

var counter atomic.Int64

// rand is a request id that was not used before.
func rand() string { return fmt.Sprint("r", counter.Add(1)) }

// collector reads one stream of many transactions, and checks what holds for each of its messages.
type collector struct {
	t      testing.TB
	stream pb.TxService_WatchTxClient
	got    []*pb.WatchTxResponse
	seen   map[string]bool
	last   map[string]uint64
}

func collect(t testing.TB, stream pb.TxService_WatchTxClient) *collector {
	return &collector{t: t, stream: stream, seen: map[string]bool{}, last: map[string]uint64{}}
}

// until reads up to an event of a transaction.
func (c *collector) until(id string, seq uint64) *collector {
	for {
		m, err := c.stream.Recv()
		if err != nil {
			c.t.Error(err)
			return c
		}
		e := m.GetEvent()
		if e == nil {
			continue
		}
		key := fmt.Sprint(e.GetTxId(), "/", e.GetSeq())
		if last := c.last[e.GetTxId()]; c.seen[key] || last != 0 && e.GetSeq() != last+1 {
			c.t.Errorf("event %s comes after event %d of its transaction", key, last)
		}
		c.seen[key], c.last[e.GetTxId()] = true, e.GetSeq()
		c.got = append(c.got, m)
		if e.GetTxId() == id && e.GetSeq() == seq {
			return c
		}
	}
}

// events lists what the ledger has of a submitter, or of all.
func (k *kit) events(submitter string) map[string]bool {
	rows, err := k.db.Pool.Query(k.ctx, "SELECT e.tx_id::TEXT || '/' || e.seq FROM tx_event e JOIN submitter s USING (submitter_id) WHERE $1 = '' OR s.name = $1", submitter)
	k.must(err)
	defer rows.Close()
	all := map[string]bool{}
	for rows.Next() {
		var key string
		k.must(rows.Scan(&key))
		all[key] = true
	}
	k.must(rows.Err())
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

// With many writers on two nodes every watcher on either gets every event once and in order; one that is resumed anywhere, on either node, gets exactly the
// rest. Rings are tiny, so that most of it is read from the ledger.
func TestWatchManyUnderConcurrentWriters(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	tiny := func(l *Limits) { l.RingEvents, l.PageEvents, l.FeedPoll = 4, 2, 10*time.Millisecond }
	nodes := []*node{k.serve(limits(tiny)), k.serve(limits(tiny), func(o *Options) { o.Store = k.open("b") })}
	const submitters, each = 4, 5
	names := []string{}
	ctx, stop := context.WithCancel(k.ctx)
	var owners sync.WaitGroup
	for i := range submitters {
		names = append(names, fmt.Sprintf("s%d", i))
		o := k.own(k.register(names[i]))
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
			_, err := c.stream.Recv() // it stands
			k.must(err)
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
					if got := kinds(toTheEnd(t, nodes[j%2].watch(ask))); !slices.Equal(got, life) {
						t.Errorf("the watch of one transaction tells %v", got)
					}
				})
			}
		})
	}
	writers.Wait()
	k.eventually("the end of all transactions", func() bool { return k.count("managed_tx WHERE state <> 'CONFIRMED'") == 0 })
	stop()
	owners.Wait()
	for name, of := range watchers {
		// The event of a transaction that is created when all else is done comes last.
		marker := nodes[0].create(cmp.Or(name, names[0]), rand()).GetTxId()
		events := k.events(name)
		for i, c := range of {
			c.until(marker, 1).compare(fmt.Sprintf("watcher %d of %q", i, name), events)
		}
	}
	checkResumes(k, nodes, watchers[""][0])
}

// checkResumes resumes a stream after each of its messages, on both nodes in turn.
func checkResumes(k *kit, nodes []*node, c *collector) {
	marker := c.got[len(c.got)-1].GetEvent().GetTxId()
	rest := map[string]bool{}
	for i := len(c.got) - 2; i >= 0; i-- {
		next := c.got[i+1].GetEvent()
		rest[fmt.Sprint(next.GetTxId(), "/", next.GetSeq())] = true
		ask := watchAll()
		ask.ResumeToken = c.got[i].GetResumeToken()
		ctx, cancel := context.WithCancel(k.ctx)
		stream, err := nodes[i%2].txs.WatchTx(ctx, ask)
		k.must(err)
		resumed := collect(k.t, stream)
		resumed.until(marker, 1).compare(fmt.Sprintf("resumed after message %d of %d", i, len(c.got)), rest)
		cancel()
	}
}

// A token may come from a node that has read further than this one.
func TestResumeOnANodeThatIsBehind(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.register("alice")
	ahead := k.serve()
	behind := k.serve(limits(func(l *Limits) { l.FeedPoll = time.Hour }), func(o *Options) { o.Store = k.open("b") })
	streams := []pb.TxService_WatchTxClient{ahead.watch(watchAll()), behind.watch(watchAll())}
	for _, stream := range streams {
		_, err := stream.Recv()
		k.must(err)
	}
	token, seen := "", map[string]bool{}
	for range 5 {
		id := ahead.create("alice", rand()).GetTxId()
		m, err := streams[0].Recv()
		if k.must(err); m.GetEvent().GetTxId() != id {
			t.Fatalf("told %v", m)
		}
		token, seen[id] = m.GetResumeToken(), true
	}
	ask := watchAll()
	ask.ResumeToken = token
	resumed := behind.watch(ask)
	id := ahead.create("alice", rand()).GetTxId()
	ask.ResumeToken = "" // and somebody who makes the node look again
	_, err := behind.watch(ask).Recv()
	k.must(err)
	m, err := resumed.Recv()
	if k.must(err); m.GetEvent().GetTxId() != id {
		t.Errorf("the resumed stream tells %v, delivered before: %v", m, seen[m.GetEvent().GetTxId()])
	}
}

// counting is the real store, and how often it was read.
type counting struct {
	Store
	heads, pages, own, other *atomic.Int64
	tailer                   int // limit of the tailer's pages
}

func newCounting(s Store, pageEvents int) counting {
	return counting{s, new(atomic.Int64), new(atomic.Int64), new(atomic.Int64), new(atomic.Int64), tailerPages * pageEvents}
}

func (c counting) FeedHead(ctx context.Context) (int64, string, error) {
	c.heads.Add(1)
	return c.Store.FeedHead(ctx)
}

func (c counting) EventsSince(ctx context.Context, since, until string, after store.EventKey, of txn.SubmitterID, limit int) ([]store.EventInfo, error) {
	if limit == c.tailer {
		c.pages.Add(1)
	} else {
		c.own.Add(1)
	}
	return c.Store.EventsSince(ctx, since, until, after, of, limit)
}

func (c counting) EventsOfTx(ctx context.Context, id txn.TxID, after int64, limit int) ([]store.EventInfo, error) {
	c.own.Add(1)
	return c.Store.EventsOfTx(ctx, id, after, limit)
}

func (c counting) Tx(ctx context.Context, id txn.TxID) (store.TxInfo, error) {
	c.other.Add(1)
	return c.Store.Tx(ctx, id)
}

func (c counting) Txs(ctx context.Context, filter store.TxFilter) ([]store.TxInfo, error) {
	c.other.Add(1)
	return c.Store.Txs(ctx, filter)
}

// A thousand watchers cost the database what one costs.
func TestThousandWatchersShareOneTailer(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	o := k.own(k.register("alice"))
	s := newCounting(k.store, 100)
	n := k.serve(func(o *Options) { o.Store, o.Limits.FeedPoll = s, 200*time.Millisecond })
	id := n.create("alice", "r1").GetTxId()
	asks := []*pb.WatchTxRequest{watchID(id), watchSubmitter("alice"), watchAll()}
	streams := make([]pb.TxService_WatchTxClient, 1000)
	var opening sync.WaitGroup
	for i := range streams {
		ask := proto.CloneOf(asks[i%3])
		ask.Heartbeat = durationpb.New(5 * time.Minute)
		opening.Go(func() {
			stream, err := n.txs.WatchTx(k.ctx, ask)
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
	o.live(txID(t, id))
	for i, stream := range streams {
		for want := range 4 {
			m, err := stream.Recv()
			if k.must(err); m.GetEvent().GetSeq() != uint64(want+2) {
				t.Fatalf("stream %d tells %v, want event %d", i, m, want+2)
			}
		}
	}
	// The tailer also looks when something else in the cluster commits.
	if pages := s.pages.Load(); pages > 200 || s.own.Load() != 0 || s.other.Load() != 0 {
		t.Errorf("4 events cost the tailer %d pages, and 1000 watchers %d pages and %d other reads of their own", pages, s.own.Load(), s.other.Load())
	}
	t.Logf("1000 watchers, 4 events: %d heads, %d pages", s.heads.Load(), s.pages.Load())
}

// Nobody watches, nobody reads.
func TestFeedIsNotReadForNobody(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.register("alice")
	s := newCounting(k.store, 100)
	n := k.serve(func(o *Options) { o.Store = s })
	n.create("alice", "r1")
	if got := s.heads.Load(); got != 0 {
		t.Errorf("%d reads before there was a watcher", got)
	}
	ctx, cancel := context.WithCancel(k.ctx)
	stream, err := n.txs.WatchTx(ctx, watchAll())
	k.must(err)
	_, err = stream.Recv()
	k.must(err)
	k.eventually("polling", func() bool { return s.heads.Load() > 3 })
	cancel()
	k.eventually("the end of the stream", func() bool {
		n.server.feed.mu.Lock()
		defer n.server.feed.mu.Unlock()
		return n.server.feed.boundary == "" // the tailer idles
	})
	before := s.heads.Load()
	n.create("alice", "r2")
	if got := s.heads.Load(); got != before {
		t.Errorf("%d more reads without a watcher", got-before)
	}
}

// A client that does not read holds up nobody, falls out of the ring, and still gets everything when it reads again.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	o := k.own(k.register("alice"))
	s := newCounting(k.store, 10)
	n := k.serve(func(o *Options) { o.Store, o.Limits.RingEvents, o.Limits.PageEvents = s, 20, 10 })
	// Else the transport would buffer more and more for a client on the same machine.
	n.dial(n.conn.Target(), grpc.WithStaticStreamWindowSize(1<<16), grpc.WithStaticConnWindowSize(1<<20))
	slow, fast := collect(t, n.watch(watchAll())), collect(t, n.watch(watchAll()))
	for _, c := range []*collector{slow, fast} {
		_, err := c.stream.Recv()
		k.must(err)
	}
	o.says = strings.Repeat("x", 4000) // so that the events do not fit into what the transport buffers
	for range 20 {
		id := n.create("alice", rand()).GetTxId()
		o.live(txID(t, id))
		fast.until(id, 5)
	}
	marker := n.create("alice", rand()).GetTxId()
	events := k.events("")
	fast.until(marker, 1).compare("the fast reader", events)
	slow.until(marker, 1).compare("the slow reader", events)
	if s.own.Load() == 0 {
		t.Error("the slow reader was never behind: the test does not show what it is for")
	}
}

// An idle stream beats, and its token holds.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.register("alice")
	n := k.serve()
	id := n.create("alice", "r1").GetTxId()
	for _, ask := range []*pb.WatchTxRequest{watchID(id), watchAll()} {
		ask.Heartbeat = durationpb.New(time.Second)
		stream := n.watch(ask)
		_, err := stream.Recv() // the event, or the snapshot
		k.must(err)
		m := &pb.WatchTxResponse{}
		for range 2 {
			m, err = stream.Recv()
			if k.must(err); m.GetHeartbeat().GetTime() == nil || m.GetResumeToken() == "" {
				t.Errorf("an idle stream says %v", m)
			}
		}
		k.must(k.cancelled(id, ask))
		ask.ResumeToken = m.GetResumeToken()
		if m, err = n.watch(ask).Recv(); err != nil || m.GetEvent() == nil {
			t.Errorf("resumed from a heartbeat: %v, %v", m, err)
		}
	}
}

// cancelled makes something happen that the stream is to tell.
func (k *kit) cancelled(id string, ask *pb.WatchTxRequest) error {
	tx, err := txn.ParseTxID(id)
	if err != nil {
		return err
	}
	if ask.GetAll() != nil {
		_, _, err = k.store.CreateTx(k.ctx, store.Intent{Submitter: tx.Submitter(), RequestID: rand()})
		return err
	}
	_, err = k.store.CancelQueued(k.ctx, tx)
	return err
}

// A ledger that was restored is another feed: whoever stands in the old one is told to start anew.
func TestRestoreEndsWatches(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.register("alice")
	n := k.serve()
	id := n.create("alice", "r1").GetTxId()
	for _, ask := range []*pb.WatchTxRequest{watchID(id), watchSubmitter("alice"), watchAll()} {
		stream := n.watch(ask)
		m, err := stream.Recv()
		for k.must(err); m.GetResumeToken() == ""; m, err = stream.Recv() {
			k.must(err)
		}
		_, err = k.db.Pool.Exec(k.ctx, "UPDATE ledger SET feed_epoch = feed_epoch + 1")
		k.must(err)
		for err == nil {
			_, err = stream.Recv()
		}
		wantStatus(t, err, codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
		ask.ResumeToken = m.GetResumeToken()
		wantStatus(t, n.call(watchTx, ask), codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
	}
	epoch, _, err := k.store.FeedHead(k.ctx)
	k.must(err)
	ask := watchID(id)
	ask.ResumeToken = oneToken(epoch, txID(t, id), 2) // there is but one event
	wantStatus(t, n.call(watchTx, ask), codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
}

// A stream outlives a short outage of the database and loses nothing. During it there is no heartbeat.
func TestWatchOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	o := k.own(k.register("alice"))
	gate := newGate(t, k.db.TCPAddr())
	s, err := store.Open(k.ctx, store.Config{URL: k.db.Through(gate.address()), Schema: k.db.Schema, Node: "b/boot"})
	k.must(err)
	t.Cleanup(s.Close)
	n := k.serve(func(o *Options) { o.Store = s })
	id := n.create("alice", "r1").GetTxId()
	ask := watchAll()
	ask.Heartbeat = durationpb.New(time.Second)
	many, one := n.watch(ask), n.watch(watchID(id))
	for _, stream := range []pb.TxService_WatchTxClient{many, many, one} { // a snapshot and a heartbeat; an event
		_, err := stream.Recv()
		k.must(err)
	}
	gate.shut(true)
	k.eventually("the failure", func() bool {
		n.server.feed.mu.Lock()
		defer n.server.feed.mu.Unlock()
		return n.server.feed.failing
	})
	late := n.watch(watchID(id)) // begins in the middle of it
	o.live(txID(t, id))
	began := time.Now()
	k.eventually("a heartbeat that was due", func() bool { return time.Since(began) > 1200*time.Millisecond })
	gate.shut(false)
	for i := range 5 {
		m, err := late.Recv()
		if k.must(err); m.GetEvent().GetKind() != life[i] {
			t.Errorf("the stream that began in the outage tells %v", m)
		}
	}
	for _, stream := range []pb.TxService_WatchTxClient{many, one} {
		for _, want := range life[1:] {
			m, err := stream.Recv()
			if k.must(err); m.GetEvent().GetKind() != want {
				t.Errorf("after the outage comes %v, want %v", m, want)
			}
		}
	}
}

// An outage that lasts ends the streams, and those that want to begin, so that clients turn to another node.
func TestWatchEndsInALongOutage(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.register("alice")
	gate := newGate(t, k.db.TCPAddr())
	s, err := store.Open(k.ctx, store.Config{URL: k.db.Through(gate.address()), Schema: k.db.Schema, Node: "b/boot"})
	k.must(err)
	t.Cleanup(s.Close)
	n, healthy := k.serve(func(o *Options) { o.Store, o.Limits.Outage = s, 50*time.Millisecond }), k.serve()
	id := n.create("alice", "r1").GetTxId()
	streams := []pb.TxService_WatchTxClient{n.watch(watchAll()), n.watch(watchID(id))}
	tokens := []string{}
	for i, stream := range streams {
		m, err := stream.Recv()
		for k.must(err); m.GetResumeToken() == ""; m, err = stream.Recv() {
			k.must(err)
		}
		tokens = append(tokens, m.GetResumeToken())
		if i == len(streams)-1 {
			gate.shut(true)
		}
	}
	for _, stream := range streams {
		_, err := stream.Recv()
		wantStatus(t, err, codes.Unavailable, "STORE_UNAVAILABLE")
	}
	for _, ask := range []*pb.WatchTxRequest{watchID(id), watchAll()} {
		wantStatus(t, n.call(watchTx, ask), codes.Unavailable, "STORE_UNAVAILABLE")
	}
	_, err = k.store.CancelQueued(k.ctx, txID(t, id))
	k.must(err)
	for i, ask := range []*pb.WatchTxRequest{watchAll(), watchID(id)} {
		ask.ResumeToken = tokens[i]
		if m, err := healthy.watch(ask).Recv(); err != nil || m.GetEvent().GetSeq() != 2 {
			t.Errorf("resumed on another node: %v, %v", m, err)
		}
	}
	gate.shut(false)
	k.eventually("recovery", func() bool {
		m, err := n.watch(watchID(id)).Recv()
		return err == nil && m.GetEvent().GetSeq() == 1
	})
}

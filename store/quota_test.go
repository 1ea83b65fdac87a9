package store

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

func queues(each, all int) func(*Config) {
	return func(c *Config) { c.MaxQueued, c.MaxQueuedTotal = each, all }
}

// fill creates transactions one after the other until one is refused for lack of room, and returns
// their number.
func (k *kit) fill(s *Store, id txn.SubmitterID, prefix string,
	most int) (accepted int, full *QueueFullError) {
	k.t.Helper()
	for ; accepted <= most; accepted++ {
		_, _, err := s.CreateTx(
			k.ctx,
			Intent{
				Submitter: id,
				RequestID: fmt.Sprint(prefix, accepted),
				Payload:   payload(prefix),
			},
		)
		if errors.As(err, &full) {
			return accepted, full
		}
		k.must(err)
	}
	k.t.Fatalf("%d transactions are accepted and nothing is full", accepted)
	return 0, nil
}

// A full queue rejects new transactions with a reason, answers repeated requests, and accepts more
// once there is room. Other queues are not affected.
func TestCreateTx_QueueFull_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a", queues(10, 0))
	alice, bob := k.submitter(s, "alice"), k.submitter(s, "bob")
	accepted, full := k.fill(s, alice, "r", 10)
	if accepted != 10 || full.Ledger || full.Limit != 10 || full.RetryAfter < time.Second ||
		full.RetryAfter > 30*time.Second {
		t.Fatalf("%d accepted, then %+v", accepted, full)
	}
	again, first, err := s.CreateTx(k.ctx,
		Intent{Submitter: alice, RequestID: "r3", Payload: payload("r")})
	if err != nil || first || again.RequestID != "r3" {
		t.Errorf("what was accepted is answered with %+v, %v, %v", again, first, err)
	}
	if _, _, err := s.CreateTx(k.ctx, Intent{Submitter: alice, RequestID: "r3",
		Payload: payload("other")}); !errors.Is(
		err, ErrKeyReused) {
		t.Errorf("a key that is used: %v", err)
	}
	k.queue(s, bob, "bob's")
	for i, result := range s.CreateTxs(k.ctx, []Intent{
		{Submitter: alice, RequestID: "r1", Payload: payload("r")},
		{Submitter: alice, RequestID: "new", Payload: payload("r")},
		{Submitter: bob, RequestID: "b2", Payload: payload("b")},
	}) {
		if refused := errors.As(result.Err, &full); refused != (i == 1) ||
			result.Created != (i == 2) ||
			result.Err != nil && !refused {
			t.Errorf("of a batch, %d: %+v", i, result)
		}
	}
	cancelled, err := s.CancelQueued(k.ctx, again.ID)
	k.must(err)
	k.eventually("there is room again", func() bool {
		_, first, err := s.CreateTx(k.ctx,
			Intent{Submitter: alice, RequestID: "later", Payload: payload("r")})
		return cancelled && err == nil && first
	})
	if _, _, err := s.CreateTx(k.ctx, Intent{Submitter: alice, RequestID: "too late",
		Payload: payload("r")}); !errors.As(
		err, &full) {
		t.Errorf("the one after it: %v", err)
	}
}

// A repeated request to a nearly full queue takes no place from new ones, in one call or many,
// independent of other errors.
func TestCreateTx_Repeated_TakesNoRoom(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for name, wrong := range map[string][]Intent{
		"all-good": nil, "bad-key": {{RequestID: "\x00"}},
		"bad-terms": {{RequestID: "odd", Terms: txn.Terms{Speed: "odd"}}},
	} {
		s := k.open("a", queues(10, 0))
		id := k.submitter(s, name)
		var asks []Intent
		for n := range 8 {
			request := fmt.Sprint("r", n)
			asks = append(asks,
				Intent{Submitter: id, RequestID: request, Payload: payload(request)})
			k.queue(s, id, request)
		}
		for _, one := range wrong {
			one.Submitter = id
			asks = append(asks, one)
		}
		for n := range 3 {
			asks = append(asks,
				Intent{Submitter: id, RequestID: fmt.Sprint("new", n), Payload: payload("r")})
		}
		created, full := 0, 0
		results := s.CreateTxs(k.ctx, asks)
		for i, result := range results[:8] {
			if result.Err != nil || result.Created {
				t.Errorf("%s: repeat %d: %v, %v", name, i, result.Created, result.Err)
			}
		}
		for _, result := range results[8+len(wrong):] {
			if result.Created {
				created++
			} else if _, is := errors.AsType[*QueueFullError](result.Err); is {
				full++
			}
		}
		if created != 2 || full != 1 {
			t.Errorf("%s: of three new ones %d are queued and %d refused for want of room", name,
				created, full)
		}
		if g, _ := k.landed(s, id); g.counted+g.since != 10 {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// All queues together are bounded as well.
func TestCreateTx_LedgerFull_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a", queues(0, 7))
	alice, bob := k.submitter(s, "alice"), k.submitter(s, "bob")
	for n := range 4 {
		k.queue(s, alice, fmt.Sprint("a", n))
	}
	if accepted, full := k.fill(s, bob, "b", 7); accepted != 3 || !full.Ledger || full.Limit != 7 {
		t.Fatalf("%d accepted, then %+v", accepted, full)
	}
}

// A submitter that accepts nothing returns that reason, not a full queue: a later retry would not
// help.
func TestCreateTx_QueueFullAndPaused_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a", queues(2, 0))
	id, lease := k.owned(s, "alice")
	k.fill(s, id, "r", 2)
	k.done(s, lease, txn.Change{Status: txn.Paused})
	if _, _, err := s.CreateTx(k.ctx,
		Intent{Submitter: id, RequestID: "r9", Payload: payload("r")}); !errors.Is(
		err, ErrPaused) {
		t.Fatal(err)
	}
}

// Nothing is counted while a node accepts less than its credit, and a job that is not inserted
// takes no place.
func TestQuota_WithinCredit_NoCount(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a", queues(160, 1600))
	id := k.submitter(s, "alice")
	for n := range 9 {
		k.queue(s, id, fmt.Sprint("r", n))
		k.queue(s, id, fmt.Sprint("r", n)) // again
		if _, _, err := s.CreateTx(k.ctx, Intent{Submitter: id, RequestID: "\x00"}); err == nil {
			t.Fatal("that is no key")
		}
	}
	k.queue(s, id, "r9")
	if g, all := k.landed(s, id); !g.at.IsZero() || g.since != 10 || all.since != 10 {
		t.Fatalf("%+v and %+v after 10 that were accepted", g, all)
	}
	k.queue(s, id, "one more")
	if g, _ := k.landed(s, id); g.at.IsZero() || g.counted != 10 || g.since != 1 {
		t.Fatalf("%+v after the credit was used up", g)
	}
}

// landed are the gauges of a submitter and of all once no statement is under way: a caller has its
// answer before.
func (k *kit) landed(s *Store, id txn.SubmitterID) (of, all gauge) {
	k.t.Helper()
	k.eventually("all has landed", func() bool {
		s.quota.mu.Lock()
		defer s.quota.mu.Unlock()
		of, all = *s.quota.gauge(id), *s.quota.ledger
		return of.flying == 0 && all.flying == 0
	})
	return of, all
}

// A node that does not know the transactions that others accept exceeds the limit by its credit,
// and no more.
func TestQuota_NewNode_Counts(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	a, b := k.open("a", queues(160, 0)), k.open("b", queues(160, 0))
	id := k.submitter(a, "alice")
	if n, _ := k.fill(a, id, "a", 160); n != 160 {
		t.Fatalf("the first node accepts %d", n)
	}
	if n, _ := k.fill(b, id, "b", 160); n != 10 {
		t.Fatalf("the second node accepts %d beyond the limit, want its credit", n)
	}
}

// TestQuota_BurstOnTwoNodes_Bounded: 64 callers that create far more than there is room for, on two
// nodes, with a bound that holds at each moment.
func TestQuota_BurstOnTwoNodes_Bounded(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const (
		limit   = 480
		callers = 64
		each    = 30
	)
	stores := []*Store{k.open("a", queues(limit, 0)), k.open("b", queues(limit, 0))}
	id := k.submitter(stores[0], "alice")
	var mu sync.Mutex
	var accepted []string
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for n := range each {
				request := fmt.Sprint(c, "/", n)
				_, first, err := stores[c%2].CreateTx(k.ctx,
					Intent{Submitter: id, RequestID: request, Payload: payload(request)})
				var full *QueueFullError
				switch {
				case err == nil && first:
					mu.Lock()
					accepted = append(accepted, request)
					mu.Unlock()
				case !errors.As(err, &full):
					t.Errorf("%s: created %v, %v", request, first, err)
				}
			}
		})
	}
	all.Wait()
	if n, most := len(accepted), limit+callers/2; n < limit || n > most ||
		n != value[int](k, "SELECT count(*) FROM managed_tx") {
		t.Fatalf("%d are accepted of %d, want %d to %d", n, callers*each, limit,
			most) // a statement carries no more than half of the callers
	}
	for _, request := range slices.Concat(accepted[:20], accepted[len(accepted)-20:]) {
		if _, first, err := stores[1].CreateTx(k.ctx,
			Intent{Submitter: id, RequestID: request, Payload: payload(request)}); err != nil ||
			first {
			t.Errorf("%s, which was accepted: created %v, %v", request, first, err)
		}
	}
}

// simNode is a node of TestQuota_OverrunBound: its knowledge, and its running statement.
type simNode struct {
	quota  *quota
	flying []*createJob
}

func (n *simNode) commit(t *rapid.T, depth *int64) {
	lost := rapid.IntRange(0, len(n.flying)).Draw(t, "not inserted")
	failed := map[*createJob]bool{}
	for _, job := range n.flying[:lost] {
		failed[job] = true
	}
	*depth += int64(len(n.flying) - lost)
	n.quota.settle(n.flying, func(job *createJob) bool { return !failed[job] })
	n.flying = nil
}

// TestQuota_OverrunBound: with any schedule of nodes and any visibility of their counts, a queue
// exceeds its limit by no more than the documented bound.
func TestQuota_OverrunBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit, group := rapid.IntRange(1, 400).Draw(t, "limit"), rapid.IntRange(1, 40).Draw(t,
			"group")
		nodes := make([]*simNode, rapid.IntRange(1, 4).Draw(t, "nodes"))
		for i := range nodes {
			nodes[i] = &simNode{quota: newQuota(limit, 0)}
		}
		depth, now := int64(0), time.Unix(1_700_000_000, 0)
		bound := int64(limit + (len(nodes)-1)*min(limit, max(limit/creditShare, 2*group)))
		meanwhile := func() {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
			for _, n := range nodes {
				if rapid.Bool().Draw(t, "commits") {
					n.commit(t, &depth)
				}
			}
			if depth > bound {
				t.Fatalf("%d wait, and the bound is %d", depth, bound)
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			n := nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "node")]
			if len(n.flying) > group ||
				rapid.Bool().Draw(t,
					"one at a time") { // else it goes beside one that is tried again in halves
				n.commit(t, &depth)
			}
			jobs := make([]*createJob, rapid.IntRange(1, group).Draw(t, "jobs"))
			for i := range jobs {
				jobs[i] = &createJob{intent: Intent{Submitter: 1}}
			}
			if ids, _ := n.quota.stale(jobs, now); len(ids) > 0 {
				done := n.quota.begin(now, []*gauge{n.quota.lookUp(1)})
				meanwhile()
				seen := depth
				meanwhile()
				done(now, func(int) int64 { return seen })
			}
			n.flying = append(n.flying, n.quota.take(jobs, now)...)
			meanwhile()
			depth -= rapid.Int64Range(0, depth/4).Draw(t, "drained")
		}
	})
}

// Two concurrent counts, of a group and of one that is retried in halves, subtract the places that
// they have seen once.
func TestQuota_ConcurrentCounts(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for name, order := range map[string][2]int{"in their order": {0, 1},
		"the first one last": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQuota(100, 0)
			g := q.gauge(1)
			accept := func() {
				jobs := make([]*createJob, 30)
				for i := range jobs {
					jobs[i] = &createJob{intent: Intent{Submitter: 1}}
				}
				q.settle(q.take(jobs, now), func(*createJob) bool { return true })
			}
			var counts []func()
			for n := range 2 {
				accept()
				done := q.begin(now, []*gauge{g})
				counts = append(counts,
					func() { done(now, func(int) int64 { return int64(30 * (n + 1)) }) })
			}
			for _, n := range order {
				counts[n]()
			}
			if g.counted+g.since != 60 {
				t.Errorf("%d are known of 60: %+v", g.counted+g.since, *g)
			}
		})
	}
}

// A count that fails because it takes too long refuses no job while there is room by the known
// depth, and is not retried at once.
func TestQuota_CountFails_UsesLastCount(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a", queues(math.MaxInt64-1, 0)) // no statement takes a limit that is so far beyond
	id := k.submitter(s, "alice")
	g := s.quota.gauge(id)
	g.since = g.limit / creditShare // the next one makes it stale
	k.queue(s, id, "r0")
	k.queue(s, id, "r1")
	if now, _ := k.landed(s, id); now.failed.IsZero() || now.since != now.limit/creditShare+2 {
		t.Errorf("it knows %+v", now)
	}
	s.quota.mu.Lock()
	g.since = g.limit
	s.quota.mu.Unlock()
	var full *QueueFullError
	if _, _, err := s.CreateTx(k.ctx,
		Intent{Submitter: id, RequestID: "r2", Payload: payload("r")}); !errors.As(
		err, &full) {
		t.Errorf("what is full by what is known: %v", err)
	}
}

// The pending creates of a node are bounded in bytes.
func TestCreateTx_TooManyPendingBytes_Busy(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	s.creates.limits.held = 1000 // no job exists yet
	if _, _, err := s.CreateTx(k.ctx, Intent{Submitter: id, RequestID: "big",
		Payload: txn.Payload{Data: make([]byte, 1000)}}); !errors.Is(
		err, ErrBusy) {
		t.Fatal(err)
	}
	k.queue(s, id, "small")
	k.eventually("nothing is held of nothing", func() bool {
		s.creates.mu.Lock()
		defer s.creates.mu.Unlock()
		return s.creates.held == 0
	})
}

// The next count measures how fast a queue shrinks, and callers get that rate.
func TestQuota_RetryAfter(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		depth int64 // after 8 s
		want  time.Duration
	}{
		"nothing left":       {100, 5 * time.Second},
		"one left":           {99, 8 * time.Second},
		"two left":           {98, 4 * time.Second},
		"many left":          {0, time.Second},
		"others add to them": {110, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gauge{limit: 100}
			g.learn(100, 0, start, start)
			g.learn(c.depth, 0, start.Add(8*time.Second), start.Add(8*time.Second))
			if got := g.full(false, start.Add(8*time.Second)).RetryAfter; got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
	g := &gauge{limit: 100}
	g.learn(100, 0, start, start.Add(time.Second)) // a count that takes a second
	if got := g.full(false, start.Add(time.Second)).RetryAfter; got != 20*time.Second {
		t.Errorf("%v, want what is left until the next count", got)
	}
}

// Queued transactions are counted along the index of the queues, and a page is read along its key,
// independent of the rest of the ledger.
func TestQuota_CountPlan_UsesIndex(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	id := k.submitter(s, "alice")
	k.history(id, 20_000, "CONFIRMED", "SUCCESS", true)
	k.history(id, 5_000, "CANCELLED", "NO", true)
	k.history(id, 300, "QUEUED", "UNKNOWN", false)
	k.vacuum("managed_tx")
	meter := &meteredReads{DBTX: k.session(), t: t}
	queries := db.New(meter)
	rows, err := queries.QueueDepths(k.ctx,
		db.QueueDepthsParams{SubmitterIds: []int32{int32(id), 4711}, Most: 1000})
	k.must(err)
	if len(rows) != 2 || rows[0].Depth != 300 || rows[1].Depth != 0 || meter.rows > 1000 {
		t.Errorf("%v, for which %.0f rows were read", rows, meter.rows)
	}
	meter.rows = 0
	if all, err := queries.LedgerDepth(k.ctx, 200); err != nil || all != 200 ||
		meter.rows > 201 { // and the submitter
		t.Errorf("%d in all, %v, for which %.0f rows were read", all, err, meter.rows)
	}
	meter.rows = 0
	p := listParams(TxFilter{Submitter: id, Limit: 11, MaxBytes: 1 << 20})
	if page, err := queries.ListTxs(k.ctx, p); err != nil || len(page) != 11 || meter.rows > 50 {
		t.Errorf("a page of %d, %v, for which %.0f rows were read", len(page), err, meter.rows)
	}
}

// TestQuota_LongQueue_LeavesRoom fills the ledger from two accounts, and wants room for a third.
func TestQuota_LongQueue_LeavesRoom(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	q := newQuota(100, 160)
	accept := func(id txn.SubmitterID) *QueueFullError {
		job := &createJob{intent: Intent{Submitter: id}}
		q.settle(q.take([]*createJob{job}, now), func(*createJob) bool { return true })
		return job.full
	}
	for range 100 {
		if full := accept(1); full != nil {
			t.Fatalf("the first account: %v", full)
		}
	}
	took := 0
	full := accept(2)
	for ; full == nil; full = accept(2) {
		took++
	}
	if !full.Share || took < 50 || took > 55 {
		t.Fatalf("the second account has %d; then %+v", took, full)
	}
	if own := (&QueueFullError{Limit: full.Limit}); full.Error() == own.Error() {
		t.Errorf("a share of all queues is reported as the account's own queue: %v", full)
	}
	if full := accept(3); full != nil {
		t.Errorf("no room is left for another account: %+v", full)
	}

	// Its queue becomes shorter, which only a count shows.
	now = now.Add(time.Minute)
	ids, all := q.stale([]*createJob{{intent: Intent{Submitter: 2}}}, now)
	if len(ids) != 1 || !all {
		t.Fatalf("counts %v and all queues: %v", ids, all)
	}
	q.begin(now, []*gauge{q.gauge(2)})(now, func(int) int64 { return 1 })
	if full := accept(2); full != nil {
		t.Errorf("after the queue became shorter: %+v", full)
	}
}

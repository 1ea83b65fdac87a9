package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"pgregory.net/rapid"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// reader is a stream under test and its deliveries.
type reader struct {
	sub    *subscription
	seen   map[string]bool // received, or before its start
	tokens []mark          // positions to resume at
	last   map[txn.TxID]int64
	given  store.EventKey // named by the token that it resumed with
}

// mark is a position and the events before it.
type mark struct {
	at   store.Position
	seen []string
}

func name(e store.EventInfo) string { return fmt.Sprintf("%s/%d", e.Tx, e.Seq) }

// feedTest drives a feed and its streams, one step at a time.
type feedTest struct {
	model   *model
	feed    *Feed
	readers []*reader
	seqs    map[txn.TxID]int64
	busy    map[txn.TxID]bool // written by an open transaction

	restricted bool // streams without names are of callers of few accounts
}

func newFeedTest(t *rapid.T) *feedTest {
	m := newModel()
	limits := Limits{
		RingEvents: rapid.IntRange(1, 12).Draw(t, "ring"),
		PageEvents: rapid.IntRange(1, 3).Draw(t, "page"),
		Poll:       time.Second, MinGap: time.Second,
		Outage: time.Second, ReadTimeout: time.Minute,
	}
	f, err := New(Options{
		Store: m, Tail: m, Clock: clock.Real{}, Logger: slog.New(slog.DiscardHandler),
		Limits: limits, MeterProvider: noopmetric.NewMeterProvider(),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.page = rapid.IntRange(1, 5).Draw(t, "tailer page")
	f.subscriptions.count++ // the feed reads with or without streams
	return &feedTest{model: m, feed: f, seqs: map[txn.TxID]int64{}, busy: map[txn.TxID]bool{}}
}

// txOf returns one of a few transactions, of two submitters.
func txOf(n int) (id txn.TxID, submitter txn.SubmitterID) {
	id[15] = byte(n)
	return id, txn.SubmitterID(1 + n%2)
}

func nameOf(submitter txn.SubmitterID) string { return fmt.Sprint("s", submitter) }

// rightsToDraw are the rights of callers: to all submitters, to one, to none.
var rightsToDraw = [][]string{nil, {"s1"}, {"s2"}, {}}

// labelsOf returns the labels of a transaction; some have none.
func labelsOf(n int) map[string]string {
	labels := map[string]string{}
	if n%4 != 0 {
		labels["odd"] = fmt.Sprint(n % 2)
	}
	if n >= 4 {
		labels["big"] = ""
	}
	return labels
}

// targets are the targets of the streams.
func targets() (all []Target) {
	for submitter := range txn.SubmitterID(3) {
		for _, labels := range []map[string]string{nil, {"odd": "1"}, {"odd": "0"}, {"big": ""},
			{"big": "", "odd": "1"}, {"odd": "2"}, {"absent": ""}} {
			of := Target{Submitter: submitter}.WithLabels(labels)
			all = append(all, of)
			for _, of.States = range []StateSet{States(txn.Stuck),
				States(txn.Stuck, txn.Confirmed)} {
				all = append(all, of)
			}
		}
	}
	for _, ns := range [][]int{{3}, {0, 1, 2, 5}, {9}} {
		ids := IDSet{}
		for _, n := range ns {
			id, _ := txOf(n)
			ids = append(ids, id)
		}
		all = append(all, Target{Txs: &ids}, Target{Txs: &ids, States: States(txn.Confirmed)})
	}
	return all
}

// isFor reports whether an event matches a target.
func isFor(t Target, e store.EventInfo) bool {
	if t.Submitter != 0 && t.Submitter != e.Submitter ||
		t.States != 0 && t.States&States(e.State) == 0 {
		return false
	}
	if t.Txs != nil && !slices.Contains(*t.Txs, e.Tx) {
		return false
	}
	for _, label := range strings.Fields(t.labels) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(e.Labels)),
			func(key string) bool { return key+"="+e.Labels[key] == label }) {
			return false
		}
	}
	return true
}

func (ft *feedTest) begin(t *rapid.T) {
	var events []store.EventInfo
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 7), 1, 3, rapid.ID).Draw(t, "txs") {
		id, submitter := txOf(n)
		if ft.busy[id] {
			continue
		}
		ft.busy[id] = true
		state := rapid.SampledFrom(append([]txn.State{"OF_TOMORROW"}, txn.States...)).Draw(t,
			"state")
		events = append(events, store.EventInfo{
			Event: txn.Event{
				Tx:        id,
				Submitter: submitter,
				Seq:       ft.seqs[id] + 1,
				State:     state,
			},
			SubmitterName: nameOf(submitter),
			Labels:        labelsOf(n),
		})
	}
	ft.model.begin(events...)
}

func (ft *feedTest) end(t *rapid.T) {
	open := slices.Sorted(maps.Keys(ft.model.open))
	if len(open) == 0 {
		return
	}
	xid, commit := rapid.SampledFrom(open).Draw(t, "xid"), rapid.IntRange(0, 5).Draw(t,
		"commit") > 0
	for _, e := range ft.model.open[xid] {
		delete(ft.busy, e.Tx)
		if commit {
			ft.seqs[e.Tx] = e.Seq
		}
	}
	ft.model.end(xid, commit)
}

func (ft *feedTest) read(t *rapid.T) {
	if err := ft.feed.read(t.Context()); err != nil && !errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
}

// join opens a new stream, which starts after the events committed so far.
func (ft *feedTest) join(t *rapid.T, what Target, only []string) *reader {
	r := &reader{
		sub: &subscription{
			feed:   ft.feed,
			target: what,
			labels: what.labelSet(),
			names:  only,
			wake:   make(chan struct{}, 1),

			restricted: only != nil || ft.restricted,
		}, seen: map[string]bool{}, last: map[txn.TxID]int64{},
	}
	ft.model.failures = 0
	ft.read(t)
	if err := r.sub.enter(t.Context(), ft.feed.started); err != nil {
		t.Fatal(err)
	}
	for _, e := range ft.model.committed {
		r.seen[name(e)] = true
	}
	ft.readers = append(ft.readers, r)
	return r
}

// resumeAt opens a stream at a mark of another stream.
func (ft *feedTest) resumeAt(t *rapid.T, m mark, what Target, only []string) *reader {
	r := ft.join(t, what, only)
	at, err := store.ParsePosition(m.at.String())
	if err != nil {
		t.Fatal(err)
	}
	r.sub.resumeAt(at)
	r.given = at.After
	r.seen = map[string]bool{}
	for _, s := range m.seen {
		r.seen[s] = true
	}
	return r
}

// resume opens a stream at a past position of another one, for a caller with at most its rights.
func (ft *feedTest) resume(t *rapid.T) {
	if len(ft.readers) == 0 {
		return
	}
	old := rapid.SampledFrom(ft.readers).Draw(t, "reader")
	if len(old.tokens) == 0 {
		return
	}
	m := rapid.SampledFrom(old.tokens).Draw(t, "token")
	only := old.sub.names
	if only == nil { // the token was passed on by a caller with more rights
		only = rapid.SampledFrom(rightsToDraw).Draw(t, "rights")
	}
	ft.resumeAt(t, m, old.sub.target, only)
}

func (ft *feedTest) take(t *rapid.T, r *reader) (more bool) {
	events, behind, err := r.sub.take()
	if err != nil {
		t.Fatal(err)
	}
	if behind {
		for ft.feed.finished < r.sub.minRead { // otherwise it would wait for the feed
			ft.read(t)
		}
		if events, err = r.sub.catchUp(t.Context()); err != nil &&
			!errors.Is(err, store.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	if len(events) > ft.feed.limits.PageEvents {
		t.Fatalf("a stream was given %d events at once, with a page of %d", len(events),
			ft.feed.limits.PageEvents)
	}
	for _, e := range events {
		r.receive(t, e)
	}
	r.mark(t, r.sub.redact(r.sub.position()))
	return behind || len(events) > 0
}

func (r *reader) receive(t *rapid.T, e positioned) {
	switch {
	case r.seen[name(e.EventInfo)]:
		t.Fatalf("event %s was delivered twice", name(e.EventInfo))
	case !r.isFor(e.EventInfo):
		t.Fatalf("event %s is for another stream", name(e.EventInfo))
	case e.Seq <= r.last[e.Tx]:
		t.Fatalf("event %s came after event %d", name(e.EventInfo), r.last[e.Tx])
	}
	r.seen[name(e.EventInfo)], r.last[e.Tx] = true, e.Seq
	r.mark(t, r.sub.deliver(e))
}

func (r *reader) isFor(e store.EventInfo) bool {
	return isFor(r.sub.target, e) &&
		(r.sub.names == nil || slices.Contains(r.sub.names, e.SubmitterName))
}

// mark records a position, which names only events of the caller.
func (r *reader) mark(t *rapid.T, at store.Position) {
	if _, received := r.last[at.After.Tx]; r.sub.restricted && r.sub.names == nil && !received &&
		at.After != r.given && (at.After.Submitter != 0 || at.After.Tx != txn.TxID{}) {
		t.Fatalf("the token of a stream of %v names an event of submitter %d", r.sub.target,
			at.After.Submitter)
	}
	if of := at.After.Submitter; r.sub.names != nil && at.After != r.given &&
		(of != 0 || at.After.Tx != txn.TxID{}) &&
		!slices.Contains(r.sub.names, nameOf(of)) {
		t.Fatalf("the token of a caller of %v names an event of submitter %d", r.sub.names, of)
	}
	seen := make([]string, 0, len(r.seen))
	for s := range r.seen {
		seen = append(seen, s)
	}
	r.tokens = append(r.tokens, mark{at, seen})
}

// finish lets every stream take all events and compares them with the committed ones.
func (ft *feedTest) finish(t *rapid.T) {
	ft.model.failures = 0
	ft.read(t)
	for i, r := range ft.readers {
		for ft.take(t, r) {
		}
		for _, e := range ft.model.committed {
			if r.isFor(e) && !r.seen[name(e)] {
				t.Fatalf("stream %d of %v was never given event %s, written by %s", i,
					r.sub.target, name(e), e.Xid)
			}
		}
	}
}

func several(t *rapid.T, do func(*rapid.T)) {
	for range rapid.IntRange(1, 4).Draw(t, "times") {
		do(t)
	}
}

// For any order of commits, reads, stalls and faults, every stream receives every event once, in
// order per transaction, and can be resumed anywhere.
func TestFeed_AnyInterleaving_DeliversEveryEventOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ft := newFeedTest(t)
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) { several(t, ft.begin) },
			"end":   func(t *rapid.T) { several(t, ft.end) },
			"read":  ft.read,
			"fault": func(t *rapid.T) {
				ft.model.spared, ft.model.failures = rapid.IntRange(0, 3).Draw(t,
					"spared"), rapid.IntRange(1, 2).Draw(
					t,
					"failures",
				)
			},
			"join": func(t *rapid.T) {
				ft.join(t, rapid.SampledFrom(targets()).Draw(t, "target"),
					rapid.SampledFrom(rightsToDraw).Draw(t, "rights"))
			},
			"resume": ft.resume,
			"take": func(t *rapid.T) {
				if len(ft.readers) > 0 {
					several(t,
						func(t *rapid.T) {
							ft.take(t,
								rapid.SampledFrom(ft.readers).Draw(t, "reader"))
						})
				}
			},
		})
		ft.finish(t)
	})
}

// A stream may fall out of the ring inside a batch that the feed has not finished. The newest
// complete batch is then older than the stream, so the stream must not rejoin there.
func TestFeed_BehindInsideUnfinishedBatch_RejoinsLater(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ft := newFeedTest(t)
		ft.feed.ring.capacity, ft.feed.page = 1, 1
		ft.feed.limits.PageEvents = 1
		r := ft.join(t, Target{Submitter: 2}, nil)
		ft.take(t, r) // caught up
		for _, n := range []int{0, 1, 3, 5} {
			id, submitter := txOf(n)
			ft.model.end(
				ft.model.begin(
					store.EventInfo{Event: txn.Event{Tx: id, Submitter: submitter, Seq: 1}}),
				true,
			)
		}
		ft.model.spared, ft.model.failures = 4, 1 // the head and three pages succeed
		ft.read(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 6 {
			events, behind, err := r.sub.take()
			if behind {
				events, err = r.sub.catchUp(ended) // does not wait for the feed
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			for _, e := range events {
				r.receive(t, e)
			}
		}
		ft.finish(t)
	})
}

// Within a batch, the tokens of a caller of one account name no event of another account. Streams
// resumed from them neither repeat nor miss events.
func TestFeed_TokensBetweenForeignEvents_RevealNothing(t *testing.T) {
	t.Parallel()
	ids := IDSet{}
	for n := range 4 {
		id, _ := txOf(2 * n)
		ids = append(ids, id)
	}
	for name, c := range map[string]struct {
		target Target
		names  []string
	}{
		"rights to an account": {Target{}, []string{"s1"}},
		// a right to a pool, or to each transaction, needs no names
		"label":        {Target{}.WithLabels(map[string]string{"account": "s1"}), nil},
		"transactions": {Target{Txs: &ids}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testTokensRevealNothing(t, c.target, c.names)
		})
	}
}

func testTokensRevealNothing(t *testing.T, of Target, names []string) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		ft := newFeedTest(t)
		ft.feed.ring.capacity, ft.feed.page = 1, 1
		ft.feed.limits.PageEvents = 1
		ft.restricted = true
		r := ft.join(t, of, names)
		r.sub.resumeAt(r.sub.position())
		for _, of := range [][]int{{0, 2, 1, 3}, {5}, {7}} { // even ones are of submitter 1
			var events []store.EventInfo
			for _, n := range of {
				id, submitter := txOf(n)
				events = append(events, store.EventInfo{
					Event:         txn.Event{Tx: id, Submitter: submitter, Seq: 1},
					SubmitterName: nameOf(submitter),
					Labels:        map[string]string{"account": nameOf(submitter)},
				})
			}
			ft.model.end(ft.model.begin(events...), true)
		}
		ft.read(t)
		places := map[string]bool{}
		for ft.take(t, r) {
			places[r.tokens[len(r.tokens)-1].at.After.Xid] = true
		}
		// within each database transaction, and after all; named transactions are read alone
		if of.Txs == nil && len(places) != 4 {
			t.Errorf("it stands at %v", places)
		}
		for _, m := range slices.Clone(r.tokens) {
			again := ft.resumeAt(t, m, of, names)
			for ft.take(t, again) {
			}
			for _, m := range slices.Clone(again.tokens) {
				ft.resumeAt(t, m, Target{}, []string{"s1"})
			}
		}
		ft.finish(t)
	})
}

// An event wakes all streams that match it. Only streams of named transactions are also woken by
// events of other states.
func TestRegistry_Event_WakesMatchingStreams(t *testing.T) {
	t.Parallel()
	f := &Feed{subscriptions: newRegistry()}
	var places []*subscription
	for _, what := range append(targets(), Target{Tx: txn.TxID{15: 1}},
		Target{Tx: txn.TxID{15: 1}, States: States(txn.Stuck)}) {
		p := &subscription{feed: f, target: what, labels: what.labelSet(),
			wake: make(chan struct{}, 1)}
		f.subscriptions.add(p)
		places = append(places, p)
	}
	for n := range 8 {
		for _, state := range append([]txn.State{"OF_TOMORROW"}, txn.States...) {
			id, submitter := txOf(n)
			e := store.EventInfo{
				Event:  txn.Event{Tx: id, Submitter: submitter, Seq: 1, State: state},
				Labels: labelsOf(n),
			}
			f.subscriptions.notify(&chunk{events: []store.EventInfo{e}})
			for _, p := range places {
				named := p.target.Tx != (txn.TxID{}) || p.target.Txs != nil
				woken := len(p.wake) == 1
				if woken {
					<-p.wake
				}
				if is := p.matches(&e); is && !woken ||
					woken && !named && !p.target.States.has(state) {
					t.Errorf("%v of %s: for the stream of %v: %v, woken: %v", state, name(e),
						p.target, is, woken)
				}
			}
		}
	}
	for _, p := range places {
		f.subscriptions.remove(p)
	}
	if len(f.subscriptions.index) != 0 {
		t.Errorf("of streams that left there remains %v", f.subscriptions.index)
	}
}

// TestFeed_FailOver promotes a standby that has everything, or lacks the newest part, while one
// stream waits and another reads the ledger from a token.
func TestFeed_FailOver(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]uint64{"nothing lost": 0, "commits lost": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			m := newModel()
			f, err := New(Options{
				Store: m, Tail: m, Clock: clock.Real{}, Logger: slog.New(slog.DiscardHandler),
				Limits: Limits{RingEvents: 10, PageEvents: 3, Poll: time.Second,
					MinGap: time.Second, Outage: time.Second, ReadTimeout: time.Minute},
				MeterProvider: noopmetric.NewMeterProvider(),
			})
			if err != nil {
				t.Fatal(err)
			}
			read := func() {
				t.Helper()
				if err := f.read(ctx); err != nil {
					t.Fatal(err)
				}
			}
			m.end(m.begin(), true)
			read()
			streams := map[string]*subscription{}
			for _, of := range []string{"waits", "reads"} {
				streams[of] = &subscription{feed: f, wake: make(chan struct{}, 1)}
				if err := streams[of].enter(ctx, 0); err != nil {
					t.Fatal(err)
				}
			}
			token := streams["reads"].position()
			streams["reads"].resumeAt(token)
			m.nextXid -= lost
			m.timeline, m.promoted = m.timeline+1, m.nextXid
			for range lost + 2 { // the numbers are given out again
				m.end(m.begin(), true)
			}
			read()
			if f.holds(token) != (lost == 0) {
				t.Errorf("the feed holds the position: %v", f.holds(token))
			}
			for of, s := range streams {
				_, _, err := s.take()
				if expired := errors.Is(err, store.ErrTokenExpired); expired != (lost > 0) {
					t.Errorf("the stream that %s: %v", of, err)
				}
			}
		})
	}
}

// TestFeed_FrozenBehindArchive_StreamsEnd: events were archived and removed while the node stood
// still, and its feed never read them.
func TestFeed_FrozenBehindArchive_StreamsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ after, expired bool }{
		"read before the removal": {true, false}, "not read": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel()
			f, err := New(Options{
				Store: m, Tail: m, Clock: clock.Real{}, Logger: slog.New(slog.DiscardHandler),
				Limits: Limits{RingEvents: 10, PageEvents: 3, Poll: time.Second,
					MinGap: time.Second, Outage: time.Second, ReadTimeout: time.Minute},
				MeterProvider: noopmetric.NewMeterProvider(),
			})
			if err != nil {
				t.Fatal(err)
			}
			read := func() {
				t.Helper()
				if err := f.read(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			read()
			s := &subscription{feed: f, wake: make(chan struct{}, 1)}
			if err := s.enter(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			removed := m.begin()
			m.end(removed, true)
			if c.after {
				read()
			}
			m.trimmed = removed
			m.end(m.begin(), true)
			read()
			_, _, err = s.take()
			if expired := errors.Is(err, store.ErrTokenExpired); expired != c.expired {
				t.Errorf("the stream: %v", err)
			}
		})
	}
}

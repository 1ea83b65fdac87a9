package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// quota bounds what waits in the queues, of each submitter and in all. Nothing is counted where a
// transaction is created or leaves its queue: a row that all of these write would be one for all of
// them to wait for. A node knows what waited when it last counted, adds what it has accepted since,
// and counts anew once that is its credit, a sixteenth of the limit; below that a create costs no
// statement but its own. What other nodes accept meanwhile it does not know. So a queue may grow
// beyond its limit, by the credit of each other node that has not counted since: with n nodes by
// (n-1)/16 of the limit at most. Where a sixteenth is less than what one statement inserts (and
// another beside it that was refused and is tried again), it is that instead of it, but no more
// than the limit. A process knows nothing when it starts, and counts as a further node.
//
// Who repeats what was accepted takes a place only where there is one for everybody: else it is
// looked for first.
//
// Of a full queue nobody holds a place: what leaves it is seen by the next count, and none of those
// follows another at once, however many are refused.
type quota struct {
	mu     sync.Mutex
	each   int64 // the limit of a submitter; 0: none
	ledger *gauge
	of     map[txn.SubmitterID]*gauge
}

const (
	creditShare = 16 // of a limit
	// a queue may hold so many times the free room of the ledger, so that an account leaves room
	// for others: an eighth of it, and a fifteenth after two such accounts
	ledgerLead = 7
	leastRest  = 250 * time.Millisecond // between two counts of a queue that is full
	// a rest is so many times what the count took, so that counting takes a twentieth of the time
	// at most
	restShare = 20
	mostRest  = 30 * time.Second
	maxGauges = 1 << 16 // remembered; all are forgotten then, as by a process that starts

	// that callers are asked for
	leastWait, unknownWait, mostWait = time.Second, 5 * time.Second, 30 * time.Second
)

// QueueFullError says that a queue takes nothing more at the moment. What has its place keeps it.
type QueueFullError struct {
	Ledger     bool          // all queues together; else that of the submitter
	Share      bool          // the submitter's share of all queues
	Limit      int           // transactions
	RetryAfter time.Duration // in which a place came free lately; 5 s where that is not known
}

func (e *QueueFullError) Error() string {
	if e.Ledger {
		return fmt.Sprintf("all queues together hold %d transactions, their limit", e.Limit)
	}
	return fmt.Sprintf("its queue holds %d transactions, its limit", e.Limit)
}

// gauge is what a node knows of how much waits.
type gauge struct {
	limit   int64     // 0: none
	counted int64     // at the last count
	since   int64     // accepted here since that began, or about to be
	flying  int64     // of these, whose statement is under way: a count may see them or not
	told    int64     // accepted here before that began, all together: counts have it
	at      time.Time // of the last count; zero: there was none
	failed  time.Time // when one failed last
	rest    time.Duration
	place   time.Duration // in which one came free between the last two counts; 0: none did
}

func newQuota(each, all int) *quota {
	return &quota{
		each:   int64(each),
		ledger: &gauge{limit: int64(all)},
		of:     map[txn.SubmitterID]*gauge{},
	}
}

// gauge is that of a submitter.
func (q *quota) gauge(id txn.SubmitterID) *gauge {
	g := q.of[id]
	if g == nil {
		if len(q.of) >= maxGauges {
			q.of = map[txn.SubmitterID]*gauge{}
		}
		g = &gauge{limit: q.each}
		q.of[id] = g
	}
	return g
}

// beyondShare reports whether the queue of a submitter holds its share of the ledger's room. It
// needs the depth of that queue, which is known only if queues have a limit.
func (q *quota) beyondShare(g *gauge) bool {
	if q.each == 0 || q.ledger.limit == 0 {
		return false
	}
	free := q.ledger.limit - q.ledger.counted - q.ledger.since
	return g.counted+g.since >= ledgerLead*free
}

// countShare reports whether to count a queue that holds its share: it may have become shorter.
func (q *quota) countShare(g *gauge, now time.Time) bool {
	return q.beyondShare(g) && now.Sub(g.at) >= g.rest && now.Sub(g.failed) >= mostRest
}

func (g *gauge) room() bool { return g.limit == 0 || g.counted+g.since < g.limit }

// stale tells whether more is to be known before so many go in: because the credit is used up, or
// because what seems full may not be full any more.
func (g *gauge) stale(wanted int64, now time.Time) bool {
	switch left := g.limit - g.counted - g.since; {
	case g.limit == 0, now.Sub(g.failed) < mostRest:
		return false
	case left < wanted && now.Sub(g.at) >= g.rest:
		return true
	default:
		return left > 0 && g.since > 0 && g.since+wanted > max(g.limit/creditShare, 1)
	}
}

// most is how far it is counted: beyond the limit, to see how fast a queue that is too long becomes
// shorter.
func (g *gauge) most() int64 { return g.limit + g.limit/4 + 1 }

// learn takes a count that was begun when this many places had been taken for good, of all that
// ever were. Of two at once, what one has seen is not taken away again by the other; and one that
// has seen less is old.
func (g *gauge) learn(depth, settled int64, began, now time.Time) {
	seen := settled - g.told
	if seen < 0 {
		return
	}
	g.told = settled
	if drained := g.counted + seen - depth; !g.at.IsZero() && drained > 0 && depth < g.most() {
		g.place = now.Sub(g.at) / time.Duration(drained)
	} else {
		g.place = 0
	}
	g.counted, g.since, g.at = depth, g.since-seen, now
	g.rest = min(max(restShare*now.Sub(began), leastRest), mostRest)
}

// full is what is said of a gauge without room.
func (g *gauge) full(ledger bool, now time.Time) *QueueFullError {
	wait := g.place
	if wait == 0 {
		wait = unknownWait
	}
	wait = max(wait, g.at.Add(g.rest).Sub(now)) // nobody looks before
	return &QueueFullError{
		Ledger:     ledger,
		Limit:      int(g.limit),
		RetryAfter: min(max(wait, leastWait), mostWait),
	}
}

// seat gives places to those of a group for whom there are any, and notes at the others what is
// full. They may have a place from before.
func (s *Store) seat(ctx context.Context, group []*createJob) (seated []*createJob, err error) {
	q := s.quota
	if q.each == 0 && q.ledger.limit == 0 {
		return group, nil
	}
	ids, all := q.stale(group, s.clock.Now())
	if err := s.count(ctx, ids, all); err != nil {
		return nil, err
	}
	return q.take(group, s.clock.Now()), nil
}

func (q *quota) take(group []*createJob, now time.Time) (seated []*createJob) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, job := range group {
		job.gauge, job.full = q.gauge(job.intent.Submitter), nil
		switch {
		case !job.gauge.room():
			job.full = job.gauge.full(false, now)
		case !q.ledger.room():
			job.full = q.ledger.full(true, now)
		case q.beyondShare(job.gauge):
			job.full = q.ledger.full(true, now)
			job.full.Share = true
		default:
			for _, g := range []*gauge{job.gauge, q.ledger} {
				g.since++
				g.flying++
			}
			seated = append(seated, job)
		}
	}
	return seated
}

// settle takes back the places of those that were not inserted. One whose fate nobody knows keeps
// its own until the next count.
func (q *quota) settle(seated []*createJob, inserted func(*createJob) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, job := range seated {
		if job.gauge == nil {
			continue
		}
		for _, g := range []*gauge{job.gauge, q.ledger} {
			g.flying--
			if !inserted(job) {
				g.since--
			}
		}
	}
}

// stale names the submitters of a group of whose queues more is to be known, and tells whether that
// is so of all together.
func (q *quota) stale(group []*createJob, now time.Time) (ids []int32, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wanted := map[txn.SubmitterID]int64{}
	for _, job := range group {
		wanted[job.intent.Submitter]++
	}
	for id, n := range wanted {
		g := q.gauge(id)
		beyond := q.countShare(g, now)
		if beyond || g.stale(n, now) {
			ids = append(ids, int32(id))
		}
		all = all || beyond
	}
	return ids, all || q.ledger.stale(int64(len(group)), now)
}

// count finds out what waits for these submitters, and, if it is asked for, in all.
func (s *Store) count(ctx context.Context, ids []int32, all bool) error {
	q := s.quota
	if len(ids) > 0 {
		gauges := make([]*gauge, len(ids))
		for i, id := range ids {
			gauges[i] = q.lookUp(txn.SubmitterID(id))
		}
		done := q.begin(s.clock.Now(), gauges)
		rows, err := s.read().QueueDepths(ctx,
			db.QueueDepthsParams{SubmitterIds: ids, Most: gauges[0].most()})
		if err != nil {
			return s.notCounted(err, gauges)
		}
		depths := map[int32]int64{}
		for _, r := range rows {
			depths[r.SubmitterID] = r.Depth
		}
		done(s.clock.Now(), func(i int) int64 { return depths[ids[i]] })
	}
	if all {
		done := q.begin(s.clock.Now(), []*gauge{q.ledger})
		depth, err := s.read().LedgerDepth(ctx, q.ledger.most())
		if err != nil {
			return s.notCounted(err, []*gauge{q.ledger})
		}
		done(s.clock.Now(), func(int) int64 { return depth })
	}
	return nil
}

// notCounted goes on with what is known when it is the count alone that fails, because it takes too
// long in a ledger that is slow: what this node accepts is bounded by that as well. Else creates
// would be refused while there is room, and each of them would ask the database for the same again.
func (s *Store) notCounted(err error, gauges []*gauge) error {
	if fate := judge(err, true); fate != again && fate != refused {
		return err
	}
	s.log.Warn(
		"what waits in the queues could not be counted; their limits are those of what this node "+
			"knows of them",
		"queues", len(gauges), "cause", describeError(err))
	s.quota.mu.Lock()
	defer s.quota.mu.Unlock()
	for _, g := range gauges {
		g.failed = s.clock.Now()
	}
	return nil
}

func (q *quota) lookUp(id txn.SubmitterID) *gauge {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.gauge(id)
}

// begin notes what a count that begins now will see for sure; what it returns takes the count.
func (q *quota) begin(began time.Time,
	gauges []*gauge) (done func(now time.Time, depth func(i int) int64)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	seen := make([]int64, len(gauges))
	for i, g := range gauges {
		seen[i] = g.told + g.since - g.flying
	}
	return func(now time.Time, depth func(i int) int64) {
		q.mu.Lock()
		defer q.mu.Unlock()
		for i, g := range gauges {
			g.learn(depth(i), seen[i], began, now)
		}
	}
}

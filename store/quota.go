package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// quota bounds the queued transactions, per submitter and in total. Creating a transaction, or one
// leaving its queue, updates no counter: all of these would wait for that row. A node knows the
// depth when it last counted, adds the transactions that it has accepted since, and counts again
// once these reach its credit, a sixteenth of the limit; below that a create costs no other
// statement. It does not know the transactions that other nodes accept meanwhile. So a queue may
// exceed its limit by the credit of each other node that has not counted since: with n nodes by at
// most (n-1)/16 of the limit. If a sixteenth is less than the rows of one statement (and of another
// one that was refused and is retried), the credit is that number, but not more than the limit. A
// process knows nothing when it starts, and counts as a further node.
//
// A repeated request takes a slot only if there is one for every job: otherwise it is looked up
// first.
//
// No job holds a slot in a full queue: the next count sees the ones that leave, and counts never
// follow each other at once, however many jobs are refused.
type quota struct {
	mu     sync.Mutex
	each   int64 // the limit of a submitter; 0: none
	ledger *gauge
	of     map[txn.SubmitterID]*gauge
}

const (
	creditShare = 16 // of a limit
	// a queue may hold at most this multiple of the free room of the ledger, so that an account
	// leaves room for others: an eighth of it, and a fifteenth after two such accounts
	ledgerLead = 7
	leastRest  = 250 * time.Millisecond // between two counts of a queue that is full
	// the pause is a multiple of the duration of the count, so that counting takes at most a
	// twentieth of the time
	restShare = 20
	mostRest  = 30 * time.Second
	maxGauges = 1 << 16 // remembered; all are forgotten then, as by a process that starts

	// bounds of RetryAfter
	leastWait   = time.Second
	unknownWait = 5 * time.Second
	mostWait    = 30 * time.Second
)

// QueueFullError is returned when a queue accepts no more at the moment. Accepted transactions keep
// their position.
type QueueFullError struct {
	Ledger     bool          // all queues together; otherwise the submitter's queue
	Share      bool          // the submitter's share of all queues
	Limit      int           // transactions
	RetryAfter time.Duration // in which a slot came free lately; 5 s where that is not known
}

func (e *QueueFullError) Error() string {
	switch {
	case e.Share:
		return fmt.Sprintf("the submitter's queue holds its share of all queues: limit %d "+
			"transactions in total", e.Limit)
	case e.Ledger:
		return fmt.Sprintf("all queues together are full: limit %d transactions", e.Limit)
	}
	return fmt.Sprintf("the submitter's queue is full: limit %d transactions", e.Limit)
}

// gauge is a node's knowledge of the depth of a queue.
type gauge struct {
	limit    int64     // 0: none
	counted  int64     // at the last count
	since    int64     // accepted here since that began, or about to be
	flying   int64     // of these, whose statement is under way: a count may see them or not
	absorbed int64     // accepted here before that began, all together: counts have it
	at       time.Time // of the last count; zero: there was none
	failed   time.Time // when one failed last
	rest     time.Duration
	perSlot  time.Duration // in which one came free between the last two counts; 0: none did
}

func newQuota(each, all int) *quota {
	return &quota{
		each:   int64(each),
		ledger: &gauge{limit: int64(all)},
		of:     map[txn.SubmitterID]*gauge{},
	}
}

// gauge returns the gauge of a submitter.
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

// stale reports whether a count is needed before n more are accepted: because the credit is used
// up, or because a queue that seems full may not be full any more.
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

// learn applies a count that began when this many slots had been taken permanently, since the
// start. Of two concurrent counts, one does not subtract the slots that the other has seen; and
// the one that has seen fewer is older.
func (g *gauge) learn(depth, settled int64, began, now time.Time) {
	seen := settled - g.absorbed
	if seen < 0 {
		return
	}
	g.absorbed = settled
	if drained := g.counted + seen - depth; !g.at.IsZero() && drained > 0 && depth < g.most() {
		g.perSlot = now.Sub(g.at) / time.Duration(drained)
	} else {
		g.perSlot = 0
	}
	g.counted, g.at = depth, now
	g.since -= seen
	g.rest = min(max(restShare*now.Sub(began), leastRest), mostRest)
}

// full returns the error of a gauge without room.
func (g *gauge) full(ledger bool, now time.Time) *QueueFullError {
	wait := g.perSlot
	if wait == 0 {
		wait = unknownWait
	}
	wait = max(wait, g.at.Add(g.rest).Sub(now)) // no count happens earlier
	return &QueueFullError{
		Ledger:     ledger,
		Limit:      int(g.limit),
		RetryAfter: min(max(wait, leastWait), mostWait),
	}
}

// reserve reserves slots for the jobs of a group for which there is room, and notes the full queue
// for the others. They may already have a slot.
func (s *Store) reserve(ctx context.Context, group []*createJob) (reserved []*createJob,
	err error) {
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

func (q *quota) take(group []*createJob, now time.Time) (reserved []*createJob) {
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
			reserved = append(reserved, job)
		}
	}
	return reserved
}

// settle releases the slots of jobs that were not inserted. A job with an unknown outcome keeps
// its slot until the next count.
func (q *quota) settle(reserved []*createJob, inserted func(*createJob) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, job := range reserved {
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

// stale returns the submitters of a group whose queues must be counted, and whether the total must
// be.
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

// count reads the depth of these submitters' queues, and, if requested, the total.
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

// notCounted continues with the known depths when only the count fails, because it takes too long
// in a slow ledger: the transactions that this node accepts are still bounded. Otherwise creates
// would be refused while there is room, and each of them would repeat the count.
func (s *Store) notCounted(err error, gauges []*gauge) error {
	if outcome := judge(err, true); outcome != again && outcome != refused {
		return err
	}
	s.log.Warn(
		"counting queues failed; limits apply to the transactions known to this node",
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

// begin notes the slots that a count that begins now will certainly see; the returned function
// applies the count.
func (q *quota) begin(began time.Time,
	gauges []*gauge) (done func(now time.Time, depth func(i int) int64)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	seen := make([]int64, len(gauges))
	for i, g := range gauges {
		seen[i] = g.absorbed + g.since - g.flying
	}
	return func(now time.Time, depth func(i int) int64) {
		q.mu.Lock()
		defer q.mu.Unlock()
		for i, g := range gauges {
			g.learn(depth(i), seen[i], began, now)
		}
	}
}

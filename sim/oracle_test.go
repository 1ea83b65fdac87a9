package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/txn"
)

// signed records the submitter of a signed transaction.
func (w *World) signed(h txn.Hash, of txn.SubmitterID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.senders[h] = of
}

func (w *World) senderOf(h txn.Hash) txn.SubmitterID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.senders[h]
}

// beforeSend checks a broadcast as it leaves a node: the bytes must be recorded (L3), and the node
// must not have an unsettled commit of that submitter (L11).
func (w *World) beforeSend(n *node, db *database, signed txn.Signed) {
	w.judgePayment(n, signed)
	recorded, err := db.number(
		"SELECT count(*) FROM tx_attempt WHERE tx_hash = $1 AND raw_tx = $2", signed.Hash[:],
		signed.Raw)
	if err != nil {
		w.violated("sim", "%v", err)
	}
	if recorded == 0 {
		w.violated("L3", "node %s broadcasts bytes that are not recorded", n.title())
	}
	w.mu.Lock()
	token, unsettled := n.unsettled[w.senders[signed.Hash]]
	w.mu.Unlock()
	if unsettled {
		w.violated("L11",
			"node %s broadcasts while the outcome of its commit under token %d is unknown",
			n.title(), token)
	}
}

// acquired settles the commits of a node for submitters whose lease it has reacquired under a new
// token.
func (w *World) acquired(n *node) {
	w.judgeLeases()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, token := range n.unsettled {
		newer, err := w.dbs.number(
			"SELECT count(*) FROM submitter_lease WHERE submitter_id = $1 AND fencing_token > $2",
			id, token)
		if err != nil {
			w.broken = append(w.broken, err.Error())
		}
		if newer > 0 {
			delete(n.unsettled, id)
		}
	}
}

// rested reports whether every transaction that clients asked for is final and every watcher has
// received every event.
func (w *World) rested() bool {
	if w.now() < w.lookAgain {
		return false
	}
	w.lookAgain = w.now() + time.Second
	for _, c := range w.calls {
		if c.answered == 0 || c.asking > 0 {
			return false
		}
	}
	open, err := w.dbs.number(
		`SELECT (SELECT count(*) FROM managed_tx
		          WHERE terminal_at IS NULL AND NOT sim_left(submitter_id))
		      + (SELECT count(*) FROM submitter_command WHERE applied_at IS NULL)`)
	if err != nil || open > 0 {
		return false
	}
	recorded, err := w.dbs.number("SELECT count(*) FROM tx_event WHERE NOT sim_copied(xid)")
	if err != nil {
		return false
	}
	if !w.holdsRested() || !w.fundsRested() || !w.movesRested() {
		return false
	}
	if w.plan.Sinks && (w.undelivered() > 0 || w.moving || w.moved && w.received.restored == 0) {
		return false
	}
	for _, r := range w.watchers {
		heard := 0
		for _, of := range r.heard {
			for _, events := range of {
				heard += len(events)
			}
		}
		if int64(heard) < recorded {
			return false
		}
	}
	return true
}

// judge checks all laws when the run is over.
func (w *World) judge() {
	if err := w.db.tick(); err != nil {
		w.violated("sim", "%v", err)
	}
	l, err := w.readLedger()
	if err != nil {
		w.violated("sim", "%v", err)
		return
	}
	w.judgeWrites()
	w.judgeTimes()
	w.judgeNonces(l)
	w.judgeOrder(l)
	w.judgeCalls(l)
	w.judgeEvents(l)
	w.judgeChain(l)
	w.judgeHolds(l)
	w.judgePolicies(l)
	w.judgeFunds(l)
	w.judgeWatchers(l)
	w.judgeMoves(l)
	if w.plan.Sinks {
		if n := w.undelivered(); n > 0 {
			w.violated("E3", "%d events were not delivered", n)
		}
	}
	for _, d := range w.defects {
		w.violated("defect", "%s", d)
	}
}

// judgeWrites checks L1 and L2: a commit uses the token that is live at that moment.
func (w *World) judgeWrites() {
	err := w.dbs.each(
		`SELECT what, submitter_id, token, live, owner, lapsed, extract(EPOCH FROM at)::FLOAT8
		   FROM sim_write WHERE token <> live OR lapsed ORDER BY no`,
		func(rows pgx.Rows) error {
			var what, owner string
			var id int32
			var token, live int64
			var lapsed bool
			var at float64
			err := rows.Scan(&what, &id, &token, &live, &owner, &lapsed, &at)
			elapsed := time.UnixMicro(int64(at * 1e6)).Sub(w.db.base)
			when := elapsed.Seconds()
			mayOutlast := func(s span) bool {
				return s.from <= elapsed && elapsed <= s.to+time.Second
			}
			switch {
			case token != live:
				w.violated("L1",
					"at %.4fs %s of s%d was written under token %d; live at the commit: %d (%s)",
					when, what, id, token, live, owner)
			case lapsed && !slices.ContainsFunc(w.lapses, mayOutlast):
				w.violated("L3",
					"at %.4fs %s of s%d was written under token %d of %s, which had lapsed", when,
					what, id, token, owner)
			}
			return err
		},
	)
	if err != nil {
		w.violated("sim", "%v", err)
	}
	taken, err := w.dbs.number(
		`SELECT count(*) FROM sim_write
		  WHERE what IN ('tx_attempt', 'submitter_nonce_cursor') AND guarded`)
	if err != nil || taken > 0 {
		w.violated("L10",
			"%d nonces taken or attempts signed while the submitter was protected (%v)",
			taken, err)
	}
	// Token order: no write under an older token follows a write under a newer one.
	late, err := w.dbs.number(
		`SELECT count(*)
		   FROM (SELECT token, max(token) OVER (PARTITION BY submitter_id ORDER BY no) AS highest
		           FROM sim_write) x
		  WHERE token < highest`)
	if err != nil || late > 0 {
		w.violated("L2", "%d writes under a token below one that had written before (%v)", late,
			err)
	}
}

// judgeTimes checks L12: every timestamp in the ledger comes from the database clock, however far
// off the nodes' clocks are. The simulation replaces that clock, so the server's real time would
// show as a time before the start of the run.
func (w *World) judgeTimes() {
	for _, column := range []string{
		"created_at FROM submitter", "acquired_at FROM submitter_lease",
		"updated_at FROM submitter_nonce_cursor", "created_at FROM managed_tx",
		"updated_at FROM managed_tx", "released_at FROM managed_tx",
		"terminal_at FROM managed_tx", "created_at FROM tx_attempt", "created_at FROM tx_event",
		"created_at FROM submitter_command", "applied_at FROM submitter_command",
		"started_at FROM node", "created_at FROM nonce_gap",
		"created_at FROM nonce_request", "applied_at FROM nonce_request",
		"reserved_at FROM external_nonce", "state_at FROM external_nonce",
		"created_at FROM nonce_hash", "created_at FROM signed_tx",
	} {
		name, table, _ := strings.Cut(column, " FROM ")
		n, err := w.dbs.number(
			fmt.Sprintf(
				`SELECT count(*) FROM %s
				  WHERE %s NOT BETWEEN $1 AND sim_time() + $2 * interval '1 microsecond'`,
				table, name),
			w.db.base.Add(w.db.ends[0]),
			w.db.ends[1].Microseconds(),
		)
		if err != nil || n > 0 {
			w.violated("L12", "%d values of %s are not times of the database clock (%v)", n, column,
				err)
		}
	}
}

// judgeNonces checks L4 and L10: every nonce from the first up to the cursor is in exactly one
// place.
func (w *World) judgeNonces(l *ledger) {
	for id, c := range l.cursors {
		if w.isExternal(id) {
			continue // see judgeHolds
		}
		used := map[int64]int{}
		for _, r := range l.bySub[id] {
			if r.nonce != nil {
				used[*r.nonce]++
				if !slices.ContainsFunc(r.attempts,
					func(a attemptRow) bool { return a.nonce == *r.nonce }) {
					w.violated("L4", "%s of s%d holds nonce %d without a signed transaction",
						r.request, id, *r.nonce)
				}
			}
		}
		for _, g := range l.gaps[id] {
			for n := g[0]; n <= g[1]; n++ {
				used[n]++
			}
		}
		for n := c[0]; n < c[1]; n++ {
			if used[n] != 1 {
				w.violated("L4", "nonce %d of s%d is used %d times by the ledger", n, id, used[n])
			}
			delete(used, n)
		}
		for n := range used {
			w.violated("L4", "nonce %d of s%d lies outside of %d to %d", n, id, c[0], c[1]-1)
		}
	}
	for id, n := range l.guarded {
		if n > 0 && !w.external[txn.SubmitterID(id)] && !w.guarded[txn.SubmitterID(id)] {
			w.violated("L10", "s%d was protected %d times although its key was not used elsewhere",
				id, n)
		}
	}
	for id, gaps := range l.gaps {
		if len(gaps) > 0 && !w.external[txn.SubmitterID(id)] {
			w.violated("L10", "s%d has gaps %v although its key was not used elsewhere", id, gaps)
		}
	}
}

// judgeOrder checks L4 and L5. A call that was accepted before another began gets the lower nonce,
// and a nonce is taken only when the one before is in a block.
func (w *World) judgeOrder(l *ledger) {
	for _, a := range w.calls {
		for _, b := range w.calls {
			ra, rb := w.rowOf(l, a), w.rowOf(l, b)
			if a.submitter != b.submitter || ra == nil || rb == nil || ra.nonce == nil ||
				rb.nonce == nil ||
				ra.requeued+rb.requeued > 0 || a.needsApproval() || b.needsApproval() {
				continue
			}
			if a.answered < b.begun && *ra.nonce > *rb.nonce {
				w.violated("L4",
					"call %d, answered at %v, before call %d began at %v, has nonce %d, above %d",
					a.plan.No, a.answered, b.plan.No, b.begun, *ra.nonce, *rb.nonce)
			}
		}
	}
	for id, rows := range l.bySub {
		if w.isExternal(id) {
			continue // clients use nonces in any order
		}
		for _, r := range rows {
			for _, e := range r.events {
				if e.kind == string(txn.EventAllocated) {
					w.judgeTaking(l, id, r, e)
				}
			}
		}
	}
}

// judgeTaking checks the state that all other transactions of the submitter were in when this one
// took its nonce: not more of them were in flight than the limit allows, and none had left a block.
func (w *World) judgeTaking(l *ledger, id int32, taker *row, taken eventRow) {
	limit := w.plan.highest(slices.Index(w.submitters, txn.SubmitterID(id)))
	inFlight := 1
	for _, r := range l.bySub[id] {
		if r == taker {
			continue
		}
		before, was := r.before(taken)
		switch {
		case was == settled:
		case was == inPool && limit > 1 && inFlight < limit:
			inFlight++
		default:
			w.violated("L5", "%s of s%d took its nonce while %s was %s %s, of at most %d in flight",
				taker.request, id, r.request, before.state, before.kind, limit)
		}
	}
}

// The states of a transaction for one that takes its nonce.
const (
	settled = iota // without a nonce, or in a block
	inPool
	leftBlock
)

// before returns the last event of a transaction before, or in the same commit as, another one took
// its nonce, and what it means for that.
func (r *row) before(taken eventRow) (before *eventRow, was int) {
	allocated, included := false, false
	for i := range r.events {
		e := &r.events[i]
		if e.xid > taken.xid {
			break
		}
		before = e
		switch txn.Kind(e.kind) {
		case txn.EventAllocated:
			allocated = true
		case txn.EventRequeued:
			allocated, included = false, false
		case txn.EventIncluded, txn.EventConfirmed, txn.EventFailed, txn.EventCancelled:
			included = true
		}
	}
	if before == nil || !allocated {
		return before, settled
	}
	switch txn.Kind(before.kind) {
	case txn.EventIncluded, txn.EventConfirmed, txn.EventFailed, txn.EventCancelled:
		return before, settled
	case txn.EventCancelRequested: // the state is the one before the request
		if included {
			return before, settled
		}
	}
	if included {
		return before, leftBlock
	}
	return before, inPool
}

func (w *World) rowOf(l *ledger, c *call) *row {
	for _, r := range l.bySub[int32(c.submitter)] {
		if r.request == c.request() {
			return r
		}
	}
	return nil
}

// judgeCalls checks L7: one request id is one transaction, and every reply named that transaction.
func (w *World) judgeCalls(l *ledger) {
	count := map[string]int{}
	for _, r := range l.rows {
		count[fmt.Sprintf("%d %s", r.submitter, r.request)]++
	}
	for key, n := range count {
		if n != 1 {
			w.violated("L7", "%d transactions for %s", n, key)
		}
	}
	for _, c := range w.calls {
		r := w.rowOf(l, c)
		if r == nil {
			if c.answered > 0 {
				w.violated("L7", "call %d was answered and is not in the ledger", c.plan.No)
			}
			continue
		}
		for _, id := range c.answers {
			if id.String() != r.id {
				w.violated("L7",
					"call %d was answered with a transaction other than the ledger's", c.plan.No)
			}
		}
	}
}

// judgeEvents checks L8: events are numbered without a gap, each is a legal move, and the last
// agrees with the row.
func (w *World) judgeEvents(l *ledger) {
	for _, r := range l.rows {
		from, highest := txn.State(""), int64(0)
		for i, e := range r.events {
			if e.seq != int64(i+1) {
				w.violated("L8", "event %d of %s has number %d", i+1, r.request, e.seq)
			}
			if i == 0 && e.kind != string(txn.EventQueued) ||
				i > 0 && !txn.Legal(txn.Kind(e.kind), from, txn.State(e.state)) {
				w.violated("L8", "%s: %s leads from %s to %s", r.request, e.kind, from, e.state)
			}
			if e.token != 0 && e.token < highest {
				w.violated("L2", "%s: event %d was written under token %d, after one under %d",
					r.request, e.seq, e.token, highest)
			}
			from, highest = txn.State(e.state), max(highest, e.token)
			if r.requeued == 0 && i > 0 && r.events[i-1].xid >= e.xid {
				w.violated("L9", "%s: events %d and %d are in the wrong order in the feed",
					r.request, e.seq-1, e.seq)
			}
		}
		if n := len(r.events); int64(n) != r.version ||
			n > 0 && (r.events[n-1].state != r.state || r.events[n-1].executed != r.executed) {
			w.violated("L8", "%s is %s %s at version %d, but its %d events disagree",
				r.request, r.state, r.executed, r.version, n)
		}
	}
}

// judgeWatchers checks L9: every watcher received every event, in order per transaction, without
// duplicates.
func (w *World) judgeWatchers(l *ledger) {
	for _, watcher := range w.watchers {
		for _, r := range l.rows {
			id, err := txn.ParseTxID(r.id)
			if err != nil {
				w.violated("sim", "%v", err)
				continue
			}
			var heard, recorded []string
			for _, e := range watcher.all(id) {
				heard = append(heard, fmt.Sprint(e.Seq, e.Kind))
			}
			for _, e := range r.events {
				recorded = append(recorded, fmt.Sprint(e.seq, e.kind))
			}
			// A page whose connection failed after it was read is read again.
			if !slices.Equal(slices.Compact(heard), recorded) {
				w.violated("L9", "watcher %d received %s of %s; the ledger has %s", watcher.no,
					strings.Join(heard, " "), r.request, strings.Join(recorded, " "))
			}
		}
	}
}

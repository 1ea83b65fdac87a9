package txn

import (
	"fmt"
	"time"

	"github.com/holiman/uint256"
)

// A pipelined submitter has several nonces in flight. Blocks take them in order, so a transaction
// is blocked while one with a lower nonce is in no block: until then neither its age nor most
// responses to it mean anything. The rules of this file hold only while several nonces may be, or
// are, in flight.

const (
	// MaxRange bounds the transactions of one allocation and of one broadcast.
	MaxRange = 64
	// maxRangeBytes bounds the data of one allocation, and the bytes of one broadcast. One
	// transaction may have more. The allocation has to fit the ledger's groups, and the broadcast a
	// node's requests.
	maxRangeBytes = 64 << 10
	// maxTracked bounds the transactions of one change of trackAll.
	maxTracked = 256
	// blockedRetry is the delay after a response that depends on lower nonces.
	blockedRetry = 2 * time.Second
	// gapResend is the delay after it is repeated, and the least time between two broadcasts of a
	// transaction whose node lacks it by the response to a higher nonce.
	gapResend = 4 * time.Second
)

// concurrent reports whether several nonces may be, or are, in flight.
func (v *View) concurrent() bool {
	return v.Submitter.Limit > 1 || unreleased(v.Open) > 1 || v.Submitter.Mode == External
}

func unreleased(open []Tx) (n int) {
	for i := range open {
		if !open[i].Released {
			n++
		}
	}
	return n
}

// blocked reports whether a lower nonce in flight is in no block.
func (v *View) blocked(tx *Tx) bool {
	if n := v.External.Nonces; len(n) > 0 && n[0].Nonce < *tx.Nonce {
		return true // of a client, which may not have sent it
	}
	first, ok := lowestMissing(v)
	return ok && v.concurrent() && *first.Nonce < *tx.Nonce
}

// unusedSlots returns the slots for further nonces, lowest first. After the limit was lowered there
// are none until enough transactions have been released.
func unusedSlots(s Submitter, open []Tx) (slots []int16) {
	free := s.Limit - unreleased(open)
	for slot := int16(0); len(slots) < free && int(slot) < s.Limit; slot++ {
		if !hasSlot(open, slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// UnusedSlots returns the number of further nonces that a submitter with these open transactions
// may take.
func UnusedSlots(s Submitter, open []Tx) int { return len(unusedSlots(s, open)) }

// prepareRange extends the preparation of the head of the queue to the transactions behind it that
// need no separate decision.
func prepareRange(v *View, head Prepare) Step {
	if v.limit() == 1 || v.FailedOver || head.Tx.Requeued > 0 {
		return head
	}
	slots := unusedSlots(v.Submitter, v.Open)
	items, data := []Prepare{head}, len(head.Tx.Payload.Data)
	for i := 1; i < len(v.Queue) && len(items) < min(len(slots), MaxRange); i++ {
		tx := &v.Queue[i]
		data += len(tx.Payload.Data)
		if data > maxRangeBytes || tx.Due.After(v.Now) || tx.Requeued > 0 || tx.CancelRequested ||
			tx.pastDeadline(v.Now) {
			break
		}
		if _, refused := v.refused(tx); refused {
			break
		}
		items = append(items, Prepare{Tx: tx, Nonce: head.Nonce + Nonce(i), Slot: slots[i]})
	}
	if len(items) == 1 {
		return head
	}
	return PrepareRange{items}
}

// PreparedRange returns the change that follows a preparation: the nonces of the first ones that
// were signed are taken. The others stay queued in their order. If the first one was not signed,
// the change is as in Prepared.
func PreparedRange(v *View, s PrepareRange, done []Preparation) Change {
	var c Change
	for i := range min(len(done), len(s.Items)) {
		if !done[i].usable() {
			break
		}
		one := takeNonce(v, s.Items[i], &done[i])
		if c.Take == nil {
			c = one
			continue
		}
		c.Take.More++
		c.Writes = append(c.Writes, one.Writes...)
	}
	switch {
	case c.Take != nil:
		return c
	case len(done) == 0:
		return Change{}
	}
	return Prepared(v, s.Items[0], &done[0])
}

// usable reports whether a nonce may be taken for the signed bytes.
func (p *Preparation) usable() bool {
	return p.Outcome.Class == Accepted && p.SignErr == nil && len(p.Signed.Raw) <= maxRawBytes
}

// dependsOnLower are the outcomes that prove nothing while lower nonces are in no block: those may
// change the state that a draft needs, or spend the funds that it lacks.
var dependsOnLower = map[Class]bool{
	ExecutionReverted: true,
	InsufficientFunds: true,
	Invalid:           true,
}

// awaitLower delays the head of the queue until the lower nonces are in a block. It is tried again
// meanwhile, because it may pass on top of a pool.
func awaitLower(v *View, tx *Tx, answer Outcome) Change {
	next, kind := tx.Status, Kind("")
	next.Sub = BackingOff
	next.Reason = ReasonLowerNonces
	next.LastError = fmt.Sprintf("%s while lower nonces are in no block; judged once they are: %s",
		answer.Class, answer.Detail)
	if tx.Reason != ReasonLowerNonces || tx.Sub != BackingOff {
		kind, next.SubmitAttempts = EventDelayed, 0
	}
	delay := Backoff(next.SubmitAttempts)
	next.SubmitAttempts++
	return Change{Writes: v.move(tx, kind, &next, delay)}
}

// dueNow reports whether a queued transaction may be prepared now.
func dueNow(v *View, head *Tx) bool {
	if !head.Due.After(v.Now) {
		return true
	}
	_, lower := lowestMissing(v)
	return head.Reason == ReasonLowerNonces && !lower
}

// Committed returns the most that transactions in no block can take from the account, in wei.
func (v *View) Committed() (total Wei) {
	for i := range v.Open {
		tx := &v.Open[i]
		if tx.Sub == Included {
			continue
		}
		var most Wei
		for _, a := range tx.Attempts {
			if a.Nonce == *tx.Nonce {
				most = maxWei(most, a.cost(tx.Payload.Value))
			}
		}
		total = addWei(total, most)
	}
	return total
}

// cost returns the most that an attempt can take from the account, without a rollup's fees.
func (a *Attempt) cost(value Wei) (total Wei) {
	if _, overflow := total.MulOverflow(&a.Fees.Cap, uint256.NewInt(a.GasLimit)); overflow {
		total.SetAllOne()
	}
	if a.Kind == Cancel {
		return total
	}
	return addWei(total, value)
}

// Cost returns the most that a quoted draft can take from the account, in wei.
func (q Quote) Cost(value Wei) Wei {
	a := Attempt{GasLimit: q.GasLimit, Fees: q.Fees}
	return addWei(a.cost(value), q.L1Fee)
}

// addWei returns the sum, at most the highest amount.
func addWei(a, b Wei) (sum Wei) {
	if _, overflow := sum.AddOverflow(&a, &b); overflow {
		sum.SetAllOne()
	}
	return sum
}

// dueRange returns the next step of the due transactions, lowest nonce first. Those that only have
// to be broadcast are claimed together, and broadcast together.
func dueRange(v *View) (Step, bool) {
	var claims []Write
	var items []Broadcast
	gap, bytes := highestGap(v), 0
	for i := range v.Open {
		tx := &v.Open[i]
		if !broadcastDue(v, tx, gap) {
			continue
		}
		step, next := dueStep(v, tx), false
		switch s := step.(type) {
		case Broadcast:
			if bytes += len(s.Attempt.Raw); bytes > maxRangeBytes && len(items) > 0 {
				return groupStep(claims, items)
			}
			items = append(items, s)
			next = true
		case Record:
			if next = isClaim(&s.Change); next {
				claims = append(claims, s.Change.Writes...)
			}
		}
		switch {
		case !next && len(claims)+len(items) == 0:
			return step, true
		case !next || len(claims)+len(items) == MaxRange:
			return groupStep(claims, items)
		}
	}
	return groupStep(claims, items)
}

func groupStep(claims []Write, items []Broadcast) (Step, bool) {
	switch {
	case len(claims) > 0:
		return Record{Change{Writes: claims}}, true
	case len(items) == 0:
		return nil, false
	case len(items) == 1:
		return items[0], true
	}
	return BroadcastRange{items}, true
}

// dueStep is the next step of one due transaction: see dueBroadcast.
func dueStep(v *View, tx *Tx) Step {
	if step, ok := endFill(v, tx); ok {
		return step
	}
	if onHold(v, tx) {
		return recheckAccount(v, tx)
	}
	if executedUnexpectedly(tx.Reason) && tx.newest().Kind != Cancel && !tx.Signed {
		return replace(v, tx, Cancel, 0)
	}
	return broadcastNext(v, tx)
}

// isClaim reports whether a change only claims a broadcast.
func isClaim(c *Change) bool {
	return c.Protect == nil && len(c.Writes) == 1 && c.Writes[0].Kind == "" &&
		c.Writes[0].Turn.Claimed
}

// broadcastDue reports whether a transaction is in no block and due. Below a nonce that a node has
// no predecessor of, a transaction is due earlier.
func broadcastDue(v *View, tx *Tx, gap *Tx) bool {
	seen := v.inclusion(tx)
	if !seen.Known || seen.Receipt != nil || !mayBroadcast(v, tx) {
		return false
	}
	if tx.Turn.Claimed || !tx.Due.After(v.Now) || cancelDueNow(v, tx) {
		return true
	}
	return gap != nil && *tx.Nonce < *gap.Nonce &&
		tx.Due.Sub(v.Now) <= v.Policy.ResubmitInterval-gapResend &&
		v.Now.Sub(tx.Turn.Hurried) >= gapResend
}

// early reports whether a transaction is broadcast before it is due: see broadcastDue.
func (v *View) early(tx *Tx) bool { return v.concurrent() && tx.Due.After(v.Now) }

// counted reports whether a claimed broadcast was counted.
func (t Turn) counted() bool { return t.Claimed && t.Early.IsZero() }

// highestGap returns the due transaction with the highest nonce whose node lacks a lower one; nil:
// none.
func highestGap(v *View) *Tx {
	for i := len(v.Open) - 1; i >= 0; i-- {
		tx := &v.Open[i]
		if tx.Sub != Included && tx.LastOutcome == NonceGap && !tx.Due.After(v.Now) {
			return tx
		}
	}
	return nil
}

// blockedOutcomes are the responses to a blocked transaction that do not describe it: its node
// lacks a lower nonce, has no room for more of the account, or adds up the costs of all of them.
var blockedOutcomes = map[Class]bool{
	NonceGap:          true,
	PoolFull:          true,
	InsufficientFunds: true,
	ExecutionReverted: true,
}

// sentBlocked returns the change that follows such a response: it is broadcast again soon, and
// nothing else is concluded.
func sentBlocked(v *View, b *Broadcast, answer Outcome) Change {
	next := b.Tx.Status
	next.Unsent = false
	next.LastOutcome = answer.Class
	if b.Tx.Turn.counted() {
		next.SubmitAttempts--
	}
	delay := blockedRetry
	if b.Tx.LastOutcome == answer.Class {
		delay = gapResend
	}
	delay = min(max(delay, answer.RetryAfter), v.Policy.ResubmitInterval)
	return Change{Writes: sent(v.move(b.Tx, "", &next, delay))}
}

// SentRange returns the change that follows the responses to several broadcasts.
func SentRange(v *View, s BroadcastRange, answers []Outcome) (c Change) {
	var dropped *Nonce
	for i := range min(len(s.Items), len(answers)) {
		b := s.Items[i]
		one := sentOne(v, b, answers[i])
		c.Writes = append(c.Writes, one.Writes...)
		if dropped == nil && b.wasDropped(answers[i]) {
			dropped = b.Tx.Nonce
		}
	}
	if dropped != nil && v.concurrent() {
		c.Writes = append(c.Writes, v.successorsDue(*dropped, c.Writes)...)
	}
	return c
}

// wasDropped reports whether a node accepted bytes again that one had accepted before. It has lost
// the transactions above as well.
func (b *Broadcast) wasDropped(answer Outcome) bool {
	return answer.Class == Accepted && b.Tx.LastOutcome != "" && b.Attempt.No <= b.Tx.Accepted
}

// successorsDue makes broadcast transactions above a nonce due at once, unless they are written
// anyway.
func (v *View) successorsDue(above Nonce, written []Write) (writes []Write) {
	for i := range v.Open {
		tx := &v.Open[i]
		if *tx.Nonce > above && v.waitsInPool(tx) && !isWritten(written, tx.ID) {
			writes = append(writes, v.move(tx, "", &tx.Status, 0)...)
		}
	}
	return writes
}

// waitsInPool reports whether a transaction was broadcast and is due later.
func (v *View) waitsInPool(tx *Tx) bool {
	return tx.Receipt == nil && tx.LastOutcome != "" && !tx.Turn.Claimed && tx.Due.After(v.Now)
}

func isWritten(writes []Write, id TxID) bool {
	for i := range writes {
		if writes[i].Tx == id {
			return true
		}
	}
	return false
}

// alsoAffected returns the writes for transactions that follow from those of others: after a reorg
// all higher ones are rebroadcast; after an inclusion, blocked ones are tried again, and lower ones
// in no block are doubted, because their nonces are used.
func alsoAffected(v *View, written []Write) (writes []Write) {
	var reorged, included *Nonce // the lowest and the highest
	for i := range written {
		switch w := &written[i]; {
		case w.Next.Nonce == nil:
		case w.Kind == EventReorged && (reorged == nil || *w.Next.Nonce < *reorged):
			reorged = w.Next.Nonce
		case w.Kind == EventIncluded && (included == nil || *w.Next.Nonce > *included):
			included = w.Next.Nonce
		}
	}
	if reorged == nil && included == nil {
		return nil
	}
	for i := range v.Open {
		tx := &v.Open[i]
		if tx.Receipt != nil || tx.Turn.Claimed || isWritten(written, tx.ID) {
			continue
		}
		next, delay := tx.Status, max(0, tx.Due.Sub(v.Now))
		again := v.waitsInPool(tx) && (reorged != nil && *tx.Nonce > *reorged ||
			included != nil && blockedOutcomes[tx.LastOutcome])
		if again {
			delay = 0
		}
		doubt := included != nil && *tx.Nonce < *included && !tx.Doubted && v.inclusion(tx).Known
		if next.Doubted = tx.Doubted || doubt; again || doubt {
			writes = append(writes, v.move(tx, "", &next, delay)...)
		}
	}
	return writes
}

// mayBump reports whether the bump policy may replace a transaction now: only the lowest nonces
// block the others, and the budget bounds the replacements of the account within an interval.
func (v *View) mayBump(tx *Tx) bool {
	if !v.concurrent() {
		return true
	}
	lower, recent := 0, 0
	budget := max(v.Policy.BumpBudget, 1)
	for i := range v.Open {
		other := &v.Open[i]
		if other.Sub == Included {
			continue
		}
		if *other.Nonce < *tx.Nonce {
			lower++
		}
		for _, a := range other.Attempts {
			if a.Kind == Bump && v.Now.Sub(a.At) < v.Policy.ResubmitInterval {
				recent++
			}
		}
	}
	return lower < budget && recent < budget
}

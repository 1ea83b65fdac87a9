package txn

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// maxNonceResults bounds the requests of one change.
const maxNonceResults = 1024

// external decides about the nonces of clients: one change answers every request that waits, and
// records the evidence of the chain. ok is false if there is nothing to do now.
func external(v *View) (Step, bool) {
	if v.Submitter.Mode != External {
		return nil, false
	}
	b := newNonceBook(v)
	if step, ok := b.protectFailedOver(); ok {
		return step, true
	}
	b.expire()
	b.quarantineRestored()
	if step, ok := b.protectUsed(); ok {
		return step, true
	}
	b.settle()
	if step, ok := b.answer(); ok {
		return step, true
	}
	if step, ok := b.failUnreserved(); ok {
		return step, true
	}
	b.age()
	b.findHole()
	if len(b.order) == 0 && len(b.change.Results) == 0 {
		if step, ok := b.fillHole(); ok {
			return step, true
		}
		return b.readDue()
	}
	return Record{Change{Nonces: b.finish()}}, true
}

// failUnreserved fails a queued transaction without a reservation: it was queued by an older
// program, or while the mode changed, and only clients take nonces here.
func (b *nonceBook) failUnreserved() (Step, bool) {
	if len(b.order) > 0 || len(b.change.Results) > 0 {
		return nil, false // those are recorded first
	}
	for i := range b.v.Queue {
		if tx := &b.v.Queue[i]; tx.Reservation == (ReservationID{}) && tx.Requeued == 0 {
			return Record{failUnsent(b.v, tx, ReasonInvalid,
				"the submitter is in mode EXTERNAL, where clients sign; reserve a nonce with "+
					"AllocateNonce")}, true
		}
	}
	return nil, false
}

// nonceBook is the nonces of a submitter while a change is made.
type nonceBook struct {
	v      *View
	rows   []ExternalNonce // lowest first
	writes map[Nonce]*NonceWrite
	order  []Nonce
	change NonceChange
	next   Nonce
}

func newNonceBook(v *View) *nonceBook {
	b := &nonceBook{
		v: v, rows: slices.Clone(v.External.Nonces), writes: map[Nonce]*NonceWrite{},
	}
	if v.Cursor != nil {
		b.next = v.Cursor.Next
	}
	return b
}

// write returns the write of a row; changes of a row in one step are one write.
func (b *nonceBook) write(i int) *NonceWrite {
	row := &b.rows[i]
	if w := b.writes[row.Nonce]; w != nil {
		return w
	}
	w := &NonceWrite{Version: row.Version, From: row.State}
	b.writes[row.Nonce] = w
	b.order = append(b.order, row.Nonce)
	return w
}

// move changes the state of a row.
func (b *nonceBook) move(i int, to NonceState, reason, message string) *NonceWrite {
	w, row := b.write(i), &b.rows[i]
	if row.State != to {
		row.Since, row.NeedsOperator = b.v.Now, false
	}
	row.State, row.Expires = to, time.Time{}
	row.Reason, row.Message = reason, message
	return w
}

func (b *nonceBook) find(id ReservationID) int {
	return slices.IndexFunc(b.rows, func(n ExternalNonce) bool { return n.Reservation == id })
}

func (b *nonceBook) finish() *NonceChange {
	for _, nonce := range b.order {
		w := b.writes[nonce]
		i := slices.IndexFunc(b.rows, func(n ExternalNonce) bool { return n.Nonce == nonce })
		if i >= 0 {
			w.Next = b.rows[i]
		}
		w.Next.Version = w.Version + 1
		b.change.Writes = append(b.change.Writes, *w)
	}
	if b.change.Reserves {
		b.change.From, b.change.To = b.v.Cursor.Next, b.next
	}
	return &b.change
}

// expire quarantines reservations whose time is over: their holders may have signed.
func (b *nonceBook) expire() {
	for i := range b.rows {
		if b.rows[i].State == NonceReserved && !b.rows[i].Expires.After(b.v.Now) {
			b.move(i, NoncePending, NonceExpired, "").Expired = true
		}
	}
}

// protectFailedOver protects a submitter after a fail-over: clients may hold nonces that the ledger
// lost, and have sent nothing yet. No read of the chain can show that.
func (b *nonceBook) protectFailedOver() (Step, bool) {
	v := b.v
	if !v.FailedOver || v.Cursor == nil || v.Cursor.AwaitsDecision() {
		return nil, false
	}
	return Record{Change{Protect: &Protection{
		Expect: v.Cursor.Next, Replaces: v.Cursor.replaceable(),
		Reason: ProtectRestored, Evidence: failedOver,
	}}}, true
}

const failedOver = "the database failed over or was restored: clients may hold nonces that this " +
	"ledger does not have; see docs/external.md before you decide"

// quarantineRestored keeps nonces from being reserved that a lost commit may have reserved.
func (b *nonceBook) quarantineRestored() {
	c := b.v.Cursor
	if c == nil || c.Protected == nil || c.Protected.Reason != ProtectRestored {
		return
	}
	for i := range b.rows {
		if b.rows[i].State == NonceRecyclable {
			b.move(i, NoncePending, NonceRestored,
				"the ledger lost commits: another client may hold it")
		}
	}
}

// protectUsed protects a submitter if the chain shows a nonce as used that its holder released as
// never signed: the holder was wrong, or another program uses the key.
func (b *nonceBook) protectUsed() (Step, bool) {
	v := b.v
	if v.Account == nil || v.Cursor == nil || v.Cursor.AwaitsDecision() {
		return nil, false
	}
	for i := range b.rows {
		n := &b.rows[i]
		if n.State != NonceRecyclable || n.Nonce >= v.Account.Settled {
			continue
		}
		return Record{Change{Protect: &Protection{
			Expect:   v.Cursor.Next,
			Replaces: v.Cursor.replaceable(),
			Reason:   ReasonNonceElsewhere,
			Evidence: fmt.Sprintf("nonce %d was released as never signed (reservation %s, "+
				"holder %q), but is used on chain: the settled next nonce is %d at block %d (%s)",
				n.Nonce, n.Reservation, n.Holder, v.Account.Settled, v.Account.Head,
				v.Account.HeadHash.Hex()),
			ChainNonce: new(v.Account.Settled),
		}}}, true
	}
	return nil, false
}

// settle accepts the nonces that the chain has passed for good. A receipt alone proves nothing
// about a nonce: the hash comes from a client.
func (b *nonceBook) settle() {
	v := b.v
	if v.Account == nil || v.Cursor == nil {
		return
	}
	for i := range b.rows {
		n := &b.rows[i]
		if n.Nonce >= v.Account.Settled {
			break
		}
		reason, message := NonceBySettled, fmt.Sprintf(
			"the settled next nonce is %d at block %d", v.Account.Settled, v.Account.Head)
		switch hash, receipt := b.included(n); {
		case receipt != nil:
			reason, message = NonceByReceipt, fmt.Sprintf("%s in block %d", hash.Hex(),
				receipt.BlockNumber)
		case !b.receiptsRead(n):
			continue // with the next read of the account
		case len(n.Hashes) > 0:
			reason = NonceByOther
			message += "; none of the recorded hashes has a receipt"
		case n.State == NonceRecyclable:
			reason = NonceUsedReleased
		}
		b.move(i, NonceAccepted, reason, message)
	}
}

// included returns the recorded hash of a nonce that is in a block.
func (b *nonceBook) included(n *ExternalNonce) (Hash, *Receipt) {
	for _, h := range n.Hashes {
		if receipt := b.v.External.Receipts[h]; receipt != nil {
			return h, receipt
		}
	}
	return Hash{}, nil
}

// receiptsRead reports whether the receipts of all recorded hashes of a settled nonce are known:
// those that are missing were read after the chain had used it.
func (b *nonceBook) receiptsRead(n *ExternalNonce) bool {
	for _, h := range n.Hashes {
		if _, ok := b.v.External.Receipts[h]; !ok || n.Nonce >= b.v.External.Settled {
			return false
		}
	}
	return true
}

// ReportedHashes returns the recorded hashes whose receipts are read with the account.
func (v *View) ReportedHashes() (hashes []Hash) {
	for i := range v.External.Nonces {
		hashes = append(hashes, v.External.Nonces[i].Hashes...)
	}
	return hashes
}

// age marks nonces for which there has been no evidence for too long.
func (b *nonceBook) age() {
	limit := b.v.Policy.External.HardMaxAge
	if limit <= 0 {
		return
	}
	for i := range b.rows {
		n := &b.rows[i]
		if n.State == NoncePending && !n.NeedsOperator && b.v.Now.Sub(n.Since) >= limit {
			b.write(i)
			n.NeedsOperator = true
		}
	}
}

// readDue reads the account, and the receipts of recorded hashes, if nonces wait for evidence and
// the last read is old enough.
func (b *nonceBook) readDue() (Step, bool) {
	due := b.readDueAt()
	if due.IsZero() || due.After(b.v.Now) {
		return nil, false
	}
	return b.read(), true
}

func (b *nonceBook) read() Step {
	return ReadAccount{Tx: &Tx{}, Depth: b.v.Policy.Confirmations, External: true}
}

// readDueAt returns when the account is read next; zero: nothing waits for it.
func (b *nonceBook) readDueAt() time.Time {
	v := b.v
	switch s := v.Suspicion; {
	case len(b.rows) == 0 && s == nil || v.Cursor == nil:
		return time.Time{}
	case s != nil && v.Head > s.Head && (v.Account == nil || v.Account.Head < v.Head):
		return v.Now // a second read decides
	}
	if v.External.ReadAt.IsZero() {
		return v.Now
	}
	return v.External.ReadAt.Add(v.Policy.External.interval())
}

// nonceDue returns the next times at which something becomes due for the nonces of clients.
func nonceDue(v *View, earlier func(time.Time)) {
	if v.Submitter.Mode != External {
		return
	}
	b := newNonceBook(v)
	for i := range b.rows {
		n := &b.rows[i]
		earlier(n.Expires)
		if limit := v.Policy.External.HardMaxAge; limit > 0 && n.State == NoncePending &&
			!n.NeedsOperator {
			earlier(n.Since.Add(limit))
		}
	}
	earlier(b.readDueAt())
}

// answer answers the requests in their order.
func (b *nonceBook) answer() (Step, bool) {
	for i := range b.v.External.Requests {
		r := &b.v.External.Requests[i]
		if len(b.change.Results) == maxNonceResults || b.afterThis(r) {
			break
		}
		if r.Kind == RequestAllocate {
			if step, ok := b.prepareAllocation(); ok {
				if len(b.change.Results) == 0 && len(b.order) == 0 {
					return step, true
				}
				break // the decisions so far are recorded first
			}
		}
		result, nonce := b.apply(r)
		b.change.Results = append(b.change.Results, NonceResult{r.No, result, nonce})
	}
	return nil, false
}

// afterThis reports whether a request waits until this change is recorded: a nonce that it frees
// is the lowest one for an allocation, and a row takes one hash at a time.
func (b *nonceBook) afterThis(r *NonceRequest) bool {
	switch r.Kind {
	case RequestAllocate:
		return slices.ContainsFunc(b.rows, func(n ExternalNonce) bool {
			return n.State == NonceRecyclable && b.writes[n.Nonce] != nil
		})
	case RequestRecordHash:
		i := b.held(r)
		if i < 0 {
			return r.Accepted != nil && b.writes[r.Accepted.Nonce] != nil
		}
		w := b.writes[b.rows[i].Nonce]
		return w != nil && (b.rows[i].Reservation != r.Reservation ||
			w.Hash != (Hash{}) && w.Hash != r.Hash)
	case RequestQuarantine:
		i := b.held(r)
		return i >= 0 && b.rows[i].Reservation != r.Reservation &&
			b.writes[b.rows[i].Nonce] != nil
	}
	return false
}

// held returns the row of the nonce that the reservation of a request holds, or held before; -1: it
// is not in memory.
func (b *nonceBook) held(r *NonceRequest) int {
	if i := b.find(r.Reservation); i >= 0 || r.Given == nil {
		return i
	}
	return slices.IndexFunc(b.rows, func(n ExternalNonce) bool { return n.Nonce == *r.Given })
}

func (b *nonceBook) apply(r *NonceRequest) (result string, nonce *Nonce) {
	switch r.Kind {
	case RequestAllocate:
		return b.allocate(r)
	case RequestRecordHash:
		return b.recordHash(r), nil
	case RequestRelease:
		return b.release(r), nil
	case RequestQuarantine:
		return b.quarantine(r), nil
	case RequestExtend:
		return b.extend(r), nil
	case RequestResolve:
		return b.resolve(r), nil
	}
	return ResultUnknownCommand, nil
}

// readPause is the least time between two reads of the account for allocations.
const readPause = time.Second

// prepareAllocation returns the step that an allocation needs first: a read of the account, since
// the owner knows nothing of it or has not looked for long, and the start of the cursor. The
// account only shows whether another program uses the key: the nonce comes from the cursor.
func (b *nonceBook) prepareAllocation() (Step, bool) {
	v := b.v
	if v.Submitter.Status != Active || v.Cursor != nil && v.Cursor.Protected != nil {
		return nil, false
	}
	if at := v.External.ReadAt; v.Account == nil &&
		(at.IsZero() || v.Now.Sub(at) >= min(v.Policy.External.interval(), readPause)) {
		return b.read(), true
	}
	if v.Cursor == nil && b.notReady() == "" {
		a := v.Account
		return Record{Change{
			Init:    &CursorInit{Nonce: a.Latest, Block: a.Head, BlockHash: a.HeadHash},
			Protect: lostStart(v), // protectFailedOver follows
		}}, true
	}
	return nil, false
}

// notReady returns why the cursor cannot start; empty: it can.
func (b *nonceBook) notReady() string {
	a, from := b.v.Account, b.v.Submitter.StartFrom
	switch {
	case a == nil:
		return "the chain is unavailable; retry later"
	case a.Latest != a.Pending || a.Latest != a.Settled:
		return fmt.Sprintf("the account has unsettled transactions (next nonce %d at the head, "+
			"%d in the pool, %d settled); retry once they are settled", a.Latest, a.Pending,
			a.Settled)
	case from != StartChain && from != strconv.FormatUint(uint64(a.Latest), 10):
		return fmt.Sprintf("start_from is %s but the account's next nonce is %d; register the "+
			"submitter again with start_from \"chain\"", from, a.Latest)
	}
	return ""
}

// allocate gives out the lowest recyclable nonce, or the cursor's.
func (b *nonceBook) allocate(r *NonceRequest) (string, *Nonce) {
	v := b.v
	switch {
	case r.Stale:
		return ResultStale, nil
	case v.Submitter.Status != Active:
		return ResultPaused, nil
	case v.Cursor != nil && v.Cursor.Protected != nil:
		return ResultProtected, nil
	case v.Cursor == nil:
		return ResultNotReady + ": " + b.notReady(), nil
	case v.Account != nil && v.Account.HasCode:
		return ResultNotReady + ": the account has code (EIP-7702), which can raise its nonce " +
			"without a transaction; remove the delegation, or use another account", nil
	case v.Suspicion != nil:
		return ResultNotReady + ": the account differs from the ledger; retry once it was read " +
			"again", nil
	case b.unsettled() >= v.Submitter.Limit:
		return fmt.Sprintf("%s: %d nonces are RESERVED or PENDING", ResultExhausted,
			b.unsettled()), nil
	}
	// a nonce that the chain shows as used, or may, was signed after all: see protectUsed
	i := slices.IndexFunc(b.rows, func(n ExternalNonce) bool {
		return n.State == NonceRecyclable && b.writes[n.Nonce] == nil &&
			v.Account != nil && n.Nonce >= v.Account.Latest
	})
	if i < 0 {
		i = len(b.rows)
		b.rows = append(b.rows, ExternalNonce{Nonce: b.next, State: NonceReserved})
		b.next++
	}
	b.change.Reserves = true
	w := b.move(i, NonceReserved, NonceAllocated, "")
	w.TTL = r.TTL
	n := &b.rows[i]
	n.Reservation, n.Hashes = r.Reservation, nil
	n.Holder, n.Caller = r.Holder, r.Caller
	n.Since, n.Expires = v.Now, v.Now.Add(r.TTL)
	return Applied, new(n.Nonce)
}

// unsettled returns how many nonces clients hold, or may have used.
func (b *nonceBook) unsettled() (n int) {
	for i := range b.rows {
		if s := b.rows[i].State; s == NonceReserved || s == NoncePending {
			n++
		}
	}
	return n
}

// nonceState refuses a request that the state of its nonce does not allow.
func nonceState(format string, args ...any) string {
	return ResultNonceState + ": " + fmt.Sprintf(format, args...)
}

// ended is the result of a request under a reservation whose nonce another one holds by now.
const ended = ResultNonceState + ": the nonce was released, and is reserved by another client; " +
	"never send a transaction for it"

// recordHash records that bytes exist. It is no evidence that they were used, and it is never too
// late: also a nonce that its holder released is quarantined again.
func (b *nonceBook) recordHash(r *NonceRequest) string {
	i := b.held(r)
	if i < 0 && r.Accepted != nil {
		b.rows = append(b.rows, *r.Accepted)
		slices.SortFunc(b.rows, byNonce)
		i = b.held(r)
	}
	if i < 0 {
		return ended
	}
	n := &b.rows[i]
	if n.Reservation != r.Reservation {
		return b.formerSigned(i, r)
	}
	if slices.Contains(n.Hashes, r.Hash) && n.State != NonceRecyclable {
		return Applied
	}
	switch {
	case n.State == NonceAccepted:
		b.write(i).Hash = r.Hash
	case n.Reason == NonceFormerSigned: // it stays shown
		b.write(i).Hash = r.Hash
	default:
		b.move(i, NoncePending, NonceHashRecorded, "").Hash = r.Hash
	}
	n.Hashes = append(slices.Clone(n.Hashes), r.Hash)
	return Applied
}

// formerSigned records that the holder of an earlier reservation signed for a nonce that it had
// released. Another client may sign for it as well, so the nonce needs an operator, and is never
// reserved again.
func (b *nonceBook) formerSigned(i int, r *NonceRequest) string {
	n := &b.rows[i]
	if r.Hash != (Hash{}) && slices.Contains(n.Hashes, r.Hash) {
		return ended
	}
	message := fmt.Sprintf("reservation %s had released it as never signed", r.Reservation)
	switch {
	case n.State != NonceAccepted:
		b.move(i, NoncePending, NonceFormerSigned, message)
		n.NeedsOperator = true
	case r.Hash == (Hash{}):
		return ended
	}
	if r.Hash != (Hash{}) {
		w := b.write(i)
		w.Hash, w.Former = r.Hash, r.Reservation
		n.Hashes = append(slices.Clone(n.Hashes), r.Hash)
	}
	return ended
}

func byNonce(a, b ExternalNonce) int {
	switch {
	case a.Nonce < b.Nonce:
		return -1
	case a.Nonce > b.Nonce:
		return 1
	}
	return 0
}

// release frees a nonce on the word of its holder that it never signed.
func (b *nonceBook) release(r *NonceRequest) string {
	i := b.find(r.Reservation)
	switch {
	case i < 0 && r.accepted():
		return nonceState("it is ACCEPTED: the chain has used it")
	case i < 0:
		return Applied // released before, and reserved by another client since
	}
	switch n := &b.rows[i]; {
	case n.State == NonceRecyclable || n.State == NonceAccepted:
		return Applied
	case b.mayBeSigned(n):
		return nonceState("a signed transaction is recorded for it; it stays PENDING until the " +
			"chain shows which one was used")
	}
	b.move(i, NonceRecyclable, NonceNeverSigned, r.Reason)
	return Applied
}

// mayBeSigned reports whether signed bytes for a nonce are known, or are about to be: also those of
// a cancel transaction that it was decided to send.
func (b *nonceBook) mayBeSigned(n *ExternalNonce) bool {
	if len(n.Hashes) > 0 || n.State == NoncePending && slices.Contains(notFreed, n.Reason) {
		return true
	}
	return b.hasTx(n)
}

// hasTx reports whether Fencepost tracks a transaction for a nonce.
func (b *nonceBook) hasTx(n *ExternalNonce) bool {
	has := func(tx Tx) bool {
		return tx.Reservation == n.Reservation || tx.Nonce != nil && *tx.Nonce == n.Nonce
	}
	return slices.ContainsFunc(b.v.Open, has) || slices.ContainsFunc(b.v.Queue, has)
}

// notFreed lists the reasons of PENDING nonces that no word makes RECYCLABLE again.
var notFreed = []string{NonceFormerSigned, NonceHole, NonceByOperator}

func (b *nonceBook) quarantine(r *NonceRequest) string {
	i := b.held(r)
	switch {
	case i < 0 && r.accepted():
		return Applied
	case i < 0:
		return ended
	case b.rows[i].Reservation != r.Reservation:
		return b.formerSigned(i, r)
	case b.rows[i].State == NonceReserved:
		b.move(i, NoncePending, NonceQuarantined, r.Reason)
	case b.rows[i].State == NonceRecyclable:
		b.move(i, NoncePending, NonceQuarantined, r.Reason)
	}
	return Applied
}

func (b *nonceBook) extend(r *NonceRequest) string {
	i := b.find(r.Reservation)
	switch {
	case i < 0 && !r.accepted():
		return ended
	case i < 0 || b.rows[i].State != NonceReserved:
		state := NonceAccepted
		if i >= 0 {
			state = b.rows[i].State
		}
		return nonceState("it is %s, and no longer RESERVED", state)
	}
	b.write(i).TTL = r.TTL
	b.rows[i].Expires = b.v.Now.Add(r.TTL)
	return Applied
}

// resolve applies an operator's decision. It frees no nonce for which signed bytes are known.
func (b *nonceBook) resolve(r *NonceRequest) string {
	i := b.find(r.Reservation)
	switch {
	case i < 0 && r.accepted():
		return nonceState("it is ACCEPTED: the chain has used it")
	case i < 0:
		return nonceState("another reservation holds the nonce by now; read it again")
	}
	n := &b.rows[i]
	switch {
	case r.Action == NonceNeverSigned && n.State == NonceRecyclable:
		return Applied
	case n.State != NoncePending && (r.Action != NonceFill || n.State != NonceRecyclable):
		return nonceState("it is %s, not PENDING", n.State)
	case r.Action == NonceFill: // the caller queues the cancel transaction
		b.move(i, NoncePending, NonceByOperator, r.Operator+": "+r.Reason)
		return Applied
	case r.Action != NonceNeverSigned:
		return ResultUnknownCommand
	case b.mayBeSigned(n):
		return nonceState("a signed transaction is recorded for it, so it is never reserved " +
			"again; fill it, or wait for the chain")
	}
	b.move(i, NonceRecyclable, NonceByOperator, r.Operator+": "+r.Reason)
	return Applied
}

package txn

import (
	"slices"
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

// read reads the account. If the last read showed a nonce as passed that is not ACCEPTED, this one
// may confirm it, and another endpoint should serve it.
func (b *nonceBook) read() Step {
	s := ReadAccount{Tx: &Tx{}, Depth: b.v.Policy.Confirmations, External: true}
	x := &b.v.External
	if len(b.rows) > 0 && b.rows[0].Nonce < max(x.Settled, x.Before) {
		s.Avoid = x.Source
	}
	return s
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
	wait := v.Policy.External.interval()
	switch x := &v.External; {
	case x.ReadAt.IsZero():
		return v.Now
	case slices.ContainsFunc(b.rows, func(n ExternalNonce) bool {
		return x.Before <= n.Nonce && n.Nonce < x.Settled
	}):
		wait = min(wait, readPause) // the second read that settles it
	}
	return v.External.ReadAt.Add(wait)
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

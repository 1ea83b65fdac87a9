package txn

import "fmt"

// FillHole queues a cancel transaction for the nonce of a reservation, as the decision NonceFill
// does.
type FillHole struct{ Reservation ReservationID }

func (FillHole) step() {}

// findHole decides to fill the lowest nonce that the chain has not used, if signed transactions
// above it wait for it and nothing shows that one exists for it. A PENDING nonce may be signed
// for, so its age alone is not enough: the pool of the node must have no transaction for it
// either. If one exists after all, the chain includes one of the two.
func (b *nonceBook) findHole() {
	i, ok := b.hole()
	if !ok || b.rows[i].Reason == NonceHole || b.writes[b.rows[i].Nonce] != nil {
		return
	}
	n, after := &b.rows[i], b.v.Policy.External.FillAfter
	if n.State == NoncePending {
		if !n.NeedsOperator {
			return
		}
		after = max(after, b.v.Policy.External.HardMaxAge)
	}
	if b.v.Now.Sub(n.Since) < after {
		return
	}
	b.move(i, NoncePending, NonceHole, fmt.Sprintf("%s for %s, with signed transactions above it",
		n.State, after))
}

// hole returns the nonce that those above it wait for, unless a transaction for it is known.
func (b *nonceBook) hole() (i int, ok bool) {
	v := b.v
	if v.Policy.External.FillAfter <= 0 || v.Submitter.Status != Active || v.Account == nil ||
		v.Cursor == nil || v.Cursor.Protected != nil || v.Suspicion != nil {
		return 0, false
	}
	for i := range b.rows {
		n := &b.rows[i]
		switch {
		case n.Nonce < v.Account.Latest:
			continue
		case n.Nonce > v.Account.Latest || v.Account.Pending > n.Nonce,
			n.State != NonceRecyclable && n.State != NoncePending,
			n.Reason != NonceHole && b.mayBeSigned(n):
			return 0, false
		}
		for k := i + 1; k < len(b.rows); k++ {
			if b.mayBeSigned(&b.rows[k]) {
				return i, true
			}
		}
		return 0, false
	}
	return 0, false
}

// fillHole queues the cancel transaction of a hole that is recorded as one, once.
func (b *nonceBook) fillHole() (Step, bool) {
	i, ok := b.hole()
	if !ok || b.rows[i].Reason != NonceHole || b.hasTx(&b.rows[i]) {
		return nil, false
	}
	id := b.rows[i].Reservation
	return FillHole{id}, !b.v.External.Filled[id]
}

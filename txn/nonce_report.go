package txn

import (
	"fmt"
	"slices"
)

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
		return nonceState("it is %s, and no longer RESERVED; sign nothing more for it, and "+
			"reserve another nonce", state)
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

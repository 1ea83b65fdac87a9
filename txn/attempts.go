package txn

// newest returns the newest attempt at the current nonce.
func (tx *Tx) newest() *Attempt {
	for i := len(tx.Attempts) - 1; i >= 0 && tx.Nonce != nil; i-- {
		if a := &tx.Attempts[i]; a.Nonce == *tx.Nonce {
			return a
		}
	}
	return &tx.Attempts[len(tx.Attempts)-1]
}

// attempt returns the attempt with a hash; the zero value if there is none.
func (tx *Tx) attempt(h Hash) *Attempt {
	for i := range tx.Attempts {
		if a := &tx.Attempts[i]; a.Hash == h {
			return a
		}
	}
	return &Attempt{}
}

// WasBroadcast reports whether, by the ledger, it is in no block and an attempt was broadcast. A
// replacement restarts its count.
func (tx *Tx) WasBroadcast() bool {
	return len(tx.Attempts) > 0 && tx.Sub != Included &&
		(tx.SubmitAttempts > 0 || tx.LastOutcome != "" || tx.newest().Kind != Original)
}

// rebroadcastAttempt returns the attempt to rebroadcast. For a reorged final transaction it is the
// attempt that was included, because no watcher may see two outcomes (H22). If that has an earlier
// nonce which a node reports as used, the current nonce must be filled as well.
func (tx *Tx) rebroadcastAttempt() *Attempt {
	was := tx.attempt(tx.TxHash)
	if older := tx.pooledAttempt(); older != nil {
		return older
	}
	if tx.Reason != ReasonReorgedFinal || was.No == 0 ||
		was.Nonce != *tx.Nonce && tx.LastOutcome == NonceTooLow {
		return tx.newest()
	}
	return was
}

// notePooled records that a pool has, or had, an attempt. Unless the attempt is a cancel, the node
// that called it invalid was wrong, except if a cancel was signed because of that.
func (tx *Tx) notePooled(next *Status, a *Attempt) {
	next.Pooled = max(next.Pooled, a.No)
	if a.Kind != Cancel && tx.newest().Kind != Cancel {
		next.Rejected = ""
	}
}

// keepsReason reports whether the reason stays, regardless of responses, until it is included.
func (tx *Tx) keepsReason() bool { return tx.State == Stuck || tx.keepsReasonUntilFinal() }

// keepsReasonUntilFinal reports whether the reason stays until it is final, included or not: until
// then an earlier outcome is revoked.
func (tx *Tx) keepsReasonUntilFinal() bool {
	return executedUnexpectedly(tx.Reason) || tx.Reason == ReasonReorgedFinal
}

func (o Outcome) inPool() bool { return o.Class == Accepted || o.Class == AlreadyKnown }

// notPooled are the outcomes after which no pool has the bytes. REPLACEMENT_UNDERPRICED is not one
// of them: a pool has another attempt, which the next one must outbid.
var notPooled = map[Class]bool{
	NonceGap:           true,
	Underpriced:        true,
	FeeCapBelowBaseFee: true,
	InsufficientFunds:  true,
	PoolFull:           true,
	ExecutionReverted:  true,
	WrongChain:         true,
	TypeNotSupported:   true,
	Invalid:            true,
}

// unexamined reports whether the node did not examine the bytes: such responses do not describe
// the transaction, however many there are.
func unexamined(c Class) bool { return c == Unavailable || c == RateLimited || c == Unauthorized }

// replacements returns the number of attempts at the current nonce after the first, or after the
// first cancel if it is being cancelled. Attempts from before a REQUEUE do not count.
func (tx *Tx) replacements() (n int) {
	cancelling := tx.newest().Kind == Cancel
	for _, a := range tx.Attempts {
		if a.Nonce == *tx.Nonce && (a.Kind == Cancel || !cancelling) {
			n++
		}
	}
	return n - 1
}

// abandoned reports whether it is no longer meant to execute: a cancel was requested, a node called
// it invalid, or a cancel was signed because of its deadline or an earlier execution.
func (tx *Tx) abandoned() bool {
	return tx.CancelRequested || tx.Rejected != "" ||
		len(tx.Attempts) > 0 && tx.newest().Kind == Cancel
}

func (tx *Tx) whyAbandoned() string {
	switch {
	case tx.CancelRequested:
		return "a cancel was requested"
	case tx.Rejected != "":
		return "a node called it invalid and it was being cancelled"
	case tx.Reason == ProtectExecutedAfterRequeue:
		return "it had executed before it was requeued, and a cancel was sent"
	}
	return "not_after passed and a cancel was sent"
}

// pooledAttempt returns the earlier attempt that a pool may have, if the account cannot afford the
// newest one; nil: none. Every second rebroadcast sends it: the account could pay for it once, and
// a pool that dropped it would otherwise not have it again before the account is funded.
func (tx *Tx) pooledAttempt() *Attempt {
	newest := tx.newest()
	if tx.Sub != Unfunded || tx.Reason == ReasonReorgedFinal || newest.Kind != Bump ||
		tx.Pooled >= newest.No ||
		tx.SubmitAttempts%2 == 1 {
		return nil
	}
	for i := range tx.Attempts {
		if a := &tx.Attempts[i]; a.No == tx.Pooled && a.Nonce == *tx.Nonce {
			return a
		}
	}
	return nil
}

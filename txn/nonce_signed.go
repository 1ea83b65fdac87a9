package txn

import "slices"

// ReasonExternal is the reason of a transaction that an older program queued for a submitter in
// mode EXTERNAL.
const ReasonExternal = "SUBMITTER_MODE"

// byClient refuses a command that needs a signature.
const byClient = "its client signed it; have the client send a replacement, or a cancel " +
	"transaction, with SubmitSigned"

// fills reports whether a transaction fills a reserved nonce. It ends in the queue only if the
// nonce is used: no other transaction can have its reservation, and the nonce would stay open.
func (tx *Tx) fills() bool { return tx.Reservation != (ReservationID{}) && !tx.Signed }

// queuedFill reports whether a transaction fills a reserved nonce and has not taken it.
func queuedFill(v *View, id TxID) bool {
	return slices.ContainsFunc(v.Queue, func(tx Tx) bool { return tx.ID == id && tx.fills() })
}

// clientSigned reports whether a client signed a transaction that is not final.
func clientSigned(v *View, id TxID) bool {
	is := func(tx Tx) bool { return tx.ID == id && tx.Signed }
	return slices.ContainsFunc(v.Open, is) || slices.ContainsFunc(v.Queue, is)
}

// takeSigned records the bytes of clients as attempts, before they are sent. The first attempt of a
// transaction takes its reserved nonce. A later one replaces it, as the client wants.
func takeSigned(v *View) (Step, bool) {
	if v.Submitter.Mode != External || v.Cursor == nil {
		return nil, false
	}
	var c Change
	slots := takenSlots(v.Open)
	for i := range v.External.Signed {
		s := &v.External.Signed[i]
		if isWritten(c.Writes, s.Tx) {
			continue
		}
		attempt := s.Attempt
		attempt.At = v.Now
		if tx, ok := openTx(v, s.Tx); ok {
			c.Writes = append(c.Writes, replacedByClient(v, tx, &attempt)...)
			continue
		}
		for k := range v.Queue {
			tx := &v.Queue[k]
			slot, free := slots.lowest()
			if tx.ID != s.Tx || !free {
				continue
			}
			slots[slot] = true
			p := Preparation{Signed: Signed{Hash: attempt.Hash, Raw: attempt.Raw}}
			p.Quote.GasLimit, p.Quote.Fees = attempt.GasLimit, attempt.Fees
			one := takeNonce(v, Prepare{Tx: tx, Nonce: attempt.Nonce, Slot: slot}, &p)
			one.Writes[0].Next.Unsent = false // its client may have sent it
			one.Writes[0].Next.Doubted = true
			c.Writes = append(c.Writes, one.Writes...)
		}
	}
	return record(c)
}

func replacedByClient(v *View, tx *Tx, attempt *Attempt) []Write {
	if tx.Receipt != nil {
		return nil // recorded if a reorg takes it out of the chain
	}
	next := tx.Status
	next.TxHash = attempt.Hash
	next.SubmitAttempts = 0
	next.LastOutcome = ""
	if !tx.keepsReason() {
		next.Reason, next.LastError = "", ""
	}
	w := v.move(tx, EventReplaced, &next, 0)
	attempt.No = len(tx.Attempts) + 1
	w[0].Attempt = attempt
	return w
}

// fillReserved prepares the cancel transaction that fills a reserved nonce. Anything else in the
// queue that no client signed does not belong there.
func fillReserved(v *View) (Step, bool) {
	for i := range v.Queue {
		tx := &v.Queue[i]
		if tx.Signed || tx.Due.After(v.Now) {
			continue
		}
		if tx.Reservation == (ReservationID{}) {
			return Record{failUnsent(v, tx, ReasonExternal,
				"clients of this account sign themselves; use SubmitSigned")}, true
		}
		at := slices.IndexFunc(v.External.Nonces,
			func(n ExternalNonce) bool { return n.Reservation == tx.Reservation })
		slot, free := takenSlots(v.Open).lowest()
		switch {
		case at < 0:
			return Record{failUnsent(v, tx, ReasonNonceElsewhere,
				"the nonce was used before it was filled")}, true
		case v.Cursor == nil || v.Cursor.Protected != nil || v.Submitter.Status != Active || !free:
			continue
		case v.External.Nonces[at].State != NoncePending:
			continue
		}
		return Prepare{Tx: tx, Nonce: v.External.Nonces[at].Nonce, Slot: slot}, true
	}
	return nil, false
}

// slotSet is the set of slots that transactions in flight hold.
type slotSet map[int16]bool

func takenSlots(open []Tx) slotSet {
	s := slotSet{}
	for i := range open {
		if !open[i].Released {
			s[open[i].Slot] = true
		}
	}
	return s
}

func (s slotSet) lowest() (int16, bool) {
	for slot := range int16(MaxInFlight) {
		if !s[slot] {
			return slot, true
		}
	}
	return 0, false
}

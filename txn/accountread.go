package txn

// UsedNonce is the memory of an account read that found the nonce of a transaction used while no
// receipt of ours was known.
type UsedNonce struct {
	Tx    TxID
	Head  uint64 // of that read
	Reads int
}

// receiptReads is the number of times that receipts older than the account read are fetched again.
// Endpoints may differ for longer than that.
const receiptReads = 3

// AccountResult is the owner's memory after it has read an account for a step. It replaces the
// previous memory as a whole.
type AccountResult struct {
	Account   *Account // nil: the read is unusable, and the previous one stays
	Suspicion *Suspicion
	Open      []Tx
	Used      UsedNonce
	Recheck   bool // fetch the receipts of the step's transaction again
}

// AccountRead evaluates an account read. A used nonce proves nothing yet: our transaction may be in
// a block that is newer than the fetch of its receipt. So the receipts are fetched again, and only
// the next read can lead to a suspicion.
func AccountRead(v *View, s ReadAccount, account Account, used UsedNonce) AccountResult {
	switch own := s.CommandID == 0 && s.Tx.Nonce != nil; {
	case own && account.Latest <= *s.Tx.Nonce:
		used = UsedNonce{}
	case own && used.precedesReceipts(s.Tx.ID, account.Head, v.Head):
		return AccountResult{Suspicion: v.Suspicion, Open: v.Open, Used: used, Recheck: true}
	}
	account.CommandID = s.CommandID
	if _, missing := lowestMissing(v); missing && s.CommandID == 0 && s.Tx.Nonce == nil &&
		account.Head > v.Head { // the receipts are older: no evidence against those in flight
		account.Expected = v.Expected()
		return AccountResult{Account: &account, Suspicion: v.Suspicion, Open: v.Open, Used: used}
	}
	if v.Cursor != nil {
		account.Expected = v.Expected()
	}
	r := AccountResult{Account: &account, Used: used}
	r.Suspicion, r.Open = AccountReadDone(v, &account)
	return r
}

// precedesReceipts reports whether the receipts that are known may be older than an account read,
// and counts it. seen is the head of the view with the receipts.
func (u *UsedNonce) precedesReceipts(tx TxID, head, seen uint64) bool {
	if u.Tx != tx {
		*u = UsedNonce{Tx: tx, Head: head}
	} else if seen >= u.Head || u.Reads >= receiptReads {
		return false
	}
	u.Reads++
	return true
}

package txn

import "fmt"

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
	if !v.lossUndecided() {
		return nil, false
	}
	return Record{Change{Protect: restoredProtection(v, failedOver)}}, true
}

const failedOver = afterFailOver + "clients may hold nonces that this " +
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
	if v.Cursor == nil || v.Cursor.AwaitsDecision() {
		return nil, false
	}
	settled := b.settledTwice()
	for i := range b.rows {
		n := &b.rows[i]
		if n.State != NonceRecyclable || n.Nonce >= settled {
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

// settledTwice returns the settled nonce that two successive reads show: one response may be wrong.
// Two endpoints serve them if the chain has two that are up to date: see read.
func (b *nonceBook) settledTwice() Nonce {
	if b.v.Account == nil {
		return 0
	}
	return min(b.v.Account.Settled, b.v.External.Settled, b.v.External.Before)
}

// settle accepts the nonces that the chain has passed for good: ACCEPTED is final. A receipt alone
// proves nothing about a nonce: the hash comes from a client.
func (b *nonceBook) settle() {
	v := b.v
	if v.Cursor == nil {
		return
	}
	settled := b.settledTwice()
	for i := range b.rows {
		n := &b.rows[i]
		if n.Nonce >= settled {
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
		if _, ok := b.v.External.Receipts[h]; !ok {
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

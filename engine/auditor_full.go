package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// AuditOptions say what a full audit looks at.
type AuditOptions struct {
	Store     *store.Store
	Chain     Chain // nil: the ledger is compared with itself alone
	Submitter txn.SubmitterID
	Progress  func(AuditProgress) // told after each page of transactions; nil: nobody wants to know
}

// AuditProgress is how far a full audit has come.
type AuditProgress struct {
	Transactions int       // that were compared with the chain: final ones, and those that gave up their nonce
	Nonce        txn.Nonce // of the last final one of them
	Next         txn.Nonce // where the cursor stood at the beginning
}

// AuditReport is what a full audit found.
type AuditReport struct {
	Submitter    txn.Submitter
	Cursor       *txn.Cursor // nil: no nonce was ever taken
	Transactions int         // that were compared with the chain: final ones, and those that gave up their nonce
	Hashes       int         // signed transactions that the chain was asked for
	Unanswered   int         // of those, how many it could not be asked for, or whose endpoint has not come that far: ask again
	Violations   []store.Violation
}

const (
	// auditPage is how many transactions are read and compared at a time.
	auditPage = 200
	// auditLooks is how often the account is looked at before a disagreement is one: the first look may fall into a reorg.
	auditLooks = 3
)

// Audit holds the whole ledger of one submitter to its laws, and to the chain: each final transaction is where its receipt says, none that never ran or
// that gave up its nonce is there, and the account's nonce fits the cursor. It only reads, beside an owner at work. The error says what could not be read; what was found until then comes with it.
func Audit(ctx context.Context, o AuditOptions) (AuditReport, error) {
	a := fullAudit{AuditOptions: o}
	info, err := o.Store.Submitter(ctx, o.Submitter)
	if err != nil {
		return a.report, fmt.Errorf("engine: audit submitter %d: %w", o.Submitter, err)
	}
	a.report.Submitter, a.report.Cursor = info.Submitter, info.Cursor
	a.report.Violations, _, err = o.Store.AuditWhole(ctx, o.Submitter)
	if err == nil && o.Chain != nil && info.Cursor != nil {
		err = a.chain(ctx)
	}
	if err != nil {
		return a.report, fmt.Errorf("engine: audit submitter %d: %w", o.Submitter, err)
	}
	return a.report, nil
}

// fullAudit is one under way.
type fullAudit struct {
	AuditOptions
	report AuditReport
	nonce  txn.Nonce // of the last final transaction that was compared
}

func (a *fullAudit) found(law string, tx *txn.TxID, what string, args ...any) {
	a.report.Violations = append(a.report.Violations,
		store.Violation{Law: law, Tx: tx, What: fmt.Sprintf(what, args...)})
}

func (a *fullAudit) chain(ctx context.Context) error {
	for _, check := range []func(context.Context) error{a.finals, a.requeued, a.account} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// finals compares every final transaction with the chain, page by page.
func (a *fullAudit) finals(ctx context.Context) error {
	for from := txn.Nonce(0); ; {
		page, err := a.Store.FinalTxs(ctx, a.Submitter, from, auditPage)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := a.compare(ctx, page); err != nil {
			return err
		}
		a.nonce = page[len(page)-1].Nonce
		from = a.nonce + 1
		a.progress(len(page))
	}
}

// requeued compares every transaction that gave up its nonce and has no other: whatever was signed for it must not be on chain.
func (a *fullAudit) requeued(ctx context.Context) error {
	for after := (txn.TxID{}); ; {
		page, err := a.Store.RequeuedTxs(ctx, a.Submitter, after, auditPage)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := a.compare(ctx, page); err != nil {
			return err
		}
		after = page[len(page)-1].ID
		a.progress(len(page))
	}
}

func (a *fullAudit) progress(compared int) {
	a.report.Transactions += compared
	if a.Progress != nil {
		a.Progress(
			AuditProgress{
				Transactions: a.report.Transactions,
				Nonce:        a.nonce,
				Next:         a.report.Cursor.Next,
			},
		)
	}
}

// compare asks the chain for every signed form of these transactions. The head is read first: an endpoint that has not come as far as a receipt lags, and its
// "not there" says nothing.
func (a *fullAudit) compare(ctx context.Context, page []store.FinalTx) error {
	head, err := a.Chain.Head(ctx)
	if err != nil {
		return err
	}
	var hashes []txn.Hash
	for _, tx := range page {
		for _, attempt := range tx.Attempts {
			hashes = append(hashes, attempt.Hash)
		}
	}
	a.report.Hashes += len(hashes)
	on := make(map[txn.Hash]txn.ReceiptResult, len(hashes))
	for _, answer := range a.Chain.Receipts(ctx, hashes) {
		on[answer.Hash] = answer
	}
	for _, tx := range page {
		a.final(tx, head.Number, on)
	}
	return ctx.Err()
}

// final compares one transaction with what the chain has of it.
func (a *fullAudit) final(tx store.FinalTx, head uint64, on map[txn.Hash]txn.ReceiptResult) {
	for _, attempt := range tx.Attempts {
		recorded, seen := tx.Receipt != nil && tx.Receipt.TxHash == attempt.Hash, on[attempt.Hash]
		switch {
		case seen.Err != nil, recorded && seen.Receipt == nil && head < tx.Receipt.BlockNumber:
			a.report.Unanswered++
		case recorded:
			a.included(tx, seen.Receipt)
		case seen.Receipt == nil:
		case attempt.Kind == txn.Cancel && ranBefore(tx, attempt.Nonce): // it only filled the nonce
		case attempt.Kind == txn.Cancel:
			a.found("L6", &tx.ID,
				"it is %s, and its cancellation %s is in block %d, which the ledger does not know",
				tx.State, attempt.Hash.Hex(), seen.Receipt.BlockNumber)
		case tx.Executed == txn.No, tx.State == txn.Queued:
			a.found("L6", &tx.ID,
				"it is %s and never ran by the ledger, and its attempt %s (nonce %d) is in block %d",
				tx.State, attempt.Hash.Hex(), attempt.Nonce, seen.Receipt.BlockNumber)
		default:
			a.found("L6", &tx.ID,
				"it is %s by another attempt, and its attempt %s (nonce %d) is in block %d as well",
				tx.State, attempt.Hash.Hex(), attempt.Nonce, seen.Receipt.BlockNumber)
		}
	}
}

// ranBefore tells whether a transaction ended by the receipt of another nonce: it ran before it was given back to the queue.
func ranBefore(tx store.FinalTx, nonce txn.Nonce) bool {
	return tx.Receipt != nil &&
		slices.ContainsFunc(tx.Attempts,
			func(a store.AttemptHash) bool { return a.Hash == tx.Receipt.TxHash && a.Nonce != nonce })
}

// included compares the recorded receipt with the chain's.
func (a *fullAudit) included(tx store.FinalTx, on *txn.Receipt) {
	r := tx.Receipt
	switch {
	case on == nil:
		a.found("L5", &tx.ID,
			"it is %s in block %d (%s) by the ledger, and the chain does not have %s", tx.State,
			r.BlockNumber, r.BlockHash.Hex(), r.TxHash.Hex())
	case on.BlockHash != r.BlockHash:
		a.found("L5", &tx.ID,
			"it is %s in block %d (%s) by the ledger, and in block %d (%s) on chain", tx.State,
			r.BlockNumber, r.BlockHash.Hex(), on.BlockNumber, on.BlockHash.Hex())
	case on.Success != r.Success:
		a.found("L6", &tx.ID, "its receipt says success %t in the ledger and %t on chain",
			r.Success, on.Success)
	}
}

// account compares the cursor with the account. What the ledger has in blocks is read before the chain, and what it has given out after it: so an owner at work
// is never in the way.
func (a *fullAudit) account(ctx context.Context) error {
	var disagreement string
	for range auditLooks {
		least, err := a.settledBelow(ctx)
		if err != nil {
			return err
		}
		seen, err := a.Chain.Account(ctx, a.report.Submitter.Address, 0)
		if err != nil {
			return err
		}
		after, err := a.Store.Submitter(ctx, a.Submitter)
		if err != nil {
			return err
		}
		switch next := after.Cursor.Next; {
		case seen.Latest > next || seen.Pending > next:
			disagreement = fmt.Sprintf(
				"the account's next nonce is %d on chain and %d in its pool, and the ledger has given out those below %d: its key is used elsewhere",
				seen.Latest, seen.Pending, next)
		case seen.Latest < least:
			disagreement = fmt.Sprintf(
				"all nonces below %d are in blocks by the ledger, and the account's next nonce is %d at block %d: the chain has lost blocks, or the endpoint lags",
				least, seen.Latest, seen.Head)
		default:
			return nil
		}
	}
	a.found("L10", nil, "%s", disagreement)
	return nil
}

// settledBelow is the nonce below which all are in blocks by the ledger.
func (a *fullAudit) settledBelow(ctx context.Context) (txn.Nonce, error) {
	info, err := a.Store.Submitter(ctx, a.Submitter)
	if err != nil {
		return 0, err
	}
	blocking, _, _, err := a.Store.Waiting(ctx, a.Submitter)
	if err != nil {
		return 0, err
	}
	least := info.Cursor.Next
	if blocking != nil {
		least = min(least, *blocking.Nonce)
	}
	return least, nil
}

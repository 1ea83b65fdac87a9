package audit

import (
	"context"
	"fmt"
	"slices"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Options configure a full audit.
type Options struct {
	Store     *store.Store
	Chain     Chain // nil: the ledger is only checked against itself
	Submitter txn.SubmitterID
	Progress  func(Progress) // called after each page of transactions; may be nil
}

// Progress is how far a full audit has come.
type Progress struct {
	Transactions int       // compared with the chain: final ones, and those without their nonce
	Nonce        txn.Nonce // of the last final transaction
	Next         txn.Nonce // the cursor at the start
}

// Report is the result of a full audit.
type Report struct {
	Submitter    txn.Submitter
	Cursor       *txn.Cursor // nil: no nonce was ever taken
	Transactions int         // compared with the chain: final ones, and those without their nonce
	Hashes       int         // attempts looked up on chain
	Unanswered   int         // attempts without a usable answer: repeat the audit
	Violations   []store.Violation
}

const (
	// pageSize is how many transactions are read and compared at a time.
	pageSize = 200
	// accountReads is how often the account is read before a difference counts: a read may fall
	// into a reorg.
	accountReads = 3
)

// Run checks the whole ledger of one submitter against its laws and the chain: each final
// transaction is in the block of its receipt, no attempt of a transaction that never executed or
// that gave up its nonce is on chain, and the account's nonce matches the cursor. It may run while
// an owner works. An error names the failed read; the report has the violations found until then.
func Run(ctx context.Context, o Options) (Report, error) {
	a := full{Options: o}
	info, err := o.Store.Submitter(ctx, o.Submitter)
	if err != nil {
		return a.report, fmt.Errorf("audit: submitter %d: %w", o.Submitter, err)
	}
	a.report.Submitter, a.report.Cursor = info.Submitter, info.Cursor
	a.report.Violations, _, err = o.Store.AuditWhole(ctx, o.Submitter)
	if err == nil && o.Chain != nil && info.Cursor != nil {
		err = a.chain(ctx)
	}
	if err != nil {
		return a.report, fmt.Errorf("audit: submitter %d: %w", o.Submitter, err)
	}
	return a.report, nil
}

// full is a full audit.
type full struct {
	Options
	report Report
	nonce  txn.Nonce // of the last final transaction that was compared
}

func (a *full) found(law, check string, tx *txn.TxID, format string, values ...any) {
	a.report.Violations = append(a.report.Violations, store.Violation{
		Law: law, Check: check, Tx: tx, What: fmt.Sprintf(format, values...), Values: values,
	})
}

func (a *full) chain(ctx context.Context) error {
	for _, check := range []func(context.Context) error{a.finals, a.requeued, a.account} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// finals compares every final transaction with the chain.
func (a *full) finals(ctx context.Context) error {
	for from := txn.Nonce(0); ; {
		page, err := a.Store.FinalTxs(ctx, a.Submitter, from, pageSize)
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

// requeued checks every transaction that gave up its nonce and has no other: none of its attempts
// may be on chain.
func (a *full) requeued(ctx context.Context) error {
	for after := (txn.TxID{}); ; {
		page, err := a.Store.RequeuedTxs(ctx, a.Submitter, after, pageSize)
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

func (a *full) progress(compared int) {
	a.report.Transactions += compared
	if a.Progress != nil {
		a.Progress(
			Progress{
				Transactions: a.report.Transactions,
				Nonce:        a.nonce,
				Next:         a.report.Cursor.Next,
			},
		)
	}
}

// compare looks up every attempt of these transactions. The head is read first: an endpoint that is
// behind the block of a receipt lags, and its "not found" proves nothing.
func (a *full) compare(ctx context.Context, page []store.FinalTx) error {
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
	for _, result := range a.Chain.Receipts(ctx, hashes) {
		on[result.Hash] = result
	}
	for _, tx := range page {
		a.final(tx, head.Number, on)
	}
	return ctx.Err()
}

// final compares the attempts of one transaction with their receipts on chain.
func (a *full) final(tx store.FinalTx, head uint64, on map[txn.Hash]txn.ReceiptResult) {
	for _, attempt := range tx.Attempts {
		recorded := tx.Receipt != nil && tx.Receipt.TxHash == attempt.Hash
		seen := on[attempt.Hash]
		switch {
		case seen.Err != nil, recorded && seen.Receipt == nil && head < tx.Receipt.BlockNumber:
			a.report.Unanswered++
		case recorded:
			a.included(tx, seen.Receipt)
		case seen.Receipt == nil:
		// it only filled the nonce
		case attempt.Kind == txn.Cancel && executedBefore(tx, attempt.Nonce):
		case attempt.Kind == txn.Cancel:
			a.found("L6", "unknown_cancel", &tx.ID,
				"it is %s, but its cancel transaction %s is in block %d, which the ledger does "+
					"not record",
				tx.State, attempt.Hash.Hex(), seen.Receipt.BlockNumber)
		case tx.Executed == txn.No, tx.State == txn.Queued:
			a.found("L6", "unknown_execution", &tx.ID,
				"it is %s and never executed by the ledger, but its attempt %s (nonce %d) is in "+
					"block %d",
				tx.State, attempt.Hash.Hex(), attempt.Nonce, seen.Receipt.BlockNumber)
		default:
			a.found("L6", "second_execution", &tx.ID,
				"it is %s by another attempt, but its attempt %s (nonce %d) is in block %d as well",
				tx.State, attempt.Hash.Hex(), attempt.Nonce, seen.Receipt.BlockNumber)
		}
	}
}

// executedBefore reports whether the receipt of a transaction is for another nonce: it executed
// before it was requeued.
func executedBefore(tx store.FinalTx, nonce txn.Nonce) bool {
	return tx.Receipt != nil &&
		slices.ContainsFunc(tx.Attempts,
			func(a store.AttemptHash) bool {
				return a.Hash == tx.Receipt.TxHash &&
					a.Nonce != nonce
			})
}

// included compares the recorded receipt with the receipt on chain.
func (a *full) included(tx store.FinalTx, on *txn.Receipt) {
	r := tx.Receipt
	switch {
	case on == nil:
		a.found("L5", "not_on_chain", &tx.ID,
			"it is %s in block %d (%s) by the ledger, but the chain does not have %s", tx.State,
			r.BlockNumber, r.BlockHash.Hex(), r.TxHash.Hex())
	case on.BlockHash != r.BlockHash:
		a.found("L5", "other_block", &tx.ID,
			"it is %s in block %d (%s) by the ledger, but in block %d (%s) on chain", tx.State,
			r.BlockNumber, r.BlockHash.Hex(), on.BlockNumber, on.BlockHash.Hex())
	case on.Success != r.Success:
		a.found("L6", "other_result", &tx.ID,
			"its receipt has success %t in the ledger, but %t on chain", r.Success, on.Success)
	}
}

// account compares the cursor with the account. The ledger's settled nonces are read before the
// chain and its cursor after it, so an owner at work causes no difference.
func (a *full) account(ctx context.Context) error {
	var difference func()
	for range accountReads {
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
			difference = func() {
				a.found("L10", "used_elsewhere", nil, aheadFormat, seen.Latest, seen.Pending, next)
			}
		case seen.Latest < least:
			difference = func() {
				a.found("L10", "chain_behind", nil,
					"all nonces below %d are in blocks by the ledger, but the account's next "+
						"nonce is %d "+
						"at block %d: the chain lost blocks, or the endpoint lags",
					least, seen.Latest, seen.Head)
			}
		default:
			return nil
		}
	}
	difference()
	return nil
}

// settledBelow is the nonce below which the ledger has all nonces in blocks.
func (a *full) settledBelow(ctx context.Context) (txn.Nonce, error) {
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

package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Options configure a full audit.
type Options struct {
	Store     *store.Store
	Chain     Chain // nil: the ledger is only checked against itself
	Submitter txn.SubmitterID
	Progress  func(Progress) // called after each page of transactions; may be nil
	Clock     clock.Clock    // nil: the machine's
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
	// secondReading is the time between two readings of the chain that must find the same. An
	// endpoint may lack a receipt for a moment, and others may have it.
	secondReading = 2 * time.Second
)

// Run checks the whole ledger of one submitter against its laws and the chain: each final
// transaction is in the block of its receipt, no attempt of a transaction that never executed or
// that gave up its nonce is on chain, and the account's nonce matches the cursor. It may run while
// an owner works. A difference to the chain counts once two readings have found it, of different
// endpoints if the chain has several. An error names the failed read; the report has the violations
// found until then.
func Run(ctx context.Context, o Options) (Report, error) {
	a := full{Options: o}
	if a.Clock == nil {
		a.Clock = clock.Real{}
	}
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
	report  Report
	nonce   txn.Nonce // of the last final transaction that was compared
	doubted []doubt   // to be read again
}

// doubt is a transaction that one reading of the chain contradicts.
type doubt struct {
	tx     store.FinalTx
	checks []string // that failed
}

func (a *full) found(law, check, format string, values ...any) {
	a.report.Violations = append(a.report.Violations,
		violation(law, check, nil, format, values...))
}

func violation(law, check string, tx *txn.TxID, format string, values ...any) store.Violation {
	return store.Violation{
		Law: law, Check: check, Tx: tx, What: fmt.Sprintf(format, values...), Values: values,
	}
}

func (a *full) chain(ctx context.Context) error {
	for _, check := range []func(context.Context) error{
		a.finals, a.requeued, a.readAgain, a.account,
	} {
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

// compare looks up every attempt of these transactions. Those that the chain contradicts are read
// again at the end.
func (a *full) compare(ctx context.Context, page []store.FinalTx) error {
	head, on, err := a.read(ctx, page)
	if err != nil {
		return err
	}
	for _, tx := range page {
		a.report.Hashes += len(tx.Attempts)
		if checks := failedChecks(a.contradictions(tx, head, on)); len(checks) > 0 {
			a.doubted = append(a.doubted, doubt{tx, checks})
		}
	}
	return ctx.Err()
}

// read returns the receipts of every attempt of these transactions. The head is read first: an
// endpoint that is behind the block of a receipt lags, and its "not found" proves nothing.
func (a *full) read(ctx context.Context, page []store.FinalTx) (head uint64,
	on map[txn.Hash]txn.ReceiptResult, err error) {
	newest, err := a.Chain.Head(ctx)
	if err != nil {
		return 0, nil, err
	}
	var hashes []txn.Hash
	for _, tx := range page {
		for _, attempt := range tx.Attempts {
			hashes = append(hashes, attempt.Hash)
		}
	}
	on = make(map[txn.Hash]txn.ReceiptResult, len(hashes))
	for _, result := range a.Chain.Receipts(ctx, hashes) {
		on[result.Hash] = result
	}
	return newest.Number, on, nil
}

// readAgain reads the doubted transactions a second time, a while later and from another endpoint
// if there is one. The ledger is wrong where both readings contradict it in the same way.
func (a *full) readAgain(ctx context.Context) error {
	if len(a.doubted) == 0 {
		return nil
	}
	if err := a.later(ctx); err != nil {
		return err
	}
	for page := range slices.Chunk(a.doubted, pageSize) {
		txs := make([]store.FinalTx, len(page))
		for i := range page {
			txs[i] = page[i].tx
		}
		head, on, err := a.read(ctx, txs)
		if err != nil {
			return err
		}
		for i, tx := range txs {
			for _, v := range a.contradictions(tx, head, on) {
				if slices.Contains(page[i].checks, v.Check) {
					a.report.Violations = append(a.report.Violations, v)
				} else {
					a.report.Unanswered++ // two readings that differ
				}
			}
		}
	}
	return ctx.Err()
}

// later waits between two readings, and has the next one made by another endpoint.
func (a *full) later(ctx context.Context) error {
	if several, ok := a.Chain.(interface{ AvoidCurrent() }); ok {
		several.AvoidCurrent()
	}
	return clock.Sleep(ctx, a.Clock, secondReading)
}

func failedChecks(found []store.Violation) (checks []string) {
	for _, v := range found {
		checks = append(checks, v.Check)
	}
	return checks
}

// contradictions compares the attempts of one transaction with their receipts on chain.
func (a *full) contradictions(tx store.FinalTx, head uint64,
	on map[txn.Hash]txn.ReceiptResult) (found []store.Violation) {
	add := func(law, check, format string, values ...any) {
		found = append(found, violation(law, check, &tx.ID, format, values...))
	}
	for _, attempt := range tx.Attempts {
		recorded := tx.Receipt != nil && tx.Receipt.TxHash == attempt.Hash
		seen := on[attempt.Hash]
		switch {
		case seen.Err != nil, recorded && seen.Receipt == nil && head < tx.Receipt.BlockNumber:
			a.report.Unanswered++
		case recorded:
			included(tx, seen.Receipt, add)
		case seen.Receipt == nil:
		// it only filled the nonce
		case attempt.Kind == txn.Cancel && executedBefore(tx, attempt.Nonce):
		case attempt.Kind == txn.Cancel:
			add("L6", "unknown_cancel",
				"it is %s, but its cancel transaction %s is in block %d, which the ledger does "+
					"not record",
				tx.State, attempt.Hash.Hex(), seen.Receipt.BlockNumber)
		case tx.Executed == txn.No, tx.State == txn.Queued:
			add("L6", "unknown_execution",
				"it is %s and never executed by the ledger, but its attempt %s (nonce %d) is in "+
					"block %d",
				tx.State, attempt.Hash.Hex(), attempt.Nonce, seen.Receipt.BlockNumber)
		default:
			add("L6", "second_execution",
				"it is %s by another attempt, but its attempt %s (nonce %d) is in block %d as well",
				tx.State, attempt.Hash.Hex(), attempt.Nonce, seen.Receipt.BlockNumber)
		}
	}
	return found
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
func included(tx store.FinalTx, on *txn.Receipt,
	add func(law, check, format string, values ...any)) {
	r := tx.Receipt
	switch {
	case on == nil:
		add("L5", "not_on_chain",
			"it is %s in block %d (%s) by the ledger, but the chain does not have %s", tx.State,
			r.BlockNumber, r.BlockHash.Hex(), r.TxHash.Hex())
	case on.BlockHash != r.BlockHash:
		add("L5", "other_block",
			"it is %s in block %d (%s) by the ledger, but in block %d (%s) on chain", tx.State,
			r.BlockNumber, r.BlockHash.Hex(), on.BlockNumber, on.BlockHash.Hex())
	case on.Success != r.Success:
		add("L6", "other_result",
			"its receipt has success %t in the ledger, but %t on chain", r.Success, on.Success)
	}
}

// account compares the cursor with the account. The ledger's settled nonces are read before the
// chain and its cursor after it, so an owner at work causes no difference.
func (a *full) account(ctx context.Context) error {
	var difference func()
	for read := range accountReads {
		if read > 0 {
			if err := a.later(ctx); err != nil {
				return err
			}
		}
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
				a.found("L10", "used_elsewhere", aheadFormat, seen.Latest, seen.Pending, next)
			}
		case seen.Latest < least:
			difference = func() {
				a.found("L10", "chain_behind",
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
	reserved, found, err := a.Store.LowestReserved(ctx, a.Submitter)
	if found {
		least = min(least, reserved)
	}
	return least, err
}

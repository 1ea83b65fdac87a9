package store

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/txn"
)

// PrepareMove checks that an account may move from the ledger of from, whose directory is used, to
// another one. The roles of all three must own the tables.
func PrepareMove(ctx context.Context, from, to *Store, name, ledger string) (*AccountMove, error) {
	m := &AccountMove{from: from, to: to, directory: from.cfg.Directory, name: name,
		toName: ledger, at: func(string) error { return nil }}
	if err := m.findLedgers(ctx); err != nil {
		return nil, m.failed(ctx, err)
	}
	row, err := from.read().SubmitterByName(ctx, name)
	if isNoRows(err) {
		err = ErrSubmitterNotFound
	}
	if err != nil {
		return nil, m.failed(ctx, err)
	}
	m.id = txn.SubmitterID(row.SubmitterID)
	m.done = MovedAccount{Submitter: name, From: m.fromName, To: ledger}
	return m, m.failed(ctx, m.checkChain(ctx))
}

// findLedgers compares both ledgers with the directory.
func (m *AccountMove) findLedgers(ctx context.Context) error {
	from, err := m.from.read().LedgerOfMove(ctx)
	if err != nil {
		return err
	}
	to, err := m.to.read().LedgerOfMove(ctx)
	if err != nil {
		return err
	}
	self, err := m.directory.read().LedgerOfMove(ctx)
	if err != nil {
		return err
	}
	switch {
	case from.DirectoryNo == nil || to.DirectoryNo == nil:
		return fmt.Errorf("%w: a ledger is in no directory; run \"fencepost ledger join\"",
			ErrCannotMove)
	case from.LedgerID == to.LedgerID:
		return fmt.Errorf("%w: it is in ledger %q; name another", ErrCannotMove, to.LedgerName)
	case to.LedgerName != m.toName:
		return fmt.Errorf("%w: the database of the new ledger holds ledger %q, not %q; correct "+
			"its URL", ErrCannotMove, to.LedgerName, m.toName)
	case from.LedgerID == self.LedgerID:
		// Restored from a backup, it would not know of the move, and neither would the directory.
		return fmt.Errorf("%w: the directory is in the database of ledger %q; move it to "+
			"another one, see docs/ledgers.md", ErrCannotMove, from.LedgerName)
	}
	m.fromNo, m.toNo = *from.DirectoryNo, *to.DirectoryNo
	m.fromName, m.toEpoch = from.LedgerName, to.FeedEpoch
	ledgers, err := m.directory.read().DirectoryLedgers(ctx)
	if err != nil {
		return err
	}
	known := 0
	for _, l := range ledgers {
		if l.LedgerID == from.LedgerID && l.No == m.fromNo ||
			l.LedgerID == to.LedgerID && l.No == m.toNo {
			known++
		}
	}
	if known != 2 {
		return fmt.Errorf("%w: the directory does not have both ledgers; run \"fencepost ledger "+
			"join\" again", ErrCannotMove)
	}
	return nil
}

// checkChain compares the chain of the account in both ledgers.
func (m *AccountMove) checkChain(ctx context.Context) error {
	is, err := m.state(ctx, m.from.read())
	if err != nil {
		return err
	}
	here, err := m.from.read().ChainGenesis(ctx, is.ChainID)
	if isNoRows(err) {
		return nil // no node has read the chain yet
	}
	if err != nil {
		return err
	}
	there, err := m.to.read().ChainGenesis(ctx, is.ChainID)
	if isNoRows(err) {
		return fmt.Errorf("%w: no node of ledger %q knows chain %d; configure it there first",
			ErrCannotMove, m.toName, is.ChainID)
	}
	if err == nil && toHash(here) != toHash(there) {
		return fmt.Errorf("%w: ledger %q has another chain with id %d", ErrCannotMove, m.toName,
			is.ChainID)
	}
	return err
}

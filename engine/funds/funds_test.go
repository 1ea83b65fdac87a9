package funds

import (
	"context"
	"log/slog"
	"testing"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// ledger has two accounts.
type ledger struct{ Store }

func (ledger) Submitters(_ context.Context, _ []string, after string,
	_ int) ([]store.SubmitterInfo, error) {
	switch after {
	case "":
		return []store.SubmitterInfo{{Submitter: txn.Submitter{ID: 1, Name: "s1", Chain: 1,
			Address: txn.Address{1}}}}, nil
	case "s1":
		return []store.SubmitterInfo{{Submitter: txn.Submitter{ID: 2, Name: "s2", Chain: 1,
			Address: txn.Address{2}}}}, nil
	}
	return nil, nil
}

func (ledger) FundsOf(context.Context, []txn.SubmitterID) (map[txn.SubmitterID]store.Funds,
	error) {
	return nil, nil
}

func (ledger) Commitments(context.Context, []txn.SubmitterID,
	map[txn.SubmitterID]txn.Nonce) (map[txn.SubmitterID]store.Commitment, error) {
	return nil, nil
}

func (ledger) RecordLow(context.Context, txn.SubmitterID, store.LowChange) (bool, error) {
	return true, nil
}

// TestLook_OnePageFails_OthersJudged: and the low ones are counted.
func TestLook_OnePageFails_OthersJudged(t *testing.T) {
	t.Parallel()
	counted := -1
	w := New(Options{Name: "main", Chain: 1, Low: uint256.NewInt(5), Store: ledger{},
		Logger:  slog.New(slog.DiscardHandler),
		Counted: func(low int, _ map[string]int) { counted = low },
		Balances: func(_ context.Context, of []txn.Address, _ []uint64) (txn.FundsRead, error) {
			if of[0] == (txn.Address{1}) {
				return txn.FundsRead{}, txn.ErrUnavailable
			}
			return txn.FundsRead{Accounts: make([]txn.AccountFunds, len(of))}, nil
		}})
	w.page = 1
	if err := w.Look(t.Context()); err == nil || counted != 1 {
		t.Errorf("%v, %d accounts are low; want an error, and 1", err, counted)
	}
}

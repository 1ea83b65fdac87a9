package store

import (
	"context"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// CostFilter selects final transactions, and groups them.
type CostFilter struct {
	By           CostGroup
	LabelKey     string    // of CostByLabel
	From, Before time.Time // of the final state
	Names        []string  // of submitters; nil: all
	Limit        int
}

// CostGroup is the key that costs are added up by.
type CostGroup string

// The groups of costs. Days are of UTC.
const (
	CostByAccount CostGroup = "ACCOUNT"
	CostByCaller  CostGroup = "CALLER"
	CostByLabel   CostGroup = "LABEL"
	CostByDay     CostGroup = "DAY"
)

// Cost is the cost of the transactions of one group on one chain. Amounts are whole numbers in
// decimal, of wei or gas.
type Cost struct {
	Chain                  txn.ChainID
	Key                    string // empty: no caller, or without the label
	Transactions, Reverted int64
	GasUsed, GasPaid       string
	L1Fee                  string // charged by a rollup beside gas, as far as receipts have it
}

// Costs adds up the gas that final transactions have paid, by chain and key.
func (s *Store) Costs(ctx context.Context, f CostFilter) ([]Cost, error) {
	rows, err := s.read().Costs(ctx, db.CostsParams{
		By: string(f.By), LabelKey: f.LabelKey, FromTime: f.From, Before: f.Before,
		AnyName: f.Names == nil, Names: f.Names, MaxRows: int32(f.Limit),
	})
	if err != nil {
		return nil, s.failed(ctx, "add up costs", err)
	}
	costs := make([]Cost, len(rows))
	for i, r := range rows {
		costs[i] = Cost{Chain: txn.ChainID(r.ChainID), Key: r.Key, Transactions: r.Transactions,
			Reverted: r.Reverted, GasUsed: r.GasUsed, GasPaid: r.GasPaid, L1Fee: r.L1Fee}
	}
	return costs, nil
}

// Commitment is the funds that the transactions of an account need.
type Commitment struct {
	Committed txn.Wei // highest cost in flight, and value and usual gas of queued transactions
	PerDay    txn.Wei // spent recently, for a day; zero: nothing is known
}

// countedCommitments bounds the queued and the final transactions that are counted per account.
const countedCommitments = 200

// A rate of spending needs the transactions of so much time, or so many: one of some seconds would
// make a day of a moment.
const (
	rateSpan         = time.Hour
	rateTransactions = countedCommitments / 2
)

// Commitments reads the commitments of submitters. Of a queue, the first transactions are counted;
// each needs as much gas as recent ones. nonces are those that the accounts have at the block of
// their balances: transactions below are in the balance. For an account without one, transactions
// count until the ledger has them in a block.
func (s *Store) Commitments(ctx context.Context, ids []txn.SubmitterID,
	nonces map[txn.SubmitterID]txn.Nonce) (map[txn.SubmitterID]Commitment, error) {
	p := db.CommitmentsParams{Most: countedCommitments}
	for _, id := range ids {
		from := int64(-1)
		if nonce, has := nonces[id]; has {
			from = int64(nonce)
		}
		p.SubmitterIds, p.FromNonces = append(p.SubmitterIds, int32(id)), append(p.FromNonces, from)
	}
	rows, err := s.read().Commitments(ctx, p)
	if err != nil {
		return nil, s.failed(ctx, "read the commitments of submitters", err)
	}
	all := make(map[txn.SubmitterID]Commitment, len(rows))
	for _, r := range rows {
		committed := sum(amount(r.InFlight), amount(r.QueuedValue))
		var perDay txn.Wei
		if r.Transactions > 0 {
			gas := amount(r.GasPaid)
			gas.Div(&gas, uint256.NewInt(uint64(r.Transactions)))
			if _, beyond := gas.MulOverflow(&gas, uint256.NewInt(uint64(r.Queued))); !beyond {
				committed = sum(committed, gas)
			}
		}
		if r.Seconds >= rateSpan.Seconds() || r.Transactions >= rateTransactions {
			perDay = amount(r.Spent)
			seconds := uint256.NewInt(uint64(max(r.Seconds, 1)))
			if _, beyond := perDay.MulDivOverflow(&perDay, uint256.NewInt(24*60*60),
				seconds); beyond {
				perDay.SetAllOne()
			}
		}
		all[txn.SubmitterID(r.SubmitterID)] = Commitment{Committed: committed, PerDay: perDay}
	}
	return all, nil
}

// amount reads an amount, which may exceed 256 bits as a sum; then it is the largest one.
func amount(decimal string) (w txn.Wei) {
	if err := w.SetFromDecimal(decimal); err != nil {
		w.SetAllOne()
	}
	return w
}

func sum(a, b txn.Wei) (w txn.Wei) {
	if _, beyond := w.AddOverflow(&a, &b); beyond {
		w.SetAllOne()
	}
	return w
}

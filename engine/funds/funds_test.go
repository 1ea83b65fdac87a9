package funds

import (
	"context"
	"log/slog"
	"maps"
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
	for look := 1; look <= sameBlock; look++ {
		want := look / sameBlock // once several responses of the block have shown it
		if err := w.Look(t.Context()); err == nil || counted != want {
			t.Errorf("%v, %d accounts are low; want an error, and %d", err, counted, want)
		}
	}
}

// otherLedger has two submitters and a pool, or does not respond.
type otherLedger struct{ down bool }

func (o otherLedger) Submitters(context.Context, []string, string,
	int) ([]store.SubmitterInfo, error) {
	if o.down {
		return nil, store.ErrUnavailable
	}
	return []store.SubmitterInfo{
		{Submitter: txn.Submitter{ID: 11, Name: "payouts", Chain: 1}},
		{Submitter: txn.Submitter{ID: 12, Name: "bank", Chain: 1}},
		{Submitter: txn.Submitter{ID: 13, Name: "stray", Chain: 2}},
	}, nil
}

func (o otherLedger) Pools(context.Context, []string, string, int) ([]store.Pool, error) {
	if o.down {
		return nil, store.ErrUnavailable
	}
	return []store.Pool{{PoolRef: store.PoolRef{Name: "there"}}}, nil
}

func (ledger) Pools(context.Context, []string, string, int) ([]store.Pool, error) {
	return nil, nil
}

// TestLook_NamesInOtherLedger_Known: a name is unknown if no ledger of the node has it on the
// chain, and is not judged while one of them is down.
func TestLook_NamesInOtherLedger_Known(t *testing.T) {
	t.Parallel()
	unknown := "a rule of top-ups has an unknown name"
	apart := "a rule of top-ups has a treasury in another ledger than its accounts"
	for name, c := range map[string]struct {
		others []Names
		rule   Rule
		held   int
		logged map[string]int
	}{
		"in the other one": {[]Names{otherLedger{}},
			Rule{From: "s1", Submitters: []string{"s2", "payouts"}, Pools: []string{"there"}}, 0,
			map[string]int{}},
		"rule for the other one alone": {[]Names{otherLedger{}},
			Rule{From: "bank", Submitters: []string{"payouts"}}, 0, map[string]int{}},
		"in none": {[]Names{otherLedger{}},
			Rule{From: "s1", Submitters: []string{"s2", "gone", "payouts"},
				Pools: []string{"there", "none"}}, 2, map[string]int{unknown: 2}},
		"on another chain": {[]Names{otherLedger{}},
			Rule{From: "s1", Submitters: []string{"stray"}}, 1, map[string]int{unknown: 1}},
		"no others": {nil, Rule{From: "s1", Submitters: []string{"s2", "payouts"}}, 1,
			map[string]int{unknown: 1}},
		"a ledger is down": {[]Names{otherLedger{}, otherLedger{down: true}},
			Rule{From: "s1", Submitters: []string{"gone"}}, 0, map[string]int{}},
		"treasury in the other one": {[]Names{otherLedger{}},
			Rule{From: "bank", Submitters: []string{"s2"}}, 0, map[string]int{apart: 1}},
		"treasury of all in the other one": {[]Names{otherLedger{}}, Rule{From: "bank"}, 0,
			map[string]int{apart: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counted, log := -1, messages{}
			w := New(Options{Name: "main", Chain: 1, Store: ledger{}, Others: c.others,
				Rules: []Rule{c.rule}, Logger: slog.New(log),
				Counted: func(_ int, held map[string]int) { counted = held[HeldAccountUnknown] },
				Balances: func(_ context.Context, of []txn.Address,
					_ []uint64) (txn.FundsRead, error) {
					return txn.FundsRead{Accounts: make([]txn.AccountFunds, len(of))}, nil
				}})
			w.page = 1
			for range 2 {
				if err := w.Look(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if counted != c.held || !maps.Equal(log, c.logged) {
				t.Errorf("counted %d, logged %v; want %d, %v", counted, log, c.held, c.logged)
			}
		})
	}
}

// messages counts log messages.
type messages map[string]int

func (m messages) Enabled(context.Context, slog.Level) bool { return true }

func (m messages) Handle(_ context.Context, r slog.Record) error {
	m[r.Message]++
	return nil
}

func (m messages) WithAttrs([]slog.Attr) slog.Handler { return m }
func (m messages) WithGroup(string) slog.Handler      { return m }

package node

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/holiman/uint256"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// accounts are the submitters of a ledger, with what their transactions cost.
type accounts struct {
	all       []store.SubmitterInfo
	committed map[txn.SubmitterID]store.Commitment
}

func (a *accounts) Submitters(_ context.Context, _ []string, after string,
	limit int) (page []store.SubmitterInfo, err error) {
	for _, s := range a.all {
		if s.Name > after && len(page) < limit {
			page = append(page, s)
		}
	}
	return page, nil
}

func (a *accounts) Commitments(context.Context,
	[]txn.SubmitterID) (map[txn.SubmitterID]store.Commitment, error) {
	return a.committed, nil
}

// TestBalances_BelowLimit_ReportedOnce: the cost of accepted transactions counts, accounts of other
// chains do not, and each change is reported once.
func TestBalances_BelowLimit_ReportedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	books := &accounts{committed: map[txn.SubmitterID]store.Commitment{}}
	for i, name := range []string{"alice", "bob", "carol"} {
		s := store.SubmitterInfo{}
		s.ID = txn.SubmitterID(i + 1)
		s.Name, s.Chain = name, 1
		if name == "carol" {
			s.Chain = 2
		}
		books.all = append(books.all, s)
	}
	balance := []uint64{20, 20}
	gauge, err := noop.NewMeterProvider().Meter("").Int64Gauge("x")
	if err != nil {
		t.Fatal(err)
	}
	w := &balanceWatch{
		chain: config.Chain{Name: "main", ChainID: 1,
			Balance: config.Balance{Low: uint256.NewInt(10)}},
		store: books, gauge: gauge, low: map[txn.SubmitterID]bool{},
		log: slog.New(slog.NewTextHandler(&log, nil)),
		balances: func(_ context.Context, of []txn.Address) (all []uint256.Int, err error) {
			for i := range of {
				all = append(all, *uint256.NewInt(balance[i]))
			}
			return all, nil
		},
	}
	look := func(what string, low int, want ...string) {
		t.Helper()
		log.Reset()
		for range 2 { // the second time nothing has changed
			if err := w.look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if log.Len() == 0 {
			lines = nil
		}
		if len(lines) != len(want) || len(w.low) != low {
			t.Fatalf("%s: %d low, log %q", what, len(w.low), lines)
		}
		for i, line := range lines {
			if !strings.Contains(line, want[i]) {
				t.Errorf("%s: %s", what, line)
			}
		}
	}
	look("enough", 0)
	books.committed[1] = store.Commitment{Committed: *uint256.NewInt(11)}
	balance[1] = 10
	look("committed funds", 1, "submitter=alice")
	balance[0], balance[1] = 21, 9
	look("one up, one down", 1, "submitter=alice", "submitter=bob")
}

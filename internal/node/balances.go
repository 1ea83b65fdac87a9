package node

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/holiman/uint256"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/run"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// balanceWatch reports accounts of a chain that run out of funds.
type balanceWatch struct {
	chain config.Chain
	store interface {
		Submitters(ctx context.Context, names []string, after string,
			limit int) ([]store.SubmitterInfo, error)
		Commitments(ctx context.Context,
			ids []txn.SubmitterID) (map[txn.SubmitterID]store.Commitment, error)
	}
	balances func(context.Context, []txn.Address) ([]uint256.Int, error)
	gauge    metric.Int64Gauge
	log      *slog.Logger
	low      map[txn.SubmitterID]bool
}

// balanceWatches are the services that watch balances, one for each chain with a limit.
func (n *Node) balanceWatches() (all []run.Service) {
	for i, c := range n.cfg.Chains {
		if c.Balance.Low == nil {
			continue
		}
		w := &balanceWatch{chain: c, store: n.store, balances: n.chains[i].Balances,
			gauge: n.lowBalances, log: n.log, low: map[txn.SubmitterID]bool{}}
		all = append(all, run.Service{Name: "balances of " + c.Name, Run: w.run})
	}
	return all
}

// openBalances makes the metric of balances.
func (n *Node) openBalances() (err error) {
	n.lowBalances, err = n.metrics.Meter("node").Int64Gauge("fencepost_low_balances",
		metric.WithDescription("accounts of a chain whose balance, minus the cost of accepted "+
			"transactions, is below chains.balance.low"))
	if err != nil {
		return fmt.Errorf("make the metric of balances: %w", err)
	}
	for _, c := range n.cfg.Chains { // also where balances are not watched
		n.lowBalances.Record(context.Background(), 0, ofChain(c))
	}
	return nil
}

func ofChain(c config.Chain) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("chain", c.Name))
}

// run looks at the balances until ctx ends. Other nodes do the same.
func (w *balanceWatch) run(ctx context.Context) error {
	for {
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("reading balances failed; retrying", "chain", w.chain.Name, "error", err)
		}
		if clock.Sleep(ctx, clock.Real{}, w.chain.Balance.Interval) != nil {
			return nil
		}
	}
}

// look compares all balances once.
func (w *balanceWatch) look(ctx context.Context) error {
	for after := ""; ; {
		page, err := w.store.Submitters(ctx, nil, after, submittersPage)
		if err != nil {
			return err
		}
		if err := w.page(ctx, page); err != nil {
			return err
		}
		if len(page) < submittersPage {
			break
		}
		after = page[len(page)-1].Name
	}
	w.gauge.Record(ctx, int64(len(w.low)), ofChain(w.chain))
	return nil
}

func (w *balanceWatch) page(ctx context.Context, page []store.SubmitterInfo) error {
	var of []store.SubmitterInfo
	var ids []txn.SubmitterID
	var addresses []txn.Address
	for _, s := range page {
		if s.Chain == txn.ChainID(w.chain.ChainID) {
			of = append(of, s)
			ids = append(ids, s.ID)
			addresses = append(addresses, s.Address)
		}
	}
	if len(of) == 0 {
		return nil
	}
	// read first: a transaction that is accepted meanwhile is counted the next time
	committed, err := w.store.Commitments(ctx, ids)
	if err != nil {
		return err
	}
	balances, err := w.balances(ctx, addresses)
	if err != nil {
		return err
	}
	for i, s := range of {
		w.compare(s, balances[i], committed[s.ID].Committed)
	}
	return nil
}

// compare reports that an account began or ceased to be low.
func (w *balanceWatch) compare(s store.SubmitterInfo, balance, committed txn.Wei) {
	left := new(uint256.Int)
	if balance.Gt(&committed) {
		left.Sub(&balance, &committed)
	}
	low := left.Lt(w.chain.Balance.Low)
	if low == w.low[s.ID] {
		return
	}
	level, text := slog.LevelWarn, "balance low"
	if low {
		w.low[s.ID] = true
	} else {
		delete(w.low, s.ID)
		level, text = slog.LevelInfo, "balance no longer low"
	}
	w.log.Log(context.Background(), level, text, "submitter", s.Name, "chain", w.chain.Name,
		"balance", balance.Dec(), "committed", committed.Dec(), "low", w.chain.Balance.Low.Dec())
}

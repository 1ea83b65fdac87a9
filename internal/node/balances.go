package node

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/engine/funds"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/run"
	"github.com/fencepost/fencepost/txn"
)

// balanceMetrics are the metrics of balances.
type balanceMetrics struct {
	low, held metric.Int64Gauge
	topUps    metric.Int64Counter
}

// balanceWatches are the services that watch balances, one for each chain that wants it.
func (n *Node) balanceWatches(l *ledger) (all []run.Service) {
	for i, c := range l.cfg.Chains {
		if c.Balance.Low == nil && len(c.Balance.TopUps) == 0 {
			continue
		}
		o := funds.Options{
			Name: c.Name, Chain: txn.ChainID(c.ChainID), Low: c.Balance.Low,
			Events:   c.Balance.Events,
			Interval: c.Balance.Interval, Store: l.store, Others: n.others(l),
			Balances: l.chains[i].BalancesAt,
			Clock:    clock.Real{}, Logger: l.log,
			Counted: func(low int, held map[string]int) { l.funds.count(c, low, held) },
			Decided: func() { l.funds.topUps.Add(context.Background(), 1, ofChain(c)) },
		}
		for _, u := range c.Balance.TopUps {
			o.Rules = append(o.Rules, funds.Rule{From: u.From, Below: u.Below, To: u.To,
				MaxPerDay: u.MaxPerDay, Submitters: u.Submitters, Pools: u.Pools})
		}
		all = append(all, run.Service{Name: "balances of " + c.Name, Run: funds.New(o).Run})
	}
	return all
}

// others are the stores of the other ledgers.
func (n *Node) others(l *ledger) (all []funds.Names) {
	for _, o := range n.ledgers {
		if o != l {
			all = append(all, o.store)
		}
	}
	return all
}

// openBalances makes the metrics of balances.
func (l *ledger) openBalances() error {
	meter, m := l.metrics.Meter("node"), &l.funds
	var err1, err2, err3 error
	m.low, err1 = meter.Int64Gauge("fencepost_low_balances",
		metric.WithDescription("accounts of a chain whose balance, minus the cost of accepted "+
			"transactions, is below chains.balance.low"))
	m.held, err2 = meter.Int64Gauge("fencepost_top_ups_held",
		metric.WithDescription("accounts of a chain that need a top-up and get none, by reason"))
	m.topUps, err3 = meter.Int64Counter("fencepost_top_ups",
		metric.WithDescription("top-ups of accounts that this node decided"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("make the metrics of balances: %w", err)
	}
	for _, c := range l.cfg.Chains { // also where balances are not watched
		m.count(c, 0, nil)
		m.topUps.Add(context.Background(), 0, ofChain(c))
	}
	return nil
}

// count records the accounts of a chain that are low, or whose top-up is held.
func (m *balanceMetrics) count(c config.Chain, low int, held map[string]int) {
	ctx := context.Background()
	m.low.Record(ctx, int64(low), ofChain(c))
	for _, reason := range funds.HeldReasons {
		m.held.Record(ctx, int64(held[reason]), metric.WithAttributes(
			attribute.String("chain", c.Name), attribute.String("reason", reason)))
	}
}

func ofChain(c config.Chain) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("chain", c.Name))
}

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/holiman/uint256"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/server"
	"github.com/fencepost/fencepost/txn"
)

// chainStatus is the state of a chain's endpoints, as /chains returns it.
type chainStatus struct {
	Chain     string                 `json:"chain"`
	ChainID   uint64                 `json:"chain_id"`
	Endpoints []chain.EndpointStatus `json:"endpoints"`
}

// chains are the chains of the configuration, by the clients that all ledgers share.
func (n *Node) chains() []*boundChain {
	if len(n.ledgers) == 0 {
		return nil
	}
	return n.ledgers[0].chains
}

func (n *Node) chainStatus() []chainStatus {
	all := make([]chainStatus, len(n.chains()))
	for i, c := range n.chains() {
		all[i] = chainStatus{c.name, uint64(c.ID()), c.Status()}
	}
	return all
}

// serverChains is the state of the chains for callers of the API.
func (n *Node) serverChains() []server.ChainStatus {
	all := make([]server.ChainStatus, len(n.chains()))
	for i, c := range n.chains() {
		all[i] = server.ChainStatus{Name: c.name, ID: c.ID()}
		for _, e := range c.Status() {
			all[i].Endpoints = append(all[i].Endpoints, server.EndpointStatus{
				Name: e.Endpoint, Healthy: e.Healthy, Class: string(e.Class), Reason: e.Reason,
				RetryIn: e.RetryIn, Head: e.Head, BatchLimit: e.Batch,
				BatchLimitCause: e.BatchReason,
			})
		}
	}
	return all
}

// balances reads balances on a chain for callers of the API.
func (n *Node) balances(ctx context.Context, chain txn.ChainID,
	of []txn.Address) ([]uint256.Int, error) {
	for _, c := range n.chains() {
		if c.ID() == chain {
			return c.Balances(ctx, of)
		}
	}
	return nil, server.ErrUnknownChain
}

// simulate simulates a draft for callers of the API.
func (n *Node) simulate(ctx context.Context, chain txn.ChainID,
	draft txn.Draft) (txn.Quote, txn.Outcome, error) {
	for _, c := range n.chains() {
		if c.ID() == chain {
			quote, outcome := c.Quote(ctx, draft)
			return quote, outcome, nil
		}
	}
	return txn.Quote{}, txn.Outcome{}, server.ErrUnknownChain
}

// operators serves the state of the chains beside the node's metrics and health.
func (n *Node) operators(rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	mux.HandleFunc("GET /chains", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		to := json.NewEncoder(w)
		to.SetIndent("", "  ")
		_ = to.Encode(n.chainStatus()) // fails only if the client has gone
	})
	return mux
}

// measureChains exposes the state of the chains as metrics.
func (n *Node) measureChains() error {
	meter := n.metrics.Meter("chain")
	up, err := meter.Int64ObservableGauge("fencepost_rpc_endpoint_up", metric.WithDescription(
		"whether an RPC endpoint is healthy: 1, or 0 while its calls fail"))
	batch, errBatch := meter.Int64ObservableGauge("fencepost_rpc_batch_limit",
		metric.WithDescription("calls in one request to an RPC endpoint; below rpc_batch_limit "+
			"after the endpoint refused a batch"))
	if err := errors.Join(err, errBatch); err != nil {
		return fmt.Errorf("make the metrics of the chains: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, c := range n.chainStatus() {
			for _, e := range c.Endpoints {
				labels := metric.WithAttributes(attribute.String("chain", c.Chain),
					attribute.String("endpoint", e.Endpoint))
				healthy := int64(0)
				if e.Healthy {
					healthy = 1
				}
				to.ObserveInt64(up, healthy, labels)
				to.ObserveInt64(batch, int64(e.Batch), labels)
			}
		}
		return nil
	}, up, batch)
	if err != nil {
		return fmt.Errorf("make the metrics of the chains: %w", err)
	}
	return nil
}

package node

import (
	"sync/atomic"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/txn"
)

// callerPolicy is the policy in the configuration of a caller; nil: it has none.
func callerPolicy(c config.CallerPolicy) *txn.CallerPolicy {
	p := &txn.CallerPolicy{
		Recipients: c.Recipients,
		MaxValue:   c.ValuePerTx,
		Quota:      txn.Quota{DayValue: c.ValuePerDay, DayGas: c.GasPerDay, Rate: c.Rate},
		DryRun:     c.DryRun,
	}
	for _, s := range c.Selectors {
		p.Selectors = append(p.Selectors, s)
	}
	if len(p.Recipients) == 0 && len(p.Selectors) == 0 && p.MaxValue == nil && !p.Any() {
		return nil
	}
	return p
}

// policies are the enforced policies in force by caller, for owners.
type policies struct {
	byCaller atomic.Pointer[map[string]*txn.CallerPolicy]
}

// set replaces the policies with those of the callers.
func (p *policies) set(of []auth.Caller) {
	all := map[string]*txn.CallerPolicy{}
	for _, c := range of {
		if c.Policy != nil && !c.Policy.DryRun {
			all[c.Name] = c.Policy
		}
	}
	p.byCaller.Store(&all)
}

// refuse returns why a queued transaction must not be signed. A caller without a policy has no
// limits, also one that was removed.
func (p *policies) refuse(tx *txn.Tx) txn.Refusal {
	all := p.byCaller.Load()
	if all == nil || tx.Caller == "" {
		return txn.Refusal{}
	}
	if rule := (*all)[tx.Caller].Denies(&tx.Payload); rule != "" {
		return txn.RefusedByPolicy(tx.Caller, rule)
	}
	return txn.Refusal{}
}

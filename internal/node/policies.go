package node

import (
	"bytes"
	"sync/atomic"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/remedy"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// callerPolicy is the policy in the configuration of a caller; nil: it has none.
func callerPolicy(c config.CallerPolicy) *txn.CallerPolicy {
	p := &txn.CallerPolicy{
		Recipients: c.Recipients,
		MaxValue:   c.ValuePerTx,
		Quota:      txn.Quota{DayValue: c.ValuePerDay, DayGas: c.GasPerDay, Rate: c.Rate},
		DryRun:     c.DryRun,

		ApproveAbove: c.ApproveAbove, ApprovalTime: c.ApprovalTime,
	}
	for _, s := range c.Selectors {
		p.Selectors = append(p.Selectors, s)
	}
	if len(p.Recipients) == 0 && len(p.Selectors) == 0 && p.MaxValue == nil &&
		p.ApproveAbove == nil && !p.Any() {
		return nil
	}
	return p
}

// policies are the enforced policies in force by caller, for owners. A caller without one has nil.
type policies struct {
	byCaller atomic.Pointer[map[string]*txn.CallerPolicy]
	key      []byte // of authentication codes; empty: they are not verified
	required bool
}

// set replaces the policies with those of the callers.
func (p *policies) set(of []auth.Caller) {
	// the ledger itself creates top-ups: their rules limit them
	all := map[string]*txn.CallerPolicy{store.TopUpCaller: nil}
	for _, c := range of {
		all[c.Name] = c.Policy
		if c.Policy != nil && c.Policy.DryRun {
			all[c.Name] = nil
		}
	}
	p.byCaller.Store(&all)
}

// refuse returns why a queued transaction must not be signed. A caller without a policy has no
// limits. One that was removed may have had some, so its transactions wait.
func (p *policies) refuse(tx *txn.Tx) txn.Refusal {
	if len(p.key) > 0 && tx.Verify(p.key, p.required) != nil {
		return txn.Unverified()
	}
	all := p.byCaller.Load()
	if all == nil || tx.Caller == "" {
		return txn.Refusal{}
	}
	policy, known := (*all)[tx.Caller]
	if !known {
		return txn.CallerUnknown(tx.Caller)
	}
	if rule := policy.Denies(&tx.Payload); rule != "" {
		return txn.RefusedByPolicy(tx.Caller, rule)
	}
	if policy.NeedsApproval(&tx.Payload) && tx.Approval.State != txn.ApprovalGiven {
		return txn.RefusedByPolicy(tx.Caller, txn.RuleApproval)
	}
	return txn.Refusal{}
}

// minKey is the least length of the key of authentication codes.
const minKey = 32

// readIntentKey reads the key of authentication codes; nil: none is configured.
func readIntentKey(c config.Intents) ([]byte, error) {
	if c.KeyFile == "" {
		return nil, nil
	}
	const advice = "generate one with \"openssl rand -hex 32\", readable by this user only"
	text, err := readFile(c.KeyFile, advice)
	if err != nil {
		return nil, err
	}
	key := bytes.TrimSpace(text)
	if !tokenForm.Match(key) || len(key) < minKey {
		return nil, remedy.Errorf(advice,
			"%s does not hold one key of 32 to 512 letters, digits and ._~+/=-", c.KeyFile)
	}
	return key, nil
}

// problemsOf reports an error of one key.
func problemsOf(cfg *config.Config, key string, err error) error {
	return config.Problems(problem(cfg, key, err))
}

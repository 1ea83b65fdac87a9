package engine

import (
	"context"
	"sync"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// rulesAge is how old recorded pool rules may be before the next refusal records them again,
// although they have not changed.
const rulesAge = 10 * time.Minute

// poolRules are the pool rules that this node has recorded, by chain.
type poolRules struct {
	mu       sync.Mutex
	recorded map[txn.ChainID]recordedRules
}

type recordedRules struct {
	txn.PoolRules
	at time.Time
}

// due reports whether rules differ from those recorded, and notes them as recorded.
func (p *poolRules) due(chain txn.ChainID, r txn.PoolRules, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, known := p.recorded[chain]
	if known && old.MinTip == r.MinTip && old.MinPrice == r.MinPrice &&
		old.GuessedTip == r.GuessedTip && old.Typed == r.Typed && now.Sub(old.at) < rulesAge {
		return false
	}
	if p.recorded == nil {
		p.recorded = map[txn.ChainID]recordedRules{}
	}
	p.recorded[chain] = recordedRules{r, now}
	return true
}

// forget makes the next refusal record the rules of a chain again.
func (p *poolRules) forget(chain txn.ChainID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.recorded, chain)
}

// saveRules records the rules that a refusal, or the acceptance of a replacement, has revealed, so
// that other nodes and later starts need not be refused. If it fails, they are.
func (a *actor) saveRules(ctx context.Context, outcome txn.Class, replacement bool) {
	if outcome != txn.Underpriced && outcome != txn.TypeNotSupported &&
		(outcome != txn.Accepted || !replacement) {
		return
	}
	chain, rules := a.ledger.Submitter.Chain, a.chain.PoolRules()
	if rules == (txn.PoolRules{}) || !a.e.rules.due(chain, rules, a.e.Clock.Now()) {
		return
	}
	limited, cancel := context.WithTimeout(ctx, a.e.RenewInterval)
	defer cancel()
	if err := a.e.Store.SavePoolRules(limited, chain, rules); err != nil {
		a.e.rules.forget(chain)
		a.log.Debug("pool rules not recorded", "chain_id", uint64(chain), "error", err)
		return
	}
	a.log.Info("pool rules recorded", "chain_id", uint64(chain),
		"min_tip_gwei", txn.InGwei(rules.MinTip), "min_price_gwei", txn.InGwei(rules.MinPrice),
		"guessed_tip_gwei", txn.InGwei(rules.GuessedTip), "legacy_only", rules.Typed)
}

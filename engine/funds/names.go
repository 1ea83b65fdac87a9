package funds

import (
	"context"
	"slices"
	"time"

	"github.com/fencepost/fencepost/store"
)

// Names reads the names in another ledger of the node.
type Names interface {
	Submitters(ctx context.Context, names []string, after string,
		limit int) ([]store.SubmitterInfo, error)
	Pools(ctx context.Context, names []string, after string, limit int) ([]store.Pool, error)
}

// othersLimit is for how long a look waits for the other ledgers of the node.
const othersLimit = 5 * time.Second

// kinds of names in rules
const (
	ofSubmitter = "submitter"
	ofPool      = "pool"
	ofTreasury  = "treasury"
)

// ruleName is a name in a rule that this ledger lacks.
type ruleName struct{ kind, name string }

// judgeNames counts the names in rules that no ledger of the node has, and logs each once. While
// one of the ledgers does not respond, it judges none.
func (l *look) judgeNames(ctx context.Context, lacking []ruleName) {
	var treasuries []ruleName
	for _, c := range l.rules {
		if l.accounts[c.From] == nil && l.hasAccountsOf(c) {
			treasuries = append(treasuries, ruleName{ofTreasury, c.From})
		}
	}
	elsewhere, all := l.elsewhere(ctx, slices.Concat(lacking, treasuries))
	for _, n := range treasuries {
		if elsewhere[n] {
			l.logOnce("a rule of top-ups has a treasury in another ledger than its accounts", n)
		}
	}
	if !all {
		return
	}
	for _, n := range lacking {
		if !elsewhere[n] {
			l.held[HeldAccountUnknown]++
			l.logOnce("a rule of top-ups has an unknown name", n)
		}
	}
}

// hasAccountsOf reports whether this ledger has accounts of a rule.
func (l *look) hasAccountsOf(c chosen) bool {
	for name := range l.accounts {
		treasury := slices.ContainsFunc(l.rules, func(o chosen) bool { return o.From == name })
		if c.named[name] || c.named == nil && !treasury {
			return true
		}
	}
	return false
}

// elsewhere returns which of the names other ledgers of the node have on this chain, and whether
// all of those responded.
func (l *look) elsewhere(ctx context.Context,
	names []ruleName) (has map[ruleName]bool, all bool) {
	ctx, cancel := context.WithTimeout(ctx, othersLimit)
	defer cancel()
	has, all = map[ruleName]bool{}, true
	for _, other := range l.Others {
		for some := range slices.Chunk(names, l.page) {
			all = l.findIn(ctx, other, some, has) == nil && all
		}
	}
	return has, all
}

// findIn adds the names that one of the other ledgers has.
func (l *look) findIn(ctx context.Context, other Names, names []ruleName,
	has map[ruleName]bool) error {
	var submitters, pools []string
	for _, n := range names {
		if n.kind == ofPool {
			pools = append(pools, n.name)
		} else {
			submitters = append(submitters, n.name)
		}
	}
	if len(submitters) > 0 {
		found, err := other.Submitters(ctx, submitters, "", len(submitters))
		if err != nil {
			return err
		}
		for _, s := range found {
			if s.Chain == l.Chain {
				has[ruleName{ofSubmitter, s.Name}], has[ruleName{ofTreasury, s.Name}] = true, true
			}
		}
	}
	if len(pools) > 0 {
		found, err := other.Pools(ctx, pools, "", len(pools))
		if err != nil {
			return err
		}
		for _, p := range found {
			has[ruleName{ofPool, p.Name}] = true
		}
	}
	return nil
}

// logOnce logs a name in a rule once.
func (l *look) logOnce(text string, n ruleName) {
	if !l.logged[n] {
		l.logged[n] = true
		l.Logger.Warn(text, "chain", l.Name, n.kind, n.name)
	}
}

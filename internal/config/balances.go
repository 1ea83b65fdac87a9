package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/holiman/uint256"
)

// Balance configures the watch over the balances of a chain's accounts.
type Balance struct {
	Low      *uint256.Int // wei; nil: no account is low
	Events   bool
	Interval time.Duration
	TopUps   []TopUp
}

// TopUp is a rule by which accounts are topped up from a treasury.
type TopUp struct {
	Name       string
	From       string // the treasury, a submitter of the chain
	Below, To  uint256.Int
	MaxPerDay  uint256.Int
	Submitters []string
	Pools      []string
}

func chainBalance() field[Chain] {
	return section("balance", "Watch over the balances of the accounts on this chain: see "+
		"docs/balances.md.",
		func(c *Chain) *Balance { return &c.Balance },
		value("low", optional(wei()), "",
			"An account is low if its balance, minus the cost of its accepted transactions, is "+
				"below this, in wei: it is logged and counted (fencepost_low_balances) before it "+
				"is UNFUNDED. Not set: no account is low.",
			func(b *Balance) **uint256.Int { return &b.Low }),
		value("events", yesNo(), "false",
			"Emits the event LOW_BALANCE each time that an account becomes low. Set it after all "+
				"nodes are upgraded.",
			func(b *Balance) *bool { return &b.Events }),
		value("interval", span(time.Second, 24*time.Hour), "1m",
			"How often each node reads the balances.",
			func(b *Balance) *time.Duration { return &b.Interval }),
		list("top_ups",
			"Rules that send funds to accounts from a treasury account of the same chain, as "+
				"ordinary transactions of the treasury. The first rule that has an account "+
				"applies to it.",
			func(b *Balance) *[]TopUp { return &b.TopUps }, topUpFields()...),
	)
}

func topUpFields() []field[TopUp] {
	return []field[TopUp]{
		value("name", label(), "", "Name of the rule.",
			func(u *TopUp) *string { return &u.Name }).must().inFile(),
		value("from", label(), "", "Name of the treasury, a submitter on this chain.",
			func(u *TopUp) *string { return &u.From }).must(),
		value("below", wei(), "",
			"An account is topped up if its balance, minus the cost of its accepted "+
				"transactions, is below this, in wei.",
			func(u *TopUp) *uint256.Int { return &u.Below }).must(),
		value("to", wei(), "",
			"The balance after the top-up, beyond the cost of accepted transactions, in wei.",
			func(u *TopUp) *uint256.Int { return &u.To }).must(),
		value("max_per_day", wei(), "",
			"The most that one account gets in 24 hours, in wei. Failed top-ups count too.",
			func(u *TopUp) *uint256.Int { return &u.MaxPerDay }).must(),
		values("submitters", label(),
			"The accounts, by the names of their submitters. A treasury is topped up only if it "+
				"is listed. Neither submitters nor pools: all accounts on the chain.",
			func(u *TopUp) *[]string { return &u.Submitters }),
		values("pools", label(), "Pools whose members are topped up.",
			func(u *TopUp) *[]string { return &u.Pools }),
	}
}

// relateTopUps requires amounts that make sense, and treasuries of the same chain that do not pay
// each other in a circle.
func relateTopUps(r *reader, c *Config) {
	for i, path := range r.elementPaths["chains"] {
		chain := &c.Chains[i]
		for k, path := range r.elementPaths[path+".balance.top_ups"] {
			if r.good(path+".from", path+".below", path+".to", path+".max_per_day",
				path+".submitters") {
				r.relateTopUp(c, chain, path, &chain.Balance.TopUps[k])
			}
		}
	}
}

func (r *reader) relateTopUp(c *Config, chain *Chain, path string, u *TopUp) {
	if !u.To.Gt(&u.Below) {
		r.broken(path+".to", path+".below", "raise to, or lower below",
			"%s is not above %s, the balance that is topped up", u.To.Dec(), u.Below.Dec())
		return
	}
	if least := new(uint256.Int).Sub(&u.To, &u.Below); u.MaxPerDay.Lt(least) {
		r.broken(path+".max_per_day", path+".to", "raise max_per_day",
			"%s is less than %s, the smallest top-up", u.MaxPerDay.Dec(), least.Dec())
	}
	if slices.Contains(payersOf(chain.Balance.TopUps, u.From), u.From) {
		r.problem(r.origins[path+".from"], path+".from",
			fmt.Sprintf("the treasury %q tops itself up", u.From),
			"remove it from the submitters of this rule, or of those for the accounts that it pays")
	}
	for _, s := range c.Submitters {
		switch {
		case s.Name != u.From:
		case s.Chain != chain.Name:
			r.problem(r.origins[path+".from"], path+".from",
				fmt.Sprintf("the treasury %q is on the chain %q", u.From, s.Chain),
				fmt.Sprintf("name a submitter on the chain %q", chain.Name))
		case s.Mode == "external":
			r.problem(r.origins[path+".from"], path+".from",
				fmt.Sprintf("clients sign for the treasury %q", u.From),
				"name a submitter of another mode")
		}
	}
}

// payersOf returns the treasuries that pay an account, directly or through others. A treasury is
// paid only where it is listed.
func payersOf(rules []TopUp, account string) (payers []string) {
	for {
		i := slices.IndexFunc(rules,
			func(u TopUp) bool { return slices.Contains(u.Submitters, account) })
		if i < 0 || slices.Contains(payers, rules[i].From) {
			return payers
		}
		account = rules[i].From
		payers = append(payers, account)
	}
}

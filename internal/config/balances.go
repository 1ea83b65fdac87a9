package config

import (
	"time"

	"github.com/holiman/uint256"
)

// Balance configures the watch over the balances of a chain's accounts.
type Balance struct {
	Low      *uint256.Int // wei; nil: balances are not watched
	Interval time.Duration
}

func chainBalance() field[Chain] {
	return section("balance", "Watch over the balances of the accounts on this chain.",
		func(c *Chain) *Balance { return &c.Balance },
		value("low", optional(wei()), "",
			"An account is low if its balance, minus the cost of its accepted transactions, is "+
				"below this, in wei: it is logged and counted (fencepost_low_balances) before it "+
				"is UNFUNDED. Not set: balances are not watched.",
			func(b *Balance) **uint256.Int { return &b.Low }),
		value("interval", span(time.Second, 24*time.Hour), "1m",
			"How often each node reads the balances.",
			func(b *Balance) *time.Duration { return &b.Interval }),
	)
}

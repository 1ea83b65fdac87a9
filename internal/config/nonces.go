package config

import "time"

// NonceAPI configures NonceService and the nonces of submitters in mode external.
type NonceAPI struct {
	Enabled           bool
	DefaultTTL        time.Duration
	MaxTTL            time.Duration
	ReconcileInterval time.Duration
	HardMaxAge        time.Duration
	FillHoles         bool
	FillAfter         time.Duration
}

func nonceFields() []field[NonceAPI] {
	return []field[NonceAPI]{
		value("enabled", yesNo(), "false",
			"Serve NonceService. Its callers need the role operator, or nonces: true under "+
				"callers. Nodes own submitters of mode external in any case.",
			func(n *NonceAPI) *bool { return &n.Enabled }),
		value("default_ttl", span(time.Second, 24*time.Hour), "2m",
			"Duration of a reservation whose request names none. Afterwards the nonce is PENDING.",
			func(n *NonceAPI) *time.Duration { return &n.DefaultTTL }),
		value("max_ttl", span(time.Second, 24*time.Hour), "1h",
			"The longest duration of a reservation. It can be extended repeatedly.",
			func(n *NonceAPI) *time.Duration { return &n.MaxTTL }),
		value("reconcile_interval", span(100*time.Millisecond, time.Hour), "15s",
			"Time between two reads of an account with nonces that are RESERVED or PENDING.",
			func(n *NonceAPI) *time.Duration { return &n.ReconcileInterval }),
		value("pending_hard_max_age", orZero(span(time.Second, 30*24*time.Hour)), "1h",
			"Age of a PENDING nonce after which it needs an operator, who decides with "+
				"ResolveNonce. 0: never.",
			func(n *NonceAPI) *time.Duration { return &n.HardMaxAge }),
		value("fill_holes", yesNo(), "false",
			"Fill a nonce with a cancel transaction if signed transactions above it wait for it, "+
				"none is known for it, and it is RECYCLABLE for fill_after, or PENDING for "+
				"pending_hard_max_age. Fencepost must have the key. A transaction that a client "+
				"signed for it without a report may then never be included.",
			func(n *NonceAPI) *bool { return &n.FillHoles }),
		value("fill_after", span(time.Second, 30*24*time.Hour), "5m",
			"Age of a hole before fill_holes fills it.",
			func(n *NonceAPI) *time.Duration { return &n.FillAfter }),
	}
}

package config

// callerPools is the key of a caller's pools.
func callerPools() field[Caller] {
	return values("pools", matching("name of a pool", `[a-z][a-z0-9._-]{0,63}`),
		"Pools in which the caller may create transactions. It may see and cancel the "+
			"transactions of the pool, on every account; it has no other right to the "+
			"accounts. A right to all submitters is a right to all pools.",
		func(c *Caller) *[]string { return &c.Pools })
}

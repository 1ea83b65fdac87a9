package main

// noncePages are about nonces that clients reserve.
func noncePages() []alert {
	return []alert{{
		name: "NonceQuarantined", page: true,
		expr:    `max(fencepost_nonces_undecided) > 0`,
		summary: "a nonce that a client reserved needs an operator",
		means: "The client may have used the nonce, and the chain does not show it. The nonce is " +
			"not given to anyone else, and the nonces above it wait.",
		steps: []string{
			"Open *Needs a decision* in the console, or find `nonce moved` with " +
				"needs_operator in " +
				"the log of the nodes, which names the account. Then " +
				"`fencepost nonce list SUBMITTER --needs-operator` lists its nonces with their " +
				"holders.",
			"Ask the holder whether it signed a transaction for the nonce, and with which hash.",
			"`fencepost nonce show SUBMITTER NONCE` prints the possible decisions. If certainly " +
				"nothing was signed, use `fencepost nonce resolve SUBMITTER NONCE --never-signed " +
				"--reason TEXT`. Otherwise use `--fill`, which is safe in any case: the chain " +
				"includes one of the two transactions.",
		},
	}}
}

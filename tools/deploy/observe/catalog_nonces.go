package main

// noncePages are about nonces that clients reserve.
func noncePages() []alert {
	return []alert{{
		name: "NonceQuarantined", page: true,
		expr:    `sum(increase(fencepost_nonce_move_total{state="NEEDS_OPERATOR"}[10m])) > 0`,
		summary: "a nonce that a client reserved needs an operator",
		means: "The client may have used the nonce, and the chain does not show it. The nonce is " +
			"not given to anyone else, and the nonces above it wait.",
		steps: []string{
			"Find `nonce moved` with needs_operator in the log of the nodes: it names the " +
				"account, the nonce and the holder.",
			"Ask the holder whether it signed a transaction for the nonce, and with which hash.",
			"Decide on the nonce. Release it only if nothing was signed for it.",
		},
	}}
}

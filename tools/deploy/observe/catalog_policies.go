package main

// policyPages are about transactions that were changed by hand.
func policyPages() []alert {
	return []alert{
		{
			name: "IntentUnverified", page: true,
			expr:    `sum(increase(fencepost_tx_unverified_total[10m])) > 0`,
			summary: "a transaction does not match its authentication code",
			means: "Its row was written or changed by hand, or the keys of nodes differ. It is " +
				"not signed, and its account waits.",
			steps: []string{
				"Run `fencepost audit --chain --config fencepost.yaml`. It names the row.",
				"Compare `intents.key_file` of all nodes.",
				"Cancel the transaction with `fencepost tx cancel TX_ID`, and find out who wrote " +
					"the row.",
			},
		},
	}
}

// ledgerPages are about several ledgers.
func ledgerPages() []alert {
	return []alert{
		{
			name: "LedgerDown", page: true, lasts: "1m",
			expr:    `max by (ledger) (fencepost_ledger_up) == 0`,
			summary: "no node reaches one of several ledgers",
			means: "Its accounts and transactions are unavailable. The other ledgers are not " +
				"affected.",
			steps: []string{
				"Run `curl http://NODE:9091/readyz`. It lists the ledgers.",
				"Check the PostgreSQL server of the ledger, and that it accepts the nodes. They " +
					"serve it as soon as it responds.",
				"Look for `ledger unavailable` in the log of a node, which has the cause.",
			},
		},
	}
}

// balancePages are about accounts that run out of funds.
func balancePages() []alert {
	return []alert{
		{
			name: "LowBalance", page: true, lasts: "1m",
			expr:    `max by (chain, ledger) (fencepost_low_balances) > 0`,
			summary: "an account runs out of funds",
			means: "Its balance, minus the cost of its accepted transactions, is below " +
				"`chains.balance.low`. It is not UNFUNDED yet.",
			steps: []string{
				"Run `fencepost balances` to find the account.",
				"Fund it: see [An account without money](operations.md#an-account-without-money).",
			},
		},
		{
			name: "TopUpHeld", page: true, lasts: "5m",
			expr:    `max by (chain, reason, ledger) (fencepost_top_ups_held) > 0`,
			summary: "an account needs a top-up and gets none",
			means: "The treasury cannot pay or accepts nothing, or the account has reached its " +
				"limit of a day. Nothing is sent meanwhile.",
			steps: []string{
				"Run `fencepost balances` to find the account and the reason.",
				"Follow [the table of reasons](balances.md#when-an-account-gets-no-top-up).",
			},
		},
	}
}

// policyTickets are about transactions that wait for people.
func policyTickets() []alert {
	return []alert{
		{
			name: "ApprovalWaiting", lasts: "1h",
			expr:    `max(fencepost_approvals_waiting) > 0`,
			summary: "a transaction awaits an approval for an hour",
			means: "It is sent once another caller approves it, and fails with " +
				"APPROVAL_EXPIRED if none does in time.",
			steps: []string{
				"Run `fencepost tx list --state QUEUED` and look for AWAITING_APPROVAL.",
				"Decide with `fencepost tx approve` or `fencepost tx deny`: see " +
					"[approvals](policies.md#approvals).",
			},
		},
	}
}

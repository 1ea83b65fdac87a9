package main

import "slices"

// alerts lists all alerts, pages first. An expression that compares with the past needs a day of
// history; before that its second half is absent and the alert stays silent.
func alerts() []alert {
	return slices.Concat(pages(), signerPages(), noncePages(), policyPages(), ledgerPages(),
		balancePages(), tickets(), signerTickets(), policyTickets())
}

func pages() []alert {
	return []alert{
		{
			name: "LedgerRuleBroken", page: true,
			expr:    `sum by (law) (increase(fencepost_audit_violation_total[10m])) > 0`,
			summary: "an audit found a broken rule of the ledger",
			means: "A guarantee of the ledger does not hold for at least one account. The " +
				"account " +
				"is protected: nothing is signed for it.",
			steps: []string{
				"Run `fencepost audit --config fencepost.yaml`. It names account and transaction.",
				"Compare with [Audit](operations.md#audit), and keep the database as it is.",
				"Decide on the protection as in [PROTECT](operations.md#protect).",
			},
		},
		{
			name: "SubmitterProtected", page: true,
			expr:    `max(fencepost_submitters{state="protected"}) > 0`,
			summary: "an account is protected and waits for a decision",
			means: "Nothing is signed for a protected account until an operator decides. The " +
				"usual cause is another program that uses the key.",
			steps: []string{
				"Run `fencepost submitter list` to find the account.",
				"Run `fencepost submitter show NAME` for the evidence.",
				"Decide as in [PROTECT](operations.md#protect).",
			},
		},
		{
			name: "FinalityReverted", page: true,
			expr:    `sum(increase(fencepost_tx_reorged_final_total[10m])) > 0`,
			summary: "a transaction reported as final left the chain",
			means: "Clients may have acted on an outcome that no longer holds. The accounts are " +
				"protected until the transactions are final again.",
			steps: []string{
				"Run `fencepost tx list --state STUCK` and inform the owners of the transactions.",
				"Check `/chains` for endpoints that disagree.",
				"Raise `confirmations` if the chain has reorgs of this depth.",
			},
		},
		{
			name: "CommitRefused", page: true,
			expr:    `sum(increase(fencepost_commit_total{outcome="refused"}[10m])) > 0`,
			summary: "the database rejects a change of the ledger",
			means:   "The account of the change waits until the cause is removed.",
			steps: []string{
				"Read the node's log of that time: it has the account and the reason.",
				"After an upgrade, check `fencepost migrate status` and the rights of the " +
					"nodes' role ([A role for nodes](operations.md#a-role-for-nodes)).",
			},
		},
		{
			name: "SubmitterUnfunded", page: true, lasts: "1m",
			expr:    `sum(fencepost_submitters{state="unfunded"}) > 0`,
			summary: "an account with work cannot pay for it",
			means:   "Nothing is sent, replaced or cancelled for the account until it is funded.",
			steps: []string{
				"Run `fencepost tx list --state QUEUED,ALLOCATED,TRACKING,STUCK` and look for " +
					"UNFUNDED.",
				"Fund the account: see [An account without " +
					"money](operations.md#an-account-without-money).",
			},
		},
		{
			name: "TxStuck", page: true, lasts: "10m",
			expr:    `sum(fencepost_tx_stuck) > 0`,
			summary: "a transaction is STUCK and needs a decision",
			means: "Retries are exhausted, the transaction is too old, or a fee cap holds it. It " +
				"keeps its nonce, so its account waits.",
			steps: []string{
				"Run `fencepost tx list --state STUCK` for the reasons.",
				"Decide as in [In flight](operations.md#in-flight-speed-up-cancel-retry).",
			},
		},
		{
			name: "QueueBlocked", page: true, lasts: "1m",
			expr:    `max(fencepost_queue_oldest_age_seconds) > 900`,
			summary: "a transaction waits for a nonce for more than 15 minutes",
			means: "An account is blocked, or more is queued than the account can send. Change " +
				"the threshold to the time that your clients accept.",
			steps: []string{
				"Run `fencepost tx list --state QUEUED,STUCK` to find the account.",
				"Run `fencepost submitter show NAME`, which prints the reason and the next steps.",
			},
		},
		{
			name: "CallsRefused", page: true, lasts: "15m",
			expr:    `sum by (reason) (rate(fencepost_refusals_total[5m])) > 0`,
			summary: "calls are rejected for lack of room for 15 minutes",
			means: "More is submitted than sent (QUEUE_FULL), than nodes can hold (NODE_BUSY), " +
				"or than one caller may use (CALLER_LIMITED).",
			steps: []string{
				"For CALLER_LIMITED, `fencepost_caller_refusals_total` names the caller.",
				"Find the limit and the remedy in [Overload](operations.md#overload).",
			},
		},
		{
			name: "ConnectionsRefused", page: true, lasts: "15m",
			expr:    `sum by (reason) (rate(fencepost_connections_refused_total[5m])) > 0`,
			summary: "connections are closed for lack of room for 15 minutes",
			means: "Clients open more connections than a node may hold, or a node is under " +
				"attack.",
			steps: []string{
				"Compare with the limits in [Overload](operations.md#overload).",
				"Check `fencepost_connections`: many strangers suggest an attack.",
			},
		},
		{
			name: "NodeMissing", page: true, lasts: "1m",
			expr:    `min(fencepost_nodes) < max_over_time(max(fencepost_nodes)[1h:1m])`,
			summary: "fewer nodes are alive than within the last hour",
			means: "A node is down or cut off from the database. Its accounts moved to the " +
				"others. The alert ends an hour after you remove a node on purpose.",
			steps: []string{
				"Find the node that does not respond to `/healthz`, and read its log.",
				"If it responds, check its connection to the database with `/readyz`.",
			},
		},
		{
			name: "Down", page: true, lasts: "2m",
			expr:    `absent(fencepost_nodes)`,
			summary: "no node delivers metrics",
			means:   "All nodes are down, or Prometheus cannot reach them.",
			steps: []string{
				"Check the targets of Prometheus, and `/healthz` of each node.",
				"Read the log of a node that does not start: it names the cause.",
			},
		},
		{
			name: "ChainUnavailable", page: true, lasts: "1m",
			expr:    `max by (chain) (fencepost_chain_up) == 0`,
			summary: "no node can read chain {{ $labels.chain }}",
			means: "Transactions of the chain wait; their state is kept and nothing is lost. " +
				"They " +
				"proceed when an endpoint returns.",
			steps: []string{
				"Read `/chains` of a node: it has the reason for each endpoint.",
				"Add an endpoint of another provider under `chains[].rpc` if the outage lasts.",
			},
		},
	}
}

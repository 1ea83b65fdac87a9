package main

func tickets() []alert {
	return append(append(leaseTickets(), chainTickets()...), sinkTickets()...)
}

// leaseTickets are about ownership and the database.
func leaseTickets() []alert {
	return []alert{
		{
			name: "TakeoverSlow", lasts: "10m",
			expr: `histogram_quantile(0.99, sum by (le) ` +
				`(rate(fencepost_takeover_seconds_bucket[1h]))) > 3`,
			summary: "accounts with work wait more than 3 seconds for an owner",
			means: "The time counts from expiry or release of the lease. The threshold is " +
				"`lease.sweep_interval` plus 2 seconds.",
			steps: []string{
				"Check the load of the nodes and the latency of the database.",
				"After a crash up to `lease.duration` is normal.",
			},
		},
		{
			name: "LeaseLost", lasts: "5m",
			expr:    `sum(rate(fencepost_lease_renew_total{result="lost"}[10m])) > 0`,
			summary: "nodes lose leases that they wanted to renew",
			means: "Nodes freeze, or the database is too slow for `lease.duration`. Nothing is " +
				"sent twice, but each loss delays an account.",
			steps: []string{
				"Check the CPU and the memory limits of the nodes for throttling.",
				"Check the commit latency of the database.",
			},
		},
		{
			name: "LeaseRenewFailing", lasts: "15m",
			expr:    `sum(rate(fencepost_lease_renew_total{result="error"}[10m])) > 0`,
			summary: "lease renewals fail for 15 minutes",
			means:   "Nodes reach the database only sometimes. Leases that expire change owner.",
			steps: []string{
				"Read `lease` errors in the log of the nodes.",
				"Check the network between nodes and database.",
			},
		},
		{
			name:    "LeaseWedged",
			expr:    `sum(increase(fencepost_lease_wedged_total[1h])) > 0`,
			summary: "a step of an owner took longer than lease.progress_timeout",
			means:   "An endpoint or a signer hangs, or there is a defect.",
			steps: []string{
				"Read the log of that time: it names the account and the step.",
				"Check `/chains`, and the latency of the signer.",
			},
		},
		{
			name: "LeaseChurn", lasts: "10m",
			expr: "sum(increase(fencepost_lease_acquire_total{result=\"takeover\"}[30m]))\n  + " +
				"sum(increase(fencepost_lease_handover_total[30m]))\n  > " +
				`5 * clamp_min(sum(fencepost_submitters{state="owned"}), 1)`,
			summary: "accounts change their owner more than five times in 30 minutes",
			means: "Nodes freeze, the network to the database breaks, or the nodes differ in " +
				"`lease.mode`. Each change delays an account.",
			steps: []string{
				"Compare `lease.mode` of all nodes.",
				"Check for LeaseLost and LeaseRenewFailing, and for nodes that restart.",
			},
		},
		{
			name: "FencedSurge", lasts: "5m",
			expr: "sum(increase(fencepost_lease_fenced_total[10m])) > 10\n  and " +
				"sum(increase(fencepost_lease_fenced_total[10m])) >\n    " +
				`4 * sum(increase(fencepost_lease_fenced_total[1d])) / 144`,
			summary: "far more writes than usual are rejected because the lease has moved",
			means: "The fence works: the rejected writes had no effect. But accounts change " +
				"owners too often, because nodes freeze or their `lease.mode` differs.",
			steps: []string{
				"Check LeaseChurn and LeaseLost, and the CPU limits of the nodes.",
				"Look for `fencing_token` in the log: it shows which owners compete.",
			},
		},
		{
			name: "CommitUnknown", lasts: "15m",
			expr:    `sum(rate(fencepost_commit_total{outcome="unknown"}[10m])) > 0`,
			summary: "replies to commits are lost for 15 minutes",
			means:   "Connections to the database break. Each costs the account a new lease.",
			steps: []string{
				"Check the network to the database, and its restarts and fail-overs.",
			},
		},
		{
			name: "AuditFailing", lasts: "1h",
			expr:    `sum(increase(fencepost_audit_total{result="failed"}[1h])) > 0`,
			summary: "audits cannot read the ledger",
			means:   "Broken rules would not be found while audits fail.",
			steps: []string{
				"Read the log for the reason.",
				"Check the load of the database, or raise `audit.interval`.",
			},
		},
	}
}

// chainTickets are about endpoints and broadcasts.
func chainTickets() []alert {
	return []alert{
		{
			name: "ResubmitRate", lasts: "10m",
			expr: "sum(increase(fencepost_tx_resubmit_total[1h])) > 50\n  and " +
				"sum(increase(fencepost_tx_resubmit_total[1h])) >\n    " +
				`4 * sum(increase(fencepost_tx_resubmit_total[1d])) / 24`,
			summary: "far more transactions than usual are broadcast again",
			means:   "Transactions are not included, or nodes of the chain drop them.",
			steps: []string{
				"Check `fencepost_tx_submit_total` by class for the responses.",
				"Compare the fees with the base fee of the chain: see [Fee " +
					"caps](operations.md#fee-caps).",
			},
		},
		{
			name: "ReceiptErrors", lasts: "15m",
			expr:    `sum(rate(fencepost_receipt_check_total{result="error"}[10m])) > 0`,
			summary: "receipts cannot be read for 15 minutes",
			means: "Inclusions are reported late. After ten minutes a transaction becomes STUCK " +
				"with the reason RECEIPT_UNREADABLE.",
			steps: []string{
				"Read the log for the error, and `/chains` for the endpoint.",
			},
		},
		{
			name: "ReceiptBacklog", lasts: "15m",
			expr: "max by (chain) (fencepost_receipt_backlog) > 100\n  and " +
				`max by (chain) (deriv(fencepost_receipt_backlog[15m])) > 0`,
			summary: "receipts of chain {{ $labels.chain }} are read more slowly than they appear",
			means:   "Inclusions are reported late, and the delay grows.",
			steps: []string{
				"Check `fencepost_receipt_lookup_seconds` and `/chains`.",
				"Add an endpoint, or raise `rpc_batch_limit` or `rpc_max_in_flight`.",
			},
		},
		{
			name: "EndpointDown", lasts: "10m",
			expr:    `min by (chain, endpoint) (fencepost_rpc_endpoint_up) == 0`,
			summary: "endpoint {{ $labels.endpoint }} of chain {{ $labels.chain }} fails",
			means:   "Other endpoints serve the chain, but the next failure may stop it.",
			steps: []string{
				"Read `/chains` for the reason, and ask the provider.",
			},
		},
	}
}

// sinkTickets are about the delivery of events.
func sinkTickets() []alert {
	return []alert{
		{
			name:    "SinkDead",
			expr:    `max by (sink) (fencepost_sink_waiting{state="dead"}) > 0`,
			summary: "sink {{ $labels.sink }} has events that are not retried any more",
			means: "The receiver did not accept an event for `retry.for`, or refused it. Later " +
				"events of its transactions wait.",
			steps: []string{
				"`fencepost sink show NAME --dead` lists the transactions and the last failures.",
				"Mend the receiver, then `fencepost sink retry NAME`; or give up an event with " +
					"`fencepost sink skip`.",
			},
		},
		{
			name: "SinkLagging", lasts: "5m",
			expr:    `max by (sink) (fencepost_sink_lag_seconds) > 300`,
			summary: "sink {{ $labels.sink }} is more than five minutes behind",
			means: "The receiver is unavailable or too slow, or the sink is paused or disabled. " +
				"Its events wait in the ledger; nothing is lost.",
			steps: []string{
				"Read the cause under REASON of `fencepost sink list`, and the log of its OWNER.",
				"Check the receiver, and `webhook.concurrency`.",
				"Resume a sink that is paused, or disabled by its receiver: `fencepost sink " +
					"resume`.",
			},
		},
		{
			name: "SinkUnowned", lasts: "5m",
			expr:    `max by (sink) (fencepost_sink_owned) == 0`,
			summary: "no node delivers for sink {{ $labels.sink }}",
			means: "Nodes have the sink in their configuration, but none has taken its lease for " +
				"five minutes. Its events wait in the ledger; nothing is lost.",
			steps: []string{
				"Read the logs of the nodes for `leases of sinks could not be renewed`: the " +
					"database may be unavailable.",
				"`fencepost sink list` shows the owner. If it is a node that does not run or is " +
					"frozen, end that node: its lease expires.",
			},
		},
	}
}

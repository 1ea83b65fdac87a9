package main

// rows lists the panels, by theme: the first row is what an operator looks at first.
func rows() []row {
	return []row{
		{"Needs a decision", []panel{
			{"Protected accounts", "Nothing is signed until an operator decides.", "short", 1,
				[]query{{"protected", `max(fencepost_submitters{state="protected"})`}}},
			{"Stuck transactions", "They need a decision, funds or a higher fee cap.", "short", 1,
				[]query{{"stuck", `sum(fencepost_tx_stuck)`}}},
			{"Unfunded accounts", "They cannot pay for their next transaction.", "short", 1,
				[]query{{"unfunded", `sum(fencepost_submitters{state="unfunded"})`}}},
			{"Paused accounts", "New requests fail, queued ones wait.", "short", 1000,
				[]query{{"paused", `sum(fencepost_submitters{state="paused"})`}}},
			{"Broken rules", "Violations that audits found in the last day.", "short", 1,
				[]query{{"violations", `sum(increase(fencepost_audit_violation_total[1d]))`}}},
			{"Chains down", "Chains that no node can read.", "short", 1,
				[]query{{"chains",
					`count(max by (chain) (fencepost_chain_up) == 0) or vector(0)`}}},
		}},
		{"Transactions", []panel{
			{"Accepted", "Requests by result, per second.", "reqps", 0,
				rates("fencepost_tx_create_total", "result")},
			{"Final", "Outcomes per second.", "reqps", 0,
				rates("fencepost_tx_final_total", "state")},
			{"In flight and queued", "", "short", 0, []query{
				{"in flight", `sum(fencepost_tx_in_flight)`},
				{"queued", `max(fencepost_queue_depth)`}}},
			{"Acceptance to first broadcast", "", "s", 0,
				quantiles("fencepost_queue_wait_seconds")},
			{"Acceptance to outcome", "", "s", 0, quantiles("fencepost_tx_lifetime_seconds")},
			{"Oldest queued transaction", "", "s", 0, []query{
				{"age", `max(fencepost_queue_oldest_age_seconds)`}}},
		}},
		{"Chains", []panel{
			{"Broadcasts by response", "", "reqps", 0, rates("fencepost_tx_submit_total", "class")},
			{"Rebroadcasts and replacements", "", "reqps", 0,
				append(rates("fencepost_tx_resubmit_total", "result"),
					rates("fencepost_tx_replaced_total", "kind")...)},
			{"Endpoints up", "", "short", 0, []query{{"{{chain}} {{endpoint}}",
				`min by (chain, endpoint) (fencepost_rpc_endpoint_up)`}}},
			{"Receipt backlog", "Receipts still to be read.", "short", 0, []query{{"{{chain}}",
				`max by (chain) (fencepost_receipt_backlog)`}}},
			{"Receipt lookup", "", "s", 0, quantiles("fencepost_receipt_lookup_seconds")},
			{"Reorgs", "Heads that replaced blocks, per hour.", "short", 0, []query{{"{{chain}}",
				`max by (chain) (increase(fencepost_chain_reorg_total[1h]))`}}},
			{"Receipt reads", "", "reqps", 0, rates("fencepost_receipt_check_total", "result")},
			{"Account reads", "", "reqps", 0, rates("fencepost_account_read_total", "result")},
		}},
		{"Signers", []panel{
			{"Signatures", "", "reqps", 0, []query{{"{{signer}}",
				`sum by (signer) (rate(fencepost_sign_total[$__rate_interval]))`}}},
			{"Failed signatures", "Their transactions wait.", "reqps", 0,
				[]query{{"{{signer}} {{result}}", `sum by (signer, result) ` +
					`(rate(fencepost_sign_total{result!="ok"}[$__rate_interval]))`}}},
			{"Time of a signature", "99 of 100, with the waits for limits.", "s", 0,
				[]query{{"{{signer}}", `histogram_quantile(0.99, sum by (signer, le) ` +
					`(rate(fencepost_sign_seconds_bucket[$__rate_interval])))`}}},
		}},
		{"Leases and ledger", []panel{
			{"Live nodes", "", "short", 0, []query{{"nodes", `min(fencepost_nodes)`}}},
			{"Owned accounts", "By node.", "short", 0, []query{{"{{instance}}",
				`sum by (instance) (fencepost_submitters{state="owned"})`}}},
			{"Lease acquisitions", "", "reqps", 0,
				rates("fencepost_lease_acquire_total", "result")},
			{"Lease renewals", "", "reqps", 0, rates("fencepost_lease_renew_total", "result")},
			{"Fenced writes", "Rejected because another node has the lease.", "reqps", 0,
				rates("fencepost_lease_fenced_total", "op")},
			{"Commits", "", "reqps", 0, rates("fencepost_commit_total", "outcome")},
			{"Takeover", "Time without an owner.", "s", 0,
				quantiles("fencepost_takeover_seconds")},
			{"Audits", "", "reqps", 0, rates("fencepost_audit_total", "result")},
		}},
		{"API and process", []panel{
			{"Rejected for lack of room", "", "reqps", 0,
				rates("fencepost_refusals_total", "reason")},
			{"Connections", "", "short", 0, []query{{"{{state}}",
				`sum by (state) (fencepost_connections)`}}},
			{"Watch streams", "", "short", 0, []query{{"{{instance}}",
				`sum by (instance) (fencepost_watch_streams)`}}},
			{"Unauthenticated calls", "", "reqps", 0, []query{{"calls",
				`sum(rate(fencepost_calls_unauthenticated_total[$__rate_interval]))`}}},
			{"Memory", "", "bytes", 0, []query{{"{{instance}}", `process_resident_memory_bytes`}}},
			{"CPU", "Cores in use.", "short", 0, []query{{"{{instance}}",
				`rate(process_cpu_seconds_total[$__rate_interval])`}}},
		}},
	}
}

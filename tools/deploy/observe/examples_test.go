package main

// example is the input of an alert: one that makes it fire at a time, and one that does not.
type example struct {
	// An example that lasts longer than a day has a value each 10 minutes.
	at           string
	labels       map[string]string // of the alert, apart from severity
	fires, quiet []series
}

func one(name, values string) []series { return []series{{name, values}} }

// counted is an example of a counter that grows, and of one that stands still.
func counted(name, at string, labels map[string]string) example {
	return example{at, labels, one(name, "0+1x3000"), one(name, "7+0x3000")}
}

// level is an example of a gauge that is too high, and of one that is not.
func level(name, at, high, low string) example {
	return example{at, nil, one(name, high+"+0x60"), one(name, low+"+0x60")}
}

func examples() map[string]example {
	chain := map[string]string{"chain": "main"}
	signer := map[string]string{"signer": "hsm"}
	// of 100 signatures in a minute
	signTimes := func(quick string) []series {
		return []series{
			{`fencepost_sign_seconds_bucket{signer="hsm", le="1"}`, quick},
			{`fencepost_sign_seconds_bucket{signer="hsm", le="5"}`, "0+100x60"},
			{`fencepost_sign_seconds_bucket{signer="hsm", le="+Inf"}`, "0+100x60"},
		}
	}
	surge := func(name, at string) example {
		return example{at, nil,
			one(name, "0+0.1x200 20+200x12"), // quiet for a day, then a surge
			one(name, "0+200x220"),           // as many as ever
		}
	}
	return map[string]example{
		"LedgerRuleBroken": counted(`fencepost_audit_violation_total{law="L4"}`, "12m",
			map[string]string{"law": "L4"}),
		"SubmitterProtected": level(`fencepost_submitters{state="protected"}`, "1m", "1", "0"),
		"FinalityReverted":   counted(`fencepost_tx_reorged_final_total`, "12m", nil),
		"CommitRefused": {"12m", nil, one(`fencepost_commit_total{outcome="refused"}`, "0+1x60"),
			one(`fencepost_commit_total{outcome="done"}`, "0+1x60")},
		"IntentUnverified": counted(`fencepost_tx_unverified_total`, "12m", nil),
		"LowBalance": {"2m", map[string]string{"chain": "main", "ledger": "us1"},
			one(`fencepost_low_balances{chain="main", ledger="us1"}`, "1+0x60"),
			one(`fencepost_low_balances{chain="main", ledger="us1"}`, "0+0x60")},
		"TopUpHeld": {"7m",
			map[string]string{"chain": "main", "reason": "DAY_LIMIT", "ledger": "us1"},
			one(`fencepost_top_ups_held{chain="main",reason="DAY_LIMIT",ledger="us1"}`, "1+0x60"),
			one(`fencepost_top_ups_held{chain="main",reason="DAY_LIMIT",ledger="us1"}`, "0+0x60")},
		"LedgerDown": {"2m", map[string]string{"ledger": "us1"},
			[]series{{`fencepost_ledger_up{ledger="us1"}`, "0+0x60"},
				{`fencepost_ledger_up{ledger="eu1"}`, "1+0x60"}},
			one(`fencepost_ledger_up{ledger="us1"}`, "1+0x60")},
		"ApprovalWaiting":   level(`fencepost_approvals_waiting`, "62m", "1", "0"),
		"SubmitterUnfunded": level(`fencepost_submitters{state="unfunded"}`, "2m", "1", "0"),
		"SinkDead": {"2m", map[string]string{"sink": "hook"},
			one(`fencepost_sink_waiting{sink="hook", state="dead"}`, "1+0x60"),
			one(`fencepost_sink_waiting{sink="hook", state="parked"}`, "1+0x60")},
		"SinkLagging": {"8m", map[string]string{"sink": "hook"},
			one(`fencepost_sink_lag_seconds{sink="hook"}`, "301+0x60"),
			one(`fencepost_sink_lag_seconds{sink="hook"}`, "299+0x60")},
		"SinkUnowned": {"8m", map[string]string{"sink": "hook"},
			[]series{{`fencepost_sink_owned{sink="hook",instance="a"}`, "0+0x60"},
				{`fencepost_sink_owned{sink="hook",instance="b"}`, "0+0x60"}},
			[]series{{`fencepost_sink_owned{sink="hook",instance="a"}`, "0+0x60"},
				{`fencepost_sink_owned{sink="hook",instance="b"}`, "1+0x60"}}},
		"NonceQuarantined": level(`fencepost_nonces_undecided`, "2m", "1", "0"),
		"SignerFault": {"12m", signer,
			one(`fencepost_sign_total{signer="hsm", result="fault"}`, "0+1x60"),
			one(`fencepost_sign_total{signer="hsm", result="unavailable"}`, "0+1x60")},
		"SignerFailing": {"25m", signer,
			[]series{{`fencepost_sign_total{signer="hsm", result="ok"}`, "0+60x60"},
				{`fencepost_sign_total{signer="hsm", result="unavailable"}`, "0+10x60"}},
			[]series{{`fencepost_sign_total{signer="hsm", result="ok"}`, "0+60x60"},
				{`fencepost_sign_total{signer="hsm", result="unavailable"}`, "0+5x60"}}},
		"SignerSlow":   {"25m", signer, signTimes("0+0x60"), signTimes("0+100x60")},
		"TxStuck":      level(`fencepost_tx_stuck`, "12m", "1", "0"),
		"QueueBlocked": level(`fencepost_queue_oldest_age_seconds`, "2m", "901", "899"),
		"CallsRefused": counted(`fencepost_refusals_total{reason="NODE_BUSY"}`, "25m",
			map[string]string{"reason": "NODE_BUSY"}),
		"ConnectionsRefused": counted(`fencepost_connections_refused_total{reason="node_full"}`,
			"25m", map[string]string{"reason": "node_full"}),
		"NodeMissing": {"35m", nil, one(`fencepost_nodes{instance="a"}`, "3+0x20 2+0x40"),
			one(`fencepost_nodes{instance="a"}`, "3+0x60")},
		"Down": {"5m", nil, one(`up`, "0+0x60"), one(`fencepost_nodes`, "1+0x60")},
		"ChainUnavailable": {"3m", chain,
			[]series{{`fencepost_chain_up{chain="main",instance="a"}`, "0+0x60"},
				{`fencepost_chain_up{chain="main",instance="b"}`, "0+0x60"}},
			[]series{{`fencepost_chain_up{chain="main",instance="a"}`, "0+0x60"},
				{`fencepost_chain_up{chain="main",instance="b"}`, "1+0x60"}}},
		"TakeoverSlow": {"80m", nil,
			[]series{{`fencepost_takeover_seconds_bucket{le="1"}`, "0+0x100"},
				{`fencepost_takeover_seconds_bucket{le="10"}`, "0+1x100"},
				{`fencepost_takeover_seconds_bucket{le="+Inf"}`, "0+1x100"}},
			[]series{{`fencepost_takeover_seconds_bucket{le="1"}`, "0+1x100"},
				{`fencepost_takeover_seconds_bucket{le="10"}`, "0+1x100"},
				{`fencepost_takeover_seconds_bucket{le="+Inf"}`, "0+1x100"}}},
		"LeaseLost":         counted(`fencepost_lease_renew_total{result="lost"}`, "25m", nil),
		"LeaseRenewFailing": counted(`fencepost_lease_renew_total{result="error"}`, "30m", nil),
		"LeaseWedged":       counted(`fencepost_lease_wedged_total`, "30m", nil),
		"LeaseChurn": {"50m", nil,
			[]series{{`fencepost_lease_acquire_total{result="takeover"}`, "0+2x60"},
				{`fencepost_lease_handover_total`, "0+0x60"},
				{`fencepost_submitters{state="owned"}`, "10+0x60"}},
			[]series{{`fencepost_lease_acquire_total{result="takeover"}`, "0+2x60"},
				{`fencepost_lease_handover_total`, "0+0x60"},
				{`fencepost_submitters{state="owned"}`, "100+0x60"}}},
		"FencedSurge":   surge(`fencepost_lease_fenced_total{op="move"}`, "2020m"),
		"CommitUnknown": counted(`fencepost_commit_total{outcome="unknown"}`, "30m", nil),
		"AuditFailing":  counted(`fencepost_audit_total{result="failed"}`, "90m", nil),
		"ResubmitRate":  surge(`fencepost_tx_resubmit_total{result="ok"}`, "2040m"),
		"ReceiptErrors": counted(`fencepost_receipt_check_total{result="error"}`, "30m", nil),
		"ReceiptBacklog": {"40m", chain,
			one(`fencepost_receipt_backlog{chain="main"}`, "100+10x60"),
			one(`fencepost_receipt_backlog{chain="main"}`, "1000-10x60")},
		"EndpointDown": {"12m", map[string]string{"chain": "main", "endpoint": "e"},
			one(`fencepost_rpc_endpoint_up{chain="main",endpoint="e"}`, "0+0x60"),
			one(`fencepost_rpc_endpoint_up{chain="main",endpoint="e"}`, "1+0x60")},
	}
}

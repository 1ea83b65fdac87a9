package main

// signerPages are about signers that may be compromised.
func signerPages() []alert {
	return []alert{{
		name: "SignerFault", page: true,
		expr:    `sum by (signer) (increase(fencepost_sign_total{result="fault"}[10m])) > 0`,
		summary: "signer {{ $labels.signer }} returned another transaction than requested",
		means: "The bytes were discarded and nothing was sent. The signer has a defect, signs " +
			"with another key, or is under the control of someone else.",
		steps: []string{
			"Read `signing failed` in the log of the nodes: it names the fields that differ.",
			"Compare its key list with its keys: `fencepost config check --config fencepost.yaml`.",
			"If you cannot explain it, protect its accounts: `fencepost submitter protect NAME`.",
		},
	}}
}

// signerTickets are about signers that are away or slow.
func signerTickets() []alert {
	return []alert{
		{
			name: "SignerFailing", lasts: "10m",
			expr: `sum by (signer) (rate(fencepost_sign_total{result!="ok"}[10m]))` +
				"\n  > 0.1 * sum by (signer) (rate(fencepost_sign_total[10m]))",
			summary: "more than a tenth of the signatures of signer {{ $labels.signer }} fail",
			means: "The accounts of the signer wait, and proceed when it works again. Other " +
				"accounts are not affected.",
			steps: []string{
				"Read `signing failed` in the log of the nodes for the reason.",
				"For exceeded quotas, lower `per_second` of the signer: see " +
					"[Signers](signers.md#rules-for-all-signers).",
				"Probe the signer: `fencepost config check --config fencepost.yaml`.",
			},
		},
		{
			name: "SignerSlow", lasts: "10m",
			expr: "histogram_quantile(0.99,\n  sum by (signer, le) " +
				`(rate(fencepost_sign_seconds_bucket[10m]))) > 2.5`,
			summary: "signatures of signer {{ $labels.signer }} take more than 2.5 seconds",
			means: "The time includes the waits for `max_in_flight` and `per_second`. The " +
				"accounts of the signer are delayed.",
			steps: []string{
				"Compare the signatures per second with `max_in_flight` divided by the time of " +
					"one signature, and with `per_second`: see " +
					"[Signers](signers.md#rules-for-all-signers).",
				"Check the load of the signer and the network to it.",
			},
		},
	}
}

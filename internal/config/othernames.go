package config

import (
	"fmt"
	"strings"
)

// otherName is a key as other designs name it, and the keys here that take its place, or the reason
// why there is none.
type otherName struct {
	name string
	keys []string
	why  string // empty if the key means the same
}

// otherNames lists what users of other transaction managers look for, by topic.
func otherNames() []otherName {
	return []otherName{
		{"lease.renewInterval", []string{"lease.renew_interval"}, ""},
		{"clockSkewAllowance, clock skew grace", nil, "Only the database's clock decides when a " +
			"lease expires, so nodes' clocks need not agree. An owner stops a tenth of " +
			"lease.duration early, by its monotonic clock."},
		{"run mode (basic, worker_queue)", []string{"lease.mode"}, ""},
		{"worker count", []string{"lease.max_owned"}, "Each owned account has its own worker, so " +
			"a slow account delays no other."},
		{"recovery.scan_interval", []string{"lease.sweep_interval"}, ""},
		{"Redis lock", nil, "The lease in PostgreSQL is the only lock: a lock elsewhere cannot " +
			"reject late writes."},

		{"nonce.strict.enabled", []string{"submitters.*.mode"}, "A property of the account " +
			"in the " +
			"ledger, because nodes that differ would break it."},
		{"nonce.startFrom", []string{"submitters.*.start_from"}, ""},
		{"release_on (receipt, finality)", []string{"chains.*.release_depth"}, ""},
		{"nonce.reserved-timeout", []string{"nonce_api.default_ttl"}, "Of mode external alone. " +
			"Otherwise one commit takes a nonce together with the signed transaction."},
		{"nonce.pending-max-age", []string{"nonce_api.reconcile_interval"}, "Age frees no nonce: " +
			"only evidence does."},
		{"nonce.pending-hard-max-age", []string{"nonce_api.pending_hard_max_age",
			"chains.*.resubmit.max_age"}, "In other modes the transaction becomes STUCK; its " +
			"nonce is never reused."},
		{"nonce.reconcile-enabled, scan limit", []string{"nonce_api.reconcile_interval"},
			"Always on: each owner reconciles its own submitters."},
		{"transactions.nonceStateTimeout", nil, "Nonces are not cached: they come from the " +
			"ledger only."},
		{"hole.fill_timeout", []string{"nonce_api.fill_after", "nonce_api.fill_holes"},
			"Only accounts of mode external have holes. Off by default; an operator fills them " +
				"with ResolveNonce."},
		{"nonce.cleanup-enabled", nil, "The ledger keeps all transactions, because a request_id " +
			"names one transaction forever."},

		{"resubmit.enabled", nil, "Rebroadcasting sends recorded bytes, so it cannot send twice, " +
			"and a transaction that a node dropped would block its account without it. Raise " +
			"chains.*.resubmit.interval to make it rare."},
		{"resubmit.interval", []string{"chains.*.resubmit.interval"}, ""},
		{"resubmit maximum attempts", []string{"chains.*.resubmit.max_attempts"}, ""},
		{"prepare.max_age", []string{"chains.*.prepare.max_age"}, ""},
		{"gasbump.enabled", []string{"chains.*.gas_bump.enabled"}, ""},
		{"gasbump.minInterval", []string{"chains.*.gas_bump.min_interval"}, ""},
		{"gasbump.maxAttempts", []string{"chains.*.gas_bump.max_attempts"}, ""},
		{"gasbump.multiplier", []string{"chains.*.gas_bump.multiplier"}, ""},
		{"gasbump.max_fee_cap", []string{"chains.*.gas_bump.max_fee_cap_gwei"}, ""},
		{"mempool.diagnose.enabled", []string{"chains.*.mempool.diagnose"}, ""},
		{"on_failure", []string{"submitters.*.on_failure"}, ""},
		{"on_deadline", nil, "A term of each transaction: cancel_late in CreateTx."},

		{"rpc.url", []string{"chains.*.rpc"}, ""},
		{"rpc.timeout", []string{"chains.*.rpc_timeout"}, ""},
		{"rpc.maxInFlight", []string{"chains.*.rpc_max_in_flight"}, ""},
		{"sign.timeout", []string{"signers.*.timeout"}, ""},
		{"confirmations.required", []string{"chains.*.confirmations"}, ""},
		{"confirmations.staleReceiptTimeout", []string{"chains.*.resubmit.interval"}, "A receipt " +
			"is read when a block has its hash, and again with each rebroadcast. A failed " +
			"read is " +
			"repeated with each head."},
		{"confirmations.receiptWorkers",
			[]string{"chains.*.rpc_batch_limit", "chains.*.rpc_max_in_flight"},
			"One reader per chain gets the receipts of all accounts in batches."},
		{"confirmations.fetchReceiptUponEntry", nil, "Always: a hash that may be in a block is " +
			"looked up at once. A new one cannot be."},
		{"block queue length", nil, "Blocks are not queued: each update reads the newest head " +
			"and closes the gap to the last one."},
		{"notification queue length", []string{"watch.ring_events"}, "Slow watchers read the " +
			"ledger, so no event is dropped."},
		{"protect.lag_grace", []string{"chains.*.protect.lag_grace"}, ""},
		{"finality.audit_depth", []string{"chains.*.finality.audit_depth"}, ""},

		{"events.mode", []string{"sinks.*.kind"}, "Events are always recorded; several modes may " +
			"be used together."},
		{"events.mode = poll", nil, "The default: without sinks, clients poll GetTx or use " +
			"WatchTx."},
		{"events.mode = log", []string{"sinks.*.kind"}, "kind: log."},
		{"events.mode = mq_outbox", []string{"sinks.*.kind"}, "kind: kafka or nats. The events " +
			"in the ledger are the outbox."},
		{"events.mode = webhook", []string{"sinks.*.kind"}, "kind: webhook."},
	}
}

const otherNamesIntro = "## Keys under other names\n\n" +
	"Other transaction managers use the names on the left.\n\n" +
	"| name | key here | why |\n|---|---|---|\n"

func writeOtherNames(b *strings.Builder) {
	b.WriteString(otherNamesIntro)
	for _, o := range otherNames() {
		keys := "none"
		if len(o.keys) > 0 {
			keys = "`" + strings.Join(o.keys, "`, `") + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", o.name, keys, o.why)
	}
	b.WriteString("\n")
}

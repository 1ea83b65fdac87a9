package config

import "time"

// Retention configures how long the ledger keeps data of final transactions.
type Retention struct {
	RawTx        string
	Events       time.Duration
	Transactions time.Duration
}

// The values of Retention.RawTx.
const (
	EraseRawTx = "after_audit"
	KeepRawTx  = "keep"
)

// leastRetention is longer than any statement, and than any watcher needs to resume.
const leastRetention = time.Hour

func retentionFields() []field[Retention] {
	return []field[Retention]{
		value("raw_tx", oneOf(EraseRawTx, KeepRawTx), EraseRawTx,
			"after_audit: the signed bytes of a transaction are erased once it is final and below "+
				"finality.audit_depth; its hashes stay. keep: they are never erased. Any "+
				"reader of signed bytes can broadcast them.",
			func(r *Retention) *string { return &r.RawTx }),
		value("events", orZero(span(leastRetention, 10*365*24*time.Hour)), "0",
			"How long a transaction must be final before \"fencepost archive\" may remove its "+
				"events. 0 keeps them. The shorter of retention.events and "+
				"retention.transactions (of those that are not 0) also applies to answered "+
				"requests about reserved nonces that the chain has used.",
			func(r *Retention) *time.Duration { return &r.Events }),
		value("transactions", orZero(span(leastRetention, 10*365*24*time.Hour)), "0",
			"How long a transaction must be final before \"fencepost archive\" may also remove "+
				"its call data and labels. 0 keeps them. Its id, request_id, nonce, outcome and "+
				"hashes always stay.",
			func(r *Retention) *time.Duration { return &r.Transactions }),
	}
}

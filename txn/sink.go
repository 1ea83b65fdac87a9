package txn

import "time"

// SinkStatus says whether a sink delivers events.
type SinkStatus string

// The states of a sink.
const (
	SinkActive   SinkStatus = "ACTIVE"
	SinkPaused   SinkStatus = "PAUSED"   // by an operator
	SinkDisabled SinkStatus = "DISABLED" // by its receiver, which answered that it is gone
)

// SinkLease is the right of a node to deliver for one sink, under a fencing token.
type SinkLease struct {
	Sink  string
	Token Token
	// Revision belongs to the cursor, at the last acquisition or renewal. Operators raise it.
	Revision int64
}

// SinkCursor is how far a sink has come in the feed, and what an operator decided about it.
type SinkCursor struct {
	Sink      string
	Status    SinkStatus
	Reason    string // of the status; may be empty
	Operator  string // of the last decision; empty: none
	Position  string // in the feed; empty: its end
	Epoch     int64  // of the feed that Position is in; 0: none
	Revision  int64  // increases with each decision about the sink
	Restored  bool   // the receiver has not been told yet that the ledger was restored
	Delivered int64  // events, parked ones included
	EventAt   *time.Time
	UpdatedAt time.Time // while Restored: of the restore
	Owner     string    // node that delivers; empty: none
	Token     Token
	Parked    int64 // transactions that wait for a retry, counted up to CountedParked
	Dead      int64 // transactions without further retries, counted likewise
}

// CountedParked is the highest count of parked transactions.
const CountedParked = 100_000

// SinkFact completes an event with facts of its transaction.
type SinkFact struct {
	RequestID string
	Labels    map[string]string
	Parked    bool // an earlier event of it is undelivered
}

// SinkFailure is a range of events of a transaction that was not delivered.
type SinkFailure struct {
	Submitter   SubmitterID
	Tx          TxID
	First, Last int64         // numbers of the events
	Attempts    int           // of the first event; 0: it was not tried
	Delay       time.Duration // until the next attempt; negative: none
	Reason      string
}

// SinkProgress is the part that the cursor of a sink moves past.
type SinkProgress struct {
	Position  string // empty: unchanged
	Revision  int64  // expected
	Delivered int64
	EventAt   time.Time // of the newest event; zero: unchanged
	Failures  []SinkFailure
	Announced bool    // the receiver knows of the restored ledger
	Reason    *string // why an active sink delivers nothing, "" when it does; nil: unchanged
	Disable   string  // reason to stop deliveries; empty: none
}

// SinkParked is a transaction whose events wait for a retry.
type SinkParked struct {
	Sink      string
	Submitter SubmitterID
	Tx        TxID
	Next      int64 // number of the first undelivered event
	Last      int64 // number of the last event that the cursor has passed
	Attempts  int   // of the first undelivered event
	ParkedAt  time.Time
	DueAt     *time.Time // of the next attempt; nil: dead
	Reason    string     // of the last failure
}

// SinkRetry is the result of a retry of a parked transaction.
type SinkRetry struct {
	SinkParked
	NextSeq int64         // first event that is still undelivered
	Delay   time.Duration // until the next attempt; negative: none
	Failed  bool
	Reason  string
}

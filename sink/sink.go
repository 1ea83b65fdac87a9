package sink

import (
	"context"
	"slices"
	"time"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// Sink is a receiver of events. It is used by one goroutine for new events and by one for retries.
type Sink interface {
	// Deliver delivers events and returns a result for each, or one result for all of them. Once an
	// event fails, later events of the same transaction must not be tried. It returns when ctx
	// ends.
	Deliver(ctx context.Context, events []*Event) []Result
	// Close releases connections.
	Close()
}

// Verdict is how a delivery ended.
type Verdict int

// The verdicts of deliveries.
const (
	Done        Verdict = iota
	Retry               // the event failed; later events of the transaction wait
	Refused             // like Retry, but no attempt can succeed
	Unavailable         // the receiver is unavailable for all events; nothing is parked
	Gone                // the receiver wants no more events
)

// Result is the outcome of a delivery.
type Result struct {
	Verdict Verdict
	After   time.Duration // least time until the next attempt, as the receiver wants it; 0: any
	Cause   string        // of a failure: short, without secrets
}

// Event is an event of a transaction, or the news that the ledger was restored.
type Event struct {
	Content   *pb.SinkEvent
	Submitter txn.SubmitterID
	Name      string // of the submitter
	Tx        txn.TxID
	Seq       int64
	State     txn.State
	Kind      txn.Kind
	At        time.Time
}

// TypeRestored is the CloudEvents type of the news that the ledger was restored.
const TypeRestored = "dev.fencepost.ledger.restored"

// Filter selects events. The zero Filter selects all.
type Filter struct {
	States     []txn.State
	Submitters []string // names
	Labels     map[string]string
}

func (f *Filter) wantsSubmitter(name string) bool {
	return len(f.Submitters) == 0 || slices.Contains(f.Submitters, name)
}

func (f *Filter) wantsState(s txn.State) bool {
	return len(f.States) == 0 || slices.Contains(f.States, s)
}

func (f *Filter) wantsLabels(labels map[string]string) bool {
	for key, value := range f.Labels {
		if got, has := labels[key]; !has || got != value {
			return false
		}
	}
	return true
}

// Wants reports whether a sink delivers the event.
func (f *Filter) Wants(e *Event) bool {
	return f.wantsSubmitter(e.Name) && f.wantsState(e.State) &&
		f.wantsLabels(e.Content.GetLabels())
}

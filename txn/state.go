package txn

import "slices"

// State is where a transaction stands.
type State string

// The states. Confirmed, Failed and Cancelled are final.
const (
	Queued    State = "QUEUED"       // accepted, no nonce
	Allocated State = "ALLOCATED"    // nonce taken and a signed attempt recorded; no node is known to have it
	Tracking  State = "TRACKING"     // a node has it
	Stuck     State = "STUCK"        // needs a decision; keeps its nonce, is still followed and rebroadcast
	Confirmed State = "CONFIRMED"    // executed and final
	Failed    State = "FAILED_FINAL" // final: reverted, or never executed, or unknown: see ReasonRestored
	Cancelled State = "CANCELLED"    // final: never executed, or unknown: see ReasonRestored
)

// States lists every state in the order of life.
var States = []State{Queued, Allocated, Tracking, Stuck, Confirmed, Failed, Cancelled}

// Final tells whether nothing but a reorg after finality can change the state any more.
func (s State) Final() bool { return s == Confirmed || s == Failed || s == Cancelled }

// Sub refines a state; empty is the plain state.
type Sub string

// The sub-states.
const (
	None       Sub = ""
	Pending    Sub = "PENDING"     // TRACKING: with a node, not in a block
	Included   Sub = "INCLUDED"    // TRACKING: in a canonical block
	BackingOff Sub = "BACKING_OFF" // QUEUED: the head waits for something outside, other than money
	Unfunded   Sub = "UNFUNDED"    // QUEUED, ALLOCATED, TRACKING, STUCK, and in no block: the account cannot pay for it now; it goes on by itself once funded
)

// Subs lists every sub-state.
var Subs = []Sub{None, Pending, Included, BackingOff, Unfunded}

// Executed answers whether the payload ran on chain.
type Executed string

// The answers.
const (
	Unknown  Executed = "UNKNOWN" // not decided yet; of what is final: nobody can tell, see ReasonRestored
	No       Executed = "NO"      // final: it never ran and never will
	Success  Executed = "SUCCESS"
	Reverted Executed = "REVERTED"
)

// Kind names an event; each move writes exactly one.
type Kind string

// The kinds of events.
const (
	EventQueued          Kind = "QUEUED"
	EventDelayed         Kind = "DELAYED"
	EventAllocated       Kind = "ALLOCATED"
	EventSubmitted       Kind = "SUBMITTED"
	EventResubmitted     Kind = "RESUBMITTED"
	EventReplaced        Kind = "REPLACED"
	EventIncluded        Kind = "INCLUDED"
	EventReorged         Kind = "REORGED"
	EventConfirmations   Kind = "CONFIRMATIONS"
	EventConfirmed       Kind = "CONFIRMED"
	EventFailed          Kind = "FAILED"
	EventCancelRequested Kind = "CANCEL_REQUESTED"
	EventCancelled       Kind = "CANCELLED"
	EventStuck           Kind = "STUCK"
	EventUnstuck         Kind = "UNSTUCK"
	EventRequeued        Kind = "REQUEUED"
)

// Move is a legal change of state and the event that tells it.
type Move struct {
	Kind Kind
	From []State // empty: the move creates the transaction
	To   []State // more than one only where the move keeps the state that it finds
}

// Moves is the one table of legal moves. The database's constraint, the state diagram and the wire enums are compared with it by tests.
var Moves = []Move{
	{Kind: EventQueued, To: []State{Queued}},
	{Kind: EventDelayed, From: []State{Queued}, To: []State{Queued}},
	{
		Kind: EventDelayed,
		From: []State{Allocated},
		To:   []State{Allocated},
	}, // the account cannot pay, or that is not what a node says any more
	{Kind: EventDelayed, From: []State{Tracking}, To: []State{Tracking}},
	{Kind: EventAllocated, From: []State{Queued}, To: []State{Allocated}},
	{Kind: EventSubmitted, From: []State{Allocated}, To: []State{Tracking}},
	{Kind: EventResubmitted, From: []State{Tracking}, To: []State{Tracking}},
	{Kind: EventResubmitted, From: []State{Stuck}, To: []State{Stuck}},
	{Kind: EventReplaced, From: []State{Allocated}, To: []State{Allocated}},
	{Kind: EventReplaced, From: []State{Tracking}, To: []State{Tracking}},
	{Kind: EventReplaced, From: []State{Stuck}, To: []State{Stuck}},
	{Kind: EventIncluded, From: []State{Allocated, Tracking, Stuck}, To: []State{Tracking}},
	{Kind: EventConfirmations, From: []State{Tracking}, To: []State{Tracking}},
	{Kind: EventReorged, From: []State{Tracking}, To: []State{Tracking}},
	{Kind: EventReorged, From: []State{Confirmed, Failed, Cancelled}, To: []State{Stuck}},
	{
		Kind: EventConfirmed,
		From: []State{Queued, Allocated, Tracking, Stuck},
		To:   []State{Confirmed},
	}, // QUEUED: it ran before it was given back to the queue
	{Kind: EventFailed, From: []State{Queued, Allocated, Tracking, Stuck}, To: []State{Failed}},
	{Kind: EventCancelRequested, From: []State{Queued}, To: []State{Queued}},
	{Kind: EventCancelRequested, From: []State{Allocated}, To: []State{Allocated}},
	{Kind: EventCancelRequested, From: []State{Tracking}, To: []State{Tracking}},
	{Kind: EventCancelRequested, From: []State{Stuck}, To: []State{Stuck}},
	{
		Kind: EventCancelled,
		From: []State{Queued, Allocated, Tracking, Stuck},
		To:   []State{Cancelled},
	},
	{
		Kind: EventStuck,
		From: []State{Allocated, Tracking, Stuck},
		To:   []State{Stuck},
	}, // STUCK: for another reason than before, or the account cannot pay now, or can again
	{Kind: EventUnstuck, From: []State{Stuck}, To: []State{Tracking}},
	{Kind: EventRequeued, From: []State{Stuck}, To: []State{Queued}},
}

// Legal tells whether the move table has an entry that leads from one state to the other with this event.
func Legal(kind Kind, from, to State) bool {
	return slices.ContainsFunc(Moves, func(m Move) bool {
		return m.Kind == kind && slices.Contains(m.From, from) && slices.Contains(m.To, to)
	})
}

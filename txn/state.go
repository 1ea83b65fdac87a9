package txn

import "slices"

// State is the state of a transaction.
type State string

// The states. Confirmed, Failed and Cancelled are final.
const (
	Queued State = "QUEUED" // accepted, no nonce
	// nonce taken and attempt recorded; no node is known to have it
	Allocated State = "ALLOCATED"
	Tracking  State = "TRACKING" // a node has it
	// needs a decision; keeps its nonce, still tracked and rebroadcast
	Stuck     State = "STUCK"
	Confirmed State = "CONFIRMED" // executed and final
	// final: reverted, not executed, or unknown (see ReasonRestored)
	Failed    State = "FAILED_FINAL"
	Cancelled State = "CANCELLED" // final: not executed, or unknown (see ReasonRestored)
)

// States lists every state in the order of life.
var States = []State{Queued, Allocated, Tracking, Stuck, Confirmed, Failed, Cancelled}

// Final reports whether only a reorg after finality can still change the state.
func (s State) Final() bool { return s == Confirmed || s == Failed || s == Cancelled }

// Sub refines a state; empty is the plain state.
type Sub string

// The sub-states.
const (
	None     Sub = ""
	Pending  Sub = "PENDING"  // TRACKING: with a node, not in a block
	Included Sub = "INCLUDED" // TRACKING: in a canonical block
	// QUEUED: the head waits for an external condition other than funds
	BackingOff Sub = "BACKING_OFF"
	// any state but final, in no block: the account lacks funds; it proceeds once funded
	Unfunded Sub = "UNFUNDED"
	// QUEUED, but not in the queue: another caller must approve it. No owner reads it
	AwaitingApproval Sub = "AWAITING_APPROVAL"
)

// Subs lists every sub-state.
var Subs = []Sub{None, Pending, Included, BackingOff, Unfunded, AwaitingApproval}

// Executed is whether the payload executed on chain.
type Executed string

// The answers.
const (
	Unknown  Executed = "UNKNOWN" // undecided; of a final transaction: unknown, see ReasonRestored
	No       Executed = "NO"      // final: it never executed and never will
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
	EventApproved        Kind = "APPROVED"
)

// Move is a legal change of state and its event.
type Move struct {
	Kind Kind
	From []State // empty: the move creates the transaction
	To   []State // more than one only if the move keeps the state
}

// Moves is the table of legal moves. Tests compare the database's constraint, the state diagram and
// the wire enums with it.
var Moves = []Move{
	{Kind: EventQueued, To: []State{Queued}},
	{Kind: EventApproved, From: []State{Queued}, To: []State{Queued}},
	{Kind: EventDelayed, From: []State{Queued}, To: []State{Queued}},
	{
		Kind: EventDelayed,
		From: []State{Allocated},
		To:   []State{Allocated},
	}, // insufficient funds, or no longer reported
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
	}, // QUEUED: it executed before it was requeued
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
	}, // STUCK: for another reason, or funds changed
	{Kind: EventUnstuck, From: []State{Stuck}, To: []State{Tracking}},
	{Kind: EventRequeued, From: []State{Stuck}, To: []State{Queued}},
}

// Legal reports whether the table has a move between these states with this event.
func Legal(kind Kind, from, to State) bool {
	return slices.ContainsFunc(Moves, func(m Move) bool {
		return m.Kind == kind && slices.Contains(m.From, from) && slices.Contains(m.To, to)
	})
}

// defaultSub returns the sub-state of a transaction that is not included and waits for nothing in
// particular.
func defaultSub(s State) Sub {
	if s == Tracking {
		return Pending
	}
	return None
}

// StuckAction is the result of a stuck policy.
type StuckAction string

// The actions. None of them frees a nonce.
const (
	StuckWait   StuckAction = "WAIT" // keep tracking and rebroadcasting
	StuckRetry  StuckAction = "RETRY"
	StuckBump   StuckAction = "BUMP"
	StuckCancel StuckAction = "CANCEL"
)

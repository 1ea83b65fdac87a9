package txn

import (
	"fmt"
	"slices"
)

// StuckCase is the input of a stuck policy.
type StuckCase struct {
	// unchanged while the transaction is: a policy with external effects can detect a repeat
	ActionID string
	Tx       Tx
}

// AskPolicy queries the stuck policy; PolicyAnswered updates the owner's memory.
type AskPolicy struct{ Case *StuckCase }

// Diagnose looks up a transaction in a node's pool; Diagnosed updates the owner's memory.
type Diagnose struct{ Tx *Tx }

func (AskPolicy) step() {}
func (Diagnose) step()  {}

// decidedReasons have a fixed next step: no policy is asked.
var decidedReasons = map[string]bool{
	ReasonNonceElsewhere:        true,
	ReasonReorgedFinal:          true,
	ProtectExecutedAfterRequeue: true,
	ProtectExecutedAfterFinal:   true,
}

// applyStuckPolicy queries the policy, if there is one, about a due STUCK transaction, and applies
// its answer. The query is claimed with the broadcast: a crash costs one interval and never causes
// two concurrent queries (C27, H70).
func applyStuckPolicy(v *View, tx *Tx) (Step, bool) {
	if !v.Policy.Stuck || tx.Signed || tx.State != Stuck || !tx.Turn.Claimed ||
		decidedReasons[tx.Reason] ||
		v.Cursor.Protected != nil {
		return nil, false
	}
	next := tx.Status
	switch {
	case tx.Turn.Action == "":
		return AskPolicy{
			&StuckCase{ActionID: fmt.Sprintf("%s/%d", tx.ID, tx.Version), Tx: *tx},
		}, true
	case tx.Turn.Action == StuckRetry:
		next.State = Tracking
		next.Sub = Pending
		next.Reason = ""
		next.LastError = ""
		next.SubmitAttempts = 0
		next.LastOutcome = ""
		return Record{Change{Writes: v.move(tx, EventUnstuck, &next, 0)}}, true
	// an unfunded transaction is not replaced at a higher price
	case tx.Turn.Action == StuckBump && tx.Sub != Unfunded:
		return replace(v, tx, Bump, 0), true
	case tx.Turn.Action == StuckCancel && !tx.abandoned():
		next.CancelRequested, next.SubmitAttempts = true, 0
		return Record{Change{Writes: v.move(tx, EventCancelRequested, &next, 0)}}, true
	}
	return nil, false // WAIT, or unknown: it is rebroadcast
}

// PolicyAnswered returns the transactions in flight with the policy's answer. An error of the
// policy is WAIT.
func PolicyAnswered(v *View, s AskPolicy, action StuckAction) []Tx {
	if action == "" {
		action = StuckWait
	}
	return v.withOpenTx(s.Case.Tx.ID, func(tx *Tx) { tx.Turn.Action = action })
}

// Diagnosed returns the transactions in flight with the diagnosis. It is written with the
// transaction's next write, and decides nothing alone.
func Diagnosed(v *View, s Diagnose, d Diagnosis) []Tx {
	return v.withOpenTx(s.Tx.ID, func(tx *Tx) { tx.Turn.Diagnosed, tx.Diagnosis = true, d })
}

func (v *View) withOpenTx(id TxID, change func(*Tx)) []Tx {
	open := slices.Clone(v.Open)
	for i := range open {
		if open[i].ID == id {
			change(&open[i])
		}
	}
	return open
}

package txn

import (
	"fmt"
	"slices"
)

// StuckCase is what a stuck policy is told.
type StuckCase struct {
	ActionID string // the same for as long as nothing has changed: a policy that acts outside can tell a repeat
	Tx       Tx
}

// StuckAction is what a stuck policy answers.
type StuckAction string

// The actions. None of them frees a nonce.
const (
	StuckWait   StuckAction = "WAIT" // go on following and handing over
	StuckRetry  StuckAction = "RETRY"
	StuckBump   StuckAction = "BUMP"
	StuckCancel StuckAction = "CANCEL"
)

// AskPolicy asks what to do about a STUCK transaction; PolicyAnswered tells what the owner remembers of the answer.
type AskPolicy struct{ Case *StuckCase }

// Diagnose asks a node's pool for a transaction; Diagnosed tells what the owner remembers of the answer.
type Diagnose struct{ Tx *Tx }

func (AskPolicy) step() {}
func (Diagnose) step()  {}

// fixed are the reasons of which it is settled what comes next: no policy is asked.
var decidedReasons = map[string]bool{
	ReasonNonceElsewhere:        true,
	ReasonReorgedFinal:          true,
	ProtectExecutedAfterRequeue: true,
	ProtectExecutedAfterFinal:   true,
}

// applyStuckPolicy asks the policy, if there is one, about a STUCK transaction whose turn it is, and does what it has said. The asking is claimed with the hand-over: a
// crash costs one interval and never asks twice at once (C27, H70).
func applyStuckPolicy(v *View, tx *Tx) (Step, bool) {
	if !v.Policy.Stuck || tx.State != Stuck || !tx.Turn.Claimed || decidedReasons[tx.Reason] ||
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
		next.State, next.Sub, next.Reason, next.LastError, next.SubmitAttempts, next.LastOutcome = Tracking, Pending, "", "", 0, ""
		return Record{Change{Writes: v.move(tx, EventUnstuck, &next, 0)}}, true
	case tx.Turn.Action == StuckBump && tx.Sub != Unfunded: // what cannot be paid for is not had for more
		return replace(v, tx, Bump, 0), true
	case tx.Turn.Action == StuckCancel && !tx.abandoned():
		next.CancelRequested, next.SubmitAttempts = true, 0
		return Record{Change{Writes: v.move(tx, EventCancelRequested, &next, 0)}}, true
	}
	return nil, false // WAIT, and whatever is not known: it is handed over
}

// PolicyAnswered is what is in flight once the policy has answered. An error of the policy is WAIT.
func PolicyAnswered(v *View, s AskPolicy, action StuckAction) []Tx {
	if action == "" {
		action = StuckWait
	}
	return v.withOpenTx(s.Case.Tx.ID, func(tx *Tx) { tx.Turn.Action = action })
}

// Diagnosed is what is in flight once a node's pool was looked into. It is written with the next write of the transaction, and alone decides nothing.
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

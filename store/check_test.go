package store

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// TestCheckChange_Faulty_Refused: a change that breaks a law on its own never reaches the database,
// and the error names the law.
func TestCheckChange_Faulty_Refused(t *testing.T) {
	t.Parallel()
	newTx := func(submitter txn.SubmitterID) txn.Tx {
		id, err := txn.NewTxID(time.Now(), submitter)
		if err != nil {
			t.Fatal(err)
		}
		return txn.Tx{
			ID:        id,
			Submitter: submitter,
			Status:    txn.Status{State: txn.Queued, Version: 1, Executed: txn.Unknown},
		}
	}
	tx, second := newTx(1), newTx(1)
	tracked := tx
	tracked.State, tracked.Version = txn.Tracking, 3
	tracked.Nonce, tracked.TxHash = ptr(txn.Nonce(4)), hashOf(4)
	write := func(w txn.Write, tweak func(*txn.Write)) txn.Change {
		tweak(&w)
		return txn.Change{Writes: []txn.Write{w}}
	}
	taking := func(tweak func(c *txn.Change, w *txn.Write)) txn.Change {
		c := take(tx, 4)
		tweak(&c, &c.Writes[0])
		return c
	}
	schedule := txn.Write{Tx: tx.ID, Version: 1, From: txn.Queued, Next: tx.Status}
	for want, c := range map[string]txn.Change{
		"only one of these": {Init: &txn.CursorInit{},
			Unprotect: &txn.Unprotection{}},
		"moves no transaction": {Protect: &txn.Protection{Reason: txn.ProtectRestored},
			Writes: []txn.Write{failed(tx, "x")}},
		"beyond 2^63-1": {
			Init: &txn.CursorInit{Nonce: math.MaxUint64}},
		"a protection needs a reason": {Protect: &txn.Protection{}},
		"status \"SLEEPING\"":         {Status: "SLEEPING"},
		"cannot also set the status": taking(func(c *txn.Change, _ *txn.Write) {
			c.Status = txn.Active
		}),
		"is of submitter 2":            {Writes: []txn.Write{submitted(newTx(2))}},
		"is written twice":             {Writes: []txn.Write{schedule, schedule}},
		"to one transaction, not to 0": {Take: &txn.Take{Nonce: 4}},
		"not to 2": taking(func(c *txn.Change, _ *txn.Write) {
			c.Writes = append(c.Writes, allocation(second, 4))
		}),
		"that the change does not take": {Writes: []txn.Write{allocation(tx, 4)}},
		"be allocated a nonce that is taken": taking(func(c *txn.Change, _ *txn.Write) {
			c.Take = &txn.Take{Nonce: 5}
		}),
		"without a signed original": taking(func(_ *txn.Change, w *txn.Write) {
			w.Attempt = nil
		}),
		"taken without a signed original": taking(func(_ *txn.Change, w *txn.Write) {
			w.Attempt.Kind = txn.Bump
		}),
		"neither released nor included": taking(func(_ *txn.Change, w *txn.Write) {
			w.Next.Released = true
		}),
		"version 0 does not exist": write(schedule,
			func(w *txn.Write) { w.Version = 0 }),
		"a schedule keeps state": write(schedule,
			func(w *txn.Write) { w.Next.State = txn.Failed }),
		"and version: QUEUED 1": write(schedule,
			func(w *txn.Write) { w.Next.Version = 2 }),
		"no move SUBMITTED leads from QUEUED": {Writes: []txn.Write{submitted(tx)}},
		"only ALLOCATED takes a nonce": write(failed(tx, "x"),
			func(w *txn.Write) { w.Next.Nonce = ptr(txn.Nonce(4)) }),
		"raises the version by one": write(failed(tx, "x"),
			func(w *txn.Write) { w.Next.Version = 7 }),
		"its nonce is beyond": write(failed(tx, "x"),
			func(w *txn.Write) { w.Next.Nonce = ptr(txn.Nonce(1 << 63)) }),
		"would be final as not executed at block 7": write(failed(tx, "x"),
			func(w *txn.Write) { w.Next.FinalBlock, w.Next.Receipt = 7, &txn.Receipt{} }),
		"would be final as not executed at block 8, as QUEUED": write(schedule,
			func(w *txn.Write) { w.Next.FinalBlock = 8 }),
		"its delay is": write(schedule,
			func(w *txn.Write) { w.Delay = -1 }),
		"included without a receipt": write(included(tracked, 1),
			func(w *txn.Write) { w.Next.Receipt = nil }),
		"its receipt lacks a hash": write(included(tracked, 1),
			func(w *txn.Write) { w.Next.Receipt = &txn.Receipt{TxHash: hashOf(1)} }),
		"its receipt has a number": write(included(tracked, 1), func(w *txn.Write) {
			w.Next.Receipt = &txn.Receipt{TxHash: hashOf(1), BlockHash: hashOf(1), GasUsed: 1 << 63}
		}),
		"which is not the transaction's": write(included(tracked, 1),
			func(w *txn.Write) { w.Attempt = attempt(tracked, 5, 2) }),
		"attempt number 0": write(included(tracked, 1),
			func(w *txn.Write) { w.Attempt = attempt(tracked, 4, 0) }),
		"lacks its hash or its bytes": write(included(tracked, 1),
			func(w *txn.Write) { w.Attempt = attempt(tracked, 4, 2); w.Attempt.Raw = nil }),
		"has gas limit 0": write(included(tracked, 1),
			func(w *txn.Write) { w.Attempt = attempt(tracked, 4, 2); w.Attempt.GasLimit = 0 }),
		"command 7 has no result": {Commands: []txn.CommandResult{{ID: 7}}},
		"command 8 has two results": {Commands: []txn.CommandResult{{ID: 8, Result: "x"},
			{ID: 8, Result: "x"}}},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s := &Store{} // without a database: nothing may be asked of it
			o, err := s.Commit(&Lease{submitter: 1, token: 1}, c)
			if o != Refused || err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("outcome %v, %v", o, err)
			}
		})
	}
	if err := checkChange(1, take(tx, 4)); err != nil {
		t.Errorf("a right change: %v", err)
	}
	if o, err := (&Store{}).Commit(&Lease{submitter: 1}, txn.Change{}); o != Done || err != nil {
		t.Errorf("an empty change: %v %v", o, err)
	}
}

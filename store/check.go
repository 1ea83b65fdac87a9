package store

import (
	"errors"
	"fmt"
	"math"

	"github.com/fencepost/fencepost/txn"
)

// checkChange finds faults without the database: a change that breaks a law on its own is a bug of
// the program that made it.
func checkChange(submitter txn.SubmitterID, c txn.Change) error {
	if c.Nonces != nil {
		return checkNonces(submitter, c)
	}
	cursorOps := 0
	for _, given := range []bool{c.Init != nil, c.Take != nil, c.Protect != nil,
		c.Unprotect != nil} {
		if given {
			cursorOps++
		}
	}
	if c.Init != nil && c.Protect != nil && !c.Protect.ByCommand {
		cursorOps-- // a cursor may start protected
	}
	switch {
	case c.Protect != nil && c.Protect.Reason == txn.ProtectRestored && len(c.Writes) > 0:
		return errors.New("a change that protects after lost commits moves no transaction")
	case cursorOps > 1:
		return errors.New(
			"a change may start, move or protect the cursor, or end its protection, and only one " +
				"of these")
	case c.Init != nil && !storable(uint64(c.Init.Nonce), c.Init.Block):
		return errors.New("the start of the cursor is beyond 2^63-1")
	case c.Protect != nil && (c.Protect.Reason == "" || !storable(uint64(c.Protect.Expect))):
		return errors.New("a protection needs a reason and a nonce below 2^63")
	case c.Unprotect != nil && (c.Unprotect.ID < 1 || c.Unprotect.To < c.Unprotect.Expect ||
		!storable(uint64(c.Unprotect.To))):
		return errors.New(
			"an end of a protection names the protection, and a nonce below 2^63 that is not " +
				"below the cursor's")
	case c.Status != "" && c.Status != txn.Active && c.Status != txn.Paused:
		return fmt.Errorf("status %q is not one of ACTIVE and PAUSED", c.Status)
	case c.StatusReason != "" && c.Status != txn.Paused:
		return errors.New("a change with a status reason must pause the submitter")
	case c.Status != "" && c.Take != nil:
		return errors.New("a change that takes a nonce cannot also set the status")
	}
	if err := checkWrites(submitter, c); err != nil {
		return err
	}
	return checkCommands(c.Commands)
}

func checkWrites(submitter txn.SubmitterID, c txn.Change) error {
	seen := make(map[txn.TxID]bool, len(c.Writes))
	taken, nonces := 0, map[txn.Nonce]bool{}
	for _, w := range c.Writes {
		if w.Tx.Submitter() != submitter {
			return fmt.Errorf("transaction %s is of submitter %d, the lease of submitter %d", w.Tx,
				w.Tx.Submitter(), submitter)
		}
		if seen[w.Tx] {
			return fmt.Errorf("transaction %s is written twice", w.Tx)
		}
		seen[w.Tx] = true
		if err := checkWrite(w); err != nil {
			return fmt.Errorf("transaction %s: %w", w.Tx, err)
		}
		if w.Kind != txn.EventAllocated {
			continue
		}
		if w.Reserved && c.Take == nil { // the trigger nonce_is_reserved checks the reservation
			if w.Attempt == nil || w.Next.Nonce == nil || w.Attempt.Nonce != *w.Next.Nonce {
				return fmt.Errorf("transaction %s takes a reserved nonce without signed bytes",
					w.Tx)
			}
			continue
		}
		if err := checkTake(c.Take, w); err != nil {
			return fmt.Errorf("transaction %s: %w", w.Tx, err)
		}
		taken++
		nonces[*w.Next.Nonce] = true
	}
	if c.Take != nil && (taken != c.Take.More+1 || len(nonces) != taken) {
		return fmt.Errorf(
			"a change that takes nonces %d to %d must allocate each to one transaction, not to %d "+
				"in all",
			c.Take.Nonce, c.Take.Next()-1, taken)
	}
	return nil
}

// checkTake holds law L4: a nonce is taken only together with signed bytes for it.
func checkTake(take *txn.Take, w txn.Write) error {
	switch {
	case take == nil:
		return errors.New("it allocates a nonce that the change does not take")
	case w.Next.Nonce == nil || *w.Next.Nonce < take.Nonce || *w.Next.Nonce >= take.Next():
		return fmt.Errorf("it must be allocated a nonce that is taken, %d to %d", take.Nonce,
			take.Next()-1)
	case w.Attempt == nil || w.Attempt.Nonce != *w.Next.Nonce || w.Attempt.Kind != txn.Original:
		return fmt.Errorf("nonce %d is taken without a signed original for it", *w.Next.Nonce)
	case w.Next.Slot < 0:
		return fmt.Errorf("slot %d does not exist", w.Next.Slot)
	case w.Next.Released || w.Next.Receipt != nil:
		return errors.New("a newly taken nonce is neither released nor included")
	}
	return nil
}

func checkWrite(w txn.Write) error {
	next := w.Next
	switch {
	case w.Version < 1:
		return fmt.Errorf("version %d does not exist", w.Version)
	case w.Kind == "" && (next.State != w.From || next.Version != w.Version):
		return fmt.Errorf("a schedule keeps state and version: %s %d would become %s %d", w.From,
			w.Version, next.State, next.Version)
	case w.Kind != "" && !txn.Legal(w.Kind, w.From, next.State):
		return fmt.Errorf("no move %s leads from %s to %s", w.Kind, w.From, next.State)
	case w.Kind != "" && next.Version != w.Version+1:
		return fmt.Errorf("a move raises the version by one: %d would become %d", w.Version,
			next.Version)
	case hasNonce(w.From) && (next.Nonce == nil) != (w.Kind == txn.EventRequeued):
		return fmt.Errorf(
			"%s leads from %s to nonce %v: only REQUEUED gives the nonce up",
			w.Kind, w.From, next.Nonce)
	case next.Requeued < 0 || next.Requeued > math.MaxInt16:
		return fmt.Errorf("it was requeued %d times, which is not within 0 to %d", next.Requeued,
			math.MaxInt16)
	case next.Nonce != nil && !storable(uint64(*next.Nonce)):
		return errors.New("its nonce is beyond 2^63-1")
	case w.From == txn.Queued && w.Kind != txn.EventAllocated && next.Nonce != nil &&
		(next.Receipt == nil || !next.Released || next.Requeued == 0):
		return fmt.Errorf(
			"%s leads from QUEUED to nonce %d: only ALLOCATED takes a nonce, and only a "+
				"transaction executed before its requeue has its own again",
			w.Kind, *next.Nonce)
	case next.FinalBlock > 0 && (!next.State.Final() || next.Receipt != nil ||
		!storable(next.FinalBlock)):
		return fmt.Errorf("it would be final as not executed at block %d, as %s and with "+
			"receipt %v",
			next.FinalBlock, next.State, next.Receipt)
	case w.Delay < 0:
		return fmt.Errorf("its delay is %v", w.Delay)
	}
	if err := checkReceipt(next); err != nil {
		return err
	}
	return checkAttempt(w)
}

// hasNonce reports whether a transaction in this state always has a nonce.
func hasNonce(s txn.State) bool {
	return s == txn.Allocated || s == txn.Tracking || s == txn.Stuck || s == txn.Confirmed
}

func checkReceipt(s txn.Status) error {
	r := s.Receipt
	switch {
	case r == nil && s.Sub == txn.Included:
		return errors.New("it is included without a receipt")
	case r == nil:
		return nil
	case r.TxHash == (txn.Hash{}) || r.BlockHash == (txn.Hash{}):
		return errors.New("its receipt lacks a hash")
	case !storable(r.BlockNumber, r.GasUsed):
		return errors.New("its receipt has a number beyond 2^63-1")
	}
	return nil
}

func checkAttempt(w txn.Write) error {
	a := w.Attempt
	switch {
	case a == nil:
		return nil
	case w.Next.Nonce == nil || *w.Next.Nonce != a.Nonce:
		return fmt.Errorf("attempt %d is for nonce %d, which is not the transaction's", a.No,
			a.Nonce)
	case a.No < 1 || a.No > math.MaxInt16:
		return fmt.Errorf("attempt number %d is not within 1 to %d", a.No, math.MaxInt16)
	case a.Hash == (txn.Hash{}) || len(a.Raw) == 0:
		return fmt.Errorf("attempt %d lacks its hash or its bytes", a.No)
	case a.GasLimit == 0 || !storable(a.GasLimit):
		return fmt.Errorf("attempt %d has gas limit %d", a.No, a.GasLimit)
	}
	return nil
}

func checkCommands(results []txn.CommandResult) error {
	seen := make(map[int64]bool, len(results))
	for _, r := range results {
		if r.Result == "" {
			return fmt.Errorf("command %d has no result", r.ID)
		}
		if seen[r.ID] {
			return fmt.Errorf("command %d has two results", r.ID)
		}
		seen[r.ID] = true
	}
	return nil
}

// storable reports whether the numbers fit a BIGINT.
func storable(numbers ...uint64) bool {
	for _, n := range numbers {
		if n > math.MaxInt64 {
			return false
		}
	}
	return true
}

package feed

import (
	"context"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// A stream of an account, or of its transactions, ends once the account has moved to another ledger
// and the stream has sent all events that it has here.

// movedEvery is the time between two reads of which accounts have moved.
const movedEvery = time.Second

// LeftError ends a stream: the account has moved to another ledger.
type LeftError struct {
	Account txn.SubmitterID
	Moved   *store.MovedError
	// Open means that the stream has begun, and has sent everything that is in this ledger.
	Open bool
	Seq  int64 // of a stream of one transaction: the number of the last event
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("server: watch submitter %q: %v", e.Moved.Submitter, e.Moved)
}

// Unwrap makes it a [store.MovedError] about the submitter.
func (e *LeftError) Unwrap() error { return status.AboutSubmitter(e.Moved.Submitter, e.Moved) }

// After returns a token that starts a stream at a position: that of one transaction after event
// number seq.
func After(at store.Position, seq int64) Token {
	return Token{given: true, epoch: at.Epoch, seq: seq, position: at}
}

// accounts returns the accounts that a stream ends with; none for those of many.
func (t Target) accounts() map[txn.SubmitterID]bool {
	switch {
	case t.Tx != txn.TxID{}:
		return map[txn.SubmitterID]bool{t.Tx.Submitter(): true}
	case t.Txs != nil:
		of := map[txn.SubmitterID]bool{}
		for _, id := range *t.Txs {
			of[id.Submitter()] = true
		}
		return of
	case t.Submitter != 0:
		return map[txn.SubmitterID]bool{t.Submitter: true}
	}
	return nil
}

// readMoved asks from time to time which accounts of streams have moved.
func (f *Feed) readMoved(ctx context.Context) (map[txn.SubmitterID]*store.MovedError, error) {
	now := f.clock.Now()
	if now.Sub(f.asked) < movedEvery {
		return nil, nil
	}
	f.mu.Lock()
	var ids []txn.SubmitterID
	for id := range f.subscriptions.accounts {
		if f.moved[id] == nil {
			ids = append(ids, id)
		}
	}
	f.mu.Unlock()
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := f.bound(ctx)
	defer cancel()
	moved, err := f.tail.MovedOf(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("server: read moved accounts of the feed: %w", err)
	}
	if len(moved) == 0 { // otherwise ask again until a read has their events
		f.asked = now
	}
	return moved, nil
}

// leave wakes the streams of accounts that have moved, whose events are all in the ring or before
// it. The caller holds the lock.
func (f *Feed) leave(moved map[txn.SubmitterID]*store.MovedError) {
	for id, to := range moved {
		if f.subscriptions.accounts[id] > 0 && f.moved[id] == nil {
			f.moved[id] = to
			f.subscriptions.wakeAll()
		}
	}
}

// left returns why a stream that has everything of the ring has ended; nil if it goes on. The
// caller holds the lock.
func (f *Feed) left(t Target) error {
	if len(f.moved) == 0 {
		return nil
	}
	for id := range t.accounts() {
		if to := f.moved[id]; to != nil {
			return &LeftError{Account: id, Moved: to, Open: true}
		}
	}
	return nil
}

// remove removes a subscription. The caller holds the lock.
func (f *Feed) remove(s *subscription) {
	f.subscriptions.remove(s)
	for id := range f.moved {
		if f.subscriptions.accounts[id] == 0 {
			delete(f.moved, id)
		}
	}
}

package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// nonceWaits are the calls that wait for results of requests. An owner on this node delivers them;
// one reader finds those of owners on other nodes.
type nonceWaits struct {
	mu      sync.Mutex
	waiting map[NonceKey][]chan NonceOutcome
	reading bool
	stop    context.CancelFunc
	stopped context.Context
	readers sync.WaitGroup
}

func newNonceWaits() *nonceWaits {
	w := &nonceWaits{waiting: map[NonceKey][]chan NonceOutcome{}}
	w.stopped, w.stop = context.WithCancel(context.Background())
	return w
}

const (
	// noncePoll is the time between two reads of results that no owner here has delivered.
	noncePoll = 20 * time.Millisecond
	// nonceReads bounds the requests of one such read.
	nonceReads = 1024
)

// AwaitNonce returns the result of a request. It must follow each AskNonce without an error.
func (s *Store) AwaitNonce(ctx context.Context, asked NonceAsked) (NonceOutcome, error) {
	if asked.Result != "" {
		return NonceOutcome{asked.Result, asked.Nonce}, nil
	}
	select {
	case outcome := <-asked.wait:
		return outcome, nil
	case <-ctx.Done():
		s.waits.leave(asked)
		return NonceOutcome{}, fmt.Errorf("store: await request %d of submitter %d: %w", asked.No,
			asked.Reservation.Submitter(), context.Cause(ctx))
	}
}

func (w *nonceWaits) leave(asked NonceAsked) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := NonceKey{asked.Reservation.Submitter(), asked.No}
	left := slices.DeleteFunc(w.waiting[key],
		func(c chan NonceOutcome) bool { return c == asked.wait })
	if w.waiting[key] = left; len(left) == 0 {
		delete(w.waiting, key)
	}
}

// await adds a call that waits for the result of a request.
func (s *Store) await(key NonceKey) chan NonceOutcome {
	w := s.waits
	wait := make(chan NonceOutcome, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[key] = append(w.waiting[key], wait)
	if !w.reading && w.stopped.Err() == nil {
		w.reading = true
		w.readers.Go(s.readOutcomes)
	}
	return wait
}

// deliver delivers the results of a change that is done.
func (w *nonceWaits) deliver(submitter txn.SubmitterID, results []txn.NonceResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range results {
		outcome := NonceOutcome{Result: r.Result}
		if r.Nonce != nil {
			outcome.Nonce = *r.Nonce
		}
		w.finish(NonceKey{submitter, r.No}, outcome)
	}
}

func (w *nonceWaits) finish(key NonceKey, outcome NonceOutcome) {
	for _, wait := range w.waiting[key] {
		wait <- outcome
	}
	delete(w.waiting, key)
}

// readOutcomes reads results until no call waits.
func (s *Store) readOutcomes() {
	w := s.waits
	for clock.Sleep(w.stopped, s.clock, noncePoll) == nil {
		keys := w.keys()
		if len(keys) == 0 {
			return
		}
		of, err := s.NonceOutcomes(w.stopped, keys)
		if err != nil {
			continue
		}
		w.mu.Lock()
		for _, key := range keys {
			if outcome, ok := of[key.No]; ok {
				w.finish(key, outcome)
			}
		}
		w.mu.Unlock()
	}
}

// keys returns some of the awaited requests; none ends the reader.
func (w *nonceWaits) keys() (keys []NonceKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.waiting {
		if keys = append(keys, key); len(keys) == nonceReads {
			break
		}
	}
	w.reading = len(keys) > 0
	return keys
}

func (w *nonceWaits) close() {
	w.stop()
	w.readers.Wait()
}

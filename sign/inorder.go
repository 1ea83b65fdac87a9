package sign

import (
	"context"
	"errors"
	"sync"

	"github.com/fencepost/fencepost/txn"
)

// errLowerFailed cancels a signature that is not needed: one before it has failed.
var errLowerFailed = errors.New("an earlier signature failed")

// SignInOrder requests signatures for transactions of one account as Sign does, concurrently within
// the limits of the signer. They start in order, so a limit never serves a later one first. The
// results are in order, and end with the first that failed. Pending ones behind it are cancelled,
// because their nonces cannot be taken.
func (b *Book) SignInOrder(ctx context.Context, signer string,
	unsigned []txn.Unsigned) []txn.SignResult {
	r := &inOrder{
		results: make([]txn.SignResult, len(unsigned)),
		cancels: make([]context.CancelCauseFunc, 0, len(unsigned)),
		end:     len(unsigned),
	}
	var pending sync.WaitGroup
	for i := range unsigned {
		one, needed := r.begin(ctx)
		if !needed {
			break
		}
		finish := b.start(one, signer, unsigned[i])
		pending.Go(func() {
			signed, err := finish()
			r.ended(i, txn.SignResult{Signed: signed, Err: err})
		})
	}
	pending.Wait()
	for _, cancel := range r.cancels {
		cancel(nil)
	}
	return r.results[:r.end]
}

// inOrder is the progress of several signatures.
type inOrder struct {
	mu      sync.Mutex
	results []txn.SignResult
	cancels []context.CancelCauseFunc
	end     int // results up to the first that failed
}

// begin returns the context of the next signature; needed is false after a failure.
func (r *inOrder) begin(ctx context.Context) (one context.Context, needed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.cancels) >= r.end {
		return nil, false
	}
	one, cancel := context.WithCancelCause(ctx)
	r.cancels = append(r.cancels, cancel)
	return one, true
}

func (r *inOrder) ended(i int, result txn.SignResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[i] = result
	if result.Err == nil || i >= r.end {
		return
	}
	r.end = i + 1
	for _, cancel := range r.cancels[r.end:] {
		cancel(errLowerFailed)
	}
}

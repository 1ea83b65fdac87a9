package chain

import (
	"errors"
	"time"

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/chain/outcome"
)

// batchRetry is how long smaller batches are sent after an endpoint refused one. Then the
// configured size is tried again, because the refusal may have had another reason.
const batchRetry = 10 * time.Minute

// batchSize is the number of calls that an endpoint takes in one request. The caller of its methods
// holds the endpoint's mutex.
type batchSize struct {
	learned int // below the configured limit; 0: none
	until   time.Time
	reason  string // the endpoint's words
}

func (b *batchSize) limit(configured int, now time.Time) int {
	if b.learned == 0 || !now.Before(b.until) {
		return configured
	}
	return min(configured, b.learned)
}

// maxBatch returns the most calls in one request.
func (e *endpoint) maxBatch() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.batches.limit(e.o.BatchLimit, e.o.Clock.Now())
}

// batchRefused reports whether the endpoint refused a request because of its number of calls, and
// lowers the limit then.
func (e *endpoint) batchRefused(calls int, err error) bool {
	if calls < 2 || !refusesBatch(err) {
		return false
	}
	f := e.faultOf(err, nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.o.Clock.Now()
	if limit := e.batches.limit(e.o.BatchLimit, now); limit < calls {
		return true // another call has learned more
	}
	e.batches = batchSize{learned: calls / 2, until: now.Add(batchRetry), reason: f.detail}
	e.o.Logger.Warn("RPC endpoint refuses batches of this size; set rpc_batch_limit",
		"chain", e.o.Name, "endpoint", e.label, "calls", calls, "next", calls/2,
		"reason", f.detail)
	return true
}

func refusesBatch(err error) bool {
	var refused *jsonrpc.Error
	if errors.As(err, &refused) {
		return outcome.RefusesBatch(responseOf(refused))
	}
	if noID := (*jsonrpc.NoIDError)(nil); errors.As(err, &noID) {
		return outcome.RefusesBatch(responseOf(noID.Err))
	}
	var status *jsonrpc.HTTPError
	if !errors.As(err, &status) {
		return false
	}
	a := outcome.Response{Message: string(status.Body)}
	if status.Err != nil {
		a = responseOf(status.Err)
	}
	a.HTTPStatus = status.Code
	return outcome.RefusesBatch(a)
}

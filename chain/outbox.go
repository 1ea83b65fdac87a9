package chain

import (
	"context"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

const (
	// maxConcurrentSends is the number of concurrent requests with transactions to one endpoint.
	// Further transactions wait, and are sent as one batch.
	maxConcurrentSends = 4
	// batchPause is how long no batch is sent after one that was not answered as a batch.
	batchPause = time.Minute
)

// outbox batches the transactions that many owners send to one endpoint at the same time, as they
// do after each block. Without contention each is sent alone and at once.
//
// A batch is only a fast path for accepted bytes. After any other result the owner sends the bytes
// alone, so that single responses are read in one place. Sending the same bytes twice is harmless.
type outbox struct {
	mu      sync.Mutex
	busy    int // requests under way
	waiting []*pendingSend
	rest    time.Time // until then every transaction is sent alone
}

// pendingSend is one waiting transaction.
type pendingSend struct {
	ctx    context.Context
	signed txn.Signed
	turn   chan struct{} // closed when it is complete, or when its owner may send it alone

	batch *sendGroup // the batch it was sent with; nil if none
	taken bool       // the endpoint has the bytes
	doubt bool       // the endpoint may have the bytes
	fault *fault     // the failure of the whole batch
}

// sendGroup is the transactions of one batch.
type sendGroup struct {
	list   []*pendingSend
	left   int // owners still waiting; guarded by outbox.mu
	cancel context.CancelFunc
}

// begin takes a slot and returns nil, or returns a waiting entry.
func (o *outbox) begin(ctx context.Context, signed txn.Signed, now time.Time) *pendingSend {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy < maxConcurrentSends || now.Before(o.rest) {
		o.busy++
		return nil
	}
	p := &pendingSend{ctx: ctx, signed: signed, turn: make(chan struct{})}
	o.waiting = append(o.waiting, p)
	return p
}

// end passes the slot on: to a batch of the waiting transactions, or to the only one.
func (o *outbox) end(e *endpoint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	limit := e.maxBatch()
	if e.o.Clock.Now().Before(o.rest) {
		limit = 1
	}
	list := o.next(limit)
	switch len(list) {
	case 0:
		o.busy--
	case 1:
		close(list[0].turn)
	default:
		ctx, cancel := context.WithCancel(context.WithoutCancel(list[0].ctx))
		b := &sendGroup{list: list, left: len(list), cancel: cancel}
		for _, p := range list {
			p.batch = b
		}
		go func() {
			defer o.end(e)
			defer cancel()
			o.settle(b, e.sendBatch(ctx, b))
		}()
	}
}

// next returns the oldest waiting transactions, up to a limit, without those whose owners left: no
// byte of them is sent.
func (o *outbox) next(limit int) (list []*pendingSend) {
	for len(o.waiting) > 0 && len(list) < limit {
		if p := o.waiting[0]; p.ctx.Err() == nil {
			list = append(list, p)
		}
		o.waiting = o.waiting[1:]
	}
	return list
}

// settle completes every transaction of the batch.
func (o *outbox) settle(b *sendGroup, f *fault) {
	for _, p := range b.list {
		p.fault = f
		close(p.turn)
	}
}

// abandon is for an owner that stops waiting. It reports whether the bytes may have been sent, and
// whether the owner got a slot that it must pass on.
func (o *outbox) abandon(p *pendingSend) (sent, slot bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.batch == nil {
		select {
		case <-p.turn:
			return false, true
		default:
			return false, false // next skips it
		}
	}
	if p.batch.left--; p.batch.left == 0 {
		p.batch.cancel()
	}
	return true, false
}

// sendBatch sends a batch and records which transactions were accepted.
func (e *endpoint) sendBatch(ctx context.Context, b *sendGroup) *fault {
	elems, hashes := make([]jsonrpc.Call, 0, len(b.list)), make([]txn.Hash, len(b.list))
	// Indexes into the list whose owners still wait when the call starts, which may have been
	// delayed.
	var sent []int
	f := e.call(ctx, func(ctx context.Context, client *jsonrpc.Client) error {
		for i, p := range b.list {
			if p.ctx.Err() == nil {
				elems, sent = append(
					elems,
					jsonrpc.Call{
						Method: "eth_sendRawTransaction",
						Args:   []any{hexutil.Encode(p.signed.Raw)},
						Result: &hashes[i],
					},
				), append(sent, i)
			}
		}
		if len(elems) == 0 {
			return &fault{
				class:  txn.Unavailable,
				detail: "no caller is waiting",
				ours:   true,
			}
		}
		return e.batchFault(ctx, client.Request(ctx, elems))
	})
	if f != nil {
		for _, i := range sent {
			// A failed server may have accepted them before.
			b.list[i].doubt = f.status >= 500 &&
				outcome.UnderHTTPStatus(f.class, f.status) == txn.Ambiguous
		}
		if f.status != 0 || f.answered || f.class == txn.Ambiguous && !f.late {
			// It may not support batches, and no further transaction should wait for one.
			e.outbox.pauseBatches(e.o.Clock.Now())
		}
		return f
	}
	for n, i := range sent {
		p := b.list[i]
		if p.taken = elems[n].Error == nil && hashes[i] == p.signed.Hash; p.taken {
			continue
		}
		said := e.elementFault(elems[n])
		p.doubt = said == nil || !said.answered ||
			outcome.RankOf(said.class) <= outcome.RankUnknown ||
			isHash(said.result, p.signed.Hash)
	}
	return nil
}

// batchFault is the fault of a batch. A rejected batch request says nothing about health: the
// server may accept each transaction alone.
func (e *endpoint) batchFault(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	n, _ := ctx.Value(callInfoKey{}).(*callInfo)
	f := e.faultOf(err, n)
	f.ours = f.status >= 400 && f.status < 500 && f.class != txn.RateLimited &&
		f.class != txn.Unauthorized
	return f
}

func (o *outbox) pauseBatches(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = now.Add(batchPause)
}

// send makes one attempt at one endpoint: in a batch under contention, and alone if the batch did
// not settle it.
func (e *endpoint) send(ctx context.Context, signed txn.Signed) txn.Outcome {
	p := e.outbox.begin(ctx, signed, e.o.Clock.Now())
	if p == nil {
		defer e.outbox.end(e)
		return e.sendAlone(ctx, signed)
	}
	select {
	case <-p.turn:
	case <-ctx.Done():
		sent, slot := e.outbox.abandon(p)
		if slot {
			e.outbox.end(e)
		}
		if sent {
			return txn.Outcome{Class: txn.Ambiguous, Detail: describe(ctx.Err())}
		}
		return txn.Outcome{Class: txn.Unavailable, Detail: describe(ctx.Err())}
	}
	switch {
	case p.batch == nil:
		defer e.outbox.end(e)
		return e.sendAlone(ctx, signed)
	case p.taken:
		e.sends.note(e.o.Clock.Now(), nil)
		return txn.Outcome{Class: txn.Accepted}
	case p.fault != nil && !p.fault.answered && p.fault.status == 0:
		return e.outcomeOf(signed, txn.Hash{},
			p.fault) // without a response, the fault of the batch applies to each transaction
	}
	alone := e.sendAlone(ctx, signed)
	if !p.doubt {
		return alone
	}
	return afterDoubt(alone)
}

// afterDoubt is the outcome of a transaction that was sent in a batch before, and alone now. The
// new response does not show the result of the first one.
func afterDoubt(alone txn.Outcome) txn.Outcome {
	doubted := txn.Outcome{
		Class:  txn.Ambiguous,
		Detail: "result of its batch unknown; sent alone: " + alone.Detail,
	}
	return *outcome.Prefer(&doubted, alone)
}

package chain

import (
	"context"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

const (
	// maxConcurrentSends is how many requests with transactions are under way to one endpoint. While they are, further transactions gather, and go as one batch.
	maxConcurrentSends = 4
	// batchPause is how long nothing goes in batches after one that was not answered as a batch.
	batchPause = time.Minute
)

// outbox gathers what many owners hand to one endpoint at the same moment, as they do after each block. Where there is no crowd everybody goes alone and at once.
//
// A batch is only the quick way to hear that bytes were taken. Whatever else was said of a part of it, its owner hands the bytes over alone: then the answer is
// read with all that is known of single answers, and to send the same bytes twice is harmless.
type outbox struct {
	mu      sync.Mutex
	busy    int // requests under way
	waiting []*pendingSend
	rest    time.Time // until then everybody goes alone
}

// pendingSend is one transaction that waits for its turn.
type pendingSend struct {
	ctx    context.Context
	signed txn.Signed
	turn   chan struct{} // closed when it is settled, or its owner's turn to go alone

	batch *sendGroup // it went with these; nil: not yet, or alone
	taken bool       // the endpoint has it
	doubt bool       // the endpoint may have it
	fault *fault     // what kept the whole batch from being answered
}

// sendGroup are those of one batch.
type sendGroup struct {
	list   []*pendingSend
	left   int // whose owners still wait, under the lock of the outbox
	cancel context.CancelFunc
}

// begin takes a slot, or a place among those that wait; nil is a slot.
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

// end gives a slot on: to a batch of those that wait, or to the only one.
func (o *outbox) end(e *endpoint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	limit := e.o.BatchLimit
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

// next takes the oldest that wait, up to a limit, and leaves out those whose owners have gone: of those not a byte leaves.
func (o *outbox) next(limit int) (list []*pendingSend) {
	for len(o.waiting) > 0 && len(list) < limit {
		if p := o.waiting[0]; p.ctx.Err() == nil {
			list = append(list, p)
		}
		o.waiting = o.waiting[1:]
	}
	return list
}

// settle tells every owner.
func (o *outbox) settle(b *sendGroup, f *fault) {
	for _, p := range b.list {
		p.fault = f
		close(p.turn)
	}
}

// abandon is for an owner who does not wait any longer. It tells whether the bytes may have left, or a slot was given to it that has to be given on.
func (o *outbox) abandon(p *pendingSend) (sent, slot bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.batch == nil {
		select {
		case <-p.turn:
			return false, true
		default:
			return false, false // next leaves it out
		}
	}
	if p.batch.left--; p.batch.left == 0 {
		p.batch.cancel()
	}
	return true, false
}

// sendBatch hands over a batch and notes which parts of it were taken.
func (e *endpoint) sendBatch(ctx context.Context, b *sendGroup) *fault {
	elems, hashes := make([]rpc.BatchElem, 0, len(b.list)), make([]txn.Hash, len(b.list))
	var sent []int // those of the list whose owners still wait when the call begins: it may have had to wait for others
	f := e.call(ctx, func(ctx context.Context, client *rpc.Client) error {
		for i, p := range b.list {
			if p.ctx.Err() == nil {
				elems, sent = append(
					elems,
					rpc.BatchElem{
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
				detail: "nobody waits for it any more",
				ours:   true,
			}
		}
		return e.batchFault(ctx, client.BatchCallContext(ctx, elems))
	})
	if f != nil {
		for _, i := range sent {
			b.list[i].doubt = f.status >= 500 &&
				outcome.UnderHTTPStatus(f.class,
					f.status) == txn.Ambiguous // a server that failed may have taken them before
		}
		if f.status != 0 || f.answered || f.class == txn.Ambiguous && !f.late {
			e.outbox.pauseBatches(
				e.o.Clock.Now()) // it may not take any, and nobody's bytes shall wait for that again
		}
		return f
	}
	for n, i := range sent {
		p := b.list[i]
		if p.taken = elems[n].Error == nil && hashes[i] == p.signed.Hash; p.taken {
			continue
		}
		said := e.elementFault(elems[n])
		p.doubt = said == nil || !said.answered || outcome.RankOf(said.class) <= outcome.RankUnknown ||
			isHash(said.result, p.signed.Hash)
	}
	return nil
}

// batchFault is the fault of a batch. A request that the server does not take says nothing of the endpoint's health: it may take each part of it.
func (e *endpoint) batchFault(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	n, _ := ctx.Value(callInfoKey{}).(*callInfo)
	f := e.faultOf(closeCause(ctx, err), n)
	f.ours = f.status >= 400 && f.status < 500 && f.class != txn.RateLimited &&
		f.class != txn.Unauthorized
	return f
}

func (o *outbox) pauseBatches(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = now.Add(batchPause)
}

// send is one try at one endpoint: with others where many go at once, and alone where that settled nothing.
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
			p.fault) // no answer: what is known of a part is what is known of all
	}
	alone := e.sendAlone(ctx, signed)
	if !p.doubt {
		return alone
	}
	// It went with others before: what is said of it now, and even more that nobody looks at it now, does not tell what became of that.
	return *outcome.Prefer(&txn.Outcome{Class: txn.Ambiguous, Detail: "it was handed over in a batch, of which the answer does not tell whether it was taken; then: " + alone.Detail}, alone)
}

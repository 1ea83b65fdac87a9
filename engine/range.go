package engine

import (
	"context"

	"github.com/fencepost/fencepost/txn"
)

// prepareRange quotes and signs in order, up to the first that fails. It takes nothing: unrecorded
// bytes are dropped.
func (a *actor) prepareRange(ctx context.Context, v *txn.View,
	s txn.PrepareRange) (txn.Change, error) {
	if err := a.e.Gate(ctx, BeforeQuote, a.id); err != nil {
		return txn.Change{}, err
	}
	calls, cancel := a.calls(ctx)
	defer cancel()
	drafts := make([]txn.Draft, len(s.Items))
	for i := range s.Items {
		drafts[i] = draftOf(v, s.Items[i].Tx)
	}
	quoted := a.chain.QuoteInOrder(calls, drafts)
	if err := a.e.Gate(ctx, BeforeSign, a.id); err != nil {
		return txn.Change{}, err
	}
	done := make([]txn.Preparation, len(quoted))
	for i := range quoted {
		p := &done[i]
		p.Quote, p.Outcome = quoted[i].Quote, quoted[i].Outcome
		if p.Outcome.Class != txn.Accepted {
			break
		}
		if a.sign(calls, v, &s.Items[i], p); p.SignErr != nil {
			a.log.Warn("signing failed", "tx_id", s.Items[i].Tx.ID.String(),
				"signer", v.Submitter.Signer, "error", p.SignErr)
			done = done[:i+1]
			break
		}
	}
	if ctx.Err() != nil {
		return txn.Change{}, ctx.Err() // the lease may be gone: the results prove nothing
	}
	return txn.PreparedRange(v, s, done), a.e.Gate(ctx, BeforeAllocate, a.id)
}

// broadcastRange sends recorded bytes to the chain, lowest nonce first.
func (a *actor) broadcastRange(ctx context.Context, v *txn.View,
	s txn.BroadcastRange) (txn.Change, error) {
	if err := a.e.Gate(ctx, BeforeSend, a.id); err != nil {
		return txn.Change{}, err
	}
	calls, cancel := a.calls(ctx)
	defer cancel()
	signed := make([]txn.Signed, len(s.Items))
	for i := range s.Items {
		a.measureWait(ctx, &s.Items[i])
		signed[i] = txn.Signed{Hash: s.Items[i].Attempt.Hash, Raw: s.Items[i].Attempt.Raw}
	}
	answers := a.chain.SendInOrder(calls, signed)
	if ctx.Err() != nil {
		// Our own stop interrupted the calls: see broadcast.
		return txn.Change{}, ctx.Err()
	}
	for i, answer := range answers {
		a.saveRules(calls, answer.Class, s.Items[i].Attempt.No > 1)
		a.noteAnswer(ctx, s.Items[i], answer)
	}
	if err := a.e.Gate(ctx, AfterSend, a.id); err != nil {
		return txn.Change{}, err
	}
	for i, answer := range answers {
		a.recheckSent(s.Items[i].Tx, answer)
	}
	return txn.SentRange(v, s, answers), nil
}

// measureWait records how long a transaction waited for its first broadcast.
func (a *actor) measureWait(ctx context.Context, s *txn.Broadcast) {
	if s.Tx.State == txn.Allocated && s.Attempt.No == 1 && s.Tx.LastOutcome == "" {
		a.e.metrics.waits.Record(ctx, max(0, a.e.Clock.Now().Sub(s.Tx.CreatedAt)).Seconds())
	}
}

// queueHeadOf is the number of queued transactions that the owner of a submitter reads at a time.
func queueHeadOf(s txn.Submitter) int { return max(queueHead, min(s.Limit, txn.MaxRange)) }

// readsMore reports whether slots are free for more transactions than are known, and the queue was
// longer than the part that was read.
func (a *actor) readsMore() bool {
	return a.truncated && a.ledger.Submitter.Limit > 1 &&
		len(a.inbox.Queue) < min(txn.UnusedSlots(a.ledger.Submitter, a.ledger.Open), txn.MaxRange)
}

// headsOf returns how many queued transactions to read for each submitter.
func (r *router) headsOf(ids []txn.SubmitterID) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	heads := make([]int, len(ids))
	for i, id := range ids {
		heads[i] = queueHead
		if a := r.actors[id]; a != nil {
			heads[i] = max(queueHead, int(a.head.Load()))
		}
	}
	return heads
}

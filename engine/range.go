package engine

import (
	"context"

	"github.com/fencepost/fencepost/txn"
)

// prepareRange quotes and signs, up to the first that fails. It takes nothing: unrecorded bytes are
// dropped.
func (a *actor) prepareRange(ctx context.Context, v *txn.View,
	s txn.PrepareRange) (performed, error) {
	if err := a.e.Gate(ctx, BeforeQuote, a.id); err != nil {
		return performed{}, err
	}
	calls, cancel := a.calls(ctx)
	defer cancel()
	s.Items = s.Items[:min(len(s.Items), a.signedAtOnce())]
	drafts := make([]txn.Draft, len(s.Items))
	for i := range s.Items {
		drafts[i] = draftOf(v, s.Items[i].Tx)
	}
	quoted := a.chain.QuoteInOrder(calls, drafts)
	if err := a.e.Gate(ctx, BeforeSign, a.id); err != nil {
		return performed{}, err
	}
	done, failed := a.signRange(calls, v, s.Items, quoted)
	if ctx.Err() != nil {
		return performed{}, ctx.Err() // the lease may be gone: the results prove nothing
	}
	return performed{txn.PreparedRange(v, s, done), func() {
		a.signLimit = nextSignLimit(a.signLimit, len(done), failed)
	}}, a.e.Gate(ctx, BeforeAllocate, a.id)
}

// signRange signs the quoted drafts. The result ends with the first that failed.
func (a *actor) signRange(ctx context.Context, v *txn.View, items []txn.Prepare,
	quoted []txn.Quoted) (done []txn.Preparation, failed bool) {
	done = make([]txn.Preparation, len(quoted))
	var requests []txn.Unsigned
	for i := range quoted {
		done[i].Quote, done[i].Outcome = quoted[i].Quote, quoted[i].Outcome
		if quoted[i].Outcome.Class != txn.Accepted {
			break
		}
		requests = append(requests, unsignedOf(v, &items[i], quoted[i].Quote))
	}
	results := a.e.Signer.SignInOrder(ctx, v.Submitter.Signer, requests)
	for i, r := range results {
		done[i].Signed, done[i].SignErr = r.Signed, r.Err
		if r.Err != nil {
			a.log.Warn("signing failed", "tx_id", items[i].Tx.ID.String(),
				"signer", v.Submitter.Signer, "error", r.Err)
			return done[:i+1], true
		}
	}
	if len(results) < len(requests) {
		return done[:len(results)], true
	}
	return done, false
}

// signedAtOnce returns how many signatures to request at once.
func (a *actor) signedAtOnce() int {
	if a.signLimit == 0 {
		return txn.MaxRange
	}
	return a.signLimit
}

// nextSignLimit returns how many signatures to request at once next; 0: any number. Signatures
// behind a failed one are lost, and may cost money or quota. So after a failure as many are
// requested as succeeded in a row before it, and twice as many after each success. A signer that is
// away gets one request.
func nextSignLimit(limit, done int, failed bool) int {
	switch {
	case failed:
		return max(1, done-1)
	case 2*limit >= txn.MaxRange:
		return 0
	}
	return 2 * limit
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
	answers := a.sendInOrder(calls, signed)
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

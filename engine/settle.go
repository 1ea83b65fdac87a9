package engine

import (
	"context"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// settler records how far the transactions of the node's submitters are settled: final, and
// compared with the chain for the last time. The signed bytes of settled transactions are erased,
// because no owner can need them, and any reader of them can broadcast them. Only
// settled transactions may be archived.
type settler struct {
	e      *Engine
	nudges chan struct{} // an owner waits for a record; capacity 1
}

const (
	// settleGroup and settleNonces bound the statement: its locks delay takeovers. The
	// accounts of a group share settleNonces, so a busy account that settles alone needs fewer
	// statements.
	settleGroup  = 64
	settleNonces = 64 * settleGroup
	// settleRest is the pause between two statements while there is more to erase, as a share of
	// the time of the last one.
	settleRest = 1
)

func newSettler(e *Engine) *settler { return &settler{e, make(chan struct{}, 1)} }

func (s *settler) nudge() { signal(s.nudges) }

func (s *settler) run(ctx context.Context) {
	timer := s.e.Clock.NewTimer(s.e.SettleInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.nudges:
		case <-timer.C:
		}
		pause := s.e.SettleInterval
		began := s.e.Clock.Now()
		more, err := s.settle(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			s.e.Logger.Debug("record of settled transactions failed; retrying", "error", err)
		case more:
			pause = min(pause, settleRest*s.e.Clock.Now().Sub(began))
		}
		timer.Reset(pause)
	}
}

// settle records the news in one statement for a group of submitters, and reports whether there is
// more.
func (s *settler) settle(ctx context.Context) (more bool, err error) {
	owners, settled := s.e.keeper.settled(settleGroup)
	if len(settled) == 0 {
		return false, nil
	}
	limited, cancel := context.WithTimeout(ctx, s.e.LeaseDuration)
	defer cancel()
	most := settleNonces / len(settled)
	if s.e.KeepSigned {
		most = 0
	}
	erased, err := s.e.Store.Settle(limited, settled, most)
	if err != nil {
		return false, err
	}
	for i, owner := range owners {
		if erased[owner.id].Done {
			owner.recorded.Store(uint64(settled[i].Below))
			owner.wake() // it may leave now
		}
	}
	return len(settled) == settleGroup || len(erased) > 0, nil
}

// settled returns up to most owners whose settled nonce is not recorded, with it.
func (k *keeper) settled(most int) (owners []*actor, settled []store.Settled) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.held {
		if len(owners) == most {
			break
		}
		if below := h.owner.settled.Load(); below > h.owner.recorded.Load() {
			owners = append(owners, h.owner)
			settled = append(settled, store.Settled{Lease: h.lease, Below: txn.Nonce(below)})
		}
	}
	return owners, settled
}

// publishSettled publishes the lowest nonce that this owner may still need the bytes of: those of
// open transactions, of final ones that it compares with the chain, and of nonces that clients may
// still use.
func (a *actor) publishSettled(v *txn.View) {
	if v.Head == 0 || a.ledger.Cursor == nil || v.Now.Sub(a.settledAt) < a.e.SettleInterval/2 {
		return
	}
	a.settledAt = v.Now
	below := a.ledger.Cursor.Next
	lower := func(s *txn.Status) {
		if s.Nonce != nil && *s.Nonce < below {
			below = *s.Nonce
		}
	}
	for i := range a.ledger.Open {
		lower(&a.ledger.Open[i].Status)
	}
	for i := range a.audited {
		lower(&a.audited[i].Status)
	}
	for i := range a.ended {
		lower(&a.ended[i].Status)
	}
	if n := a.ledger.Nonces; len(n) > 0 {
		below = min(below, n[0].Nonce)
	}
	if s := a.nonces.signed; len(s) > 0 {
		below = min(below, s[0].Nonce)
	}
	a.settled.Store(uint64(below))
}

// send broadcasts recorded bytes. Those of a transaction that left the chain after its bytes were
// erased, deeper than the audit depth, cannot be sent: an operator decides on it.
func (a *actor) send(ctx context.Context, attempt *txn.Attempt) txn.Outcome {
	if len(attempt.Raw) == 0 {
		return erasedOutcome
	}
	return a.chain.Send(ctx, txn.Signed{Hash: attempt.Hash, Raw: attempt.Raw})
}

func (a *actor) sendInOrder(ctx context.Context, signed []txn.Signed) []txn.Outcome {
	for i := range signed {
		if len(signed[i].Raw) == 0 { // the higher ones wait for it
			answers := a.chain.SendInOrder(ctx, signed[:i])
			return append(answers, erasedOutcome)
		}
	}
	return a.chain.SendInOrder(ctx, signed)
}

// erasedOutcome proves nothing about the chain: the nonce is kept.
var erasedOutcome = txn.Outcome{Class: txn.Ambiguous, Detail: "the signed bytes were erased"}

package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// lookEvery is how often the operator checks protected submitters.
const lookEvery = 6 * time.Second

// operate has an operator check every submitter periodically and make the decisions left to
// operators: the outcome of a transaction whose nonce was used elsewhere, and the end of a
// protection.
func (w *World) operate() {
	w.at(w.now()+lookEvery, "operator", func() {
		for i, id := range w.submitters {
			if w.deciding[id] {
				continue
			}
			w.deciding[id] = true
			go func() {
				w.retry(fmt.Sprintf("operator %d", i), i%w.plan.Nodes,
					func(ctx context.Context, n *node) bool {
						decide := func(s *store.Store) error { return w.decide(ctx, s, id) }
						return n.on(ctx, id, decide) == nil && w.decideNonces(ctx, n, id) == nil
					})
				w.mu.Lock()
				w.deciding[id] = false
				w.mu.Unlock()
			}()
		}
		w.operate()
	})
}

// decide makes one decision on a protected submitter, if one is needed. A decision that the owner
// refuses is repeated at the next check.
func (w *World) decide(ctx context.Context, s *store.Store, id txn.SubmitterID) error {
	info, err := s.Submitter(ctx, id)
	if err == nil && info.Status == txn.Paused && w.healed && !w.isMoving(id) {
		// A PAUSE that its client gave up on may arrive after a later RESUME.
		_, err = s.AddCommand(ctx, id, askOf(txn.CommandResume, ""))
		return err
	}
	if err != nil || info.Cursor == nil || info.Cursor.Protected == nil {
		return err
	}
	blocking, _, _, err := s.Waiting(ctx, id)
	if err != nil {
		return err
	}
	if blocking != nil && blocking.State == txn.Stuck {
		ask := askOf(txn.CommandResolve, txn.ActionFail)
		if w.plan.Requeue && !blocking.CancelRequested {
			ask.Action = txn.ActionRequeue
		}
		ask.Tx = &blocking.ID
		_, err := s.AddCommand(ctx, id, ask)
		return err
	}
	ask := askOf(txn.CommandExitProtect, txn.ActionResume)
	last, err := s.Commands(ctx, id, 0, 1)
	if err != nil {
		return err
	}
	// The key may be used elsewhere while an operator's protection is in force. The owner then
	// refuses to resume.
	refused := len(last) > 0 && last[0].Action == txn.ActionResume &&
		strings.HasPrefix(last[0].Result, txn.ResultRefused)
	if info.Cursor.Protected.Reason == txn.ReasonNonceElsewhere ||
		info.Cursor.Protected.Reason == txn.ProtectByOperator && refused {
		ask.Action = txn.ActionAlign
	}
	// The ledger was moved with all its commits, so nothing of its queue was executed.
	if info.Cursor.Protected.Reason == txn.ProtectRestored {
		if ask.Action = txn.ActionResumeKeep; len(last) > 0 &&
			last[0].Action == txn.ActionResumeKeep &&
			strings.HasPrefix(last[0].Result, txn.ResultRefused) {
			ask.Action = txn.ActionAlignKeep
		}
	}
	ask.Expect, ask.Reason = info.Cursor.Protected.ID, fmt.Sprintf(
		"evidence of protection %d checked", info.Cursor.Protected.ID)
	_, err = s.AddCommand(ctx, id, ask)
	return err
}

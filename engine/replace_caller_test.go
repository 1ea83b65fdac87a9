package engine

import (
	"sync/atomic"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// TestBump_CallerRemoved_StillBumped: a caller that is removed while its transaction is in the pool
// does not keep it from being replaced. Its nonce would block the account.
func TestBump_CallerRemoved_StillBumped(t *testing.T) {
	t.Parallel()
	var removed atomic.Bool
	v := newChainHarness(t, "memory", withBump(quick), func(o *Options) {
		o.Refuse = func(*txn.Tx) txn.Refusal {
			if removed.Load() {
				return txn.CallerUnknown("shop")
			}
			return txn.Refusal{}
		}
	})
	v.node()
	id := v.create(0, "one", transfer())
	v.await(id, "broadcast", func(tx txn.Tx) bool { return tx.Accepted == 1 })
	removed.Store(true)
	v.empty()
	v.awaitEvent(id, txn.EventReplaced, 1)
	if tx := v.finish(id); tx.State != txn.Confirmed {
		t.Errorf("%s, %s: %s", tx.State, tx.Reason, tx.LastError)
	}
}

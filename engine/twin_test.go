package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// twins are two ledgers with one key on one chain. The owner of the second one waits after each
// allocation.
type twins struct {
	*sharedKeyHarness
	second  *sharedKeyHarness
	proceed chan struct{}
}

func newTwins(t *testing.T) *twins {
	t.Helper()
	w := &twins{newSharedKeyHarness(t), newSharedKeyHarness(t), make(chan struct{})}
	w.second.chain = w.chain
	w.node()
	w.second.startNode("second", func(o *Options) {
		o.Chains[0].Chain = w.chain
		o.AuditInterval = NoAudit
		o.Gate = func(ctx context.Context, at Point, _ txn.SubmitterID) error {
			if at != AfterAllocate {
				return nil
			}
			select {
			case <-w.proceed:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return w
}

// both creates the same transaction in both ledgers. The first broadcasts it while the second holds
// the same bytes.
func (w *twins) both(request string) (first, second txn.TxID) {
	w.t.Helper()
	second = w.second.create(0, request, transfer())
	w.second.await(second, "allocated", func(tx txn.Tx) bool { return tx.State == txn.Allocated })
	first = w.create(0, request, transfer())
	w.eventually("sent", w.is(first, txn.Pending))
	a, b := w.attempts(), w.second.attempts()
	if !bytes.Equal(a[first.String()], b[second.String()]) {
		w.t.Fatalf("the bytes differ")
	}
	return first, second
}

func (w *twins) isProtected(where string) func() error {
	return func() error {
		p := w.second.protection(0)
		if p == nil {
			return errors.New("not yet")
		}
		if p.Reason != txn.ReasonNonceElsewhere || !strings.Contains(p.Evidence, where) {
			return fmt.Errorf("%+v", p)
		}
		return nil
	}
}

// TestSharedKey_InBlockBeforeSent_Protects includes the bytes before the second ledger has
// broadcast them.
func TestSharedKey_InBlockBeforeSent_Protects(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	_, id := w.both("one")
	block := w.chain.Mine(1)
	w.awaitCalls(chaintest.MethodHead, 20)
	w.proceed <- struct{}{}
	w.eventually("protected", w.isProtected(block.Hash.Hex()))
	w.chain.MineEmpty(int(w.policy.Confirmations))
	w.second.eventually("tracked to the end", func() error {
		tx, err := w.second.admin.Tx(context.Background(), id)
		if err == nil && tx.State != txn.Confirmed {
			err = fmt.Errorf("%s", tx.State)
		}
		return err
	})
	if tx, err := w.second.admin.Tx(t.Context(), id); err != nil || tx.State != txn.Confirmed {
		t.Errorf("%+v %v", tx, err)
	}
}

// TestSharedKey_KnownBeforeSent_Protects has the bytes of the second ledger in the pool
// before it broadcasts them, twice: the first time may be the work of a gateway, so the next bytes
// are looked up before they leave the node.
func TestSharedKey_KnownBeforeSent_Protects(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	first, second := w.both("one")
	w.proceed <- struct{}{}
	w.second.eventually("sent", w.second.is(second, txn.Pending))
	w.chain.Mine(1)
	w.eventually("included", w.is(first, txn.Included))
	w.second.eventually("included", w.second.is(second, txn.Included))
	if p := w.second.protection(0); p != nil {
		t.Fatalf("a single sign: %+v", p)
	}
	w.both("two")
	w.proceed <- struct{}{}
	w.eventually("protected", w.isProtected("pool"))
	if got := w.second.decide(store.Ask{Kind: txn.CommandProtect}); got == txn.Applied {
		t.Error("the protection does not await a decision")
	}
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// unresponsiveChain never responds.
type unresponsiveChain struct {
	Chain
	id   txn.ChainID
	held *atomic.Int64 // waiting calls
}

func (s unresponsiveChain) wait(ctx context.Context) error {
	s.held.Add(1)
	defer s.held.Add(-1)
	<-ctx.Done()
	return errors.Join(txn.ErrUnavailable, ctx.Err())
}

func (s unresponsiveChain) ID() txn.ChainID { return s.id }

func (s unresponsiveChain) Head(ctx context.Context) (txn.Block, error) {
	return txn.Block{},
		s.wait(ctx)
}

func (s unresponsiveChain) Account(ctx context.Context, _ txn.Address, _ uint64) (txn.Account,
	error) {
	return txn.Account{}, s.wait(ctx)
}

func (s unresponsiveChain) Heads(context.Context) <-chan struct{} { return nil }

// TestChain_Unresponsive_OthersProceed verifies that a chain that does not respond blocks only its
// own submitters.
func TestChain_Unresponsive_OthersProceed(t *testing.T) {
	t.Parallel()
	const (
		silently = txn.ChainID(4242)
		waiting  = 20
		loud     = 5
	)
	v := newChainHarness(t, "memory", quick, nil)
	for i := range waiting {
		info, _, err := v.admin.Register(t.Context(), store.Registration{
			Name: fmt.Sprint("silent",
				i), Chain: silently, Address: devchain.Address(i), Signer: "keys", Mode: txn.Strict,
			StartFrom: txn.StartChain,
		})
		if err != nil {
			t.Fatal(err)
		}
		v.submitters = append(v.submitters, info.ID)
		v.create(len(v.submitters)-1, "one", transfer())
	}
	var held atomic.Int64
	v.adjust = func(o *Options) {
		dead := o.Chains[0]
		dead.Chain = unresponsiveChain{chaintest.New(chaintest.Options{}), silently, &held}
		o.Chains = append(o.Chains, dead)
	}
	v.node()
	holds := func() error {
		if n := held.Load(); n < waiting+1 { // one for each owner, and the tracker
			return fmt.Errorf("%d calls", n)
		}
		return nil
	}
	v.eventually("all calls to the unresponsive chain wait", holds)
	for i := range loud {
		tx := v.finish(v.create(0, fmt.Sprint("loud", i), transfer()))
		if tx.State != txn.Confirmed {
			t.Errorf("%+v", tx.Status)
		}
	}
	if err := holds(); err != nil {
		t.Error(err)
	}
}

package engine

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestKeyUsedElsewhere_GoEthereum_Protects uses the nonce of a transaction in flight elsewhere, on
// go-ethereum and over the real client.
func TestKeyUsedElsewhere_GoEthereum_Protects(t *testing.T) {
	t.Parallel()
	r := newHarness(t, 1, 0)
	r.policy = guarded
	r.startNode("a", nil)
	first := r.create(0, "one", transfer())
	r.mineUntil("the first is final",
		func() bool {
			tx, err := r.admin.Tx(t.Context(), first)
			return err == nil && tx.State.Final()
		})
	id := r.create(0, "two", transfer())
	r.eventually("it is sent", r.is(id, txn.Pending))
	if err := r.dev.DropPending(); err != nil {
		t.Fatal(err)
	}
	other := r.useElsewhere(1)
	protection := func() *txn.Protected {
		info, err := r.admin.Submitter(context.Background(), r.submitters[0])
		if err != nil {
			t.Fatal(err)
		}
		return info.Cursor.Protected
	}
	r.mineUntil("it is protected", func() bool { return protection() != nil })
	p := protection()
	if p.Reason != txn.ReasonNonceElsewhere || !strings.Contains(p.Evidence, other.Hex()) {
		t.Errorf("%+v", p)
	}
	if tx, err := r.admin.Tx(t.Context(), id); err != nil || tx.State != txn.Stuck ||
		tx.Executed != txn.Unknown {
		t.Errorf("%+v %v", tx.Status, err)
	}
	r.useElsewhere(2)
	got := r.decide(store.Ask{Kind: txn.CommandResolve, Action: txn.ActionFail, Tx: &id})
	if got != txn.Applied {
		t.Fatal(got)
	}
	if got := r.decide(store.Ask{Kind: txn.CommandExitProtect, Action: txn.ActionResume,
		Expect: p.ID}); !strings.HasPrefix(
		got, txn.ResultRefused) {
		t.Errorf("resumed at a used nonce: %s", got)
	}
	r.mineUntil("the account is settled", func() bool {
		return r.decide(
			store.Ask{Kind: txn.CommandExitProtect, Action: txn.ActionAlign, Expect: p.ID}) ==
			txn.Applied
	})
	next := r.create(0, "three", transfer())
	r.mineUntil("the next is final",
		func() bool {
			tx, err := r.admin.Tx(t.Context(), next)
			return err == nil && tx.State.Final()
		})
	if tx := r.awaitFinal(next); tx.State != txn.Confirmed || *tx.Nonce != 3 {
		t.Errorf("%+v", tx.Status)
	}
	if slices.Contains(r.events(id), txn.EventIncluded) {
		t.Errorf("events %v", r.events(id))
	}
}

// useElsewhere sends a transaction with the key of the first submitter.
func (r *harness) useElsewhere(nonce uint64) txn.Hash {
	r.t.Helper()
	id := new(big.Int).SetUint64(r.dev.ID())
	tx, err := types.SignNewTx(
		devchain.Key(0),
		types.LatestSignerForChainID(id),
		&types.DynamicFeeTx{
			ChainID: id, Nonce: nonce, To: &txn.Address{0xbb}, Gas: 21_000,
			GasFeeCap: big.NewInt(100e9), GasTipCap: big.NewInt(50e9),
		},
	)
	if err == nil {
		err = r.chainClient().SendTransaction(context.Background(), tx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		r.t.Fatal(err)
	}
	return tx.Hash()
}

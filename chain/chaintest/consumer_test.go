package chaintest

import (
	"errors"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// A nonce used by an authorization has no transaction of the account, and every read agrees on the
// block.
func TestConsumer_NonceUsedByAuthorization(t *testing.T) {
	t.Parallel()
	c := fresh(Options{})
	signed := c.signed(t, 0, 1, 9, shop)
	c.mustSend(t, signed, txn.Accepted)
	at := c.MineAuthorization(Address(0))
	c.Mine(1)
	c.MineEmpty(2)
	for nonce, want := range []txn.Hash{{}, signed.Hash} {
		by, err := c.Consumer(t.Context(), Address(0), txn.Nonce(nonce))
		if err != nil || by == nil || by.TxHash != want || by.Block != at.Number+uint64(nonce) {
			t.Errorf("nonce %d: %+v, %v", nonce, by, err)
		}
	}
	for settled, want := range []txn.Nonce{2, 2, 2, 1, 0} {
		if a, err := c.Account(t.Context(), Address(0), uint64(settled)); err != nil ||
			a.Latest != 2 ||
			a.Settled != want {
			t.Errorf("settled at depth %d: %+v, %v", settled, a, err)
		}
	}
	if err := c.Rollback(4, Drop); err != nil {
		t.Fatal(err)
	}
	if a, err := c.Account(t.Context(), Address(0), 0); err != nil || a.Latest != 0 {
		t.Errorf("after the blocks are undone: %+v, %v", a, err)
	}
}

func TestConsumerFaults(t *testing.T) {
	t.Parallel()
	c := fresh(Options{})
	c.mustSend(t, c.signed(t, 0, 0, 9, shop), txn.Accepted)
	c.Mine(1)
	c.Intercept(faulty(MethodConsumer, Lag(1)))
	if by, err := c.Consumer(t.Context(), Address(0), 0); by != nil || err != nil {
		t.Errorf("a node behind the block: %+v, %v", by, err)
	}
	c.Intercept(faulty(MethodConsumer, Unavailable()))
	if _, err := c.Consumer(t.Context(), Address(0), 0); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

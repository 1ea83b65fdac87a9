package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// TestFork_DropsFirstOfTwo sends N+1 once N is in a block, and removes that block. N is rebroadcast
// before N+1, and both become final with no gap. Later another fork replaces some of the blocks
// above N: the watcher gets the whole list again, and finally matches the ledger and the chain.
func TestFork_DropsFirstOfTwo(t *testing.T) {
	t.Parallel()
	b := newBeacon(t, beaconOptions{keys: 1})
	d := newDriven(t, b, 6,
		// earlier rebroadcasts are due to the fork
		"finality: {tell_blocks: true}, resubmit: {interval: 60s, max_attempts: 20}")
	n := d.begin(t, 0, "n", transfer)
	first := d.pending(t, n.id, 1)
	parent := b.head().Hash()
	b.extend(b.build(d.raw(t, n.id, 1)))
	d.inBlock(t, n.id, b.head().Hash())
	above := d.begin(t, 0, "n plus one", transfer)
	second := d.pending(t, above.id, 1)
	b.mine(2)
	d.confirmedBy(t, n.id, 2)

	var sent int
	d.tap.still(func() {
		b.choose(parent)
		b.mine(4)
		sent = len(d.tap.all())
	})
	d.until(t, n.id, "N is on its way again",
		func(tx *fencepostv1.Tx) bool { return tx.GetReceipt() == nil })
	eventually(t, time.Minute, "N is rebroadcast", func() error {
		if len(d.tap.all()) == sent {
			return errNotYet
		}
		return nil
	})
	if again := d.tap.all()[sent]; again.hash.Hex() != first.GetTxHash() {
		t.Errorf("broadcast after the fork: %s; want N, %s, first", again.hash, first.GetTxHash())
	}

	b.extend(b.build(d.raw(t, n.id, 1)))
	home := b.head().Hash()
	d.inBlock(t, n.id, home)
	b.mine(3)
	d.confirmedBy(t, n.id, 3)
	fork := b.head().ParentHash
	d.tap.still(func() {
		b.choose(fork)
		b.mine(2)
	})
	d.confirmedBy(t, n.id, 4)

	d.finishAll(t, n.id, above.id)
	d.verifyFork(t, n)
	if tx, _ := d.finished(t, above); tx.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED {
		t.Errorf("N+1 ended as %v", tx)
	}
	d.verifyAccount(t, 0, first.GetTxHash(), second.GetTxHash())
	d.end(t)
}

// confirmedBy waits until the ledger has that many blocks above the one with the transaction, all
// of them the chain's.
func (d *driven) confirmedBy(t *testing.T, id string, blocks int) {
	t.Helper()
	d.until(t, id, "the blocks above are reported", func(tx *fencepostv1.Tx) bool {
		return len(tx.GetConfirmations()) == blocks &&
			slices.Equal(hashes(tx.GetConfirmations()), d.canonical(t, tx.GetConfirmations()))
	})
}

func hashes(blocks []*fencepostv1.BlockRef) (all []string) {
	for _, b := range blocks {
		all = append(all, b.GetHash())
	}
	return all
}

// canonical are the chain's own blocks of these heights.
func (d *driven) canonical(t *testing.T, blocks []*fencepostv1.BlockRef) (all []string) {
	t.Helper()
	for _, b := range blocks {
		var header struct {
			Hash common.Hash `json:"hash"`
		}
		d.b.ask(t, &header, "eth_getBlockByNumber", hexutil.Uint64(b.GetNumber()), false)
		all = append(all, header.Hash.Hex())
	}
	return all
}

// verifyFork sums up the watcher's events about the blocks above N, and compares them with the
// ledger and the chain.
func (d *driven) verifyFork(t *testing.T, s *story) {
	t.Helper()
	tx, events := d.finished(t, s)
	if tx.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED ||
		len(tx.GetOperator().GetAttempts()) != 1 {
		t.Errorf("N ended as %v", tx)
	}
	var list []string
	var anew [][]string // whole lists that replaced earlier ones
	for _, e := range events {
		had := len(list)
		if e.GetNewFork() {
			list = nil
		}
		list = append(list, hashes(e.GetConfirmations())...)
		if e.GetNewFork() && had > 0 {
			anew = append(anew, list)
		}
	}
	if sequence := kinds(events); strings.Count(sequence, "INCLUDED") != 2 ||
		strings.Count(sequence, "REORGED") != 1 ||
		strings.Count(sequence, "CONFIRMED") != 1 {
		t.Errorf("events: %s", sequence)
	}
	// The first fork took the block itself, so that nothing is above it; the second left two of the
	// three above it.
	if len(anew) != 2 || len(anew[0]) != 0 || len(anew[1]) != 4 ||
		!slices.Equal(anew[1], list[:4]) {
		t.Errorf("list after the fork: %v; in the end it has %v", anew, list)
	}
	if want := d.canonical(t, tx.GetConfirmations()); len(list) < 4 ||
		!slices.Equal(list, hashes(tx.GetConfirmations())) ||
		!slices.Equal(list, want) {
		t.Errorf("the watcher has %v, the ledger %v, the chain %v", list,
			hashes(tx.GetConfirmations()), want)
	}
	if first := tx.GetConfirmations()[0].GetNumber(); first != tx.GetReceipt().GetBlockNumber()+1 {
		t.Errorf("the list begins with block %d, the receipt's is %d", first,
			tx.GetReceipt().GetBlockNumber())
	}
}

// TestPoolLost_Rebroadcasts stops geth with a transaction in its pool, which is empty after the
// restart. The same bytes are broadcast again, and the transaction is confirmed.
func TestPoolLost_Rebroadcasts(t *testing.T) {
	t.Parallel()
	b := newBeacon(t, beaconOptions{keys: 1, nolocals: true})
	d := newDriven(t, b, 2, "rpc_timeout: 35s, resubmit: {interval: 1s, max_attempts: 20}")
	s := d.begin(t, 0, "first", transfer)
	tx := d.pending(t, s.id, 1)
	hash := common.HexToHash(tx.GetTxHash())
	if _, pooled, err := b.TransactionByHash(t.Context(), hash); err != nil || !pooled {
		t.Fatalf("geth does not have it: %v, %v", pooled, err)
	}
	d.tap.still(func() {
		if err := b.restart(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.TransactionByHash(t.Context(), hash); err != ethereum.NotFound {
			t.Errorf("geth still has it: %v", err)
		}
	})
	eventually(t, time.Minute, "geth has it again", func() error {
		_, _, err := b.TransactionByHash(context.Background(), hash)
		return err
	})
	next := d.begin(t, 0, "next", transfer)
	d.until(t, s.id, "the broadcast is reported",
		func(tx *fencepostv1.Tx) bool { return tx.GetVersion() == 4 })
	d.finishAll(t, s.id, next.id)
	tx, events := d.finished(t, s)
	if got := kinds(events); tx.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED ||
		got != "QUEUED ALLOCATED SUBMITTED RESUBMITTED INCLUDED CONFIRMED" {
		t.Errorf("events: %s; final: %v", got, tx)
	}
	after, _ := d.finished(t, next)
	d.verifyAccount(t, 0, hash.Hex(), after.GetTxHash())
	d.end(t)
}

// TestFinality_FollowsChainTag has a transaction deep enough, and final only once the chain calls
// its block finalized.
func TestFinality_FollowsChainTag(t *testing.T) {
	t.Parallel()
	b := newBeacon(t, beaconOptions{keys: 1})
	d := newDriven(t, b, 2, "finality: {tag: finalized, tell_blocks: true}")
	s := d.begin(t, 0, "first", transfer)
	d.pending(t, s.id, 1)
	b.extend(b.build(d.raw(t, s.id, 1)))
	home := b.head()
	b.mine(1)
	d.confirmedBy(t, s.id, 1)
	b.finalized = home.ParentHash
	b.mine(5)
	next := d.begin(t, 0, "next", transfer)
	d.pending(t, next.id, 1)
	b.extend(b.build(d.raw(t, next.id, 1)))
	d.inBlock(t, next.id, b.head().Hash()) // so it has been seen that the other one is deep enough
	if tx := d.until(
		t, s.id, "it is there", func(*fencepostv1.Tx) bool { return true },
	); tx.GetFinalTime() != nil {
		t.Errorf("final above the finalized block: %v", tx)
	}
	b.finalized = home.Hash()
	b.mine(1)
	d.until(t, s.id, "it is final",
		func(tx *fencepostv1.Tx) bool { return tx.GetFinalTime() != nil })
	if tx, _ := d.finished(t, s); tx.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED ||
		tx.GetReceipt().GetBlockHash() != home.Hash().Hex() {
		t.Errorf("it ended as %v", tx)
	}
	d.end(t)
}

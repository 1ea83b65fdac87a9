package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

const threeBumps = "gas_bump: {enabled: true, multiplier: 1.125, min_interval: 1s, max_attempts: 3}"

// TestAttempts_AnyOfFourMined bumps four transactions three times on geth and mines a different
// attempt of each, as a node does whose pool never saw the replacement. Each becomes final once, as
// the mined attempt, and the next transaction of its account follows.
func TestAttempts_AnyOfFourMined(t *testing.T) {
	t.Parallel()
	const forms = 4
	b := newBeacon(t, beaconOptions{keys: forms})
	d := newDriven(t, b, 2, threeBumps)
	var first, next []*story
	for i := range forms {
		first = append(first, d.begin(t, i, "first", transfer))
		next = append(next, d.begin(t, i, "next", transfer))
	}
	var chosen [][]byte
	for i, s := range first {
		tx := d.pending(t, s.id, forms)
		d.onlyNewest(t, tx)
		chosen = append(chosen, d.raw(t, s.id, i+1))
	}
	b.extend(b.build(chosen...))
	for i := range forms {
		d.pending(t, next[i].id, 1)
		d.finishAll(t, first[i].id, next[i].id)
		tx := d.verifyAttempt(t, first[i], i+1)
		after, _ := d.finished(t, next[i])
		if after.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED {
			t.Errorf("the one after it ended as %v", after)
		}
		d.verifyAccount(t, i, tx.GetTxHash(), after.GetTxHash())
	}
	d.end(t)
}

// onlyNewest wants geth to have the newest form and none of the others: that it took each in the
// place of the one before.
func (d *driven) onlyNewest(t *testing.T, tx *fencepostv1.Tx) {
	t.Helper()
	attempts := tx.GetOperator().GetAttempts()
	for i, a := range attempts {
		_, _, err := d.b.TransactionByHash(context.Background(), common.HexToHash(a.GetTxHash()))
		if i == len(attempts)-1 && err != nil || i < len(attempts)-1 && err != ethereum.NotFound {
			t.Errorf("form %d of %d in geth's pool: %v", i+1, len(attempts), err)
		}
	}
}

// verifyAttempt requires a transaction that was bumped three times to be confirmed once, by this
// attempt, and the watcher to have received that.
func (d *driven) verifyAttempt(t *testing.T, s *story, form int) *fencepostv1.Tx {
	t.Helper()
	tx, events := d.finished(t, s)
	attempts := tx.GetOperator().GetAttempts()
	if tx.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED ||
		tx.GetExecuted() != fencepostv1.Executed_EXECUTED_SUCCESS ||
		len(attempts) != 4 {
		t.Fatalf("it ended as %v", tx)
	}
	hash := attempts[form-1].GetTxHash()
	if tx.GetTxHash() != hash || tx.GetReceipt().GetTxHash() != hash {
		t.Errorf("attempt %d, %s, was included; the ledger has %v", form, hash, tx)
	}
	if got := included(events); !slices.Equal(got, []string{hash}) {
		t.Errorf("reported as included: %v, want %s", got, hash)
	}
	sequence := kinds(events)
	for kind, want := range map[string]int{
		"QUEUED": 1, "ALLOCATED": 1, "SUBMITTED": 1, "REPLACED": 3, "INCLUDED": 1, "CONFIRMED": 1,
		"FAILED": 0, "STUCK": 0, "REORGED": 0,
	} {
		if got := strings.Count(" "+sequence+" ", " "+kind+" "); got != want {
			t.Errorf("%s: %d events, want %d: %s", kind, got, want, sequence)
		}
	}
	return tx
}

// TestReorg_OtherAttemptIncluded includes one attempt of a transaction, and another one after a
// reorg: a newer for an older and vice versa. The final event must match the canonical chain, and
// transactions sent meanwhile must proceed.
func TestReorg_OtherAttemptIncluded(t *testing.T) {
	t.Parallel()
	const forms = 4
	swaps := [][2]int{{1, 4}, {4, 1}, {2, 3}}
	b := newBeacon(t, beaconOptions{keys: len(swaps)})
	d := newDriven(t, b, 3, threeBumps)
	var first, next []*story
	for i := range swaps {
		first = append(first, d.begin(t, i, "first", transfer))
		next = append(next, d.begin(t, i, "next", transfer))
	}
	var before, after [][]byte
	for i, s := range first {
		d.pending(t, s.id, forms)
		before, after = append(before, d.raw(t, s.id, swaps[i][0])), append(after,
			d.raw(t, s.id, swaps[i][1]))
	}
	parent := b.head().Hash()
	b.extend(b.build(before...))
	left := b.head().Hash()
	for i := range swaps {
		d.inBlock(t, first[i].id, left)
		d.pending(t, next[i].id, 1)
	}
	d.tap.still(func() {
		b.choose(parent)
		b.extend(b.build(after...))
	})
	stays := b.head().Hash()
	for i := range swaps {
		d.inBlock(t, first[i].id, stays)
	}
	for i, swap := range swaps {
		d.finishAll(t, first[i].id, next[i].id)
		tx := d.verifySwap(t, first[i], swap, [2]common.Hash{left, stays})
		behind, _ := d.finished(t, next[i])
		d.verifyAccount(t, i, tx.GetTxHash(), behind.GetTxHash())
	}
	d.end(t)
}

func (d *driven) verifySwap(t *testing.T, s *story, forms [2]int,
	blocks [2]common.Hash) *fencepostv1.Tx {
	t.Helper()
	tx, events := d.finished(t, s)
	was, is := tx.GetOperator().GetAttempts()[forms[0]-1].GetTxHash(),
		tx.GetOperator().GetAttempts()[forms[1]-1].GetTxHash()
	if tx.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED || tx.GetTxHash() != is ||
		tx.GetReceipt().GetBlockHash() != blocks[1].Hex() {
		t.Errorf("it ended as %v, want form %d in %s", tx, forms[1], blocks[1])
	}
	if got := included(events); !slices.Equal(got, []string{was, is}) {
		t.Errorf("reported as included: %v, want %s and then %s", got, was, is)
	}
	i := 0
	for _, e := range events {
		if e.GetKind() == fencepostv1.TxEventKind_TX_EVENT_KIND_INCLUDED {
			if e.GetReceipt().GetBlockHash() != blocks[min(i, 1)].Hex() || !e.GetNewFork() {
				t.Errorf("inclusion %d was reported as %v", i+1, e)
			}
			i++
		}
	}
	if sequence := kinds(events); strings.Count(sequence, "CONFIRMED") != 1 ||
		!strings.HasSuffix(sequence, "CONFIRMED") {
		t.Error(fmt.Sprint("events: ", sequence))
	}
	return tx
}

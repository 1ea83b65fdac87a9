package store

import (
	"errors"
	"testing"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/txn"
)

// TestReceiptMore_AllReads: the whole receipt is returned with the transaction and its event.
func TestReceiptMore_AllReads(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, lease := k.owned(s, "alice")
	tx := k.queue(s, id, "r")
	taken := take(tx, 0)
	k.done(s, lease, taken)
	tx = after(tx, taken.Writes[0])
	info, err := s.Tx(k.ctx, tx.ID)
	if k.must(err); info.LastSubmit != nil {
		t.Errorf("broadcast at %v", info.LastSubmit)
	}
	sent := submitted(tx)
	sent.Sent = true
	k.done(s, lease, txn.Change{Writes: []txn.Write{sent}})
	tx = after(tx, sent)
	info, err = s.Tx(k.ctx, tx.ID)
	if k.must(err); info.LastSubmit == nil || info.LastSubmit.Before(info.CreatedAt) {
		t.Fatalf("broadcast at %v", info.LastSubmit)
	}
	broadcast := *info.LastSubmit
	in := included(tx, 100)
	want := txn.ReceiptMore{Known: true, Logs: 7, CumulativeGas: 1 << 40,
		Contract: txn.Address{0xc0}, L1Fee: *uint256.NewInt(12345)}
	in.Next.Receipt.More = want
	k.done(s, lease, txn.Change{Writes: []txn.Write{in}})
	info, err = s.Tx(k.ctx, tx.ID)
	if k.must(err); info.Receipt.More != want || !info.LastSubmit.Equal(broadcast) {
		t.Errorf("%+v, broadcast at %v", info.Receipt, info.LastSubmit)
	}
	events, err := s.EventsOfTx(k.ctx, tx.ID, 0, 10)
	k.must(err)
	if last := events[len(events)-1]; last.Receipt == nil || last.Receipt.More != want {
		t.Errorf("event %+v", last)
	}
	// as an older program records the next receipt
	k.exec("UPDATE managed_tx SET receipt_block_hash = $1", make([]byte, 32))
	info, err = s.Tx(k.ctx, tx.ID)
	if k.must(err); info.Receipt.More.Known {
		t.Errorf("%+v belongs to another block", info.Receipt)
	}
}

func TestTxIDByHash_AnyAttempt_Found(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, lease := k.owned(s, "alice")
	info, _, err := s.CreateTx(k.ctx, Intent{Submitter: id, RequestID: "r", Payload: payload("x")})
	k.must(err)
	k.ended(s, lease, info.Tx, 0, txn.Bump)
	attempts, err := s.Attempts(k.ctx, info.ID)
	if k.must(err); len(attempts) != 2 {
		t.Fatal(attempts)
	}
	for _, a := range attempts {
		got, err := s.TxIDByHash(k.ctx, a.Hash)
		if k.must(err); got != info.ID {
			t.Errorf("attempt %d: %s", a.No, got)
		}
	}
	_, err = s.TxIDByHash(k.ctx, txn.Hash{1})
	if !errors.Is(err, ErrTxNotFound) {
		t.Errorf("a hash of no attempt: %v", err)
	}
}

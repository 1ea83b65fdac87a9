package store

import (
	"errors"
	"testing"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/txn"
)

// TestIntentMAC: an accepted intent has its code when its owner reads it; a row that was written or
// changed by hand has none, or another.
func TestIntentMAC(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	key := []byte("0123456789abcdef0123456789abcdef")
	s := k.open("a", func(c *Config) { c.IntentKey = key })
	id := k.submitter(s, "alice")
	intents := payOf(id, txn.Quota{}, 1, 2)
	intents[0].Terms = txn.Terms{MaxFee: *uint256.NewInt(9)}
	for _, r := range s.CreateTxs(k.ctx, intents) {
		k.must(r.Err)
	}
	verified := func() (all []bool) {
		t.Helper()
		boxes, err := s.Inboxes(k.ctx, []txn.SubmitterID{id}, 10)
		k.must(err)
		for i := range boxes[id].Queue {
			err := boxes[id].Queue[i].Verify(key, true)
			if err != nil && !errors.Is(err, txn.ErrUnverified) {
				t.Error(err)
			}
			all = append(all, err == nil)
		}
		return all
	}
	if all := verified(); len(all) != 2 || !all[0] || !all[1] {
		t.Fatalf("accepted: %v", all)
	}
	k.exec(`UPDATE managed_tx SET value = 3 WHERE request_id = 'pay-0'`)
	k.exec(`INSERT INTO managed_tx (submitter_id, tx_id, request_id, request_hash, value, data,
	                                gas_limit, to_address, caller, mac)
	        SELECT submitter_id, gen_random_uuid(), 'by-hand', request_hash, value, data, gas_limit,
	               to_address, caller, mac FROM managed_tx WHERE request_id = 'pay-1'`)
	if all := verified(); len(all) != 3 || all[0] || !all[1] || all[2] {
		t.Errorf("changed, accepted and copied by hand: %v", all)
	}
}

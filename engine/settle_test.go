package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// TestSettle_PastAuditDepth_BytesErased: not while a reorg could make an owner need them.
func TestSettle_PastAuditDepth_BytesErased(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		p := quick
		p.AuditDepth = p.Confirmations + 6
		v := newChainHarness(t, kind, p, func(o *Options) {
			o.SettleInterval = 5 * time.Millisecond
		})
		v.node()
		bytes := func(want int) func() error {
			return func() error {
				if n := v.number("SELECT count(raw_tx) FROM tx_attempt"); n != want {
					return fmt.Errorf("%d attempts with bytes", n)
				}
				return nil
			}
		}
		for i := range 2 {
			id := v.create(0, fmt.Sprint(i), transfer())
			v.eventually("it is sent", v.is(id, txn.Pending))
			v.final(id)
			if err := bytes(1)(); err != nil {
				t.Fatalf("within reach of a reorg: %v", err)
			}
			v.mine(int(p.AuditDepth))
			v.eventually("it is erased", bytes(0))
		}
		if n := v.number("SELECT settled_below FROM submitter_settled"); n != 2 {
			t.Errorf("settled below %d", n)
		}
		if n := v.number("SELECT count(tx_hash) FROM tx_attempt"); n != 2 {
			t.Errorf("%d hashes", n)
		}
	})
}

package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
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

// TestSettle_FewAccounts_OneCommitEach: accounts share the bound of a statement, so a busy account
// among few needs one commit to erase more than its share among many.
func TestSettle_FewAccounts_OneCommitEach(t *testing.T) {
	t.Parallel()
	const accounts, calls = 2, settleNonces/settleGroup + 1
	c := chaintest.New(chaintest.Options{})
	r := newLedger(t, accounts, c.ID())
	for i := range accounts {
		r.pipeline(i, calls)
		c.Fund(devchain.Address(i), *uint256.MustFromDecimal("1000000000000000000000"))
		for k := range calls {
			r.create(i, fmt.Sprint(k), transfer())
		}
	}
	r.startOn(c, "a", func(o *Options) { o.SettleInterval = 5 * time.Millisecond })
	reach := func(what string, want int, is func() int) {
		t.Helper()
		r.eventually(what, func() error {
			if n := is(); n != want {
				return fmt.Errorf("%d, want %d", n, want)
			}
			return nil
		})
	}
	reach("all are in the pool", accounts*calls, func() int { return len(c.Pool()) })
	c.Mine(1 + int(r.policy.Confirmations))
	reach("all are final", accounts*calls, func() int {
		return r.number("SELECT count(*) FROM managed_tx WHERE state = 'CONFIRMED'")
	})
	reach("all are erased", 0, func() int {
		c.Mine(1)
		return r.number("SELECT count(raw_tx) FROM tx_attempt")
	})
	// the last change of an attempt erased it
	if n := r.number("SELECT count(DISTINCT (submitter_id, xmin::TEXT)) FROM tx_attempt"); n !=
		accounts {
		t.Errorf("%d commits erased the bytes of %d accounts, want one each", n, accounts)
	}
}

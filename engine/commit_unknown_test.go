package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestCommit_RepliesLost_NewTokens loses the replies of fenced commits. The owner must reacquire
// the lease under a new token, and send only recorded bytes.
func TestCommit_RepliesLost_NewTokens(t *testing.T) {
	t.Parallel()
	const transactions, losses = 6, 8
	r := newHarness(t, 1, blockPeriod)
	proxy, err := pgproxy.Start(r.db.NodeURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	r.startNodeOn(r.openStore("a", proxy.URL()), nil)
	var ids []txn.TxID
	lost := 0
	for i := range transactions {
		ids = append(ids, r.create(0, fmt.Sprint(i), transfer()))
	}
	for lost < losses && r.openTransactions() > 0 {
		rule := proxy.On(everyThirdCommit(), pgproxy.LoseReply)
		select {
		case <-rule.Fired():
			lost++
		case <-time.After(time.Minute):
			t.Fatal("no commit within a minute")
		}
	}
	for _, id := range ids {
		if tx := r.awaitFinal(id); tx.State != txn.Confirmed {
			t.Fatalf("%s: %s", tx.State, tx.LastError)
		}
	}
	if lost < losses {
		t.Errorf("only %d replies were lost", lost)
	}
	if token := r.number("SELECT fencing_token FROM submitter_lease"); token <= losses {
		t.Errorf(
			"the fencing token is %d after %d losses: a commit of unknown outcome was not "+
				"followed "+
				"by a new token",
			token, losses)
	}
	if n := r.number("SELECT count(*) FROM tx_attempt"); n != transactions {
		t.Errorf("%d attempts for %d transactions", n, transactions)
	}
	nonce, err := r.chainClient().NonceAt(context.Background(), devchain.Address(0), nil)
	if err != nil ||
		nonce != transactions {
		t.Errorf("%d transactions are on chain (%v), want %d", nonce, err, transactions)
	}
	r.checkLedger()
}

// everyThirdCommit skips two fenced statements: the first on a new connection only prepares the
// statement.
func everyThirdCommit() pgproxy.Match {
	var seen atomic.Int32
	commit := pgproxy.Running("tx_moved")
	return func(m pgproxy.Message) bool { return commit(m) && seen.Add(1)%3 == 0 }
}

func (r *harness) openTransactions() int {
	return r.number("SELECT count(*) FROM managed_tx WHERE terminal_at IS NULL")
}

// TestOwner_Frozen_TakenOver freezes a node inside a fenced statement, whose session keeps the
// lease locked. Another node must acquire it, and the frozen one must be fenced.
func TestOwner_Frozen_TakenOver(t *testing.T) {
	t.Parallel()
	r := newHarness(t, 1, blockPeriod)
	proxy, err := pgproxy.Start(r.db.NodeURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	id := r.create(0, "one", transfer())
	rule := proxy.On(everyThirdCommit(), pgproxy.HoldAfter)
	frozen := r.startNodeOn(r.openStore("frozen", proxy.URL()), nil)
	<-rule.Fired()
	proxy.BlackHole() // a frozen process does not renew either
	r.startNode("successor", nil)
	if tx := r.awaitFinal(id); tx.State != txn.Confirmed {
		t.Fatalf("%s: %s", tx.State, tx.LastError)
	}
	rule.Release()
	proxy.Heal()
	frozen.stop()
	r.checkLedger()
}

// TestStartNonce_Corrected_Used registers an account with a wrong start nonce and corrects it while
// a node waits.
func TestStartNonce_Corrected_Used(t *testing.T) {
	t.Parallel()
	r := newHarness(t, 1, blockPeriod)
	info, err := r.admin.Submitter(t.Context(), r.submitters[0])
	if err != nil {
		t.Fatal(err)
	}
	registration := store.Registration{
		Name: info.Name, Chain: info.Chain, Address: info.Address, Signer: info.Signer,
		Mode: info.Mode, StartFrom: "7",
	}
	register := func(from string) {
		registration.StartFrom = from
		if _, _, err := r.admin.Register(t.Context(), registration); err != nil {
			t.Fatal(err)
		}
	}
	register("7")
	id := r.create(0, "one", transfer())
	r.startNode("a", nil)
	r.eventually("the mismatch is reported", func() error {
		if kinds := r.events(id); kinds[len(kinds)-1] != txn.EventDelayed {
			return fmt.Errorf("events %v", kinds)
		}
		return nil
	})
	register("0")
	if tx := r.awaitFinal(id); tx.State != txn.Confirmed {
		t.Fatalf("%s: %s", tx.State, tx.LastError)
	}
}

package engine

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestMail_RowUnreadable_OthersServed: a row that cannot be decoded stops the reads of its account
// alone, also when one statement reads the mail of many.
func TestMail_RowUnreadable_OthersServed(t *testing.T) {
	t.Parallel()
	c := chaintest.New(chaintest.Options{})
	r := newLedger(t, 6, c.ID())
	r.external(0, 8)
	r.external(1, 8)
	r.external(2, 8)
	for i := range r.submitters {
		c.Fund(devchain.Address(i), *uint256.MustFromDecimal("1000000000000000000000"))
	}
	n := r.startOn(c, "a", nil)
	id, nonce := r.allocateNonce(n.store, "first")
	if _, err := r.db.Pool.Exec(t.Context(), `
		CREATE FUNCTION damage() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN NEW.fee_cap = 'NaN'; RETURN NEW; END $$;
		CREATE TRIGGER damage BEFORE INSERT ON signed_tx FOR EACH ROW EXECUTE FUNCTION damage();
		CREATE FUNCTION damage_queued() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN NEW.max_fee = 'NaN'; RETURN NEW; END $$;
		CREATE TRIGGER damage_queued BEFORE INSERT ON managed_tx FOR EACH ROW
			WHEN (NEW.request_id = 'damaged') EXECUTE FUNCTION damage_queued()`,
	); err != nil {
		t.Fatal(err)
	}
	r.submitSigned(c, id, nonce, 5)
	r.create(3, "damaged", transfer())

	router := n.engine.router
	mail := gathered[nonceMail]{ask: router.readNonceMail}
	var damaged error
	for i, err := range readTogether(t, &mail, r.submitters[:3]) {
		if store.IsRowError(err) != (i == 0) || i > 0 && err != nil {
			t.Errorf("mail of external account %d: %v", i, err)
		}
		damaged = cmp.Or(damaged, err)
	}
	statements := 0
	broken := gathered[int]{ask: func(context.Context, []txn.SubmitterID) (map[txn.SubmitterID]int,
		error) {
		statements++
		return nil, damaged
	}}
	for _, err := range readTogether(t, &broken, make([]txn.SubmitterID, gatherLimit)) {
		if !store.IsRowError(err) {
			t.Fatalf("all rows are unreadable: %v", err)
		}
	}
	if statements > failuresLimit {
		t.Errorf("%d statements of one batch failed, want at most %d", statements, failuresLimit)
	}
	inboxes := gathered[store.Inbox]{ask: router.inboxes.ask}
	for i, err := range readTogether(t, &inboxes, r.submitters[3:]) {
		if store.IsRowError(err) != (i == 0) || i > 0 && err != nil {
			t.Errorf("inbox of account %d: %v", 3+i, err)
		}
	}

	asked, err := r.admin.AskNonce(t.Context(), store.NonceAsk{Submitter: r.submitters[1],
		Kind: txn.RequestAllocate, RequestID: "other", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if outcome, err := r.admin.AwaitNonce(ctx, asked); err != nil ||
		outcome.Result != txn.Applied {
		t.Errorf("allocated: %+v, %v", outcome, err)
	}
	r.eventually("another account sends", r.is(r.create(4, "other", transfer()), txn.Pending))
}

// readTogether reads the results of submitters with one statement first.
func readTogether[T any](t *testing.T, g *gathered[T], ids []txn.SubmitterID) []error {
	t.Helper()
	requests := make([]*request[T], len(ids))
	for i, id := range ids {
		requests[i] = &request[T]{id: id, done: make(chan struct{})}
	}
	g.waiting = append(g.waiting, requests...)
	g.busy = true
	g.cut = func() {}
	g.serve(t.Context())
	errs := make([]error, len(ids))
	for i, r := range requests {
		errs[i] = r.err
	}
	return errs
}

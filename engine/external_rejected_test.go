package engine

import (
	"context"
	"testing"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestExternal_RequestRejected_OthersServed: one request whose change the database rejects is
// answered, and keeps no other one waiting.
func TestExternal_RequestRejected_OthersServed(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 8)
	if _, err := r.db.Pool.Exec(t.Context(), `
		ALTER TABLE external_nonce ADD CONSTRAINT no_defect CHECK (holder <> 'defect')`,
	); err != nil {
		t.Fatal(err)
	}
	asks := make([]store.NonceAsked, 3)
	for i, holder := range []string{"good", "defect", "better"} { // before any node runs
		var err error
		asks[i], err = r.admin.AskNonce(t.Context(), store.NonceAsk{
			Submitter: r.submitters[0], Kind: txn.RequestAllocate, RequestID: holder,
			Holder: holder, TTL: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.startOn(c, "a", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	want := []string{txn.Applied, txn.ResultNonceState, txn.Applied}
	for i, asked := range asks {
		outcome, err := r.admin.AwaitNonce(ctx, asked)
		if err != nil || codeOf(outcome.Result) != want[i] {
			t.Fatalf("request %d: %+v, %v", i, outcome, err)
		}
	}
	if _, next := r.allocateNonce(r.admin, "next"); next != 2 {
		t.Errorf("then nonce %d is reserved", next)
	}
}

package engine

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestExternal_RequestRejected_OthersServed: one request whose change the database rejects is
// answered, and keeps no other one waiting.
func TestExternal_RequestRejected_OthersServed(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 16)
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
	// the isolation is over: requests of one read are answered by one change again
	const together = 4
	ids := make([]uuid.UUID, together)
	for i := range ids {
		id, err := txn.NewTxID(time.Now(), r.submitters[0])
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = uuid.UUID(id)
	}
	if _, err := r.db.Pool.Exec(t.Context(), `
		INSERT INTO nonce_request (submitter_id, kind, reservation_id, request_id, holder, ttl_ms)
		SELECT $1, 'ALLOCATE', id, 'together ' || id, 'good', 3600000
		  FROM unnest($2::UUID[]) id`, int32(r.submitters[0]), ids); err != nil {
		t.Fatal(err)
	}
	r.allocateNonce(r.admin, "last") // wakes the owner
	const applied = "FROM nonce_request WHERE request_id LIKE 'together %' AND result = 'APPLIED'"
	if n := r.number("SELECT count(*) " + applied); n != together {
		t.Errorf("%d of %d are applied", n, together)
	}
	if n := r.number("SELECT count(DISTINCT xmin::TEXT) " + applied); n != 1 {
		t.Errorf("%d changes", n)
	}
}

// TestExternal_RejectedOnce_IsolationEnds: a rejection that does not come again ends the isolation,
// although other requests arrive all the time.
func TestExternal_RejectedOnce_IsolationEnds(t *testing.T) {
	t.Parallel()
	change := func(nos ...int64) *txn.NonceChange {
		c := &txn.NonceChange{}
		for _, no := range nos {
			c.Results = append(c.Results, txn.NonceResult{No: no, Result: txn.Applied})
		}
		return c
	}
	first := int64(1) // that waits; a client has sent it again, or another one
	var n nonces
	read := func() {
		var waiting []txn.NonceRequest
		for no := first; no < first+3; no++ {
			waiting = append(waiting, txn.NonceRequest{No: no})
		}
		n.receive(waiting)
	}
	read()
	if !n.isolate(change(1, 2, 3)) {
		t.Fatal("nothing is isolated")
	}
	for answered := range 3 {
		read()
		if v := n.view(nil); !v.OneByOne || len(v.Requests) != 3-answered {
			t.Fatalf("%d are answered: %+v", answered, v)
		}
		n.answer(map[int64]bool{first: true})
		first++
	}
	if !n.answered() {
		t.Error("the others are not read")
	}
	read()
	if v := n.view(nil); v.OneByOne || len(v.Requests) != 3 {
		t.Errorf("all are answered, and the isolation lasts: %+v", v)
	}
}

// TestExternal_SuspectsGone_IsolationEnds: a commit of unknown outcome has answered them.
func TestExternal_SuspectsGone_IsolationEnds(t *testing.T) {
	t.Parallel()
	var n nonces
	n.isolate(&txn.NonceChange{Results: []txn.NonceResult{{No: 1, Result: txn.Applied}}})
	n.receive([]txn.NonceRequest{{No: 2}, {No: 3}})
	if v := n.view(nil); v.OneByOne || len(v.Requests) != 2 {
		t.Errorf("%+v", v)
	}
}

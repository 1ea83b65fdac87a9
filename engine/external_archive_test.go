package engine

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestExternal_RequestsArchived_SameResults: a repeated request whose row was archived has the
// result that it had before, and the history of a reservation stays.
func TestExternal_RequestsArchived_SameResults(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 4)
	n := r.startOn(c, "a", nil)
	former, nonce := r.allocateNonce(n.store, "former")
	extend := store.NonceAsk{Kind: txn.RequestExtend, TTL: time.Hour}
	release := store.NonceAsk{Kind: txn.RequestRelease, Reason: "not needed"}
	r.underReservation(n.store, former, extend, txn.Applied)
	r.underReservation(n.store, former, release, txn.Applied)
	last, again := r.allocateNonce(n.store, "last")
	if again != nonce {
		t.Fatalf("nonces %d and %d", nonce, again)
	}
	signed := signFor(t, c, nonce, 1)
	hash := store.NonceAsk{Kind: txn.RequestRecordHash, Hash: signed.Hash}
	r.underReservation(n.store, last, extend, txn.Applied)
	r.underReservation(n.store, last, hash, txn.Applied)
	if answer := c.Send(t.Context(), signed); answer.Class != txn.Accepted {
		t.Fatalf("sent: %+v", answer)
	}
	c.Mine(6)
	r.nonceIs(nonce, txn.NonceAccepted, txn.NonceByReceipt)
	open, _ := r.allocateNonce(n.store, "open")
	r.underReservation(n.store, open, extend, txn.Applied)

	quarantine := store.NonceAsk{Kind: txn.RequestQuarantine, Reason: "unknown"}
	fill := store.NonceAsk{Kind: txn.RequestResolve, Action: txn.NonceFill, Operator: "o",
		Reason: "why"}
	repeat := func() (results []string) {
		for _, id := range []txn.ReservationID{former, last} {
			for _, ask := range []store.NonceAsk{hash, release, quarantine, extend, fill} {
				ask.Reservation = id
				_, outcome := r.askNonce(r.admin, ask)
				results = append(results, outcome.Result)
			}
			info, held, err := r.admin.NonceOf(context.Background(), id)
			info.Version = 0 // a report for a nonce that is used is recorded each time
			results = append(results, fmt.Sprintf("%+v %v %v", info, held, err))
		}
		for _, key := range []string{"former", "last"} {
			asked, outcome := r.askNonce(r.admin,
				store.NonceAsk{Kind: txn.RequestAllocate, RequestID: key})
			results = append(results, fmt.Sprint(asked.Reservation, asked.Created, outcome))
		}
		return results
	}
	repeat() // late reports are recorded once
	before := repeat()
	// the first three, and of both times four of the last reservation and two of the former one
	r.archiveRequests(3 + 2*(4+2))
	if after := repeat(); !reflect.DeepEqual(before, after) {
		t.Errorf("results before:\n%q\nand after:\n%q", before, after)
	}
	r.archiveRequests(4 + 2) // from the third time
	kept := r.number("SELECT count(*) FROM nonce_request WHERE kind = 'EXTEND' "+
		"AND reservation_id = $1", open.String())
	if kept != 1 {
		t.Errorf("%d requests of an open reservation", kept)
	}
	if info, _, err := r.admin.NonceOf(t.Context(), former); err != nil || len(info.Hashes) != 1 {
		t.Errorf("a hash that was reported three times: %v, %v", info.Hashes, err)
	}
}

// archiveRequests removes all requests that may be archived, and wants so many.
func (r *harness) archiveRequests(want int) {
	r.t.Helper()
	ctx := r.t.Context()
	l, err := r.admin.AcquireArchive(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	defer r.admin.ReleaseArchive(ctx, l)
	lines, _, _, err := r.admin.ArchiveRequests(ctx, store.RequestQuery{
		Submitter: r.submitters[0], Before: time.Now().Add(time.Hour), Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	rows, err := r.db.Pool.Query(ctx, `SELECT request_no, reservation_id, applied_at
		FROM nonce_request WHERE applied_at IS NOT NULL`) // with those that are needed
	if err != nil {
		r.t.Fatal(err)
	}
	var all []store.ArchiveRequest
	for rows.Next() {
		var one store.ArchiveRequest
		if err := rows.Scan(&one.No, (*[16]byte)(&one.Reservation), &one.AppliedAt); err != nil {
			r.t.Fatal(err)
		}
		all = append(all, one)
	}
	removed, err := r.admin.RemoveRequests(ctx, l, all)
	if err != nil || int(removed) != len(lines) || len(lines) != want {
		r.t.Errorf("%d of %d removed, %d may be, want %d: %v", removed, len(all), len(lines), want,
			err)
	}
}

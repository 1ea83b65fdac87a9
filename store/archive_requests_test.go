package store

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/txn"
)

// askedFor records a request under a reservation, which its owner answers.
func (k *kit) askedFor(s *Store, l *Lease, id txn.ReservationID, kind txn.NonceRequestKind) int64 {
	k.t.Helper()
	asked, err := s.AskNonce(k.ctx, NonceAsk{Submitter: l.Submitter(), Kind: kind, Reservation: id})
	k.must(err)
	k.done(s, l, txn.Change{Nonces: &txn.NonceChange{
		Results: []txn.NonceResult{{No: asked.No, Result: txn.ResultNonceState}}}})
	return asked.No
}

// archivedNos returns the numbers of the requests that may be archived now, however young.
func (k *kit) archivedNos(s *Store, id txn.SubmitterID) (list []ArchiveRequest, nos []int64) {
	k.t.Helper()
	lines, _, _, err := s.ArchiveRequests(k.ctx, RequestQuery{Submitter: id,
		Before: time.Now().Add(time.Hour), Limit: 1000})
	k.must(err)
	for _, line := range lines {
		var l struct {
			Submitter string
			Request   struct {
				No          int64     `json:"request_no"`
				Reservation uuid.UUID `json:"reservation_id"`
				AppliedAt   time.Time `json:"applied_at"`
			}
		}
		if k.must(json.Unmarshal([]byte(line), &l)); l.Submitter != "alice" {
			k.t.Errorf("line %s", line)
		}
		q := l.Request
		list = append(list, ArchiveRequest{q.No, txn.ReservationID(q.Reservation), q.AppliedAt})
		nos = append(nos, q.No)
	}
	return list, nos
}

// TestArchiveRequests_Kept: a request stays while anything may need it.
func TestArchiveRequests_Kept(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l, n := externalOwner(k, s)
	kinds := []txn.NonceRequestKind{txn.RequestRecordHash, txn.RequestRelease,
		txn.RequestQuarantine, txn.RequestExtend, txn.RequestResolve}
	all := map[txn.ReservationID]map[txn.NonceRequestKind]int64{}
	ask := func(reservation txn.ReservationID) {
		all[reservation] = map[txn.NonceRequestKind]int64{}
		for _, kind := range kinds {
			all[reservation][kind] = k.askedFor(s, l, reservation, kind)
		}
	}
	owner, a := k.archivist()
	mayGo := func(want ...int64) []ArchiveRequest {
		t.Helper()
		list, nos := k.archivedNos(owner, id)
		if slices.Sort(want); !slices.Equal(nos, want) {
			t.Errorf("requests %v may be archived, want %v of %v", nos, want, all)
		}
		return list
	}
	former := n.Reservation
	ask(former)
	released := moved(n, txn.NonceRecyclable)
	k.done(s, l, nonceChange(released))
	mayGo()
	asked, err := s.AskNonce(k.ctx, NonceAsk{Submitter: id, Kind: txn.RequestAllocate,
		RequestID: "second", TTL: longTTL})
	k.must(err)
	held := moved(released.Next, txn.NonceReserved)
	held.Next.Reservation, held.TTL = asked.Reservation, longTTL
	k.done(s, l, txn.Change{Nonces: &txn.NonceChange{Reserves: true, From: 1, To: 1,
		Writes:  []txn.NonceWrite{held},
		Results: []txn.NonceResult{{No: asked.No, Result: txn.Applied, Nonce: new(txn.Nonce)}}}})
	ask(asked.Reservation)
	mayGo()
	accepted := moved(held.Next, txn.NonceAccepted)
	k.done(s, l, nonceChange(accepted))
	waits, err := s.AskNonce(k.ctx, NonceAsk{Submitter: id, Kind: txn.RequestExtend,
		Reservation: asked.Reservation})
	k.must(err)
	of, was := all[asked.Reservation], all[former]
	list := mayGo(of[txn.RequestRecordHash], of[txn.RequestRelease], of[txn.RequestQuarantine],
		of[txn.RequestExtend], was[txn.RequestQuarantine], was[txn.RequestExtend])
	young, _, _, err := owner.ArchiveRequests(k.ctx, RequestQuery{Submitter: id,
		Before: time.Now().Add(-time.Hour), Limit: 1000})
	if k.must(err); len(young) > 0 {
		t.Errorf("young ones: %v", young)
	}
	// the database keeps the others from any program
	k.exec("ALTER TABLE nonce_request DISABLE TRIGGER guard")
	for _, no := range []int64{asked.No, waits.No, of[txn.RequestResolve], was[txn.RequestRelease],
		was[txn.RequestRecordHash], was[txn.RequestResolve]} {
		if _, err := k.db.Pool.Exec(k.ctx,
			"DELETE FROM nonce_request WHERE request_no = $1", no); err == nil {
			t.Errorf("request %d is deleted", no)
		}
	}
	k.exec("ALTER TABLE nonce_request ENABLE TRIGGER guard")
	// one that is not as in the file, and one that is needed
	changed := list[0]
	changed.AppliedAt = changed.AppliedAt.Add(time.Microsecond)
	needed := ArchiveRequest{No: was[txn.RequestRelease], Reservation: former,
		AppliedAt: value[time.Time](k, "SELECT applied_at FROM nonce_request WHERE request_no = $1",
			was[txn.RequestRelease])}
	removed, err := owner.RemoveRequests(k.ctx, a, []ArchiveRequest{changed, needed})
	if k.must(err); removed != 0 {
		t.Errorf("%d are removed", removed)
	}
	removed, err = owner.RemoveRequests(k.ctx, a, list)
	if k.must(err); removed != 6 {
		t.Errorf("%d are removed", removed)
	}
	mayGo()
	k.exec("UPDATE archive_lease SET expires_at = clock_timestamp() - INTERVAL '1 second'")
	if _, err := owner.RemoveRequests(k.ctx, a, list); !errors.Is(err, ErrArchiveLost) {
		t.Errorf("removed without a lease: %v", err)
	}
	k.lawful(s, id)
}

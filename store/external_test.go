package store

import (
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// TestNonceMoves_MatchDatabase tries every change of state on the trigger.
func TestNonceMoves_MatchDatabase(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.exec(`CREATE TABLE any_nonce (submitter_id INT, nonce BIGINT, version BIGINT, state TEXT,
		reservation_id UUID, fencing_token BIGINT)`)
	trigger := value[string](k, "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = "+
		"'nonce_move_is_legal' AND tgrelid = 'external_nonce'::REGCLASS")
	k.exec(regexp.MustCompile(`ON \S*external_nonce `).ReplaceAllString(trigger, "ON any_nonce "))
	try := func(from, to txn.NonceState, set string) error {
		k.exec("DELETE FROM any_nonce")
		k.exec("INSERT INTO any_nonce VALUES (1, 5, 1, $1, gen_random_uuid(), 3)", string(from))
		_, err := k.db.Pool.Exec(k.ctx, fmt.Sprintf("UPDATE any_nonce SET state = '%s'%s", to, set))
		return err
	}
	legal := 0
	for _, from := range txn.NonceStates {
		for _, to := range txn.NonceStates {
			set := ", version = 2"
			if from == txn.NonceRecyclable && to == txn.NonceReserved {
				set += ", reservation_id = gen_random_uuid()"
			}
			err := try(from, to, set)
			if want := txn.LegalNonce(from, to); want != (err == nil) {
				t.Errorf("%s to %s: the trigger says %v, txn says legal is %v", from, to, err, want)
			}
			if from != to && txn.LegalNonce(from, to) {
				legal++
			}
		}
	}
	pair := regexp.MustCompile(`old\.state = '[A-Z_]+'::text\) AND \(new\.state = '[A-Z_]+'::text`)
	listed := pair.FindAllString(trigger, -1)
	if len(listed) < legal {
		t.Errorf("the trigger lists %d moves, txn has %d", len(listed), legal)
	}
	for name, change := range map[string]struct {
		from, to txn.NonceState
		set      string
	}{
		"the version stays": {txn.NonceReserved, txn.NoncePending, ""},
		"the version jumps": {txn.NonceReserved, txn.NoncePending, ", version = 3"},
		"the token falls": {txn.NonceReserved, txn.NoncePending,
			", version = 2, fencing_token = 2"},
		"another reservation": {txn.NonceReserved, txn.NonceReserved,
			", version = 2, reservation_id = gen_random_uuid()"},
		"the released reservation": {txn.NonceRecyclable, txn.NonceReserved, ", version = 2"},
		"another nonce": {txn.NonceReserved, txn.NoncePending,
			", version = 2, nonce = 6"},
	} {
		if err := try(change.from, change.to, change.set); err == nil {
			t.Errorf("%s, and the trigger lets it", name)
		}
	}
}

// externalOwner is an external submitter with a lease, a cursor at 0 and one reserved nonce.
func externalOwner(k *kit, s *Store) (txn.SubmitterID, *Lease, txn.ExternalNonce) {
	k.t.Helper()
	id := k.submitter(s, "alice")
	mode := txn.External
	k.must(s.SetPolicies(k.ctx, id, PolicyChange{Mode: &mode}))
	l := k.lease(s, id)
	k.done(s, l, txn.Change{Init: &txn.CursorInit{Block: 7, BlockHash: hashOf(7)}})
	asked, err := s.AskNonce(k.ctx, NonceAsk{Submitter: id, Kind: txn.RequestAllocate,
		RequestID: "first", TTL: longTTL})
	k.must(err)
	n := txn.ExternalNonce{State: txn.NonceReserved, Version: 1, Reservation: asked.Reservation}
	k.done(s, l, txn.Change{Nonces: &txn.NonceChange{Reserves: true, To: 1,
		Writes:  []txn.NonceWrite{{Next: n, TTL: longTTL}},
		Results: []txn.NonceResult{{No: asked.No, Result: txn.Applied, Nonce: new(txn.Nonce)}}}})
	return id, l, n
}

const longTTL = 3600e9

func moved(n txn.ExternalNonce, to txn.NonceState) txn.NonceWrite {
	w := txn.NonceWrite{Version: n.Version, From: n.State, Next: n}
	w.Next.State, w.Next.Version = to, n.Version+1
	return w
}

func nonceChange(writes ...txn.NonceWrite) txn.Change {
	return txn.Change{Nonces: &txn.NonceChange{Writes: writes}}
}

func TestNonces_OldToken_Fenced(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l, n := externalOwner(k, s)
	k.lapse(id)
	b := k.open("b")
	k.lease(b, id)
	k.want(k.commit(s, l, nonceChange(moved(n, txn.NoncePending))), Fenced)
	if state := value[string](k, "SELECT state FROM external_nonce"); state != "RESERVED" {
		t.Fatalf("it is %s", state)
	}
}

func TestNonces_Expectations_Conflict(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	_, l, n := externalOwner(k, s)
	other := n
	other.Version = 5
	k.want(k.commit(s, l, nonceChange(moved(other, txn.NoncePending))), Conflict)
	early := moved(n, txn.NoncePending)
	early.Expired = true
	k.want(k.commit(s, l, nonceChange(early)), Conflict) // by the database's clock it has time
	reservation, err := txn.NewTxID(s.clock.Now(), l.Submitter())
	k.must(err)
	again := txn.ExternalNonce{State: txn.NonceReserved, Version: 1, Reservation: reservation}
	k.want(k.commit(s, l, txn.Change{Nonces: &txn.NonceChange{Reserves: true, To: 1,
		Writes: []txn.NonceWrite{{Next: again, TTL: longTTL}}}}), Conflict) // the cursor is at 1
	k.done(s, l, nonceChange(moved(n, txn.NoncePending)))
}

// TestNonces_HashRecorded_NeverRecyclable tries a move that no rule of txn makes: the database
// refuses it.
func TestNonces_HashRecorded_NeverRecyclable(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	_, l, n := externalOwner(k, s)
	w := moved(n, txn.NoncePending)
	w.Hash = hashOf(9)
	k.done(s, l, nonceChange(w))
	k.want(k.commit(s, l, nonceChange(moved(w.Next, txn.NonceRecyclable))), Refused)
}

// TestNonces_OlderProgram_NoLease: a session whose program does not know the mode gets no lease.
func TestNonces_OlderProgram_NoLease(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, _, _ := externalOwner(k, s)
	k.lapse(id)
	old := k.session()
	take := "UPDATE submitter_lease SET owner_node = 'old/1', fencing_token = fencing_token + 1, " +
		"expires_at = clock_timestamp() + INTERVAL '1 minute' WHERE submitter_id = $1"
	for modes, want := range map[string]int64{"": 0, "STRICT,PIPELINED": 0,
		"STRICT,PIPELINED,EXTERNAL": 1} {
		_, err := old.Exec(k.ctx, "SELECT set_config('fencepost.modes', $1, FALSE)", modes)
		k.must(err)
		k.lapse(id)
		tag, err := old.Exec(k.ctx, take, id)
		k.must(err)
		if tag.RowsAffected() != want {
			t.Errorf("a program with modes %q took %d leases", modes, tag.RowsAffected())
		}
	}
}

// TestSetPolicies_ExternalMode_OnlyAtRest: to and from EXTERNAL only while nothing is queued, open
// or reserved.
func TestSetPolicies_ExternalMode_OnlyAtRest(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	set := func(id txn.SubmitterID, mode txn.Mode, want bool) {
		t.Helper()
		err := s.SetPolicies(k.ctx, id, PolicyChange{Mode: &mode})
		if want != (err == nil) {
			t.Errorf("to %s: %v", mode, err)
		}
	}
	busy, _ := k.owned(s, "bob")
	k.queue(s, busy, "waits")
	set(busy, txn.External, false)
	id, l, n := externalOwner(k, s)
	set(id, txn.Strict, false)
	k.done(s, l, nonceChange(moved(n, txn.NonceRecyclable))) // its owner keeps the lease
	set(id, txn.Pipelined, false)
	n.State, n.Version = txn.NonceRecyclable, 2
	k.done(s, l, nonceChange(moved(n, txn.NonceAccepted)))
	set(id, txn.Strict, true)
	if _, _, err := s.CreateTx(k.ctx, Intent{Submitter: id, RequestID: "r"}); err != nil {
		t.Errorf("a strict submitter accepts none: %v", err)
	}
}

// TestNonces_SignedTx_NotReservedAgain: a transaction that was queued under the released
// reservation keeps its nonce from another one.
func TestNonces_SignedTx_NotReservedAgain(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l, n := externalOwner(k, s)
	released := moved(n, txn.NonceRecyclable)
	k.done(s, l, nonceChange(released))
	k.exec("ALTER TABLE managed_tx DISABLE TRIGGER guard") // the row has no event
	k.exec(`INSERT INTO managed_tx (submitter_id, tx_id, request_id, request_hash, value, data,
		gas_limit, reservation_id, signed)
		VALUES ($1, $2::UUID, 'reservation/' || $2::UUID, $3, 0, '', 0, $2::UUID, TRUE)`,
		id, uuid.UUID(n.Reservation), hashOf(1).Bytes())
	again := moved(released.Next, txn.NonceReserved)
	reservation, err := txn.NewTxID(s.clock.Now(), id)
	k.must(err)
	again.Next.Reservation, again.TTL = reservation, longTTL
	k.want(k.commit(s, l, txn.Change{Nonces: &txn.NonceChange{Reserves: true, From: 1, To: 1,
		Writes: []txn.NonceWrite{again}}}), Refused)
}

// TestNonces_LateHash_KeepsHolder: a hash that is reported for an accepted nonce changes nothing
// else of it.
func TestNonces_LateHash_KeepsHolder(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l, n := externalOwner(k, s)
	accepted := moved(n, txn.NonceAccepted)
	accepted.Next.Caller, accepted.Next.Reason = "one", txn.NonceBySettled
	k.done(s, l, nonceChange(accepted))
	_, err := s.AskNonce(k.ctx, NonceAsk{Submitter: id, Kind: txn.RequestRecordHash,
		Reservation: n.Reservation, Hash: hashOf(3)})
	k.must(err)
	of, err := s.NonceRequests(k.ctx, []txn.SubmitterID{id})
	k.must(err)
	if len(of[id]) != 1 || of[id][0].Accepted == nil || of[id][0].Accepted.Caller != "one" ||
		of[id][0].Accepted.Reason != txn.NonceBySettled {
		t.Fatalf("read %+v", of[id])
	}
}

// TestSetPolicies_RequestNotCommitted_ModeStays: a mode switch waits for a request that is being
// recorded, and is then refused because of it.
func TestSetPolicies_RequestNotCommitted_ModeStays(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l, n := externalOwner(k, s)
	k.done(s, l, nonceChange(moved(n, txn.NonceAccepted)))
	client := k.session()
	begun, err := client.Begin(k.ctx)
	k.must(err)
	rows, err := db.New(begun).InsertNonceRequests(k.ctx, askParams([]*askJob{{ask: NonceAsk{
		Submitter: id, Kind: txn.RequestAllocate, RequestID: "k", TTL: longTTL,
		Reservation: txn.TxID{1}}}}))
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	switched := make(chan error, 1)
	go func() {
		mode := txn.Strict
		switched <- s.SetPolicies(k.ctx, id, PolicyChange{Mode: &mode})
	}()
	k.eventually("it waits", func() bool {
		return value[int64](k, "SELECT count(*) FROM pg_stat_activity WHERE "+
			fmt.Sprintf("%d = ANY(pg_blocking_pids(pid))", client.PgConn().PID())) > 0 ||
			len(switched) > 0
	})
	k.must(begun.Commit(k.ctx))
	if err := <-switched; !errors.Is(err, ErrModeBusy) {
		t.Fatalf("switched: %v", err)
	}
}

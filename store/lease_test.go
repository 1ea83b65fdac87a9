package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// TestLease_Token_OnlyRises through every way of getting and losing a lease (E7, E12).
func TestLease_Token_OnlyRises(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	a, b := k.open("a"), k.open("b")
	id := k.submitter(a, "alice")
	expect := func(l *Lease, token txn.Token) {
		t.Helper()
		if l == nil || l.Token() != token || l.Submitter() != id || l.TakenAt().IsZero() {
			t.Fatalf("lease %+v, want token %d", l, token)
		}
	}
	first := k.lease(a, id)
	expect(first, 1)
	if l, err := b.AcquireOne(k.ctx, id); l != nil || err != nil {
		t.Fatalf("a live lease was taken: %+v %v", l, err)
	}
	second := k.lease(a, id) // the live owner too
	expect(second, 2)
	if renewed, err := a.Renew(k.ctx, []*Lease{first}); err != nil || len(renewed) != 0 {
		t.Fatalf("an old token was renewed: %v %v", renewed, err)
	}
	if renewed, err := a.Renew(k.ctx, []*Lease{second}); err != nil ||
		!slices.Equal(renewed, []*Lease{second}) {
		t.Fatalf("renewed %v, %v", renewed, err)
	}
	k.must(a.Release(k.ctx, []*Lease{second}))
	expect(k.lease(b, id), 3)
	if renewed, err := a.Renew(k.ctx, []*Lease{second}); err != nil || len(renewed) != 0 {
		t.Fatalf("a released lease was renewed: %v %v", renewed, err)
	}
	k.must(a.Release(k.ctx, []*Lease{second})) // and ends nothing of the new owner's
	if l, err := a.AcquireOne(k.ctx, id); l != nil || err != nil {
		t.Fatalf("%+v %v", l, err)
	}
	k.lapse(id)
	leases, err := a.Acquire(k.ctx, []txn.SubmitterID{id})
	k.must(err)
	expect(leases[0], 4)
	k.lapse(id)
	if renewed, err := a.Renew(k.ctx, leases); err != nil || len(renewed) != 0 {
		t.Fatalf("a lapsed lease was renewed: %v %v", renewed, err)
	}
}

// TestAcquire_TwoProcessesOneName_OneOwner: the boot id in the owner's name keeps processes apart
// that were given one name (E12).
func TestAcquire_TwoProcessesOneName_OneOwner(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	a := k.open("a")
	again := k.open("a", func(c *Config) { c.Node = "a/second-boot" })
	id := k.submitter(a, "alice")
	l := k.lease(a, id)
	if taken, err := again.AcquireOne(k.ctx, id); taken != nil || err != nil {
		t.Fatalf("a process of the same name took a live lease: %+v %v", taken, err)
	}
	if renewed, err := again.Renew(k.ctx, []*Lease{l}); err != nil || len(renewed) != 0 {
		t.Fatalf("%v %v", renewed, err)
	}
}

// TestLease_DirectWrites_Refused: the database rejects writes that would let a token start again.
func TestLease_DirectWrites_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	k.lease(s, id)
	for sql, want := range map[string]string{
		"DELETE FROM submitter_lease":                                "must not be deleted",
		"UPDATE submitter_lease SET fencing_token = 0":               "must not fall",
		"UPDATE submitter_lease SET owner_node = 'b/boot'":           "without a new fencing token",
		"DELETE FROM submitter":                                      "violates foreign key",
		"INSERT INTO submitter_lease (submitter_id) VALUES (1)":      "submitter_lease_pkey",
		"UPDATE submitter_lease SET fencing_token = fencing_token-1": "must not fall",
	} {
		if _, err := k.db.Pool.Exec(k.ctx, sql); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", sql, err, want)
		}
	}
}

// TestRenew_UpdatesNoIndex: renewing must not touch an index (E10: with one on expires_at every
// renewal did).
func TestRenew_UpdatesNoIndex(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	leases := []*Lease{k.lease(s, k.submitter(s, "alice")), k.lease(s, k.submitter(s, "bob"))}
	for range 50 {
		if renewed, err := s.Renew(k.ctx, leases); err != nil || len(renewed) != 2 {
			t.Fatalf("%v %v", renewed, err)
		}
	}
	s.Close() // a session reports its counts when it ends
	k.eventually("the counts arrive", func() bool {
		return value[int](k,
			"SELECT n_tup_upd::INT FROM pg_stat_user_tables WHERE relid = "+
				"'submitter_lease'::REGCLASS") >= 100
	})
	if updates, hot := value[int](k, "SELECT n_tup_upd::INT FROM pg_stat_user_tables WHERE relid "+
		"= 'submitter_lease'::REGCLASS"),
		value[int](k, "SELECT n_tup_hot_upd::INT FROM pg_stat_user_tables WHERE relid = "+
			"'submitter_lease'::REGCLASS"); hot < updates-4 {
		t.Fatalf("%d of %d updates left the indexes alone", hot,
			updates) // acquisitions change the key and cannot
	}
}

// TestOrphans finds the submitters that need an owner.
func TestOrphans(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	idle, queued := k.submitter(s, "idle"), k.submitter(s, "queued")
	owned, asked := k.submitter(s, "owned"), k.submitter(s, "asked")
	k.queue(s, queued, "r1")
	k.queue(s, owned, "r1")
	l := k.lease(s, owned)
	_, err := s.AddCommand(k.ctx, asked, Ask{Kind: txn.CommandPause})
	k.must(err)
	orphans := func(chains ...txn.ChainID) []txn.SubmitterID {
		t.Helper()
		found, err := s.Orphans(k.ctx, chains, 0, 10)
		k.must(err)
		crowded, err := s.own().Orphans(k.ctx,
			db.OrphansParams{ChainIds: plainChains(chains), MaxRows: 10, Crowd: 1})
		k.must(err)
		if !slices.Equal(submitters(crowded), found) {
			t.Fatalf("%v by the free leases, %v by what has work", found, crowded)
		}
		slices.Sort(found)
		return found
	}
	if got := orphans(31337); !slices.Equal(got, []txn.SubmitterID{queued, asked}) {
		t.Fatalf("orphans %v; idle is %d, owned %d", got, idle, owned)
	}
	k.must(s.Release(k.ctx, []*Lease{l}))
	if got := orphans(31337); !slices.Equal(got, []txn.SubmitterID{queued, owned, asked}) {
		t.Fatalf("orphans %v", got)
	}
	if got := orphans(1); len(got) != 0 {
		t.Fatalf("orphans of another chain: %v", got)
	}
	// One with a nonce in flight and an empty queue.
	l = k.lease(s, queued)
	k.done(s, l, txn.Change{Init: &txn.CursorInit{BlockHash: hashOf(1)}})
	info, err := s.TxByRequest(k.ctx, queued, "r1")
	k.must(err)
	k.done(s, l, take(info.Tx, 0))
	k.must(s.Release(k.ctx, []*Lease{l}))
	if got := orphans(31337); !slices.Contains(got, queued) {
		t.Fatalf("orphans %v", got)
	}
}

// TestLease_OwnersBusy_DoesNotWait has owners use all their connections, as a thousand of them do
// that read their ledgers. Leases come and go all the same, and the node can leave.
func TestLease_OwnersBusy_DoesNotWait(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a", func(c *Config) { c.OwnerConns = 1 })
	id := k.submitter(s, "alice")
	busy, err := s.owner.Acquire(k.ctx)
	k.must(err)
	defer busy.Release()
	ctx, cancel := context.WithTimeout(k.ctx, 5*time.Second)
	defer cancel()
	leases, err := s.Acquire(ctx, []txn.SubmitterID{id})
	k.must(err)
	if len(leases) != 1 {
		t.Fatalf("%d leases", len(leases))
	}
	k.must(s.Release(ctx, leases))
	k.must(s.Leave(ctx))
	if n := value[int](k, "SELECT count(*) FROM submitter_lease WHERE released"); n != 1 {
		t.Error("the lease was not released")
	}
}

// TestUnwatched: nothing but final transactions makes a submitter one that needs an owner too,
// while a reorg could reach the newest.
func TestUnwatched(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	final, l := k.owned(s, "final")
	k.finals(s, l, 10, 60)
	k.must(s.Release(k.ctx, []*Lease{l}))
	queued, l := k.owned(s, "queued") // neglected for less long
	k.queue(s, queued, "r1")
	k.must(s.Release(k.ctx, []*Lease{l}))
	unwatched := func(above uint64) []txn.SubmitterID {
		t.Helper()
		found, work, err := s.Unwatched(k.ctx, []txn.SubmitterID{final, queued}, above)
		k.must(err)
		if above < txn.UnreachableBlock && !slices.Equal(work, []txn.SubmitterID{queued}) {
			t.Errorf("%v have something to do, want %v", work, queued)
		}
		return found
	}
	for above, want := range map[uint64][]txn.SubmitterID{
		0: {final}, 59: {final}, 60: {}, txn.UnreachableBlock: {}, math.MaxUint64: {},
	} {
		if found := unwatched(above); !slices.Equal(found, want) {
			t.Errorf("above %d: %v, want %v", above, found, want)
		}
	}
	// A transaction that was executed before a requeue is in an older block than the nonces before
	// its own.
	k.exec("UPDATE managed_tx SET receipt_block = 5 WHERE submitter_id = $1 AND receipt_block = 60",
		int32(final))
	if found := unwatched(9); !slices.Equal(found, []txn.SubmitterID{final}) {
		t.Errorf("by the nonce before: %v", found)
	}
	k.exec("UPDATE managed_tx SET receipt_block = 60 WHERE submitter_id = $1 AND receipt_block = 5",
		int32(final))
	// The same is true of one that became final as not executed within that depth, independent of
	// other final ones.
	k.exec(
		"UPDATE managed_tx SET ended_block = 70, receipt_tx_hash = NULL, receipt_block = NULL, "+
			"receipt_block_hash = NULL, receipt_success = NULL, receipt_gas_used = NULL, "+
			"receipt_gas_price = NULL"+
			" WHERE submitter_id = $1 AND receipt_block = 60",
		int32(final),
	)
	for above, want := range map[uint64][]txn.SubmitterID{69: {final}, 70: {},
		txn.UnreachableBlock: {}} {
		if found := unwatched(above); !slices.Equal(found, want) {
			t.Errorf("above %d: %v, want %v", above, found, want)
		}
	}
	if found, _, err := s.Unwatched(k.ctx, nil, 0); err != nil || len(found) > 0 {
		t.Errorf("of none: %v, %v", found, err)
	}
}

// TestUnowned: the list has the submitters of a chain without a live lease, their last owner, and
// whether the lease has been free for its duration.
func TestUnowned(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	fresh := k.submitter(s, "fresh")
	lapsed, _ := k.owned(s, "lapsed")
	k.lapse(lapsed)
	released, l := k.owned(s, "released")
	k.must(s.Release(k.ctx, []*Lease{l}))
	owned, _ := k.owned(s, "owned")
	list := func(chain txn.ChainID, after txn.SubmitterID, limit int) []Unowned {
		t.Helper()
		found, next, err := s.Unowned(k.ctx, chain, after, limit)
		k.must(err)
		if want := len(found) == limit; want != (next != 0) || want && next != found[limit-1].ID {
			t.Errorf("after %d of %+v the next is %d", limit, found, next)
		}
		return found
	}
	all := []Unowned{{ID: fresh, Settled: true}, {ID: lapsed, Token: 1}, {ID: released, Token: 1}}
	if got := list(31337, 0, 10); !slices.Equal(got, all) {
		t.Fatalf("%+v, want %+v; %d is owned", got, all, owned)
	}
	if got := list(31337, 0, 2); !slices.Equal(got, all[:2]) {
		t.Errorf("%+v", got)
	}
	if got := list(31337, lapsed, 2); !slices.Equal(got, all[2:]) {
		t.Errorf("%+v", got)
	}
	if got := list(1, 0, 2); len(got) > 0 {
		t.Errorf("of another chain: %+v", got)
	}
	k.exec(
		"UPDATE submitter_lease SET expires_at = clock_timestamp() - make_interval(secs => $2) "+
			"WHERE submitter_id = $1",
		int32(lapsed), s.cfg.LeaseDuration.Seconds())
	if got := list(31337, fresh, 1); !slices.Equal(got,
		[]Unowned{{ID: lapsed, Token: 1, Settled: true}}) {
		t.Errorf("%+v", got)
	}
}

// TestUnwatched_Limited_InTurn: a call reads a limited number of idle submitters, and all of them
// are read in turn.
func TestUnwatched_Limited_InTurn(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	var want []txn.SubmitterID
	for i := range 25 {
		id := k.submitter(s, fmt.Sprintf("s%d", i))
		k.past(id, 20, 0)
		if i%5 != 0 {
			continue
		}
		want = append(want, id)
		k.exec(
			`UPDATE managed_tx
			    SET receipt_tx_hash = $2, receipt_block = 7, receipt_block_hash = $2,
			        receipt_success = TRUE, receipt_gas_used = 1, receipt_gas_price = 1
			  WHERE submitter_id = $1 AND nonce = 19`,
			int32(id),
			make([]byte, 32),
		)
	}
	k.vacuum("managed_tx", "submitter", "submitter_lease")
	var found []txn.SubmitterID
	for looks, after := 0, txn.SubmitterID(0); looks == 0 || after != 0; looks++ {
		idle, next, err := s.Unowned(k.ctx, 31337, after, 10)
		k.must(err)
		var ids []txn.SubmitterID
		for _, one := range idle {
			ids = append(ids, one.ID)
		}
		ids, _, err = s.Unwatched(k.ctx, ids, 6)
		k.must(err)
		if found = append(found, ids...); looks > 3 {
			t.Fatal("it does not come to the end")
		}
		after = next
	}
	if !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	meter := &pagesRead{DBTX: k.session(), t: t}
	_, err := db.New(meter).Unwatched(k.ctx,
		db.UnwatchedParams{SubmitterIds: plain(want[:2]), Above: 6})
	k.must(err)
	if most := 60; meter.pages > most {
		t.Errorf("%d pages are read for two submitters, %d at most are needed: %s",
			meter.pages, most, meter.plan)
	}
}

// TestLease_ClockSetBack_LastsItsDuration sets the clock back by an hour after the owner has died.
func TestLease_ClockSetBack_LastsItsDuration(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	short := func(c *Config) { c.LeaseDuration = 300 * time.Millisecond }
	dead, s := k.open("dead", short), k.open("a", short)
	id := k.submitter(s, "alice")
	_, err := dead.Heartbeat(k.ctx, []txn.ChainID{31337}, true)
	k.must(err)
	old := k.lease(dead, id)
	k.queue(s, id, "r1")
	// as if the clock showed an hour less from now on
	k.exec("UPDATE submitter_lease SET expires_at = expires_at + INTERVAL '1 hour'")
	k.exec("UPDATE node SET expires_at = expires_at + INTERVAL '1 hour'")
	k.eventually("another node takes the lease", func() bool {
		free, err := s.Orphans(k.ctx, []txn.ChainID{31337}, 0, 10)
		k.must(err)
		return len(free) == 1
	})
	if l := k.lease(s, id); l.Token() != old.Token()+1 {
		t.Errorf("token %d follows %d", l.Token(), old.Token())
	}
	k.eventually("the dead node is not live any more", func() bool {
		nodes, err := s.Nodes(k.ctx)
		k.must(err)
		return len(nodes) == 0
	})
}

// TestLease_LockedHeartbeat_CapDoesNotWait locks one heartbeat: calls that wait for each other's
// rows could deadlock.
func TestLease_LockedHeartbeat_CapDoesNotWait(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	for _, node := range []string{"b", "c"} {
		_, err := k.open(node).Heartbeat(k.ctx, []txn.ChainID{31337}, true)
		k.must(err)
	}
	k.exec("UPDATE node SET expires_at = expires_at + INTERVAL '1 hour'")
	holder, err := k.session().Begin(k.ctx)
	k.must(err)
	defer func() { _ = holder.Rollback(context.Background()) }()
	_, err = holder.Exec(k.ctx,
		"UPDATE node SET accepting = FALSE WHERE node_id LIKE 'b%'")
	k.must(err)
	k.must(s.capLeases(k.ctx))
	const far = "SELECT count(*) FROM node WHERE expires_at > clock_timestamp() + lasts"
	if n := value[int](k, far); n != 1 {
		t.Errorf("%d heartbeats are too long, want only the locked one", n)
	}
	k.must(holder.Rollback(k.ctx))
	s.cappedAt.Store(0)
	k.must(s.capLeases(k.ctx))
	if n := value[int](k, far); n != 0 {
		t.Errorf("%d heartbeats are still too long", n)
	}
}

// TestLease_LongerDuration_NotCapped has nodes with different durations.
func TestLease_LongerDuration_NotCapped(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	long := k.open("long", func(c *Config) { c.LeaseDuration = time.Hour })
	s := k.open("a", func(c *Config) { c.LeaseDuration = 300 * time.Millisecond })
	l := k.lease(long, k.submitter(s, "alice"))
	left := "SELECT expires_at > clock_timestamp() + INTERVAL '59 min' FROM submitter_lease"
	for range 2 {
		_, err := s.Orphans(k.ctx, []txn.ChainID{31337}, 0, 10)
		k.must(err)
		if !value[bool](k, left) {
			t.Fatal("the lease of a node with a longer duration is shortened")
		}
		if kept, err := long.Renew(k.ctx, []*Lease{l}); len(kept) != 1 || err != nil {
			t.Fatalf("renewed %v, %v", kept, err)
		}
		s.cappedAt.Store(0)
	}
}

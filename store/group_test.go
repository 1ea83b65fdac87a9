package store

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// fleet is a store that owns many submitters, each with a transaction in its queue, and a plug: one
// more submitter, whose commit can be held up so that all others gather behind it.
type fleet struct {
	*kit
	s      *Store
	ids    []txn.SubmitterID
	leases []*Lease
	txs    []txn.Tx
	plug   *Lease
	cork   txn.Tx
	armed  func() // called when all changes have gathered, before they go
}

func newFleet(k *kit, s *Store, size int) *fleet {
	k.t.Helper()
	f := &fleet{kit: k, s: s}
	for n := range size {
		id, l := k.owned(s, fmt.Sprintf("s%d", n))
		f.ids = append(f.ids, id)
		f.leases = append(f.leases, l)
		f.txs = append(f.txs, k.queue(s, id, fmt.Sprintf("r%d", n)))
	}
	id, l := k.owned(s, "plug")
	f.plug, f.cork = l, k.queue(s, id, "cork")
	k.exec("UPDATE submitter_lease SET expires_at = clock_timestamp() + INTERVAL '1 hour'")
	return f
}

// takes are changes that take nonce 0 for every submitter.
func (f *fleet) takes() []txn.Change {
	changes := make([]txn.Change, len(f.txs))
	for i, tx := range f.txs {
		changes[i] = take(tx, 0)
	}
	return changes
}

type answer struct {
	Outcome
	err error
}

// together commits all these changes in one statement: they gather while the plug is held up.
func (f *fleet) together(changes []txn.Change) []answer {
	f.t.Helper()
	release := f.lockTx(f.cork)
	held := make(chan Outcome, 1)
	go func() {
		o, _ := f.s.Commit(f.plug, take(f.cork, 0))
		held <- o
	}()
	f.waiting(f.s, "commit")
	answers := f.commitAll(changes, func() {
		f.eventually("all changes wait", func() bool {
			commits := f.s.lanes[0].commits
			commits.mu.Lock()
			defer commits.mu.Unlock()
			return len(commits.waiting) == len(changes)
		})
		if f.armed != nil {
			f.armed()
		}
		release()
		f.want(<-held, Done)
	})
	return answers
}

// commitAll commits the changes at the same time, each under the lease of its place, and calls back
// while they are under way.
func (f *fleet) commitAll(changes []txn.Change, meanwhile func()) []answer {
	f.t.Helper()
	answers := make([]answer, len(changes))
	var all sync.WaitGroup
	for i, c := range changes {
		all.Go(func() { answers[i].Outcome, answers[i].err = f.s.Commit(f.leases[i], c) })
	}
	meanwhile()
	all.Wait()
	return answers
}

// lockTx locks the row of a transaction from another session.
func (k *kit) lockTx(tx txn.Tx) (release func()) {
	k.t.Helper()
	held, err := k.session().Begin(k.ctx)
	k.must(err)
	_, err = held.Exec(k.ctx, "SELECT FROM managed_tx WHERE tx_id = $1 FOR UPDATE", tx.ID)
	k.must(err)
	return sync.OnceFunc(func() { _ = held.Rollback(context.Background()) })
}

// check compares the outcomes, and that each change is in the ledger whole or not at all.
func (f *fleet) check(answers []answer, want func(i int) Outcome) {
	f.t.Helper()
	for i, a := range answers {
		if a.Outcome != want(i) {
			f.t.Errorf("change %d: outcome %v (%v), want %v", i, a.Outcome, a.err, want(i))
		}
		f.whole(i, want(i) == Done)
	}
}

// whole checks that the taking of nonce 0 is in all tables or in none.
func (f *fleet) whole(i int, done bool) {
	f.t.Helper()
	id := f.ids[i]
	got := [4]int{
		value[int](f.kit, "SELECT next_nonce FROM submitter_nonce_cursor WHERE submitter_id = $1",
			id),
		value[int](f.kit,
			"SELECT count(*) FROM managed_tx WHERE submitter_id = $1 AND nonce = 0 AND state = "+
				"'ALLOCATED'",
			id),
		value[int](f.kit, "SELECT count(*) FROM tx_attempt WHERE submitter_id = $1", id),
		value[int](f.kit,
			"SELECT count(*) FROM tx_event WHERE submitter_id = $1 AND kind = 'ALLOCATED'", id),
	}
	if want := map[bool][4]int{true: {1, 1, 1, 1}, false: {}}[done]; got != want {
		f.t.Errorf("change %d: cursor, transaction, attempt and event are %v, want %v", i, got,
			want)
	}
}

func all(o Outcome) func(int) Outcome { return func(int) Outcome { return o } }

func allBut(one int, o Outcome) func(int) Outcome {
	return func(i int) Outcome {
		if i == one {
			return o
		}
		return Done
	}
}

func TestCommit_ConcurrentChanges_OneStatement(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	f := newFleet(k, k.open("a"), 12)
	f.check(f.together(f.takes()), all(Done))
	if n := value[int](k, "SELECT count(DISTINCT xid) FROM tx_event WHERE kind = 'ALLOCATED' AND "+
		"submitter_id <> $1", f.plug.Submitter()); n != 1 {
		t.Fatalf("%d statements carried the changes, want 1", n)
	}
}

// TestCommit_CancelRacesAllocation_OneWins: whichever comes first wins alone, and nothing is torn.
func TestCommit_CancelRacesAllocation_OneWins(t *testing.T) {
	t.Parallel()
	for name, cancelWins := range map[string]bool{"the cancel commits": true,
		"the cancel is rolled back": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			f := newFleet(k, k.open("a"), 10)
			const raced = 4
			session, err := k.session().Begin(k.ctx)
			k.must(err)
			_, err = db.New(session).CancelQueued(k.ctx, db.CancelQueuedParams{
				SubmitterID: int32(
					f.ids[raced]), TxID: uuid.UUID(f.txs[raced].ID), Reason: txn.ReasonCancelled,
			})
			k.must(err)
			answers := f.commitAll(f.takes(), func() {
				f.waiting(f.s, "commit")
				if cancelWins {
					k.must(session.Commit(k.ctx))
					return
				}
				k.must(session.Rollback(k.ctx))
			})
			want := map[bool]Outcome{true: Conflict, false: Done}[cancelWins]
			f.check(answers, allBut(raced, want))
			if got := value[string](k, "SELECT state FROM managed_tx WHERE tx_id = $1",
				f.txs[raced].ID); (got == "CANCELLED") != cancelWins {
				t.Fatalf("the transaction is %s", got)
			}
			if cancelled, err := f.s.CancelQueued(k.ctx, f.txs[0].ID); cancelled || err != nil {
				t.Fatalf("an allocated transaction was cancelled as if it were queued: %v %v",
					cancelled, err)
			}
		})
	}
}

// TestCancelQueued_Xid_AssignedAfterLock: the feed is in the order of xid, so a statement that
// waits for a row must not have an xid.
func TestCancelQueued_Xid_AssignedAfterLock(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, _ := k.owned(s, "alice")
	tx := k.queue(s, id, "r1")
	release := k.lockTx(tx)
	cancelled := make(chan error, 1)
	go func() {
		_, err := s.CancelQueued(k.ctx, tx.ID)
		cancelled <- err
	}()
	k.waiting(s, "api")
	if n := value[int](k, `SELECT count(*) FROM pg_stat_activity
		WHERE application_name = 'fencepost/api/a' AND wait_event_type = 'Lock'
		  AND backend_xid IS NOT NULL
		  AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'managed_tx'::REGCLASS)`); n != 0 {
		t.Fatal("the cancel has drawn its xid before its turn")
	}
	release()
	k.must(<-cancelled)
}

// TestCommit_OneBadChange_OthersDone: a change that the database rejects is found by halving.
func TestCommit_OneBadChange_OthersDone(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	f := newFleet(k, k.open("a"), 11)
	const bad = 7
	changes := f.takes()
	// a constraint rejects a transaction that is executed before it is broadcast
	changes[bad].Writes[0].Next.Executed = txn.Success
	answers := f.together(changes)
	f.check(answers, allBut(bad, Refused))
	if text := answers[bad].err.Error(); !strings.Contains(text, "managed_tx_executed") ||
		strings.Contains(text, "Failing row") {
		t.Fatalf("the error says %q", text)
	}
	// The submitter is not stuck with it: a right change goes through under the same lease.
	f.want(f.commit(f.s, f.leases[bad], take(f.txs[bad], 0)), Done)
}

// TestCommit_OneFencedChange_OthersDone: one lease was taken over, and one has lapsed.
func TestCommit_OneFencedChange_OthersDone(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	f := newFleet(k, k.open("a"), 9)
	successor := k.open("successor")
	k.lapse(f.ids[3])
	k.lease(successor, f.ids[3])
	k.lapse(f.ids[5])
	f.check(f.together(f.takes()), func(i int) Outcome {
		if i == 3 || i == 5 {
			return Fenced
		}
		return Done
	})
}

// TestCommit_OneLockedChange_OthersDone: one change cannot have its row in time. The others do not
// wait for that, nor does the next statement.
func TestCommit_OneLockedChange_OthersDone(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a", func(c *Config) { c.LeaseDuration = 800 * time.Millisecond })
	f := newFleet(k, s, 8)
	const locked = 2
	release := k.lockTx(f.txs[locked])
	defer release()
	late := k.queue(s, f.plug.Submitter(), "late")
	answers := f.commitAll(f.takes(), func() {
		f.waiting(s, "commit")
		f.eventually("the group is halved", func() bool {
			s.lanes[0].commits.mu.Lock()
			defer s.lanes[0].commits.mu.Unlock()
			return s.lanes[0].commits.dividing
		})
		// The plug has taken nothing yet: its change goes out on the first connection while the
		// second is busy.
		f.done(s, f.plug, take(late, 0))
		s.lanes[0].commits.mu.Lock()
		defer s.lanes[0].commits.mu.Unlock()
		if !s.lanes[0].commits.dividing {
			t.Log("the halving was over before the other change went out")
		}
	})
	f.check(answers, allBut(locked, Conflict))
}

// TestCommit_Group_OneWrite: Bind, Execute and Sync of a fenced statement leave together. Between
// two writes a process can be stopped.
func TestCommit_Group_OneWrite(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	f := newFleet(k, s, 40)
	tap := &writeTap{}
	s.lanes[0].conn.mu.Lock()
	tap.Conn = s.lanes[0].conn.wire.Conn
	s.lanes[0].conn.wire.Conn = tap
	s.lanes[0].conn.mu.Unlock()
	f.check(f.together(f.takes()), all(Done))
	tap.mu.Lock()
	defer tap.mu.Unlock()
	if len(tap.writes) != 2 { // the plug and the group
		t.Fatalf("%d writes, want 2", len(tap.writes))
	}
	for _, w := range tap.writes {
		if w[0] != 'B' || !strings.HasSuffix(string(w), "S\x00\x00\x00\x04") {
			t.Fatalf("a write begins with %q and ends with %q", w[:1], w[len(w)-5:])
		}
	}
	t.Logf("40 changes take %d bytes, reckoned as %d", len(tap.writes[1]),
		40*changeSize(f.takes()[0]))
}

// TestCommit_RowChangesMeanwhile_Conflict: rows that changed while the statement waited for them,
// without breaking an expectation, are all checked and written in their newest version.
func TestCommit_RowChangesMeanwhile_Conflict(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	f := newFleet(k, s, 5)
	next := make([]txn.Tx, len(f.txs))
	for i, id := range f.ids {
		next[i] = k.queue(s, id, "next")
		for _, write := range []func(txn.Tx) txn.Change{
			func(tx txn.Tx) txn.Change { return take(tx, 0) },
			func(tx txn.Tx) txn.Change { return txn.Change{Writes: []txn.Write{submitted(tx)}} },
			func(tx txn.Tx) txn.Change { return txn.Change{Writes: []txn.Write{included(tx, 3)}} },
		} {
			c := write(f.txs[i])
			c.Writes[0].Next.Released = false
			k.done(s, f.leases[i], c)
			f.txs[i] = after(f.txs[i], c.Writes[0])
		}
	}
	held, err := k.session().Begin(k.ctx)
	k.must(err)
	for _, sql := range []string{
		"UPDATE managed_tx SET updated_at = clock_timestamp(), fencing_token = 1",
		"UPDATE submitter_nonce_cursor SET updated_at = clock_timestamp()",
		"UPDATE submitter_lease SET expires_at = expires_at + INTERVAL '1 second'",
	} {
		_, err = held.Exec(k.ctx, sql)
		k.must(err)
	}
	changes := make([]txn.Change, len(f.txs))
	for i, tx := range f.txs {
		changes[i] = take(next[i], 1)
		changes[i].Writes = append(changes[i].Writes, confirmed(tx))
	}
	answers := f.commitAll(changes, func() {
		f.waiting(s, "commit")
		k.must(held.Commit(k.ctx))
	})
	for i, a := range answers {
		if a.Outcome != Done {
			t.Errorf("change %d: %v (%v)", i, a.Outcome, a.err)
		}
		got := [2]int{
			value[int](k, "SELECT next_nonce FROM submitter_nonce_cursor WHERE submitter_id = $1",
				f.ids[i]),
			value[int](
				k,
				`SELECT count(*) FROM managed_tx
				  WHERE (tx_id = $1 AND state = 'CONFIRMED' AND version = 5)
				     OR (tx_id = $2 AND state = 'ALLOCATED' AND version = 2 AND nonce = 1)`,
				f.txs[i].ID,
				next[i].ID,
			),
		}
		if got != [2]int{2, 2} {
			t.Errorf("change %d: cursor and moved transactions are %v", i, got)
		}
	}
}

// TestCommit_OtherLane_DoesNotWait holds up a statement of one lane. Changes of its submitters
// wait, and those of all other submitters are committed meanwhile.
func TestCommit_OtherLane_DoesNotWait(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a", func(c *Config) { c.CommitConns = 3 })
	f := newFleet(k, s, 9)
	release := f.lockTx(f.cork)
	held := make(chan Outcome, 1)
	go func() {
		o, _ := s.Commit(f.plug, take(f.cork, 0))
		held <- o
	}()
	f.waiting(s, "commit")
	answers, same := make([]answer, len(f.ids)), 0
	var others, all sync.WaitGroup
	for i, c := range f.takes() {
		group := &others
		if s.lane(f.ids[i]) == s.lane(f.plug.submitter) {
			group = &all
			same++
		}
		group.Go(func() { answers[i].Outcome, answers[i].err = s.Commit(f.leases[i], c) })
	}
	others.Wait() // a change that waited for the statement would end as Conflict
	want := len(f.ids) - same
	n := value[int](k, "SELECT count(*) FROM tx_attempt")
	if n != want || same == 0 || n == 0 {
		t.Errorf("%d changes committed meanwhile, want %d of %d", n, want, len(f.ids))
	}
	release()
	all.Wait()
	f.want(<-held, Done)
	f.check(answers, func(int) Outcome { return Done })
}

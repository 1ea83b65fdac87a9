package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/txn"
)

// TestRecover: after lost commits nothing resumes automatically, and nothing that was issued before
// stays valid.
func TestRecover(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s, operator := k.open("a"), k.open("operator", k.asOwner)
	alice, al := k.owned(s, "alice")
	bob, bl, _ := k.protected(s, "bob")
	fresh := k.submitter(s, "carol") // never started: there is no cursor to protect
	tx, first := k.queue(s, alice, "r1"), k.queue(s, fresh, "r1")
	asked := map[txn.SubmitterID]int64{}
	for id, ask := range map[txn.SubmitterID]Ask{bob: {Kind: txn.CommandExitProtect,
		Action: txn.ActionResume, Expect: 1}, fresh: {Kind: txn.CommandResume}} {
		command, err := s.AddCommand(k.ctx, id, ask)
		k.must(err)
		asked[id] = command
	}
	_, err := s.Heartbeat(k.ctx, nil, true)
	k.must(err)

	before := value[int64](k, "SELECT feed_epoch FROM ledger")
	refused := func(what, says string) {
		t.Helper()
		if _, err := operator.Recover(k.ctx); !errors.Is(err, ErrLedgerLive) ||
			!containsText(err, says) {
			t.Fatalf("%s: %v", what, err)
		}
		if epoch := value[int64](k, "SELECT feed_epoch FROM ledger"); epoch != before {
			t.Fatalf("%s: refused, and the feed's epoch is %d", what, epoch)
		}
	}
	refused("two leases and a node are live", `node "a/boot" holds the lease of submitter 1`)
	k.must(s.Release(k.ctx, []*Lease{al}))
	refused("a lease and a node are live", "submitter 2")
	k.lapse(bob)
	refused("a node is live", `node "a/boot" is live`)
	k.must(s.Leave(k.ctx))

	report, err := operator.Recover(k.ctx)
	k.must(err)
	if report != (RecoverReport{Submitters: 2, Paused: 1, FeedEpoch: report.FeedEpoch}) ||
		report.FeedEpoch <= before {
		t.Fatalf("report %+v", report)
	}
	if epoch, _, err := s.FeedHead(k.ctx); err != nil || epoch != report.FeedEpoch {
		t.Fatalf("the feed is of epoch %d, %v", epoch, err)
	}
	for _, old := range []*Lease{al, bl} {
		old.spent.Store(false) // as a node believes that knows nothing of it
		k.want(k.commit(s, old, txn.Change{Status: txn.Paused}), Fenced)
	}
	for _, id := range []txn.SubmitterID{alice, bob, fresh} {
		l := k.lease(s, id)
		if l.Token() < tokenRaise || l.Before() != (Before{Released: true}) {
			t.Fatalf("submitter %d: token %d, before %+v", id, l.Token(), l.Before())
		}
		if result, done, err := s.CommandResult(k.ctx, id, asked[id]); asked[id] > 0 &&
			(!done || result != restoredResult || err != nil) {
			t.Fatalf("submitter %d: what was asked before ended with %q, %v", id, result, err)
		}
		ledger := k.load(s, l)
		c := ledger.Cursor
		switch {
		case id == fresh:
			if c != nil {
				t.Fatalf("a cursor came to be: %+v", c)
			}
			k.stands(s, l, first)
			continue
		case ledger.Submitter.Status != txn.Active:
			t.Fatalf("submitter %d is protected, and %s", id, ledger.Submitter.Status)
		case c.Protected == nil || c.Protected.Reason != txn.ProtectRestored ||
			c.Protected.ID != c.Protections || c.Protections <= protectionRaise:
			t.Fatalf("submitter %d: cursor %+v %+v", id, c, c.Protected)
		case id == bob &&
			(!strings.HasSuffix(c.Protected.Evidence, "; protected before that because of "+
				"NONCE_USED_ELSEWHERE: seen twice")):
			t.Fatalf("the evidence of before is lost: %+v", c.Protected)
		case id == alice:
			if c.Protected.Evidence != restoredEvidence {
				t.Fatalf("evidence %q", c.Protected.Evidence)
			}
			if got, want := k.log(s, id),
				[]string{fmt.Sprintf("PROTECT DATABASE_RESTORED %d: %s (recover)", c.Protections,
					restoredEvidence)}; !slices.Equal(
				got, want) {
				t.Fatalf("recorded %q, want %q", got, want)
			}
			k.want(k.commit(s, l, take(tx, 0)), Conflict)
			k.done(
				s,
				l,
				txn.Change{
					Unprotect: &txn.Unprotection{
						ID:     c.Protections,
						To:     0,
						Reason: "the account never sent",
					},
				},
			)
			k.done(s, l, take(tx, 0))
		}
		k.lawful(s, id)
	}
}

// stands checks that a submitter without a cursor was stopped by a recovery, that its log has the
// reason, and that an operator can resume it.
func (k *kit) stands(s *Store, l *Lease, first txn.Tx) {
	k.t.Helper()
	id := l.Submitter()
	if status := k.load(s, l).Submitter.Status; status != txn.Paused {
		k.t.Fatalf("submitter %d has no cursor, and is %s", id, status)
	}
	commands, err := s.Commands(k.ctx, id, 0, 10)
	k.must(err)
	if len(commands) != 2 || commands[0].Kind != txn.CommandPause ||
		commands[0].Result != txn.Applied ||
		commands[0].Reason != unstartedReason ||
		commands[0].AppliedAt.IsZero() {
		k.t.Fatalf("the log of submitter %d: %+v", id, commands)
	}
	k.done(s, l, txn.Change{Init: &txn.CursorInit{Block: 7, BlockHash: hashOf(7)}})
	k.want(k.commit(s, l, take(first, 0)), Conflict)
	k.done(s, l, txn.Change{Status: txn.Active})
	k.done(s, l, take(first, 0))
}

// TestRecover_OpenCommit_Waits: one that is under way when the lease lapses is seen whole.
func TestRecover_OpenCommit_Waits(t *testing.T) {
	t.Parallel()
	d := newTwoNodes(t, asItIs)
	_, err := d.write()
	d.must(err)
	d.lapse(d.id)
	operator := d.kit.open("operator", d.kit.asOwner)
	ended := make(chan error, 1)
	go func() {
		_, err := operator.Recover(d.ctx)
		ended <- err
	}()
	d.waiting(operator, "taker")
	d.must(d.open.Commit(d.ctx))
	d.must(<-ended)
	if next := value[int](d.kit, "SELECT next_nonce FROM submitter_nonce_cursor WHERE "+
		"protect_reason = 'DATABASE_RESTORED'"); next != 1 {
		t.Fatalf("the cursor is protected at %d", next)
	}
}

// TestRecover_LiveLedger_Refused refuses at once and blocks no node, also while one is frozen in
// the middle of a commit.
func TestRecover_LiveLedger_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s, operator := k.open("a"), k.open("operator", k.asOwner)
	_, al := k.owned(s, "alice")
	frozen, zl := k.owned(s, "zoe")
	session, err := k.session().Begin(k.ctx)
	k.must(err)
	_, err = session.Exec(k.ctx,
		"SELECT FROM submitter_lease WHERE submitter_id = $1 FOR KEY SHARE", frozen)
	k.must(err)
	_, err = s.Heartbeat(k.ctx, nil, true)
	k.must(err)
	refused := func(what, says string) {
		t.Helper()
		if _, err := operator.Recover(k.ctx); !errors.Is(err, ErrLedgerLive) ||
			!containsText(err, says) {
			t.Errorf("%s: %v, want %q", what, err, says)
		}
	}
	// If it had reached the locks, it would have met the locks of the frozen session, and returned
	// that.
	refused("leases and a node are live", `node "a/boot" holds the lease of submitter 1`)
	k.must(s.Release(k.ctx, []*Lease{al, zl}))
	refused("a node is live", `node "a/boot" is live`)
	k.must(s.Leave(k.ctx))
	refused("all have left but one session", "locks a lease")
	k.must(session.Rollback(k.ctx))
	_, err = operator.Recover(k.ctx)
	k.must(err)
}

// TestRecover_SameBackupTwice_NewTokens: tokens of one recovery are invalid after the next, also
// when both began from the same backup.
func TestRecover_SameBackupTwice_NewTokens(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s, operator := k.open("a"), k.open("operator", k.asOwner)
	alice, al := k.owned(s, "alice")
	bob, bl, _ := k.protected(s, "bob")
	k.must(s.Release(k.ctx, []*Lease{al, bl}))
	k.exec("CREATE TABLE backup AS TABLE submitter_nonce_cursor")
	first, err := operator.Recover(k.ctx)
	k.must(err)
	given := map[txn.SubmitterID]int64{}
	for _, id := range []txn.SubmitterID{alice, bob} {
		given[id] = value[int64](k,
			"SELECT protections FROM submitter_nonce_cursor WHERE submitter_id = $1", id)
	}

	k.exec(
		`UPDATE submitter_nonce_cursor n
		    SET protections = b.protections, protect_reason = b.protect_reason,
		        protect_evidence = b.protect_evidence, protect_at = b.protect_at
		   FROM backup b
		  WHERE b.submitter_id = n.submitter_id`,
	)
	k.exec("UPDATE ledger SET feed_epoch = 1")
	second, err := operator.Recover(k.ctx)
	k.must(err)
	if second.FeedEpoch == first.FeedEpoch {
		t.Errorf("both times the feed is of epoch %d: resume tokens of between would be taken",
			first.FeedEpoch)
	}
	for id, old := range given {
		l := k.lease(s, id)
		c := k.load(s, l).Cursor
		if c.Protected == nil || c.Protected.ID == old {
			t.Fatalf("submitter %d: protection %+v, and it was %d before", id, c.Protected, old)
		}
		k.want(
			k.commit(
				s,
				l,
				txn.Change{
					Unprotect: &txn.Unprotection{
						ID:     old,
						Expect: c.Next,
						To:     c.Next,
						Reason: "a decision of between",
					},
				},
			),
			Conflict,
		)
		k.must(s.Release(k.ctx, []*Lease{l}))
	}
}

// TestRecover_OpenTransactions_Marked: they may have been executed in the lost part, so that even a
// cancel in the queue does not report NO. Final and later transactions are not affected.
func TestRecover_OpenTransactions_Marked(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s, operator := k.open("a"), k.open("operator", k.asOwner)
	id, lease := k.owned(s, "alice")
	flying, queued := k.queue(s, id, "flying"), k.queue(s, id, "queued")
	kept, over := k.queue(s, id, "kept"), k.queue(s, id, "over")
	cancel := func(tx txn.Tx) {
		t.Helper()
		if done, err := s.CancelQueued(k.ctx, tx.ID); err != nil || !done {
			t.Fatalf("cancelled %v, %v", done, err)
		}
	}
	cancel(over)
	k.done(s, lease, take(flying, 0))
	k.must(s.Release(k.ctx, []*Lease{lease}))
	_, err := operator.Recover(k.ctx)
	k.must(err)

	cancel(queued)
	lease = k.lease(s, id)
	ledger := k.load(s, lease)
	if len(ledger.Open) != 1 || !ledger.Open[0].Restored {
		t.Fatalf("what is in flight is not marked: %+v", ledger.Open)
	}
	boxes, err := s.Inboxes(k.ctx, []txn.SubmitterID{id}, 9)
	k.must(err)
	if queue := boxes[id].Queue; len(queue) != 1 || queue[0].ID != kept.ID || !queue[0].Restored {
		t.Fatalf("what is queued is not marked: %+v", queue)
	}
	protected := ledger.Cursor.Protected
	k.done(
		s,
		lease,
		txn.Change{
			Unprotect: &txn.Unprotection{
				ID:     protected.ID,
				Expect: 1,
				To:     1,
				Reason: "looked at it",
			},
		},
	)
	later := k.queue(s, id, "later")
	cancel(later)
	for tx, want := range map[txn.TxID]txn.Status{
		queued.ID: {Executed: txn.Unknown, Reason: txn.ReasonRestored,
			LastError: txn.RestoredMayHaveExecuted(txn.ReasonCancelled, "")},
		over.ID:  {Executed: txn.No, Reason: txn.ReasonCancelled},
		later.ID: {Executed: txn.No, Reason: txn.ReasonCancelled},
	} {
		got, err := s.Tx(k.ctx, tx)
		k.must(err)
		if got.State != txn.Cancelled || got.Executed != want.Executed ||
			got.Reason != want.Reason ||
			got.LastError != want.LastError {
			t.Errorf("%s: %+v", got.RequestID, got.Status)
		}
	}
	k.lawful(s, id)
}

// TestRecover_Twice keeps the evidence as it is, and gives new numbers.
func TestRecover_Twice(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s, operator := k.open("a"), k.open("operator", k.asOwner)
	_, al := k.owned(s, "alice")
	_, bl, _ := k.protected(s, "bob")
	k.must(s.Release(k.ctx, []*Lease{al, bl}))
	const evidence = "SELECT string_agg(protect_evidence, '|' ORDER BY submitter_id) FROM " +
		"submitter_nonce_cursor"
	var before string
	var number int64
	for range 3 {
		_, err := operator.Recover(k.ctx)
		k.must(err)
		now, counted := value[string](k, evidence), value[int64](k,
			"SELECT min(protections) FROM submitter_nonce_cursor")
		if before != "" && now != before ||
			!strings.Contains(now, "NONCE_USED_ELSEWHERE: seen twice") {
			t.Fatalf("the evidence was\n%s\nand is\n%s", before, now)
		}
		if counted <= number {
			t.Fatalf("protection %d after %d", counted, number)
		}
		before, number = now, counted
	}
}

// TestRecover_NotOwner_Refused: the role of nodes may not.
func TestRecover_NotOwner_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.submitter(k.open("a"), "alice")
	_, err := k.open("operator").Recover(k.ctx)
	if err == nil || !strings.Contains(err.Error(), "run this as the owner") {
		t.Errorf("recover as a node: %v", err)
	}
}

// TestRecover_Archived_HistoryVerified: events in an archive are still known to be there, so the
// windows that had them are not reported.
func TestRecover_Archived_HistoryVerified(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		foreign bool
		recover func(*Store, *kit) error
	}{
		"recovered": {recover: func(s *Store, k *kit) error {
			_, err := s.Recover(k.ctx)
			return err
		}},
		"moved to another server": {true, func(s *Store, k *kit) error {
			_, err := s.Move(k.ctx)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, dbtest.WithoutGuard())
			s := k.open("a")
			id, lease, _ := k.settledTxs(s, "alice", 2)
			k.checkpointed(s)
			owner, a := k.archivist()
			lines := k.page(owner, a, id, true)
			var newest uint64
			for _, line := range lines {
				newest = max(newest, line.Xid)
			}
			k.must(owner.TrimFeed(k.ctx, a, newest))
			removed, err := owner.RemoveArchived(k.ctx, a, txsOf(lines), true)
			if k.must(err); removed.Transactions != 2 {
				t.Fatalf("archived %+v", removed)
			}
			k.must(s.Release(k.ctx, []*Lease{lease}))
			if c.foreign {
				k.exec("UPDATE ledger SET database_oid = database_oid + 1")
			}
			k.must(c.recover(k.open("operator", k.asOwner, adopts), k))
			if found := k.broken(k.open("b"), id); len(found) > 0 {
				t.Errorf("violations: %q", found)
			}
			if trimmed := value[int64](k, "SELECT trimmed_xid FROM ledger"); (trimmed == 0) !=
				c.foreign {
				t.Errorf("the newest archived number is %d", trimmed)
			}
			// of another server, too, everything is in a window again
			k.queue(k.open("b"), k.submitter(k.open("b"), "bob"), "r")
			for added := false; !added; {
				if added, _, err = k.open("b").AddCheckpoint(k.ctx); err != nil {
					t.Fatal(err)
				}
			}
			if found := k.broken(k.open("b"), id); len(found) > 0 {
				t.Errorf("violations after a checkpoint: %q", found)
			}
		})
	}
}

package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// TestRecover: after commits were lost nothing goes on by itself, and nothing that was given out before is worth anything.
func TestRecover(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s, operator := k.open("a"), k.open("operator")
	alice, al := k.owned(s, "alice")
	bob, bl, _ := k.protected(s, "bob")
	fresh := k.submitter(s, "carol") // never looked at: there is no cursor to protect
	tx := k.queue(s, alice, "r1")
	_, err := s.Heartbeat(k.ctx, nil, true)
	k.must(err)

	refused := func(what, says string) {
		t.Helper()
		if _, err := operator.Recover(k.ctx); !errors.Is(err, ErrLedgerLive) || !containsText(err, says) {
			t.Fatalf("%s: %v", what, err)
		}
		if epoch := value[int64](k, "SELECT feed_epoch FROM ledger"); epoch != 1 {
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
	if report != (RecoverReport{Submitters: 2, FeedEpoch: 2}) {
		t.Fatalf("report %+v", report)
	}
	if epoch, _, err := s.FeedHead(k.ctx); err != nil || epoch != 2 {
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
		c := k.load(s, l).Cursor
		switch {
		case id == fresh:
			if c != nil {
				t.Fatalf("a cursor came to be: %+v", c)
			}
			continue
		case c.Protected == nil || c.Protected.Reason != txn.ProtectRestored || c.Protected.ID != c.Protections:
			t.Fatalf("submitter %d: cursor %+v %+v", id, c, c.Protected)
		case id == bob && (c.Protections != 2 || !strings.HasSuffix(c.Protected.Evidence, "; protected before that because of NONCE_USED_ELSEWHERE: seen twice")):
			t.Fatalf("the evidence of before is lost: %+v", c.Protected)
		case id == alice:
			if c.Protected.Evidence != restoredEvidence {
				t.Fatalf("evidence %q", c.Protected.Evidence)
			}
			k.want(k.commit(s, l, take(tx, 0)), Conflict)
			k.done(s, l, txn.Change{Unprotect: &txn.Unprotection{ID: 1, To: 0, Reason: "the account never sent"}})
			k.done(s, l, take(tx, 0))
		}
		k.lawful(s, id)
	}
}

// TestRecoverWaitsForACommit: one that is under way when the lease lapses is seen whole.
func TestRecoverWaitsForACommit(t *testing.T) {
	t.Parallel()
	d := newDuel(t, asItIs)
	_, err := d.write()
	d.must(err)
	d.lapse(d.id)
	operator := d.kit.open("operator")
	ended := make(chan error, 1)
	go func() {
		_, err := operator.Recover(d.ctx)
		ended <- err
	}()
	d.waiting(operator, "taker")
	d.must(d.open.Commit(d.ctx))
	d.must(<-ended)
	if next := value[int](d.kit, "SELECT next_nonce FROM submitter_nonce_cursor WHERE protect_reason = 'DATABASE_RESTORED'"); next != 1 {
		t.Fatalf("the cursor is protected at %d", next)
	}
}

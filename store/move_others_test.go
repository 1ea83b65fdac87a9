package store

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
)

// TestMove_OldRows_NotCounted: rows of an account that left count neither for the limits of the old
// ledger nor in its lists.
func TestMove_OldRows_NotCounted(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	id, l := k.old.owned(k.eu, "alice")
	k.old.paid(k.eu, l, Intent{Submitter: id, RequestID: "p", Payload: payload("x")}, 0, 100, 1, 0)
	k.old.queue(k.eu, id, "one")
	k.moves(k.prepare("alice"), l)
	depth, err := k.eu.read().LedgerDepth(k.ctx, 100)
	k.must(err)
	if depth != 0 {
		t.Errorf("the old ledger counts %d queued transactions", depth)
	}
	paid, commands := int64(0), map[*Store]int{}
	for _, s := range []*Store{k.eu, k.us} {
		costs, err := s.Costs(k.ctx, CostFilter{By: CostByAccount,
			Before: time.Now().Add(time.Hour), Limit: 10})
		k.must(err)
		for _, c := range costs {
			paid += c.Transactions
		}
		for _, names := range [][]string{nil, {"alice"}} {
			all, err := s.AllCommands(k.ctx, names, 0, 10)
			k.must(err)
			commands[s] += len(all)
		}
	}
	if paid != 1 {
		t.Errorf("one transaction is paid %d times", paid)
	}
	if commands[k.eu] != 0 || commands[k.us] != 2 {
		t.Errorf("commands in the old ledger %d, in the new one %d", commands[k.eu],
			commands[k.us])
	}
}

// TestMove_AwaitingInBackup_OtherApprovalsExpire: a restored ledger has a transaction of a moved
// account that awaits an approval, which cannot expire.
func TestMove_AwaitingInBackup_OtherApprovalsExpire(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	_, l := k.old.owned(k.eu, "alice")
	bob := k.old.submitter(k.eu, "bob")
	k.moves(k.prepare("alice"), l)
	k.unseal()
	k.old.awaiting(k.eu, l.submitter, "alices")
	k.old.awaiting(k.eu, bob, "bobs")
	_, err := k.from.Recover(k.ctx)
	k.must(err)
	k.old.exec("UPDATE tx_approval SET expires_at = 'epoch'")
	if n, err := k.eu.ExpireApprovals(k.ctx); err != nil || n != 1 {
		t.Errorf("expired %d, %v", n, err)
	}
}

// pauses is a clock that records pauses from a minimum on, and does not wait for them.
type pauses struct {
	clock.Real
	least time.Duration
	third func()

	mu   sync.Mutex
	seen []time.Duration
}

func (p *pauses) NewTimer(d time.Duration) *clock.Timer {
	if d < p.least {
		return p.Real.NewTimer(d)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen = append(p.seen, d); len(p.seen) == 3 {
		p.third()
	}
	return p.Real.NewTimer(0)
}

// TestMove_WriterRunsLong_PausesGrow: while the tombstone waits for a writer of another account, so
// do all others: it tries for a moment, and less and less often.
func TestMove_WriterRunsLong_PausesGrow(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	_, l := k.old.owned(k.eu, "alice")
	bob := k.old.submitter(k.eu, "bob")
	long := k.old.begin(bob, "long")
	const poll = time.Hour
	slow := &pauses{least: 2 * poll, third: func() { k.must(long.Rollback(k.ctx)) }}
	directory := k.open("directory", k.asOwner)
	k.from = k.old.open("move", k.old.asOwner, func(c *Config) {
		c.Directory, c.Clock = directory, slow
	})
	_, err := k.from.taker.Exec(k.ctx, "SET lock_timeout = 0") // the move has one of its own
	k.must(err)
	moved, err := k.prepare("alice").Run(k.ctx, poll, k.owner(l))
	k.must(err)
	want := []time.Duration{2 * poll, 3 * poll, 4 * poll}
	if !slices.Equal(slow.seen, want) || moved.Protected || sealPatience > time.Second/4 {
		t.Errorf("pauses %v, %+v", slow.seen, moved)
	}
}

// TestMove_RepeatedAfterGivenUp_TriesCopyFirst: an obstacle that came after the begin of the move
// is found before the tombstone, and is reported.
func TestMove_RepeatedAfterGivenUp_TriesCopyFirst(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	_, l := k.old.owned(k.eu, "alice")
	k.stopAt(k.prepare("alice"), "before seal", l)
	k.next.exec(`CREATE UNIQUE INDEX obstacle ON submitter ((1))`)
	k.next.exec("ALTER TABLE submitter DISABLE TRIGGER submitter_is_claimed")
	other := k.next.submitter(k.us, "other")
	if _, err := k.prepare("alice").Run(k.ctx, time.Millisecond, k.owner(l)); err == nil {
		t.Error("an obstacle is not reported")
	}
	if value[bool](k.old, "SELECT bool_or(moved_to IS NOT NULL) FROM submitter") {
		t.Errorf("the tombstone is set, with submitter %d in the way", other)
	}
}

// TestTopUp_TreasuryMoved_Refused: no top-up is recorded for a treasury that has left the ledger.
func TestTopUp_TreasuryMoved_Refused(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	treasury, l := k.old.owned(k.eu, "alice")
	bob, _ := k.old.owned(k.eu, "bob")
	k.moves(k.prepare("alice"), l)
	insert := `INSERT INTO top_up SELECT (jsonb_populate_record(NULL::top_up, jsonb_build_object(
		'submitter_id', $1::INT, 'treasury_id', $2::INT))).*`
	_, err := k.old.db.Pool.Exec(k.ctx, insert, int32(bob), int32(treasury))
	var moved *MovedError
	if err = describeError(err); !errors.As(err, &moved) {
		t.Errorf("a top-up of a treasury that moved: %v", err)
	}
}

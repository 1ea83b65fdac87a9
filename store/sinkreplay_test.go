package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// TestReplaySink_PositionAhead_NothingSkipped: a replay from a place that a lagging sink has not
// reached yet leaves out no event.
func TestReplaySink_PositionAhead_NothingSkipped(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	k.queue(s, id, "delivered")
	l := k.sinkLease(s, "hook")
	k.sinkOutcome(s, l, txn.SinkProgress{Position: k.end(s).String(),
		Revision: k.cursor(s, "hook").Revision}, Done)
	k.queue(s, id, "undelivered")
	d := SinkDecision{Sink: "hook", Operator: "o", Reason: "r"}
	future, err := s.PositionFrom(k.ctx, time.Now().Add(time.Hour))
	k.must(err)
	for _, at := range []Position{k.end(s), future} {
		k.must(s.ReplaySink(k.ctx, d, at))
		now, err := ParsePosition(k.cursor(s, "hook").Position)
		k.must(err)
		events, err := s.EventsSince(k.ctx, nil, now.Seen, k.end(s).Seen, EventKey{}, 0, 100)
		k.must(err)
		if len(events) != 1 {
			t.Errorf("%d events after the cursor, want the undelivered one", len(events))
		}
	}
	if got := k.cursor(s, "hook"); got.Revision != 3 || got.Operator != "o" {
		t.Errorf("cursor %+v", got)
	}
	// A position of an earlier epoch has other numbers: it is only replaced.
	k.exec("UPDATE ledger SET feed_epoch = feed_epoch + 1")
	k.must(s.ReplaySink(k.ctx, d, k.end(s)))
	if got := k.cursor(s, "hook").Position; got != k.end(s).String() {
		t.Errorf("position %q", got)
	}
}

// TestReplaySink_NoName_NotFound: an empty name names no sink.
func TestReplaySink_NoName_NotFound(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	k.must(s.EnsureSinks(k.ctx, []string{"hook"}))
	ctx, cancel := context.WithTimeout(k.ctx, 10*time.Second)
	defer cancel()
	if err := s.ReplaySink(ctx, SinkDecision{}, k.end(s)); !errors.Is(err, ErrSinkNotFound) {
		t.Errorf("without a name: %v", err)
	}
}

func TestPosition_Before(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{"10:10:", "20:20:", "10:10:"},
		{"20:20:", "10:10:", "10:10:"},
		{"10:20:10,15", "12:30:12,15,25", "10:20:10,12,15"},
		{"10:12:10", "30:30:", "10:12:10"},
	} {
		got := Position{Epoch: 1, Seen: c.a, Until: "40:40:"}.before(Position{Epoch: 1, Seen: c.b})
		if got.Seen != c.want || got.Until != "" {
			t.Errorf("%s and %s: %+v, want %s", c.a, c.b, got, c.want)
		}
		if _, err := ParsePosition(got.String()); err != nil {
			t.Errorf("%s and %s: %v", c.a, c.b, err)
		}
	}
}

// TestPositionFrom_LedgerMoved_OldEventsIncluded: all events from before a move have one number, so
// the first of them tells nothing of the time of the others.
func TestPositionFrom_LedgerMoved_OldEventsIncluded(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	for i := range 4 {
		k.queue(s, id, fmt.Sprint(i))
	}
	k.exec("ALTER TABLE tx_event DISABLE TRIGGER USER")
	k.exec(`UPDATE tx_event SET xid = '3'`)
	k.exec(`UPDATE tx_event SET created_at = clock_timestamp() - INTERVAL '1 hour'
		WHERE tx_id = (SELECT tx_id FROM tx_event ORDER BY submitter_id, tx_id LIMIT 1)`)
	from, err := s.PositionFrom(k.ctx, time.Now().Add(-10*time.Minute))
	k.must(err)
	events, err := s.EventsSince(k.ctx, nil, from.Seen, k.end(s).Seen, EventKey{}, 0, 100)
	k.must(err)
	if len(events) < 3 {
		t.Errorf("%d events, want at least the 3 since then", len(events))
	}
}

// TestPositionFrom_Archived_Trimmed: a sink would skip the events in the archive without a word.
func TestPositionFrom_Archived_Trimmed(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, _, txs := k.settledTxs(s, "alice", 1)
	k.exec("UPDATE managed_tx SET terminal_at = clock_timestamp() - INTERVAL '2 hours'")
	owner, a := k.archivist()
	lines := k.page(owner, a, id, true)
	k.must(owner.TrimFeed(k.ctx, a, lines[0].Xid))
	_, err := owner.RemoveArchived(k.ctx, a, txsOf(lines), true)
	k.must(err)
	if _, err := s.PositionFrom(k.ctx, time.Now().Add(-3*time.Hour)); !errors.Is(err, ErrTrimmed) {
		t.Errorf("from before the archived events of %s: %v", txs[0].ID, err)
	}
	_, err = s.PositionFrom(k.ctx, time.Now().Add(-time.Hour)) // nothing since then was archived
	k.must(err)
}

// TestCheckReaders_MovedBack_Behind: the events of a complete file wait for the sink.
func TestCheckReaders_MovedBack_Behind(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	before := k.end(s)
	k.must(s.EnsureSinks(k.ctx, []string{"hook"}))
	id, _, _ := k.settledTxs(s, "alice", 1)
	owner, a := k.archivist()
	lines := k.page(owner, a, id, true)
	k.must(owner.CheckReaders(k.ctx, lines[0].Xid))
	k.must(s.ReplaySink(k.ctx, SinkDecision{Sink: "hook", Operator: "o", Reason: "r"}, before))
	if err := owner.CheckReaders(k.ctx, lines[0].Xid); !errors.Is(err, ErrSinkBehind) {
		t.Errorf("removed before the sink has them: %v", err)
	}
}

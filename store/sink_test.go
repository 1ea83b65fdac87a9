package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

func (k *kit) sinkLease(s *Store, name string) txn.SinkLease {
	k.t.Helper()
	k.must(s.EnsureSinks(k.ctx, []string{name}))
	leases, err := s.AcquireSinks(k.ctx, []string{name})
	k.must(err)
	if len(leases) != 1 {
		k.t.Fatalf("%d leases, want 1", len(leases))
	}
	return leases[0]
}

func (k *kit) cursor(s *Store, name string) txn.SinkCursor {
	k.t.Helper()
	all, err := s.SinkCursors(k.ctx, name)
	k.must(err)
	if len(all) != 1 {
		k.t.Fatalf("%d cursors, want 1", len(all))
	}
	return all[0]
}

func (k *kit) end(s *Store) Position {
	k.t.Helper()
	head, err := s.Head(k.ctx)
	k.must(err)
	return Position{Epoch: head.Epoch, Timeline: head.Timeline, Seen: head.Snapshot}
}

func (k *kit) sinkOutcome(s *Store, l txn.SinkLease, p txn.SinkProgress, want Outcome) {
	k.t.Helper()
	o, err := s.CommitSink(k.ctx, l, p)
	k.must(err)
	if o != want {
		k.t.Fatalf("outcome %v, want %v", o, want)
	}
}

// TestSinkStatements_Fence: whatever an owner of a sink writes is behind the lock of its token.
func TestSinkStatements_Fence(t *testing.T) {
	t.Parallel()
	cursor := []string{"INSERT INTO sink_parked", "UPDATE sink_cursor"}
	open := map[string][]string{
		"EnsureSinks":   {"INSERT INTO sink_cursor", "INSERT INTO sink_lease"},
		"AcquireSinks":  {"UPDATE sink_lease"},
		"RenewSinks":    {"UPDATE sink_lease"},
		"ReleaseSinks":  {"UPDATE sink_lease"},
		"SetSinkStatus": {"INSERT INTO sink_command", "UPDATE sink_cursor"},
		"ReplaySink":    {"INSERT INTO sink_command", "UPDATE sink_cursor"},
		"RetryParked":   {"INSERT INTO sink_command", "UPDATE sink_parked"},
		"SkipParked": {"DELETE FROM sink_parked", "INSERT INTO sink_command",
			"UPDATE sink_parked"},
		"ParkUndelivered": {"INSERT INTO sink_parked"},
		"RevokeSinks":     {"UPDATE sink_lease"},
		"RestartSinks":    {"UPDATE sink_cursor"},
	}
	fenced := map[string][]string{
		"CommitSink":   cursor,
		"CommitParked": {"DELETE FROM sink_parked", "UPDATE sink_parked"},
	}
	for name, sql := range statements(t, filepath.Join("sink")) {
		if want, is := fenced[name]; is {
			fence := strings.Index(sql, "FOR KEY SHARE OF l")
			if first := writes.FindStringIndex(sql); fence < 0 || first[0] < fence {
				t.Errorf("%s does not lock the lease before it writes", name)
			}
			for _, must := range []string{"l.fencing_token = @fencing_token",
				"l.owner_node = @owner_node", "l.expires_at > clock_timestamp()"} {
				if !strings.Contains(sql, must) {
					t.Errorf("the fence of %s lacks %q", name, must)
				}
			}
			if got := written(sql); !slices.Equal(got, want) {
				t.Errorf("%s writes %q", name, got)
			}
			continue
		}
		if got := written(sql); !slices.Equal(got, open[name]) {
			t.Errorf("%s writes %q, and may write %q", name, got, open[name])
		}
	}
}

func TestSinkLease_Takeover_FencesCommits(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	a, b := k.open("a"), k.open("b")
	l := k.sinkLease(a, "hook")
	c := k.cursor(a, "hook")
	progress := txn.SinkProgress{Position: k.end(a).String(), Revision: c.Revision, Delivered: 2}
	k.sinkOutcome(a, l, progress, Done)
	if other, err := b.AcquireSinks(k.ctx, []string{"hook"}); err != nil || len(other) != 0 {
		t.Fatalf("a live lease was taken: %v, %v", other, err)
	}
	renewed, err := a.RenewSinks(k.ctx, []txn.SinkLease{l})
	k.must(err)
	if len(renewed) != 1 || renewed[0].Revision != c.Revision {
		t.Fatalf("renewed %v", renewed)
	}
	k.exec("UPDATE sink_lease SET expires_at = clock_timestamp() - INTERVAL '1 second'")
	k.sinkOutcome(a, l, progress, Fenced) // expired
	taken := k.sinkLease(b, "hook")
	if taken.Token <= l.Token {
		t.Fatalf("token %d after %d", taken.Token, l.Token)
	}
	k.sinkOutcome(a, l, progress, Fenced)
	dead := []txn.SinkRetry{{SinkParked: txn.SinkParked{Sink: "hook"}}}
	if o, _, err := a.CommitSinkRetries(k.ctx, l, dead, time.Hour); err != nil || o != Fenced {
		t.Fatalf("retries under an old token: %v, %v", o, err)
	}
	k.sinkOutcome(b, taken, progress, Done)
	if got := k.cursor(b, "hook"); got.Delivered != 4 || got.Owner != "b/boot" {
		t.Errorf("cursor %+v", got)
	}
}

// TestSinkLease_OpenCommit_TakeoverWaits: a commit under way ends before another token exists.
func TestSinkLease_OpenCommit_TakeoverWaits(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	a, b := k.open("a"), k.open("b")
	l := k.sinkLease(a, "hook")
	conn := k.session()
	tx, err := conn.Begin(k.ctx)
	k.must(err)
	_, err = tx.Exec(k.ctx, `SELECT FROM sink_lease WHERE sink = 'hook' AND fencing_token = $1
		FOR KEY SHARE`, int64(l.Token))
	k.must(err)
	k.exec(`UPDATE sink_lease SET expires_at = clock_timestamp() - INTERVAL '1 second'`)
	if got, err := b.AcquireSinks(k.ctx, []string{"hook"}); err != nil || len(got) != 0 {
		t.Fatalf("taken over during a commit: %v, %v", got, err)
	}
	k.must(tx.Commit(k.ctx))
	k.sinkLease(b, "hook")
}

func TestCommitSink_OperatorOrServerChanged_Conflict(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	l := k.sinkLease(s, "hook")
	c := k.cursor(s, "hook")
	at := k.end(s)
	d := SinkDecision{Sink: "hook", Operator: "o", Reason: "r"}
	k.must(s.ReplaySink(k.ctx, d, Position{Epoch: at.Epoch, Timeline: at.Timeline, Seen: "3:3:"}))
	p := txn.SinkProgress{Position: at.String(), Revision: c.Revision}
	k.sinkOutcome(s, l, p, Conflict)
	p.Revision = k.cursor(s, "hook").Revision
	for _, wrong := range []Position{{Epoch: at.Epoch + 1, Timeline: at.Timeline, Seen: at.Seen},
		{Epoch: at.Epoch, Timeline: at.Timeline + 1, Seen: at.Seen}} {
		p.Position = wrong.String()
		k.sinkOutcome(s, l, p, Conflict)
	}
	p.Position = at.String()
	k.must(s.SetSinkStatus(k.ctx, d, txn.SinkPaused))
	p.Revision = k.cursor(s, "hook").Revision
	k.sinkOutcome(s, l, p, Conflict)
	k.must(s.SetSinkStatus(k.ctx, d, txn.SinkActive))
	p.Revision = k.cursor(s, "hook").Revision
	k.sinkOutcome(s, l, p, Done)
}

// TestSetSinkStatus_NotBegun_GetsPosition: a decision gives a sink that has no position the end of
// the feed, and never one of a feed that a restore or a fail-over has ended. Others keep theirs.
func TestSetSinkStatus_NotBegun_GetsPosition(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	k.must(s.EnsureSinks(k.ctx, []string{"hook"}))
	at := k.end(s)
	for _, wrong := range []db.SetSinkStatusParams{{Epoch: at.Epoch + 1, Timeline: at.Timeline},
		{Epoch: at.Epoch, Timeline: at.Timeline + 1}} {
		wrong.Sink, wrong.Position = "hook", at.String()
		wrong.Status = string(txn.SinkPaused)
		row, err := s.read().SetSinkStatus(k.ctx, wrong)
		if k.must(err); !row.Found || row.Done {
			t.Errorf("with the end of another feed: %+v", row)
		}
	}
	if c := k.cursor(s, "hook"); c.Position != "" || c.Status != txn.SinkActive {
		t.Errorf("cursor %+v", c)
	}
	d := SinkDecision{Sink: "hook", Operator: "o", Reason: "r"}
	k.must(s.SetSinkStatus(k.ctx, d, txn.SinkPaused))
	paused := k.cursor(s, "hook").Position
	if got, err := ParsePosition(paused); err != nil || got.Epoch != at.Epoch {
		t.Fatalf("position %q: %v", paused, err)
	}
	k.queue(s, k.submitter(s, "alice"), "r")
	k.must(s.SetSinkStatus(k.ctx, d, txn.SinkActive))
	if got := k.cursor(s, "hook").Position; got != paused {
		t.Errorf("a sink moved from %q to %q", paused, got)
	}
	d.Sink = "none"
	if err := s.SetSinkStatus(k.ctx, d, txn.SinkPaused); !errors.Is(err, ErrSinkNotFound) {
		t.Errorf("unknown sink: %v", err)
	}
}

func TestSinkParked_LifeOfARow(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	tx := k.queue(s, id, "r")
	l := k.sinkLease(s, "hook")
	c := k.cursor(s, "hook")
	park := func(first, last int64, delay time.Duration) {
		k.sinkOutcome(s, l, txn.SinkProgress{Position: k.end(s).String(), Revision: c.Revision,
			Failures: []txn.SinkFailure{{Submitter: id, Tx: tx.ID, First: first, Last: last,
				Attempts: 1, Delay: delay, Reason: "no"}}}, Done)
	}
	park(1, 1, 0)
	park(2, 3, time.Hour) // later events extend it
	due, err := s.DueParked(k.ctx, "hook", 10)
	k.must(err)
	if len(due) != 1 || due[0].Next != 1 || due[0].Last != 3 || due[0].Tx != tx.ID {
		t.Fatalf("due %+v", due)
	}
	facts, err := s.SinkFacts(k.ctx, "hook", []txn.TxID{tx.ID})
	k.must(err)
	if f := facts[tx.ID]; !f.Parked || f.RequestID != "r" {
		t.Fatalf("facts %+v", facts)
	}
	retry := func(r txn.SinkRetry, keep time.Duration) int64 {
		o, dead, err := s.CommitSinkRetries(k.ctx, l, []txn.SinkRetry{r}, keep)
		k.must(err)
		k.want(o, Done)
		return dead
	}
	r := txn.SinkRetry{SinkParked: due[0], NextSeq: 2, Failed: true, Reason: "again"}
	if dead := retry(r, 0); dead != 0 { // progress begins the time anew
		t.Fatal("dead after progress")
	}
	r.SinkParked.Next = 2
	if dead := retry(r, 0); dead != 1 {
		t.Fatal("not dead after retry.for")
	}
	if _, dead, err := s.CountParked(k.ctx, "hook"); err != nil || dead != 1 {
		t.Fatalf("%d dead, %v", dead, err)
	}
	hook := SinkDecision{Sink: "hook", Operator: "o"}
	if n, err := s.RetryParked(k.ctx, hook, txn.TxID{}); err != nil || n != 1 {
		t.Fatalf("retried %d, %v", n, err)
	}
	k.must(s.SkipParked(k.ctx, hook, tx.ID, 2))
	if err := s.SkipParked(k.ctx, hook, tx.ID, 2); err == nil {
		t.Fatal("skipped twice")
	}
	retry(r, time.Hour) // of an event that was skipped: no effect
	all, err := s.ListParked(k.ctx, ParkedFilter{Sink: "hook", Limit: 10})
	k.must(err)
	if len(all) != 1 || all[0].Next != 3 {
		t.Fatalf("parked %+v", all)
	}
	r.SinkParked.Next, r.NextSeq = 3, 4
	r.Failed = false
	retry(r, time.Hour)
	if parked, _, err := s.CountParked(k.ctx, "hook"); err != nil || parked != 0 {
		t.Fatalf("%d parked, %v", parked, err)
	}
}

func TestPositionFrom_Time_PrecedesItsEvents(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	for i := range 30 {
		k.queue(s, id, fmt.Sprint(i))
	}
	k.exec("ALTER TABLE tx_event DISABLE TRIGGER USER")
	k.exec(`UPDATE tx_event SET created_at = clock_timestamp() - INTERVAL '1 hour'
		WHERE xid < (SELECT xid FROM tx_event ORDER BY xid OFFSET 20 LIMIT 1)`)
	for at, want := range map[time.Duration]int{-2 * time.Hour: 30, -10 * time.Minute: 10,
		time.Hour: 0} {
		from, err := s.PositionFrom(k.ctx, time.Now().Add(at))
		k.must(err)
		events, err := s.EventsSince(k.ctx, nil, from.Seen, k.end(s).Seen, EventKey{}, 0, 100)
		k.must(err)
		if len(events) != want {
			t.Errorf("%v: %d events, want %d", at, len(events), want)
		}
	}
}

// TestRecover_Sinks_UndeliveredParked: what the cursor of a sink has not passed is delivered after
// the events got other numbers.
func TestRecover_Sinks_UndeliveredParked(t *testing.T) {
	for name, do := range map[string]func(*kit, *Store){
		"recover": func(k *kit, s *Store) {
			_, err := s.Recover(k.ctx)
			k.must(err)
		},
		"move": func(k *kit, s *Store) {
			k.exec("UPDATE ledger SET system_id = 1")
			_, err := s.Move(k.ctx)
			k.must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			s := k.open("a")
			id := k.submitter(s, "alice")
			k.queue(s, id, "delivered")
			l := k.sinkLease(s, "hook")
			c := k.cursor(s, "hook")
			k.sinkOutcome(s, l, txn.SinkProgress{Position: k.end(s).String(),
				Revision: c.Revision}, Done)
			late := k.queue(s, id, "late")
			s.Close()
			k.exec("UPDATE submitter_lease SET expires_at = clock_timestamp()")
			operator := k.open("operator", k.asOwner, func(c *Config) { c.Adopts = true })
			do(k, operator)
			b := k.open("b")
			l = k.sinkLease(b, "hook")
			c = k.cursor(b, "hook")
			if !c.Restored {
				t.Error("the receiver is not told")
			}
			due, err := b.DueParked(k.ctx, "hook", 10)
			k.must(err)
			if len(due) != 1 || due[0].Tx != late.ID || due[0].Next != 1 || due[0].Last != 1 {
				t.Fatalf("due %+v, want %s", due, late.ID)
			}
			at, err := ParsePosition(c.Position)
			k.must(err)
			k.queue(b, k.submitter(b, "bob"), "new") // alice is paused by a recovery
			head, err := b.Head(k.ctx)
			k.must(err)
			if !head.Holds(at) {
				t.Fatalf("%+v does not hold %+v", head, at)
			}
			events, err := b.EventsSince(k.ctx, nil, at.Seen, head.Snapshot, EventKey{}, 0, 100)
			k.must(err)
			if len(events) != 1 {
				t.Errorf("%d events from the cursor on, want the new one", len(events))
			}
			k.sinkOutcome(b, l, txn.SinkProgress{Position: k.end(b).String(),
				Revision: c.Revision, Announced: true}, Done)
			if k.cursor(b, "hook").Restored {
				t.Error("the receiver is told again")
			}
		})
	}
}

package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/txn"
)

// chained is a ledger with a transaction of several events, a cancelled one and commands, all of
// them under a checkpoint.
func chained(t *testing.T) (*kit, *Store, txn.SubmitterID) {
	t.Helper()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	id := k.submitter(s, "alice")
	intents := payOf(id, txn.Quota{}, 1, 2, 3)
	intents[2].Terms = txn.Terms{Speed: txn.Fast, MaxFee: *uint256.NewInt(9),
		CancelLate: true, NotAfter: time.Now().Add(time.Hour).Truncate(time.Microsecond)}
	intents[0].Labels = map[string]string{"order": "17"}
	var ids []txn.TxID
	for _, r := range s.CreateTxs(k.ctx, intents) {
		k.must(r.Err)
		ids = append(ids, r.Info.ID)
	}
	_, err := s.CancelQueuedFor(k.ctx, ids[1], Ask{Reason: "typo", Operator: "olga", Caller: "ops"})
	k.must(err)
	_, err = s.AddCommand(k.ctx, id, Ask{Kind: txn.CommandPause, Reason: "lunch", Caller: "ops"})
	k.must(err)
	k.checkpointed(s)
	return k, s, id
}

// checkpointed waits until a checkpoint has everything. Transactions of other tests on the same
// server delay it.
func (k *kit) checkpointed(s *Store) {
	k.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		_, _, err := s.AddCheckpoint(k.ctx)
		k.must(err)
		if value[bool](k, `SELECT (sum(events), sum(commands)) =
			((SELECT count(*) FROM tx_event),
			 (SELECT count(*) FROM submitter_command WHERE applied_at IS NOT NULL))
			FROM audit_checkpoint`) {
			return
		}
		select {
		case <-tick.C:
		case <-k.ctx.Done():
			k.t.Fatal("no checkpoint has everything")
		}
	}
}

// lastCheckpointAhead dates the last checkpoint, of perhaps several, to the future.
func (k *kit) lastCheckpointAhead() {
	k.t.Helper()
	k.exec(`UPDATE audit_checkpoint SET upto_xid = '99999999999'::XID8
		WHERE no = (SELECT max(no) FROM audit_checkpoint)`)
}

func (k *kit) broken(s *Store, id txn.SubmitterID) (checks []string) {
	k.t.Helper()
	report, err := s.VerifyChain(k.ctx, id, nil)
	k.must(err)
	points, _, err := s.VerifyCheckpoints(k.ctx)
	k.must(err)
	for _, v := range append(report.Violations, points.Violations...) {
		checks = append(checks, v.Check)
	}
	return checks
}

func TestHistory_Untouched_Verified(t *testing.T) {
	t.Parallel()
	k, s, id := chained(t)
	if found := k.broken(s, id); len(found) > 0 {
		t.Errorf("violations: %q", found)
	}
	report, err := s.VerifyChain(k.ctx, id, nil)
	k.must(err)
	if report.Transactions != 3 || report.Events != 4 || report.Commands != 2 ||
		report.Unhashed != 0 {
		t.Errorf("verified: %+v", report)
	}
	if added, _, err := s.AddCheckpoint(k.ctx); added || err != nil {
		t.Errorf("nothing new: %v, %v", added, err)
	}
}

// TestHistory_ChangedByHand_Found changes each kind of row as an administrator could.
func TestHistory_ChangedByHand_Found(t *testing.T) {
	t.Parallel()
	const (
		off = "ALTER TABLE tx_event DISABLE TRIGGER USER; "
		of  = " WHERE submitter_id = 1 AND seq = 1 AND kind = 'QUEUED'"
	)
	for name, c := range map[string]struct{ sql, want string }{
		"event":           {off + "UPDATE tx_event SET message = 'x'" + of, "event_changed"},
		"time of event":   {off + "UPDATE tx_event SET created_at = now()" + of, "event_changed"},
		"hash of event":   {off + "UPDATE tx_event SET chain = sha256('x')" + of, "event_changed"},
		"no hash":         {off + "UPDATE tx_event SET chain = NULL" + of, "event_changed"},
		"event removed":   {off + "DELETE FROM tx_event WHERE seq = 2", "tx_changed"},
		"state":           {off + "UPDATE tx_event SET executed = 'SUCCESS'" + of, "event_changed"},
		"intent":          {"UPDATE managed_tx SET value = 7", "intent_changed"},
		"intent and hash": {"UPDATE managed_tx SET request_hash = sha256('x')", "event_changed"},
		"caller":          {"UPDATE managed_tx SET caller = 'x'", "event_changed"},
		"labels":          {"UPDATE managed_tx SET labels = '{}'", "event_changed"},
		"command":         {"UPDATE submitter_command SET reason = 'x'", "command_changed"},
		"caller of command": {"UPDATE submitter_command SET caller = 'x' " +
			"WHERE kind = 'PAUSE'", "command_changed"},
		"result": {"UPDATE submitter_command SET result = 'x' WHERE kind = 'CANCEL'",
			"command_changed"},
		"command removed": {"DELETE FROM submitter_command WHERE kind = 'CANCEL'",
			"history_changed"},
		"transaction removed": {off + "DELETE FROM tx_event WHERE tx_id IN " +
			"(SELECT tx_id FROM managed_tx WHERE state = 'CANCELLED'); " +
			"DELETE FROM managed_tx WHERE state = 'CANCELLED'", "history_changed"},
		"checkpoint": {"UPDATE audit_checkpoint SET events = 0 WHERE no = 1",
			"checkpoint_changed"},
		"checkpoint removed": {"DELETE FROM audit_checkpoint WHERE no = 0", "checkpoint_missing"},
		"intent added": {"INSERT INTO managed_tx (submitter_id, tx_id, request_id, request_hash, " +
			"value, data, gas_limit) SELECT submitter_id, gen_random_uuid(), 'x', request_hash, " +
			"value, data, gas_limit FROM managed_tx LIMIT 1", "tx_changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, s, id := chained(t)
			for statement := range strings.SplitSeq(c.sql, "; ") {
				k.exec(statement)
			}
			if found := k.broken(s, id); !slices.Contains(found, c.want) {
				t.Errorf("found %q, want %s", found, c.want)
			}
		})
	}
}

// TestHistory_MovedLedger_NewSeries: a server whose transaction numbers begin again starts another
// series, which covers everything.
func TestHistory_MovedLedger_NewSeries(t *testing.T) {
	t.Parallel()
	k, s, _ := chained(t)
	// as after a dump and restore: the last checkpoint is from the future
	k.lastCheckpointAhead()
	added, _, err := s.AddCheckpoint(k.ctx)
	k.must(err)
	if series := value[int](k, "SELECT max(series) FROM audit_checkpoint"); !added || series != 2 {
		t.Fatalf("added: %v, series %d", added, series)
	}
	_, last, err := s.VerifyCheckpoints(k.ctx)
	k.must(err)
	if last.Series != 2 || last.No != 0 || last.Events < 4 {
		t.Errorf("last: %+v", last)
	}
}

// TestHistory_ManyEvents_SeveralCheckpoints: the time of one statement does not grow with the
// events that wait, and together the checkpoints cover all of them.
func TestHistory_ManyEvents_SeveralCheckpoints(t *testing.T) {
	t.Parallel()
	k, s, _ := chained(t)
	k.lastCheckpointAhead()
	for more := true; more; {
		var added bool
		var err error
		added, more, err = s.addCheckpoint(k.ctx, 2)
		if err != nil || !added {
			t.Fatalf("added: %t %v", added, err)
		}
	}
	largest := value[int](k, "SELECT max(events) FROM audit_checkpoint WHERE series = 2")
	covered := value[int](k, "SELECT sum(events) FROM audit_checkpoint WHERE series = 2")
	events := value[int](k, "SELECT count(*) FROM tx_event")
	number := value[int](k, "SELECT count(*) FROM audit_checkpoint WHERE series = 2")
	if largest >= events || covered != events || number < 2 { // one statement wrote several events
		t.Errorf("%d checkpoints of at most %d events have %d of %d", number, largest, covered,
			events)
	}
	r, _, err := s.VerifyCheckpoints(k.ctx)
	k.must(err)
	for _, v := range r.Violations {
		if v.Check != "checkpoint_changed" { // that is the statement above
			t.Errorf("%+v", v)
		}
	}
}

// TestChain_LedgerWithoutStatistics_ReadsOneRow: the hash of a first event finds its transaction by
// the key, however many the account has, also before the first ANALYZE.
func TestChain_LedgerWithoutStatistics_ReadsOneRow(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	id := k.submitter(s, "alice")
	for n := range 200 {
		k.queue(s, id, fmt.Sprintf("a%03d", n))
	}
	tx := k.begin(id, "last in the order of request ids")
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	var read int
	k.must(tx.QueryRow(k.ctx, `SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables
		WHERE relid = 'managed_tx'::REGCLASS`).Scan(&read))
	if read > 5 {
		t.Errorf("%d rows of transactions were read", read)
	}
}

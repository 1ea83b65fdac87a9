package store

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// settledTxs is a submitter with final transactions, all of them settled.
func (k *kit) settledTxs(s *Store, name string, n int) (txn.SubmitterID, *Lease, []txn.Tx) {
	k.t.Helper()
	id, l := k.owned(s, name)
	txs := make([]txn.Tx, n)
	for i := range txs {
		info, _, err := s.CreateTx(k.ctx, Intent{Submitter: id, RequestID: fmt.Sprint("r", i),
			Payload: payload("x"), Labels: map[string]string{"of": name}})
		k.must(err)
		txs[i] = info.Tx
		k.ended(s, l, txs[i], txn.Nonce(i), txn.Original)
	}
	k.settle(s, l, txn.Nonce(n), 100)
	return id, l, txs
}

func (k *kit) settle(s *Store, l *Lease, below txn.Nonce, most int) Erased {
	k.t.Helper()
	erased, err := s.Settle(k.ctx, []Settled{{l, below}}, most)
	k.must(err)
	return erased[l.Submitter()]
}

// archivist is the owner of the ledger with the right to archive.
func (k *kit) archivist() (*Store, *ArchiveLease) {
	k.t.Helper()
	s := k.open("archive", k.asOwner)
	return s, k.toArchive(s)
}

// toArchive acquires the right to archive all that no sink holds back: open transactions of other
// tests would hold back the rest.
func (k *kit) toArchive(s *Store) *ArchiveLease {
	k.t.Helper()
	l, err := s.AcquireArchive(k.ctx)
	if k.must(err); l.Sink == "" {
		l.floor = math.MaxInt64
	}
	return l
}

// page reads all that may be archived now, however young it is.
func (k *kit) page(s *Store, l *ArchiveLease, id txn.SubmitterID, whole bool) []ArchiveLine {
	k.t.Helper()
	lines, _, _, err := s.ArchivePage(k.ctx, l, ArchiveQuery{Submitter: id,
		Before: time.Now().Add(time.Hour), Whole: whole, Limit: 1000})
	k.must(err)
	return lines
}

func txsOf(lines []ArchiveLine) (txs []ArchiveTx) {
	for _, line := range lines {
		txs = append(txs, line.ArchiveTx)
	}
	return txs
}

func (k *kit) rawBytes(id txn.SubmitterID) int {
	k.t.Helper()
	return value[int](k, "SELECT count(raw_tx) FROM tx_attempt WHERE submitter_id = $1", id)
}

func TestSettle_BytesErased_HashesStay(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	for i := range 3 {
		k.ended(s, l, k.queue(s, id, fmt.Sprint(i)), txn.Nonce(i), txn.Original)
	}
	open := k.queue(s, id, "open")
	k.done(s, l, txn.Change{Take: &txn.Take{Nonce: 3}, Writes: []txn.Write{allocation(open, 3)}})
	if e := k.settle(s, l, 3, 2); e.Done || e.Below != 2 || k.rawBytes(id) != 2 {
		t.Fatalf("%+v, %d with bytes", e, k.rawBytes(id))
	}
	if e := k.settle(s, l, 3, 2); !e.Done || k.rawBytes(id) != 1 {
		t.Fatalf("%+v, %d with bytes", e, k.rawBytes(id))
	}
	// the bytes of an open transaction always stay
	if k.settle(s, l, 4, 2); k.rawBytes(id) != 1 {
		t.Fatalf("%d with bytes", k.rawBytes(id))
	}
	if e := k.settle(s, l, 1, 2); e.Below != 4 { // a late report of less
		t.Fatalf("%+v", e)
	}
	if n := value[int](k, "SELECT count(tx_hash) FROM tx_attempt"); n != 4 {
		t.Errorf("%d hashes", n)
	}
	k.lawful(s, id)
}

func TestSettle_LeaseGone_Fenced(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	k.ended(s, l, k.queue(s, id, "r"), 0, txn.Original)
	k.lapse(id)
	k.lease(k.open("b"), id)
	erased, err := s.Settle(k.ctx, []Settled{{l, 1}}, 10)
	if k.must(err); len(erased) != 0 || k.rawBytes(id) != 1 {
		t.Errorf("%v erased, %d with bytes", erased, k.rawBytes(id))
	}
}

func TestSettle_AboveCursor_Ignored(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	k.ended(s, l, k.queue(s, id, "r"), 0, txn.Original)
	if e := k.settle(s, l, 2, 10); e.Done || k.rawBytes(id) != 1 {
		t.Errorf("%+v", e)
	}
}

func TestKeepSigned_NothingErased(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	k.ended(s, l, k.queue(s, id, "r"), 0, txn.Original)
	if e := k.settle(s, l, 1, 0); !e.Done || k.rawBytes(id) != 1 {
		t.Errorf("%+v, %d with bytes", e, k.rawBytes(id))
	}
	owner, a := k.archivist()
	if lines := k.page(owner, a, id, true); len(lines) != 1 ||
		strings.Contains(lines[0].Line, "raw_tx") {
		t.Errorf("%v", lines)
	}
}

func TestAttempt_OnlyErased(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	k.ended(s, l, k.queue(s, id, "r"), 0, txn.Original)
	for _, set := range []string{`raw_tx = '\x01'`, "raw_tx = NULL, nonce = 7"} {
		if _, err := k.db.Pool.Exec(k.ctx, "UPDATE tx_attempt SET "+set); err == nil {
			t.Errorf("%s is accepted", set)
		}
	}
}

// signed makes a transaction one that a client signed, with its bytes.
func (k *kit) signed(tx txn.Tx, nonce int) {
	k.t.Helper()
	k.exec("ALTER TABLE managed_tx DISABLE TRIGGER guard") // the row has no reservation
	k.exec("UPDATE managed_tx SET signed = TRUE, reservation_id = tx_id WHERE tx_id = $1",
		tx.ID.String())
	k.exec(`INSERT INTO signed_tx (submitter_id, tx_id, tx_hash, nonce, kind, raw_tx, gas_limit,
		fee_cap, tip, legacy) VALUES ($1, $2, $3, $4, 'ORIGINAL', '\x01', 21000, 7, 1, FALSE)`,
		tx.ID.Submitter(), tx.ID.String(), hashOf(byte(nonce+1)).Bytes(), nonce)
}

// TestSettle_SignedBytes_Erased: requirement H34, for the bytes of clients.
func TestSettle_SignedBytes_Erased(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	for i := range 2 {
		tx := k.queue(s, id, fmt.Sprint(i))
		k.ended(s, l, tx, txn.Nonce(i), txn.Original)
		k.signed(tx, i)
	}
	open := k.queue(s, id, "open")
	k.done(s, l, txn.Change{Take: &txn.Take{Nonce: 2}, Writes: []txn.Write{allocation(open, 2)}})
	k.signed(open, 2)
	left := func() [2]int {
		return [2]int{value[int](k, "SELECT count(raw_tx) FROM signed_tx"), k.rawBytes(id)}
	}
	if k.settle(s, l, 2, 0); left() != [2]int{3, 3} { // they are to be kept
		t.Errorf("left %v", left())
	}
	if k.settle(s, l, 1, 10); left() != [2]int{2, 2} {
		t.Errorf("left %v", left())
	}
	if k.settle(s, l, 3, 10); left() != [2]int{1, 1} { // the bytes of an open one always stay
		t.Errorf("left %v", left())
	}
	if n := value[int](k, "SELECT count(tx_hash) FROM signed_tx"); n != 3 {
		t.Errorf("%d hashes", n)
	}
	if got, err := s.PendingSigned(k.ctx, []txn.SubmitterID{id}, 10); err != nil ||
		len(got[id].List) != 1 {
		t.Errorf("to record: %v, %v", got, err)
	}
	k.exec("UPDATE signed_tx SET raw_tx = NULL") // as of one that left the chain after it was final
	if got, err := s.PendingSigned(k.ctx, []txn.SubmitterID{id}, 10); err != nil ||
		len(got[id].List) > 0 {
		t.Errorf("to record without bytes: %v, %v", got, err)
	}
	for _, set := range []string{`raw_tx = '\x02'`, "raw_tx = NULL, nonce = 7"} {
		if _, err := k.db.Pool.Exec(k.ctx, "UPDATE signed_tx SET "+set); err == nil {
			t.Errorf("%s is accepted", set)
		}
	}
}

// TestArchived_KeyNamesIt: requirement H35. The key of an archived transaction still names it, and
// belongs to its payload.
func TestArchived_KeyNamesIt(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, _, txs := k.settledTxs(s, "alice", 2)
	owner, a := k.archivist()
	lines := k.page(owner, a, id, true)
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	removed, err := owner.RemoveArchived(k.ctx, a, txsOf(lines), true)
	if k.must(err); removed.Transactions != 2 || removed.Events == 0 {
		t.Fatalf("%+v", removed)
	}
	again, err := owner.RemoveArchived(k.ctx, a, txsOf(lines), true)
	if k.must(err); again != (Removed{}) {
		t.Errorf("a second removal: %+v", again)
	}
	intent := Intent{Submitter: id, RequestID: "r0", Payload: payload("x"),
		Labels: map[string]string{"of": "alice"}}
	info, created, err := s.CreateTx(k.ctx, intent)
	if k.must(err); created || info.ID != txs[0].ID || info.ArchivedAt.IsZero() ||
		info.State != txn.Confirmed || *info.Nonce != 0 || len(info.Payload.Data) != 0 {
		t.Errorf("%v %+v", created, info)
	}
	intent.Payload.GasLimit++
	if _, _, err := s.CreateTx(k.ctx, intent); !errors.Is(err, ErrKeyReused) {
		t.Errorf("another payload under its key: %v", err)
	}
	if got, err := s.Tx(k.ctx, txs[1].ID); err != nil || got.ArchivedAt.IsZero() ||
		got.Receipt == nil || got.TxHash == (txn.Hash{}) {
		t.Errorf("%+v, %v", got, err)
	}
	if found, err := s.TxIDByHash(k.ctx, info.TxHash); err != nil || found != txs[0].ID {
		t.Errorf("by hash: %v, %v", found, err)
	}
	if list, err := s.Txs(k.ctx, TxFilter{Labels: map[string]string{"of": "alice"},
		Limit: 10}); err != nil || len(list) != 0 {
		t.Errorf("by label: %v, %v", list, err)
	}
	k.lawful(s, id)
	if len(k.page(owner, a, id, true)) > 0 {
		t.Error("archived transactions are archived again")
	}
}

// TestArchived_CannotMove: not even by the statement of an owner.
func TestArchived_CannotMove(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l, txs := k.settledTxs(s, "alice", 1)
	owner, a := k.archivist()
	_, err := owner.RemoveArchived(k.ctx, a, txsOf(k.page(owner, a, id, true)), true)
	k.must(err)
	tx, err := s.Tx(k.ctx, txs[0].ID)
	k.must(err)
	next := tx.Status
	next.State, next.Executed = txn.Stuck, txn.Unknown
	next.Reason = txn.ReasonReorgedFinal
	next.Version++
	w := txn.Write{Tx: tx.ID, Version: tx.Version, From: tx.State, Kind: txn.EventReorged,
		Next: next}
	k.want(k.commit(s, l, txn.Change{Writes: []txn.Write{w}}), Refused)
}

// TestArchive_EventsOnly_RestLater: events may be archived before the rest.
func TestArchive_EventsOnly_RestLater(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, _, txs := k.settledTxs(s, "alice", 1)
	owner, a := k.archivist()
	_, err := owner.RemoveArchived(k.ctx, a, txsOf(k.page(owner, a, id, false)), false)
	k.must(err)
	got, err := s.Tx(k.ctx, txs[0].ID)
	if k.must(err); got.TrimmedAt.IsZero() || !got.ArchivedAt.IsZero() ||
		len(got.Payload.Data) == 0 || len(got.Labels) == 0 {
		t.Errorf("%+v", got)
	}
	k.lawful(s, id)
	if len(k.page(owner, a, id, false)) > 0 {
		t.Error("its events are archived again")
	}
	lines := k.page(owner, a, id, true)
	removed, err := owner.RemoveArchived(k.ctx, a, txsOf(lines), true)
	if k.must(err); removed.Transactions != 1 {
		t.Errorf("%+v of %v", removed, lines)
	}
}

// TestArchive_Kept: data that may still be needed is not archived.
func TestArchive_Kept(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l, txs := k.settledTxs(s, "alice", 2)
	k.ended(s, l, k.queue(s, id, "unsettled"), 2, txn.Original)
	k.queue(s, id, "queued")
	cancelled := k.queue(s, id, "cancelled")
	_, err := s.CancelQueued(k.ctx, cancelled.ID)
	k.must(err)
	k.must(s.EnsureSinks(k.ctx, []string{"shop"}))
	k.exec("INSERT INTO sink_parked (sink, tx_id, submitter_id, next_seq, last_seq) "+
		"VALUES ('shop', $1, $2, 1, 1)", txs[0].ID.String(), id)
	owner, a := k.archivist()
	kept := txsOf(k.page(owner, a, id, true))
	if len(kept) != 2 || kept[0].ID != txs[1].ID || kept[1].ID != cancelled.ID {
		t.Errorf("%v may be archived", kept)
	}
	// it changed after it was read
	stale := []ArchiveTx{{ID: txs[0].ID, Version: kept[0].Version}, {ID: txs[1].ID, Version: 1}}
	if removed, err := owner.RemoveArchived(k.ctx, a, stale, true); err != nil ||
		removed.Transactions != 0 {
		t.Errorf("%+v, %v", removed, err)
	}
	young, _, _, err := owner.ArchivePage(k.ctx, a, ArchiveQuery{Submitter: id,
		Before: time.Now().Add(-time.Hour), Whole: true, Limit: 10})
	if k.must(err); len(young) > 0 {
		t.Errorf("young ones: %v", young)
	}
}

// TestArchive_Sink_KeepsUndelivered: events that a sink has not passed stay, also those of a sink
// that was paused before a node delivered.
func TestArchive_Sink_KeepsUndelivered(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	k.must(s.EnsureSinks(k.ctx, []string{"shop"}))
	k.must(s.SetSinkStatus(k.ctx, SinkDecision{Sink: "shop"}, txn.SinkPaused))
	id, _, _ := k.settledTxs(s, "alice", 1)
	owner, _ := k.archivist()
	k.eventually("no open transaction of another test holds back more than the sink", func() bool {
		a, err := owner.AcquireArchive(k.ctx)
		k.must(err)
		if a.Sink != "shop" {
			return false
		}
		if lines := k.page(owner, a, id, true); len(lines) > 0 {
			t.Errorf("%v, held by %q", lines, a.Sink)
		}
		return true
	})
	passed, now := k.end(s), strconv.FormatInt(k.nextXid(), 10)
	passed.Seen = now + ":" + now + ":"
	k.exec("UPDATE sink_cursor SET position = $1", passed.String())
	if a := k.toArchive(owner); len(k.page(owner, a, id, true)) != 1 {
		t.Errorf("delivered events are kept for %q", a.Sink)
	}
}

func TestArchive_TwoProcesses_OneWorks(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, _, _ := k.settledTxs(s, "alice", 1)
	first, a := k.archivist()
	second := k.open("other", k.asOwner)
	if _, err := second.AcquireArchive(k.ctx); !errors.Is(err, ErrArchiveRuns) {
		t.Fatalf("a second process: %v", err)
	}
	lines := k.page(first, a, id, true)
	k.exec("UPDATE archive_lease SET expires_at = clock_timestamp() - INTERVAL '1 second'")
	b, err := second.AcquireArchive(k.ctx)
	k.must(err)
	if _, err := first.RemoveArchived(k.ctx, a, txsOf(lines), true); !errors.Is(err,
		ErrArchiveLost) {
		t.Errorf("removed after a takeover: %v", err)
	}
	if err := first.TrimFeed(k.ctx, a, 5); !errors.Is(err, ErrArchiveLost) {
		t.Errorf("trimmed after a takeover: %v", err)
	}
	if err := first.RenewArchive(k.ctx, a); !errors.Is(err, ErrArchiveLost) {
		t.Errorf("renewed after a takeover: %v", err)
	}
	k.must(second.RenewArchive(k.ctx, b))
	second.ReleaseArchive(k.ctx, b)
	_, err = first.AcquireArchive(k.ctx)
	k.must(err)
}

// TestArchive_OlderNode_Refused: its audit would miss the events.
func TestArchive_OlderNode_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	_, err := s.Heartbeat(k.ctx, nil, true)
	k.must(err)
	owner, a := k.archivist()
	owner.ReleaseArchive(k.ctx, a)
	if n := value[int](k, "SELECT min_node_schema FROM ledger"); n != retentionSchema {
		t.Errorf("programs of version %d start", n)
	}
	k.exec("UPDATE node SET knows_schema = NULL")
	if _, err := owner.AcquireArchive(k.ctx); !errors.Is(err, ErrOlderNodes) {
		t.Errorf("beside an older node: %v", err)
	}
}

// TestArchive_OlderNodeStartsMeanwhile_Refused: it had checked the schema before the archive keeps
// older programs from starting, and is live afterwards.
func TestArchive_OlderNodeStartsMeanwhile_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	_, err := s.Heartbeat(k.ctx, nil, true)
	k.must(err)
	owner, a := k.archivist()
	k.must(owner.CheckReaders(k.ctx, 1))
	k.exec("UPDATE node SET knows_schema = NULL")
	if err := owner.CheckReaders(k.ctx, 1); !errors.Is(err, ErrOlderNodes) {
		t.Errorf("one started after the archive: %v", err)
	}
	owner.ReleaseArchive(k.ctx, a)
	k.exec("UPDATE node SET knows_schema = 99")
	k.exec(`CREATE FUNCTION starts() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN UPDATE node SET knows_schema = NULL; RETURN NULL; END $$`)
	k.exec(`CREATE TRIGGER starts AFTER UPDATE ON archive_lease FOR EACH STATEMENT
		EXECUTE FUNCTION starts()`)
	if _, err := owner.AcquireArchive(k.ctx); !errors.Is(err, ErrOlderNodes) {
		t.Errorf("one started meanwhile: %v", err)
	}
}

// TestArchive_Pool_StaysLabelled: an archived transaction is still found by its pool.
func TestArchive_Pool_StaysLabelled(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	p, ids := k.pool(s, "pay", 1)
	var txs []TxInfo
	for _, labels := range []map[string]string{nil, {"of": "bob"}} {
		i := pooled(p, fmt.Sprint("r", len(txs)))
		i.Labels = labels
		info, _, err := s.CreateTx(k.ctx, i)
		k.must(err)
		_, err = s.CancelQueued(k.ctx, info.ID)
		k.must(err)
		txs = append(txs, info)
	}
	owner, a := k.archivist()
	removed, err := owner.RemoveArchived(k.ctx, a, txsOf(k.page(owner, a, ids[0], true)), true)
	if k.must(err); removed.Transactions != 2 {
		t.Fatalf("%+v", removed)
	}
	found, err := s.Txs(k.ctx, TxFilter{Labels: map[string]string{PoolLabel: "pay"}, Limit: 10})
	if k.must(err); len(found) != 2 {
		t.Errorf("%d are found by their pool", len(found))
	}
	for _, tx := range txs {
		got, err := s.Tx(k.ctx, tx.ID)
		if k.must(err); got.Pool != "pay" || len(got.Labels) > 0 || got.ArchivedAt.IsZero() {
			t.Errorf("%+v", got)
		}
	}
}

// TestTrimFeed_OlderPosition_Trimmed: it may not have seen all trimmed events.
func TestTrimFeed_OlderPosition_Trimmed(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	before := k.end(s)
	id, _, _ := k.settledTxs(s, "alice", 1)
	owner, a := k.archivist()
	lines := k.page(owner, a, id, true)
	head, err := s.Head(k.ctx)
	k.must(err)
	if head.Trims(before) {
		t.Fatal("nothing was trimmed yet")
	}
	k.must(owner.TrimFeed(k.ctx, a, lines[0].Xid))
	if head, err = s.Head(k.ctx); err != nil || !head.Trims(before) {
		t.Errorf("trimmed up to %d, %v", head.Trimmed, err)
	}
	// not one of now: any transaction on the server that is older than it would hold it back
	newer := before
	newer.Seen = fmt.Sprintf("%d:%d:", head.Trimmed+1, head.Trimmed+1)
	if head.Trims(newer) {
		t.Errorf("a newer position is trimmed by %d", head.Trimmed)
	}
}

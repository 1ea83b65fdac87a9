package store

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// pipelined is a submitter with its lease, a cursor at 0 and this limit.
func (k *kit) pipelined(s *Store, name string, limit int) (txn.SubmitterID, *Lease) {
	k.t.Helper()
	id := k.submitter(s, name)
	k.must(s.SetPolicies(k.ctx, id, PolicyChange{Mode: new(txn.Pipelined), MaxInFlight: &limit}))
	l := k.lease(s, id)
	k.done(s, l, txn.Change{Init: &txn.CursorInit{Block: 7, BlockHash: hashOf(7)}})
	return id, l
}

// rangeOf takes contiguous nonces for transactions.
func rangeOf(from txn.Nonce, slot int16, txs ...txn.Tx) txn.Change {
	c := txn.Change{Take: &txn.Take{Nonce: from, More: len(txs) - 1}}
	for i, tx := range txs {
		w := allocation(tx, from+txn.Nonce(i))
		w.Next.Slot = slot + int16(i)
		c.Writes = append(c.Writes, w)
	}
	return c
}

func TestTakeRange(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.pipelined(s, "alice", 3)
	txs := []txn.Tx{k.queue(s, id, "0"), k.queue(s, id, "1"), k.queue(s, id, "2")}
	k.done(s, l, rangeOf(0, 0, txs...))
	ledger, err := s.Load(k.ctx, l)
	k.must(err)
	if ledger.Cursor.Next != 3 || len(ledger.Open) != 3 {
		t.Fatalf("cursor %d, %d open", ledger.Cursor.Next, len(ledger.Open))
	}
	for i, tx := range ledger.Open {
		if *tx.Nonce != txn.Nonce(i) || tx.Slot != int16(i) || tx.ID != txs[i].ID ||
			len(tx.Attempts) != 1 {
			t.Errorf("nonce %d: %+v", i, tx.Status)
		}
	}
	found, _, err := s.AuditWhole(k.ctx, id)
	if k.must(err); len(found) > 0 {
		t.Errorf("audit: %v", found)
	}
}

// TestTakeRange_Gap_Rejected: by the store, and by the database without it.
func TestTakeRange_Gap_Rejected(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.pipelined(s, "alice", 4)
	a, b := k.queue(s, id, "a"), k.queue(s, id, "b")
	gap := rangeOf(0, 0, a, b)
	*gap.Writes[1].Next.Nonce, gap.Writes[1].Attempt.Nonce = 2, 2
	gap.Take.More = 2
	twice := rangeOf(0, 0, a, b)
	*twice.Writes[1].Next.Nonce, twice.Writes[1].Attempt.Nonce = 0, 0
	short := rangeOf(0, 0, a, b)
	short.Take.More = 0
	for name, c := range map[string]txn.Change{"gap": gap, "twice": twice, "short": short} {
		k.want(k.commit(s, l, c), Refused)
		var rows []db.CommitRow
		_, err := s.retryConn.run(context.Background(), s.watchdog(),
			func(_ *pgx.Conn, q *db.Queries) (err error) {
				rows, err = q.Commit(k.ctx,
					commitParams(s.cfg.Node, []*commitJob{{lease: l, change: c}}))
				return err
			})
		if k.must(err); len(rows) != 1 || rows[0].Outcome != "CONFLICT" {
			t.Errorf("%s: the database decides %v", name, rows)
		}
	}
}

func TestTakeRange_AboveLimit_Conflict(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.pipelined(s, "alice", 2)
	txs := []txn.Tx{k.queue(s, id, "0"), k.queue(s, id, "1"), k.queue(s, id, "2")}
	k.want(k.commit(s, l, rangeOf(0, 0, txs...)), Conflict)
	k.done(s, l, rangeOf(0, 0, txs[:2]...))
}

// TestLowered_InFlightAbove_AuditAccepts: they were taken under the higher limit. No more are taken
// before the owner knows the lower one.
func TestLowered_InFlightAbove_AuditAccepts(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.pipelined(s, "alice", 3)
	txs := []txn.Tx{k.queue(s, id, "0"), k.queue(s, id, "1"), k.queue(s, id, "2")}
	k.done(s, l, rangeOf(0, 0, txs...))
	k.must(s.SetPolicies(k.ctx, id,
		PolicyChange{MaxInFlight: new(2), Asked: Ask{Operator: "olga"}}))
	sound := func() {
		t.Helper()
		found, _, err := s.AuditWhole(k.ctx, id)
		if k.must(err); len(found) > 0 {
			t.Errorf("audit: %v", found)
		}
	}
	sound() // also if the caller ends before it adds a command
	ledger, err := s.Load(k.ctx, l)
	k.must(err)
	k.done(s, l, txn.Change{Writes: []txn.Write{included(ledger.Open[0], 8)}})
	late := rangeOf(3, 0, k.queue(s, id, "late"))
	k.want(k.commit(s, l, late), Conflict) // by an owner that does not know the limit yet
	commands, err := s.Commands(k.ctx, id, 0, 9)
	if k.must(err); len(commands) != 1 || commands[0].Operator != "olga" {
		t.Fatalf("%+v", commands)
	}
	k.done(s, l, txn.Change{
		Commands: []txn.CommandResult{{ID: commands[0].ID, Result: txn.Applied}}})
	k.must(s.SetPolicies(k.ctx, id, PolicyChange{MaxInFlight: new(1)}))
	commands, err = s.Commands(k.ctx, id, 0, 1)
	k.must(err)
	k.done(s, l, txn.Change{
		Commands: []txn.CommandResult{{ID: commands[0].ID, Result: txn.Applied}}})
	sound()
	var found []Violation
	k.exec("UPDATE submitter_command SET applied_at = 'epoch'")
	if found, _, err = s.AuditWhole(k.ctx, id); err != nil || len(found) != 1 ||
		found[0].Check != "in_flight" {
		t.Errorf("audit of nonces taken above the limit: %v %v", found, err)
	}
}

func TestSetPolicies_Mode(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	for _, c := range []struct {
		change PolicyChange
		mode   txn.Mode
		limit  int
	}{
		{PolicyChange{Mode: new(txn.Pipelined)}, txn.Pipelined, txn.DefaultInFlight},
		{PolicyChange{MaxInFlight: new(3)}, txn.Pipelined, 3},
		{PolicyChange{Mode: new(txn.Pipelined)}, txn.Pipelined, 3},
		{PolicyChange{Mode: new(txn.Strict)}, txn.Strict, 1},
		{PolicyChange{MaxInFlight: new(1)}, txn.Strict, 1},
		{PolicyChange{Mode: new(txn.Pipelined), MaxInFlight: new(1024)}, txn.Pipelined, 1024},
	} {
		k.must(s.SetPolicies(k.ctx, id, c.change))
		info, err := s.Submitter(k.ctx, id)
		if k.must(err); info.Mode != c.mode || info.Limit != c.limit {
			t.Errorf("%+v: %s %d", c.change, info.Mode, info.Limit)
		}
	}
	// The owner may have been an older program.
	k.want(k.commit(s, l, txn.Change{Status: txn.Paused}), Fenced)
}

func TestSetPolicies_LimitOfStrict_Rejected(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	err := s.SetPolicies(k.ctx, id, PolicyChange{MaxInFlight: new(2)})
	if !errors.Is(err, ErrModeLimit) {
		t.Error(err)
	}
}

// TestAcquire_OlderProgram_NotPipelined: a program that does not declare the mode gets no lease of
// a pipelined submitter, and none while several nonces are in flight.
func TestAcquire_OlderProgram_NotPipelined(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.pipelined(s, "alice", 3)
	k.done(s, l, rangeOf(0, 0, k.queue(s, id, "0"), k.queue(s, id, "1")))
	strict := k.submitter(s, "bob")
	k.must(s.Release(k.ctx, []*Lease{l}))
	older := k.session()
	acquires := func(id txn.SubmitterID) bool {
		rows, err := db.New(older).AcquireLeases(k.ctx, db.AcquireLeasesParams{
			OwnerNode: "old/1", Seconds: 10, SubmitterIds: []int32{int32(id)}})
		k.must(err)
		return len(rows) == 1
	}
	if acquires(id) || !acquires(strict) {
		t.Error("an older program gets the lease of a pipelined submitter, or none of a strict one")
	}
	k.must(s.SetPolicies(k.ctx, id, PolicyChange{Mode: new(txn.Strict)}))
	if acquires(id) {
		t.Error("an older program gets a lease with several nonces in flight")
	}
	if l, err := s.AcquireOne(k.ctx, id); err != nil || l == nil {
		t.Errorf("this program gets %v %v", l, err)
	}
}

func TestRegister_OtherMode(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	r := Registration{Name: "alice", Chain: 1, Signer: "x", Mode: txn.Pipelined, StartFrom: "0"}
	info, created, err := s.Register(k.ctx, r)
	if k.must(err); !created || info.Limit != txn.DefaultInFlight {
		t.Errorf("%+v", info)
	}
	r.Mode = txn.Strict
	if _, _, err := s.Register(k.ctx, r); !errors.Is(err, ErrSubmitterExists) {
		t.Error(err)
	}
	r.AnyMode = true // the configuration of a node: the ledger's mode counts
	info, created, err = s.Register(k.ctx, r)
	if k.must(err); created || info.Mode != txn.Pipelined || !r.As(info.Submitter) {
		t.Errorf("%+v", info)
	}
}

package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// threeLedgers is a directory and the ledgers eu1, us1 and ap1.
type threeLedgers struct {
	*moveKit
	ap     *Store
	last   *kit
	stores map[string]*Store
}

func newThreeLedgers(t *testing.T) *threeLedgers {
	t.Helper()
	d := newDirectoryKit(t, 4)
	w := &threeLedgers{stores: map[string]*Store{}}
	directory := d.open("directory", d.asOwner)
	for i, name := range []string{"eu1", "us1", "ap1"} {
		_, err := d.join(i+1, name)
		d.must(err)
		own := d.ledgers[i+1]
		w.stores[name] = own.open("move", own.asOwner,
			func(c *Config) { c.Directory = directory })
	}
	w.moveKit = &moveKit{directoryKit: d, old: d.ledgers[1], next: d.ledgers[2],
		eu: d.node(1), us: d.node(2), from: w.stores["eu1"], to: w.stores["us1"]}
	w.last, w.ap = d.ledgers[3], d.node(3)
	for _, s := range []*Store{w.eu, w.us, w.ap} {
		d.must(s.RegisterChain(d.ctx, 31337, hashOf("genesis")))
	}
	return w
}

func (w *threeLedgers) mover(from, to string) *AccountMove {
	w.t.Helper()
	m, err := PrepareMove(w.ctx, w.stores[from], w.stores[to], "alice", to)
	w.must(err)
	return m
}

func (w *threeLedgers) joinAll() (errs []error) {
	for i, name := range []string{"eu1", "us1", "ap1"} {
		if _, err := w.join(i+1, name); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// movesOn moves alice from us1 to ap1.
func (w *threeLedgers) movesOn(id txn.SubmitterID) {
	w.t.Helper()
	mine := w.next.lease(w.us, id)
	_, err := w.mover("us1", "ap1").Run(w.ctx, time.Millisecond, func(MoveProgress) {
		boxes, err := w.us.Inboxes(w.ctx, []txn.SubmitterID{id}, 10)
		w.must(err)
		for _, c := range boxes[id].Commands {
			w.next.done(w.us, mine, txn.Change{Status: txn.Paused,
				Commands: []txn.CommandResult{{ID: c.ID, Result: txn.Applied}}})
		}
	})
	w.must(err)
}

// TestMove_RedirectLostInDirectory_OneLedger: a move to us1 was begun, given up, and made to ap1.
// The directory is restored to the first, and no command makes a second copy of the account.
func TestMove_RedirectLostInDirectory_OneLedger(t *testing.T) {
	t.Parallel()
	for name, joins := range map[string]bool{"joined again": true, "not joined": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newThreeLedgers(t)
			id, l := w.old.owned(w.eu, "alice")
			w.old.queue(w.eu, id, "waits")
			w.stopAt(w.mover("eu1", "us1"), "after begin", l)
			to := value[int32](w.kit, "SELECT to_no FROM directory_move")
			no := value[int32](w.kit, "SELECT no FROM directory_account WHERE name = 'alice'")
			w.moves(w.mover("eu1", "ap1"), l)
			w.exec(`UPDATE directory_move
				SET step = 'BEGUN', token = NULL, to_epoch = NULL, to_no = $1`, to)
			w.exec("UPDATE directory_account SET no = $1 WHERE name = 'alice'", no)
			if joins {
				if errs := w.joinAll(); len(errs) > 0 {
					t.Errorf("join again: %v", errs)
				}
			}
			_, err := w.mover("eu1", "us1").Run(w.ctx, time.Millisecond, w.owner(l))
			if !errors.Is(err, ErrCannotMove) {
				t.Errorf("the move to another ledger: %v", err)
			}
			us, err := w.us.AcquireOne(w.ctx, id)
			w.must(err)
			ap, err := w.ap.AcquireOne(w.ctx, id)
			w.must(err)
			if us != nil || ap == nil {
				t.Errorf("lease in us1 %t, in ap1 %t", us != nil, ap != nil)
			}
			w.moves(w.mover("eu1", "ap1"), l)
			w.unseal() // a later restore of the old ledger
			if sealed, err := w.eu.SealMoved(w.ctx); err != nil || len(sealed) != 1 {
				t.Errorf("sealed again: %v %v", sealed, err)
			}
		})
	}
}

// TestDirectory_MovedTwice_JoinsAgain: the directory is restored to before both moves of an
// account.
func TestDirectory_MovedTwice_JoinsAgain(t *testing.T) {
	t.Parallel()
	w := newThreeLedgers(t)
	_, l := w.old.owned(w.eu, "alice")
	no := value[int32](w.kit, "SELECT no FROM directory_account WHERE name = 'alice'")
	w.moves(w.mover("eu1", "us1"), l)
	id := txn.SubmitterID(value[int32](w.next, "SELECT submitter_id FROM submitter"))
	w.movesOn(id)
	if again := w.moves(w.mover("eu1", "us1"), l); again.Left != "ap1" {
		t.Errorf("the first move again: %+v", again)
	}
	w.exec("DELETE FROM directory_move")
	w.exec("UPDATE directory_account SET no = $1 WHERE name = 'alice'", no)
	if errs := w.joinAll(); len(errs) > 0 {
		t.Errorf("join again: %v", errs)
	}
	known := value[int](w.kit, "SELECT count(*) FROM directory_move WHERE step = 'DONE'")
	has := value[string](w.kit, `SELECT d.name FROM directory_account a
		JOIN directory_ledger d ON d.no = a.no WHERE a.name = 'alice'`)
	if known != 2 || has != "ap1" {
		t.Errorf("the directory knows %d of two moves, and has the account in %s", known, has)
	}
}

// TestMove_Back_Refused: an account moves to no ledger that it was in before, whether it arrived
// there by a move or not. It keeps its ledger.
func TestMove_Back_Refused(t *testing.T) {
	t.Parallel()
	w := newThreeLedgers(t)
	id, l := w.old.owned(w.eu, "alice")
	w.moves(w.mover("eu1", "us1"), l)
	refused := func(from, to string) {
		t.Helper()
		m := w.mover(from, to)
		m.at = func(point string) error {
			if point == "after begin" {
				return errStopped
			}
			return nil
		}
		_, err := m.Run(w.ctx, time.Millisecond, func(MoveProgress) {})
		if !errors.Is(err, ErrCannotMove) || !strings.Contains(err.Error(), "was in ledger") {
			t.Errorf("from %s back to %s: %v", from, to, err)
		}
	}
	refused("us1", "eu1")
	w.movesOn(id)
	refused("ap1", "us1")
	refused("ap1", "eu1")
	if moves := value[int](w.kit, "SELECT count(*) FROM directory_move"); moves != 2 {
		t.Errorf("the directory has %d moves, want 2", moves)
	}
	if lease, err := w.ap.AcquireOne(w.ctx, id); err != nil || lease == nil {
		t.Errorf("no lease in its ledger: %v", err)
	}
}

// TestMove_BackBegunByOlderProgram_ReportsPause: an older program began to move an account back,
// and paused it. The refusal says that it stays paused, and how to end that.
func TestMove_BackBegunByOlderProgram_ReportsPause(t *testing.T) {
	t.Parallel()
	w := newThreeLedgers(t)
	_, l := w.old.owned(w.eu, "alice")
	w.moves(w.mover("eu1", "us1"), l)
	w.exec(`INSERT INTO directory_move (move_id, submitter_id, name, from_no, to_no, resume)
		SELECT gen_random_uuid(), submitter_id, name, to_no, from_no, TRUE FROM directory_move`)
	w.next.exec("UPDATE submitter SET status = 'PAUSED'")
	_, err := w.mover("us1", "eu1").Run(w.ctx, time.Millisecond, func(MoveProgress) {})
	if !errors.Is(err, ErrCannotMove) {
		t.Fatalf("back: %v", err)
	}
	for _, part := range []string{"was in ledger", "stays paused", `submitter resume alice"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v: lacks %q", err, part)
		}
	}
}

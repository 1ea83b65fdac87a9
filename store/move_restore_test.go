package store

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// stopAt runs a move until a point, where its command ends.
func (k *moveKit) stopAt(m *AccountMove, point string, l *Lease) {
	k.t.Helper()
	m.at = func(where string) error {
		if where == point {
			return errStopped
		}
		return nil
	}
	if _, err := m.Run(k.ctx, time.Millisecond, k.owner(l)); !errors.Is(err, errStopped) {
		k.t.Fatalf("not stopped %s: %v", point, err)
	}
}

// moves moves an account to the end.
func (k *moveKit) moves(m *AccountMove, l *Lease) MovedAccount {
	k.t.Helper()
	moved, err := m.Run(k.ctx, time.Millisecond, k.owner(l))
	k.must(err)
	return moved
}

// TestMove_SameOwnerInBackup_ArrivesProtected: an owner keeps one token for hours, so the tombstone
// that the restored ledger gets must not have the token of the lost one. The requests of the backup
// are not applied in the new ledger.
func TestMove_SameOwnerInBackup_ArrivesProtected(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*moveKit) error{
		"node start": func(k *moveKit) error { _, err := k.from.SealMoved(k.ctx); return err },
		"recover":    func(k *moveKit) error { _, err := k.from.Recover(k.ctx); return err },
		"command":    func(*moveKit) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newMoveKit(t)
			id, l := k.old.owned(k.eu, "alice")
			k.old.queue(k.eu, id, "waits")
			token := value[int64](k.old, "SELECT fencing_token FROM submitter_lease")
			k.stopAt(k.prepare("alice"), "before copy", l)
			k.unseal()
			k.old.exec("ALTER TABLE submitter_lease DISABLE TRIGGER USER")
			k.old.exec("UPDATE submitter_lease SET fencing_token = $1", token)
			k.old.exec("ALTER TABLE submitter_lease ENABLE TRIGGER USER")
			bob := k.old.submitter(k.eu, "bob")
			for _, of := range []txn.SubmitterID{id, bob} {
				_, err := k.eu.AddCommand(k.ctx, of,
					Ask{Kind: txn.CommandResume, Operator: "op"})
				k.must(err)
			}
			k.must(again(k))
			moved, err := k.prepare("alice").Run(k.ctx, time.Millisecond, func(MoveProgress) {})
			k.must(err)
			others := value[int](k.old, "SELECT count(*) FROM submitter_command "+
				"WHERE applied_at IS NULL AND submitter_id = $1", int32(bob))
			if want := map[bool]int{true: 0, false: 1}[name == "recover"]; others != want {
				t.Errorf("%d requests to another account pending, want %d", others, want)
			}
			repeated := k.moves(k.prepare("alice"), l)
			if repeated.Copied || !repeated.Protected {
				t.Errorf("the command again: %+v", repeated)
			}
			status := value[string](k.next, "SELECT status FROM submitter")
			pending := value[int](k.next,
				"SELECT count(*) FROM submitter_command WHERE applied_at IS NULL")
			if !moved.Protected || status != "PAUSED" || pending != 0 {
				t.Errorf("%+v, %s, %d requests pending", moved, status, pending)
			}
		})
	}
}

// TestMove_PausedByOperatorLater_StaysPaused: a move resumes the pause that it asked for, and no
// other.
func TestMove_PausedByOperatorLater_StaysPaused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stop string
		want txn.SubmitterStatus
	}{"given up before its pause": {"after begin", txn.Paused},
		"given up after its pause": {"before seal", txn.Paused}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newMoveKit(t)
			id, l := k.old.owned(k.eu, "alice")
			k.stopAt(k.prepare("alice"), c.stop, l)
			_, err := k.eu.AddCommand(k.ctx, id,
				Ask{Kind: txn.CommandPause, Reason: "incident", Operator: "op"})
			k.must(err)
			k.owner(l)(MoveProgress{})
			k.moves(k.prepare("alice"), l)
			if is := value[string](k.next, "SELECT status FROM submitter"); is != string(c.want) {
				t.Errorf("the account arrived %s", is)
			}
			if again := k.moves(k.prepare("alice"), l); !again.Paused || again.Left != "" {
				t.Errorf("the command again: %+v", again)
			}
		})
	}
}

// TestMove_OlderThanAccount_NumberNotReused: an old ledger that is restored to before the account
// does not give its number to another one, which would get the tombstone.
func TestMove_OlderThanAccount_NumberNotReused(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	k.old.submitter(k.eu, "bob")
	id, l := k.old.owned(k.eu, "alice")
	k.moves(k.prepare("alice"), l)
	k.old.exec(`DO $$ BEGIN
		PERFORM set_config('session_replication_role', 'replica', TRUE);
		DELETE FROM tx_event; DELETE FROM submitter_command; DELETE FROM submitter_nonce_cursor;
		DELETE FROM managed_tx; DELETE FROM submitter_lease WHERE submitter_id > 1;
		DELETE FROM submitter WHERE submitter_id > 1;
	END $$`)
	k.old.exec("SELECT setval('submitter_submitter_id_seq', 1)")
	early, _, err := k.eu.Register(k.ctx, registration("dave", 8)) // before the recovery
	k.must(err)
	_, err = k.from.Recover(k.ctx)
	k.must(err)
	carol, _, err := k.eu.Register(k.ctx, registration("carol", 9))
	k.must(err)
	if early.ID != id || carol.ID <= id {
		t.Errorf("alice had number %d, dave has %d, carol %d", id, early.ID, carol.ID)
	}
	_, err = k.eu.SealMoved(k.ctx)
	k.must(err)
	for _, s := range []txn.SubmitterID{carol.ID, early.ID} {
		if _, err := k.eu.Submitter(k.ctx, s); err != nil {
			t.Errorf("an account that never moved: %v", err)
		}
	}
}

// TestMove_DirectoryRestored_Resumes: the directory is restored to before the move, which has set
// its tombstone. Commits of the new ledger may be lost with it.
func TestMove_DirectoryRestored_Resumes(t *testing.T) {
	t.Parallel()
	for name, joins := range map[string]bool{"joined again": true, "not joined": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newMoveKit(t)
			_, l := k.old.owned(k.eu, "alice")
			k.stopAt(k.prepare("alice"), "before copy", l)
			k.exec("DELETE FROM directory_move")
			for i, name := range []string{"eu1", "us1"} {
				if joins {
					_, err := k.join(i+1, name)
					k.must(err)
				}
			}
			if moved := k.moves(k.prepare("alice"), l); !moved.Protected {
				t.Errorf("%+v", moved)
			}
			if no := value[string](k.kit, `SELECT d.name FROM directory_account a
				JOIN directory_ledger d ON d.no = a.no WHERE a.name = 'alice'`); no != "us1" {
				t.Errorf("the directory has it in %s", no)
			}
		})
	}
}

// TestMove_DirectoryAndNewRestored_ArrivesProtected: the directory is restored to the begin of the
// move, with the new ledger, which has been recovered.
func TestMove_DirectoryAndNewRestored_ArrivesProtected(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	_, l := k.old.owned(k.eu, "alice")
	k.stopAt(k.prepare("alice"), "before copy", l)
	k.exec("UPDATE directory_move SET step = 'BEGUN', token = NULL, to_epoch = NULL")
	_, err := k.to.Recover(k.ctx)
	k.must(err)
	if moved := k.moves(k.prepare("alice"), l); !moved.Protected {
		t.Errorf("%+v", moved)
	}
}

// TestDirectory_AllMovedAway_RegistersAgain: a ledger whose accounts have all left joins again.
func TestDirectory_AllMovedAway_RegistersAgain(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	_, l := k.old.owned(k.eu, "alice")
	k.moves(k.prepare("alice"), l)
	_, err := k.join(1, "eu1")
	k.must(err)
	if _, _, err := k.eu.Register(k.ctx, registration("bob", 9)); err != nil {
		t.Errorf("a new account: %v", err)
	}
}

// TestLease_TimelineChanged_WaitsForDirectory: a ledger that may have lost tombstones gives no
// lease and extends none before the directory has answered. Without a change it needs no answer.
func TestLease_TimelineChanged_WaitsForDirectory(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	alice, l := k.old.owned(k.eu, "alice")
	bob, _ := k.old.owned(k.eu, "bob")
	k.moves(k.prepare("alice"), l)
	alone := k.old.open("a") // its directory is down
	mine, err := alone.AcquireOne(k.ctx, bob)
	if err != nil || mine == nil {
		t.Fatalf("no lease without a change: %v", err)
	}
	k.unseal()
	k.old.exec("UPDATE ledger SET timeline = timeline + 1")
	if _, err := alone.SealMoved(k.ctx); !errors.Is(err, ErrDirectory) {
		t.Errorf("asked without a directory: %v", err)
	}
	for _, id := range []txn.SubmitterID{alice, bob} {
		if l, err := alone.AcquireOne(k.ctx, id); err != nil || l != nil {
			t.Errorf("lease of %d before the answer: %v %v", id, l, err)
		}
	}
	if left, err := alone.Renew(k.ctx, []*Lease{mine}); err != nil || len(left) > 0 {
		t.Errorf("extended %v before the answer: %v", left, err)
	}
	if must, err := alone.MustAskMoved(k.ctx); err != nil || !must {
		t.Errorf("must ask: %t %v", must, err)
	}
	if sealed, err := k.eu.SealMoved(k.ctx); err != nil || len(sealed) != 1 {
		t.Errorf("sealed %v %v", sealed, err)
	}
	for id, want := range map[txn.SubmitterID]bool{alice: false, bob: true} {
		if l, err := k.eu.AcquireOne(k.ctx, id); err != nil || (l != nil) != want {
			t.Errorf("lease of %d after the answer: %v %v", id, l, err)
		}
	}
	if must, err := alone.MustAskMoved(k.ctx); err != nil || must {
		t.Errorf("must ask after the answer: %t %v", must, err)
	}
}

// TestSealMoved_NoRights_NamesGrants: a role that may not read the moves is an error of its own.
func TestSealMoved_NoRights_NamesGrants(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	u, err := url.Parse(k.db.NodeURL)
	k.must(err)
	k.exec("REVOKE ALL ON directory_move FROM " + quoted(u.User.Username()))
	if _, err := k.eu.SealMoved(k.ctx); !errors.Is(err, ErrNoRights) {
		t.Errorf("without rights: %v", err)
	}
}

// TestRecover_WithoutDirectory_NoAnswer: a recovery without directory.url is no answer of the
// directory, also with the tables of an earlier one in this database.
func TestRecover_WithoutDirectory_NoAnswer(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	k.old.exec("INSERT INTO directory_ledger (no, name, ledger_id) " +
		"SELECT l.directory_no, 'eu1', l.ledger_id FROM ledger l")
	alice, l := k.old.owned(k.eu, "alice")
	k.moves(k.prepare("alice"), l)
	k.unseal()
	k.old.exec("UPDATE ledger SET timeline = timeline + 1")
	alone := k.old.open("recover", k.old.asOwner, func(c *Config) { c.Adopts = true })
	_, err := alone.Recover(k.ctx)
	k.must(err)
	if got, err := k.eu.AcquireOne(k.ctx, alice); err != nil || got != nil {
		t.Errorf("the old ledger gave a lease before the directory was asked: %v %v", got, err)
	}
}

// TestSealMoved_NotJoinedWithoutRights_NamesGrants: a ledger that has not joined asks too, and gets
// no lease after a fail-over before it has.
func TestSealMoved_NotJoinedWithoutRights_NamesGrants(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	k.neverJoined()
	u, err := url.Parse(k.db.NodeURL)
	k.must(err)
	k.exec("REVOKE ALL ON directory_ledger FROM " + quoted(u.User.Username()))
	if _, err := k.eu.SealMoved(k.ctx); !errors.Is(err, ErrNoRights) {
		t.Errorf("without rights: %v", err)
	}
}

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// moveKit is two ledgers, and a directory in a database of its own.
type moveKit struct {
	*directoryKit
	old, next *kit
	eu, us    *Store // nodes of the old and of the new ledger
	from, to  *Store // as the command has them
}

func newMoveKit(t *testing.T) *moveKit {
	t.Helper()
	d := newDirectoryKit(t, 3)
	for i, name := range []string{"eu1", "us1"} {
		_, err := d.join(i+1, name)
		d.must(err)
	}
	k := &moveKit{directoryKit: d, old: d.ledgers[1], next: d.ledgers[2],
		eu: d.node(1), us: d.node(2)}
	directory := d.open("directory", d.asOwner)
	own := func(l *kit) *Store {
		return l.open("move", l.asOwner, func(c *Config) { c.Directory = directory })
	}
	k.from, k.to = own(k.old), own(k.next)
	for _, s := range []*Store{k.eu, k.us} {
		d.must(s.RegisterChain(d.ctx, 31337, hashOf("genesis")))
		d.must(s.RegisterChain(d.ctx, 1, hashOf("mainnet")))
	}
	return k
}

// owner obeys the commands for an account of the old ledger, as its owner does.
func (k *moveKit) owner(l *Lease) func(MoveProgress) {
	return func(MoveProgress) {
		box := k.inbox(l)
		for _, c := range box.Commands {
			k.old.done(k.eu, l, txn.Change{Status: txn.Paused,
				Commands: []txn.CommandResult{{ID: c.ID, Result: txn.Applied}}})
		}
	}
}

func (k *moveKit) inbox(l *Lease) Inbox {
	k.t.Helper()
	boxes, err := k.eu.Inboxes(k.ctx, []txn.SubmitterID{l.submitter}, 10)
	k.must(err)
	return boxes[l.submitter]
}

func (k *moveKit) prepare(name string) *AccountMove {
	k.t.Helper()
	m, err := PrepareMove(k.ctx, k.from, k.to, name, "us1")
	k.must(err)
	return m
}

// grown is an account of the old ledger whose transactions are all final or queued.
func (k *moveKit) grown() (txn.SubmitterID, *Lease) {
	k.t.Helper()
	id, l := k.old.lived(k.eu)
	txs, err := k.eu.Txs(k.ctx, TxFilter{Submitter: id, Limit: 100})
	k.must(err)
	for _, tx := range txs {
		if tx.State != txn.Tracking {
			continue
		}
		for _, next := range []func(txn.Tx) txn.Write{
			func(tx txn.Tx) txn.Write { return included(tx, 20) }, confirmed} {
			w := next(tx.Tx)
			k.old.done(k.eu, l, txn.Change{Writes: []txn.Write{w}})
			tx.Tx = after(tx.Tx, w)
		}
	}
	return id, l
}

// TestMove: all of an account is in the new ledger, and the old one refuses it for ever.
func TestMove(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	id, l := k.grown()
	before, err := k.eu.Txs(k.ctx, TxFilter{Submitter: id, Limit: 100})
	k.must(err)
	watcher := k.next.follow(k.us, 10)
	moved, err := k.prepare("alice").Run(k.ctx, time.Millisecond, k.owner(l))
	k.must(err)
	if moved.Transactions != int64(len(before)) || moved.Paused || moved.Protected {
		t.Errorf("%+v", moved)
	}
	after, err := k.us.Txs(k.ctx, TxFilter{Submitter: id, Limit: 100})
	k.must(err)
	if len(after) != len(before) {
		t.Fatalf("%d transactions arrived, want %d", len(after), len(before))
	}
	for i, tx := range after {
		was := before[i]
		if tx.ID != was.ID || tx.Status.State != was.Status.State || tx.Version != was.Version {
			t.Errorf("%s arrived as %v, was %v", tx.ID, tx.Status, was.Status)
		}
		if again, created, err := k.us.CreateTx(k.ctx, Intent{Submitter: id,
			RequestID: tx.RequestID, Payload: tx.Payload, Terms: tx.Terms}); err != nil ||
			created || again.ID != was.ID {
			t.Errorf("%q again: %s %t %v", tx.RequestID, again.ID, created, err)
		}
	}
	if watcher.read(); len(watcher.seen) > 0 {
		t.Errorf("the new ledger's feed reports %d events again", len(watcher.seen))
	}
	mine := k.next.lease(k.us, id)
	here := k.next.load(k.us, mine)
	if here.Cursor.Next != 8 || here.Submitter.Status != txn.Active {
		t.Errorf("cursor %+v, status %s", here.Cursor, here.Submitter.Status)
	}
	fresh := k.next.queue(k.us, id, "fresh")
	heads, err := k.us.Inboxes(k.ctx, []txn.SubmitterID{id}, 10)
	k.must(err)
	if queue := heads[id].Queue; len(queue) == 0 || queue[len(queue)-1].ID != fresh.ID {
		t.Errorf("a new transaction is not the last of the queue: %v", queue)
	}
	found, next, err := k.us.AuditWhole(k.ctx, id)
	k.must(err)
	if len(found) > 0 || next != 8 {
		t.Errorf("audit in the new ledger: %v, next %d", found, next)
	}
	history, err := k.us.VerifyChain(k.ctx, id, nil)
	k.must(err)
	if len(history.Violations) > 0 || history.Unhashed > 0 {
		t.Errorf("history in the new ledger: %+v", history)
	}
	if watcher.read(); len(watcher.seen) != 1 {
		t.Errorf("the new ledger's feed has %d events, want one", len(watcher.seen))
	}
	k.refusesAll(id, l, before[0].ID)
	again, err := k.prepare("alice").Run(k.ctx, time.Millisecond, func(MoveProgress) {})
	if err != nil || again.Transactions != 0 {
		t.Errorf("repeated: %+v %v", again, err)
	}
}

// refusesAll checks that nothing is read, written or owned in the old ledger.
func (k *moveKit) refusesAll(id txn.SubmitterID, l *Lease, tx txn.TxID) {
	k.t.Helper()
	for name, do := range map[string]func() error{
		"create": func() error {
			_, _, err := k.eu.CreateTx(k.ctx, Intent{Submitter: id, RequestID: "late",
				Payload: payload("late")})
			return err
		},
		"create again": func() error {
			_, _, err := k.eu.CreateTx(k.ctx, Intent{Submitter: id, RequestID: "waits",
				Payload: payload("waits")})
			return err
		},
		"tx": func() error { _, err := k.eu.Tx(k.ctx, tx); return err },
		"later tx": func() error {
			later, err := txn.NewTxID(time.Now(), id)
			k.must(err)
			_, err = k.eu.Tx(k.ctx, later)
			return err
		},
		"later request": func() error {
			_, err := k.eu.TxByRequest(k.ctx, id, "later")
			return err
		},
		"submitter": func() error {
			_, err := k.eu.Submitter(k.ctx, id)
			return err
		},
		"look-up": func() error {
			_, err := k.old.open("fresh").Lookup(k.ctx, "alice")
			return err
		},
		"resume": func() error {
			_, err := k.eu.AddCommand(k.ctx, id, Ask{Kind: txn.CommandResume})
			return err
		},
		"cancel": func() error { _, err := k.eu.CancelQueued(k.ctx, k.queuedTx(id)); return err },
	} {
		moved, ok := errors.AsType[*MovedError](do())
		if !ok || moved.Ledger != "us1" {
			k.t.Errorf("%s in the old ledger: %v", name, do())
		}
	}
	if o, _ := k.eu.Commit(l, txn.Change{Status: txn.Active}); o != Fenced {
		k.t.Errorf("the former owner's commit is %v", o)
	}
	for range 2 {
		if got, err := k.eu.AcquireOne(k.ctx, id); got != nil || err != nil {
			k.t.Errorf("the old ledger gave a lease: %v %v", got, err)
		}
		// by hand, too
		if _, err := k.old.db.Pool.Exec(k.ctx, "UPDATE submitter SET status = 'ACTIVE', "+
			"moved_to = NULL WHERE submitter_id = $1", id); err == nil {
			k.t.Error("the tombstone can be removed")
		}
		if _, err := k.old.db.Pool.Exec(k.ctx, "UPDATE submitter_lease SET moved_to = NULL, "+
			"expires_at = 'epoch' WHERE submitter_id = $1", id); err != nil {
			k.t.Error(err)
		}
	}
	orphans, err := k.eu.Orphans(k.ctx, []txn.ChainID{1, 31337}, 0, 100)
	k.must(err)
	if slices.Contains(orphans, id) {
		k.t.Error("the old ledger offers the account to its nodes")
	}
}

func (k *moveKit) queuedTx(id txn.SubmitterID) txn.TxID {
	k.t.Helper()
	text := value[string](k.old, "SELECT tx_id::TEXT FROM managed_tx WHERE submitter_id = $1 "+
		"AND state = 'QUEUED' ORDER BY queue_seq DESC LIMIT 1", id)
	tx, err := txn.ParseTxID(text)
	k.must(err)
	return tx
}

// TestMove_KilledAtEveryPoint_Repeated: wherever the command ends, at most one ledger has an owner
// of the account, and repeating the command moves it.
func TestMove_KilledAtEveryPoint_Repeated(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	for point, ended := 1, false; !ended; point++ {
		name := fmt.Sprint("alice", point)
		id, l := k.old.owned(k.eu, name)
		first := k.old.queue(k.eu, id, "first")
		ended = true
		m, count := k.prepare(name), 0
		at := ""
		m.at = func(where string) error {
			if count++; count == point {
				ended, at = false, where
				return errStopped
			}
			return nil
		}
		_, err := m.Run(k.ctx, time.Millisecond, k.owner(l))
		if (err == nil) != ended || err != nil && !errors.Is(err, errStopped) {
			t.Fatalf("point %d %s: %v", point, at, err)
		}
		if here, _ := k.oneLedger(id, at); here != nil {
			l = here
		}
		ctx, cancel := context.WithTimeout(k.ctx, patience)
		if _, err := k.prepare(name).Run(ctx, time.Millisecond, k.owner(l)); err != nil {
			t.Fatalf("repeated after point %d %s: %v", point, at, err)
		}
		cancel()
		if _, there := k.oneLedger(id, at); there == nil {
			t.Errorf("point %d %s: the account is in the old ledger", point, at)
		}
		again, created, err := k.us.CreateTx(k.ctx, Intent{Submitter: id, RequestID: "first",
			Payload: payload("first")})
		if err != nil || created || again.ID != first.ID {
			t.Errorf("point %d %s: the key names %s, %t, %v", point, at, again.ID, created, err)
		}
	}
}

// oneLedger acquires the lease in both ledgers. Not both may give it.
func (k *moveKit) oneLedger(id txn.SubmitterID, at string) (here, there *Lease) {
	k.t.Helper()
	here, err := k.eu.AcquireOne(k.ctx, id)
	k.must(err)
	there, err = k.us.AcquireOne(k.ctx, id)
	k.must(err)
	if here != nil && there != nil {
		k.t.Errorf("stopped %s: both ledgers give the lease", at)
	}
	k.t.Logf("stopped %s: old %t, new %t", at, here != nil, there != nil)
	return here, there
}

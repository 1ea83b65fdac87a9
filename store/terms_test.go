package store

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/txn"
)

func (k *kit) queueWith(s *Store, id txn.SubmitterID, request string, terms txn.Terms) txn.Tx {
	k.t.Helper()
	info, _, err := s.CreateTx(k.ctx, Intent{Submitter: id, RequestID: request, Terms: terms})
	k.must(err)
	return info.Tx
}

func TestTerms_StoredAndHashed(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	terms := txn.Terms{
		Speed:      txn.Fast,
		MaxFee:     *uint256.NewInt(70),
		NotAfter:   time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC(),
		CancelLate: true,
	}
	made := k.queueWith(s, id, "r1", terms)
	read, err := s.Tx(k.ctx, made.ID)
	k.must(err)
	if read.Terms.Speed != terms.Speed || read.Terms.MaxFee != terms.MaxFee ||
		!read.Terms.NotAfter.Equal(terms.NotAfter) ||
		!read.Terms.CancelLate {
		t.Fatalf("%+v", read.Terms)
	}
	if again := k.queueWith(s, id, "r1", terms); again.ID != made.ID {
		t.Fatal("the same request makes another transaction")
	}
	for name, change := range map[string]func(*txn.Terms){
		"speed":    func(t *txn.Terms) { t.Speed = txn.Slow },
		"fee":      func(t *txn.Terms) { t.MaxFee = *uint256.NewInt(71) },
		"deadline": func(t *txn.Terms) { t.NotAfter = t.NotAfter.Add(time.Microsecond) },
		"late":     func(t *txn.Terms) { t.CancelLate = false },
		"none":     func(t *txn.Terms) { *t = txn.Terms{} },
	} {
		other := terms
		change(&other)
		_, _, err := s.CreateTx(k.ctx, Intent{Submitter: id, RequestID: "r1", Terms: other})
		if !errors.Is(err, ErrKeyReused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The deadline is judged by the database, in the statement that would take the nonce.
func TestCommit_PastDeadline_NoNonceTaken(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	late := k.queueWith(s, id, "late", txn.Terms{NotAfter: time.Now().Add(time.Hour)})
	k.pass(late)
	k.want(k.commit(s, l, take(late, 0)), Conflict)
	soon := k.queueWith(s, id, "soon", txn.Terms{NotAfter: time.Now().Add(time.Hour)})
	k.done(s, l, take(soon, 0))
}

// pass lets the deadline of a transaction pass.
func (k *kit) pass(tx txn.Tx) {
	k.t.Helper()
	k.exec("ALTER TABLE managed_tx DISABLE TRIGGER USER")
	k.exec(
		"UPDATE managed_tx SET not_after = clock_timestamp() - INTERVAL '1 millisecond' WHERE "+
			"tx_id = $1",
		tx.ID.String())
	k.exec("ALTER TABLE managed_tx ENABLE TRIGGER USER")
}

// An action after a deadline happens by the database's clock, independent of the owner's.
func TestDeadline_NotLateBefore(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	hour := txn.Terms{NotAfter: time.Now().Add(time.Hour), CancelLate: true}
	sent, waits := k.queueWith(s, id, "sent", hour), k.queueWith(s, id, "waits", hour)
	k.done(s, l, take(sent, 0))
	sent = after(sent, allocation(sent, 0))
	cancel := move(sent, txn.EventReplaced, txn.Allocated)
	cancel.Attempt, cancel.PastDeadline = attempt(sent, 0, 2), true
	cancel.Attempt.Kind, cancel.Next.TxHash = txn.Cancel, cancel.Attempt.Hash
	fail := failed(waits, txn.ReasonDeadline)
	fail.PastDeadline = true
	none := failed(k.queue(s, id, "without a deadline"), txn.ReasonDeadline)
	none.PastDeadline = true
	for _, w := range []txn.Write{cancel, fail, none} {
		k.want(k.commit(s, l, txn.Change{Writes: []txn.Write{w}}), Conflict)
	}
	k.pass(sent)
	k.pass(waits)
	k.done(s, l, txn.Change{Writes: []txn.Write{cancel}})
	k.done(s, l, txn.Change{Writes: []txn.Write{fail}})
}

// skewed is a clock that is wrong.
type skewed struct {
	clock.Real
	by time.Duration
}

func (c skewed) Now() time.Time { return c.Real.Now().Add(c.by) }

// An owner learns how much time is left, and so needs no clock that is right.
func TestDeadline_ReadAsTimeLeft(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	wrong := skewed{by: -3 * time.Hour}
	s := k.open("a", func(c *Config) { c.Clock = wrong })
	id, l := k.owned(s, "alice")
	for request, left := range map[string]time.Duration{"an hour": time.Hour,
		"for ever": 365 * 24 * time.Hour, "passed": 0, "none": -1} {
		terms := txn.Terms{NotAfter: time.Now().Add(time.Hour)}
		switch request {
		case "for ever":
			terms.NotAfter = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
		case "none":
			terms = txn.Terms{}
		}
		tx := k.queueWith(s, id, request, terms)
		if left == 0 {
			k.pass(tx)
		}
		boxes, err := s.Inboxes(k.ctx, []txn.SubmitterID{id}, 1)
		k.must(err)
		read := boxes[id].Queue[0]
		if off := read.Deadline.Sub(wrong.Now()) - left; read.ID != tx.ID ||
			read.Deadline.IsZero() != (left < 0) ||
			left >= 0 && (off > time.Second || off < -10*time.Second) {
			t.Errorf("%s: late at %s, which is off by %s", request, read.Deadline, off)
		}
		k.done(s, l, txn.Change{Writes: []txn.Write{failed(tx, "GONE")}})
	}
	sent := k.queueWith(s, id, "sent", txn.Terms{NotAfter: time.Now().Add(time.Hour)})
	k.done(s, l, take(sent, 0))
	ledger, err := s.Load(k.ctx, l)
	k.must(err)
	if off := ledger.Open[0].Deadline.Sub(wrong.Now()) - time.Hour; off > time.Second ||
		off < -10*time.Second {
		t.Errorf("in flight: off by %s", off)
	}
}

// An owner reads the age of an attempt from the database, and so needs no correct clock either.
func TestAttempt_Age_DatabaseClock(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	wrong := skewed{by: -3 * time.Hour}
	s := k.open("a", func(c *Config) { c.Clock = wrong })
	id, l := k.owned(s, "alice")
	tx := k.queue(s, id, "r1")
	k.done(s, l, take(tx, 0))
	k.exec("ALTER TABLE tx_attempt DISABLE TRIGGER USER")
	k.exec("UPDATE tx_attempt SET created_at = created_at - interval '1 hour'")
	ledger, err := s.Load(k.ctx, l)
	k.must(err)
	signed, err := s.SignedAttempts(k.ctx, l, tx.ID)
	k.must(err)
	for _, a := range []txn.Attempt{ledger.Open[0].Attempts[0], signed[0]} {
		if off := wrong.Now().Sub(a.At) - time.Hour; off < 0 || off > 10*time.Second {
			t.Errorf("recorded at %s, which is off by %s", a.At, off)
		}
	}
}

// A request that comes too late is refused by the database's clock; one that is repeated is the
// transaction that it was.
func TestCreateTx_PastDeadline_Late(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for name, by := range map[string]time.Duration{"ahead": 3 * time.Hour,
		"behind": -3 * time.Hour} {
		s := k.open(name, func(c *Config) { c.Clock = skewed{by: by} })
		id := k.submitter(s, name)
		soon := Intent{
			Submitter: id,
			RequestID: "soon",
			Terms:     txn.Terms{NotAfter: time.Now().Add(time.Hour)},
		}
		tx, created, err := s.CreateTx(k.ctx, soon)
		if err != nil || !created {
			t.Fatalf("%s: %v", name, err)
		}
		k.pass(tx.Tx)
		if again, created, err := s.CreateTx(k.ctx, soon); err != nil || created ||
			again.ID != tx.ID {
			t.Errorf("%s: repeated: %v", name, err)
		}
		late := Intent{
			Submitter: id,
			RequestID: "late",
			Terms:     txn.Terms{NotAfter: time.Now().Add(-time.Second)},
		}
		if _, _, err := s.CreateTx(k.ctx, late); !errors.Is(err, ErrLate) {
			t.Errorf("%s: late: %v", name, err)
		}
	}
}

func TestCommit_ChainFacts_Stored(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	tx := k.queue(s, id, "r1")
	change := take(tx, 0)
	k.done(s, l, change)
	tx = after(tx, change.Writes[0])
	w := submitted(tx)
	w.Next.Accepted, w.Next.Diagnosis = 1, txn.InPool
	k.done(s, l, txn.Change{Writes: []txn.Write{w}})
	tx = after(tx, w)
	w = included(tx, 9)
	w.Next.Accepted, w.Next.Diagnosis = 1, txn.InPool
	w.Next.LastOutcome, w.Next.Pooled = txn.Ambiguous, 2
	w.Next.Rejected = "tx type not supported"
	k.done(s, l, txn.Change{Writes: []txn.Write{w}})
	tx = after(tx, w)
	above := []txn.BlockRef{{Number: 10, Hash: txn.Hash{1}}, {Number: 1 << 40, Hash: txn.Hash{2}}}
	next := tx.Status
	next.Above, next.Version = above, tx.Version+1
	w = txn.Write{
		Tx:      tx.ID,
		Version: tx.Version,
		From:    tx.State,
		Kind:    txn.EventConfirmations,
		Next:    next,
		NewFork: true,
		Above:   above,
	}
	k.done(s, l, txn.Change{Writes: []txn.Write{w}})
	tx = after(tx, w)
	ledger, err := s.Load(k.ctx, l)
	k.must(err)
	if got := ledger.Open[0].Status; !reflect.DeepEqual(got.Above, above) || got.Accepted != 1 ||
		got.Diagnosis != txn.InPool ||
		got.LastOutcome != txn.Ambiguous ||
		got.Pooled != 2 ||
		got.Rejected != "tx type not supported" {
		t.Fatalf("%+v", got)
	}
	events, err := s.EventsOfTx(k.ctx, tx.ID, tx.Version-1, 1)
	k.must(err)
	if len(events) != 1 || !events[0].NewFork || !reflect.DeepEqual(events[0].Above, above) {
		t.Fatalf("%+v", events)
	}
}

func TestRecentFinals(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	_, l := k.owned(s, "alice")
	ids := k.finals(s, l, 10, 50, 60)
	recent, err := s.RecentFinals(k.ctx, l, 20, 1)
	k.must(err)
	if len(recent) != 2 || recent[0].ID != ids[2] || recent[1].ID != ids[1] ||
		recent[0].Receipt.BlockNumber != 60 {
		t.Fatalf("%d recent", len(recent))
	}
}

// A depth is in blocks, however many of them have no transaction, or one.
func TestRecentFinals_Depth(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	sparse := k.submitter(s, "sparse")
	sl := k.lease(s, sparse)
	k.history(sparse, 4, "CONFIRMED", "SUCCESS", true)
	dense := k.submitter(s, "dense")
	dl := k.lease(s, dense)
	k.history(dense, 1100, "CONFIRMED", "SUCCESS", true)
	k.exec(
		`UPDATE managed_tx
		    SET receipt_tx_hash = decode(repeat('02', 32), 'hex'),
		        receipt_block_hash = decode(repeat('03', 32), 'hex'),
		        receipt_success = TRUE, receipt_gas_used = 1, receipt_gas_price = 1,
		        receipt_block = CASE WHEN submitter_id = $1 THEN 100 + 600 * nonce
		                             ELSE 100 + nonce END`,
		sparse,
	)
	for depth, want := range map[uint64][2]int{601: {2, 601}, 1000: {2, 1000}, 1201: {3, 1100},
		math.MaxUint64: {4, 1100}} {
		for i, l := range []*Lease{sl, dl} {
			recent, err := s.RecentFinals(k.ctx, l, depth, 1)
			k.must(err)
			if len(recent) != want[i] {
				t.Errorf("%d blocks deep, submitter %d: %d, want %d", depth, i, len(recent),
					want[i])
			}
		}
	}
}

// TestRecentFinals_SeveralInBlock: as long as they are within reach all of them are found, whatever
// the limit of nonces in flight is by now.
func TestRecentFinals_SeveralInBlock(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	id := k.submitter(s, "bursts")
	l := k.lease(s, id)
	k.history(id, 3000, "CONFIRMED", "SUCCESS", true)
	k.exec(
		`UPDATE managed_tx
		    SET receipt_tx_hash = decode(repeat('02', 32), 'hex'),
		        receipt_block_hash = decode(repeat('03', 32), 'hex'),
		        receipt_success = TRUE, receipt_gas_used = 1, receipt_gas_price = 1,
		        receipt_block = 100 + nonce / 60`)
	for depth, want := range map[uint64]int{1: 60, 10: 600, 40: 2400, 50: 3000, 600: 3000} {
		recent, err := s.RecentFinals(k.ctx, l, depth, 0)
		if k.must(err); len(recent) != want {
			t.Errorf("%d blocks deep: %d, want %d", depth, len(recent), want)
		}
	}
}

// finals are final transactions of a submitter, in these blocks.
func (k *kit) finals(s *Store, l *Lease, blocks ...uint64) (ids []txn.TxID) {
	k.t.Helper()
	id := l.Submitter()
	for i, block := range blocks {
		tx := k.queue(s, id, string(rune('a'+i)))
		for _, write := range []func(txn.Tx) txn.Change{
			func(tx txn.Tx) txn.Change { return take(tx, txn.Nonce(i)) },
			func(tx txn.Tx) txn.Change { return txn.Change{Writes: []txn.Write{submitted(tx)}} },
			func(tx txn.Tx) txn.Change {
				return txn.Change{Writes: []txn.Write{included(tx,
					block)}}
			},
			func(tx txn.Tx) txn.Change { return txn.Change{Writes: []txn.Write{confirmed(tx)}} },
		} {
			c := write(tx)
			k.done(s, l, c)
			tx = after(tx, c.Writes[0])
		}
		ids = append(ids, tx.ID)
	}
	return ids
}

func TestSetPolicies(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	fee := func(n uint64) *txn.Wei { return uint256.NewInt(n) }
	for _, c := range []struct {
		change    PolicyChange
		onFailure txn.OnFailure
		fee       uint64
	}{
		{PolicyChange{OnFailure: new(txn.PauseOnFailure), MaxFee: fee(9)}, txn.PauseOnFailure, 9},
		{PolicyChange{MaxFee: fee(8)}, txn.PauseOnFailure, 8},
		{PolicyChange{OnFailure: new(txn.Continue)}, txn.Continue, 8},
		{PolicyChange{}, txn.Continue, 8},
		{PolicyChange{OnFailure: new(txn.PauseOnFailure), MaxFee: fee(0)}, txn.PauseOnFailure, 0},
		{PolicyChange{OnFailure: new(txn.OnFailure(""))}, txn.Continue, 0},
	} {
		k.must(s.SetPolicies(k.ctx, id, c.change))
		ledger, err := s.Load(k.ctx, l)
		k.must(err)
		if got := ledger.Submitter; got.OnFailure != c.onFailure || got.MaxFee != *fee(c.fee) {
			t.Fatalf("%+v makes %s, %s", c.change, got.OnFailure, got.MaxFee.Dec())
		}
	}
	if err := s.SetPolicies(k.ctx, 999, PolicyChange{}); !errors.Is(err, ErrSubmitterNotFound) {
		t.Fatal(err)
	}
}

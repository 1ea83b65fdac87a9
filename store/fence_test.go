package store

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// mutation makes the fence one that does not fence.
type mutation struct {
	name  string
	text  *strings.Replacer // of the fenced statement; nil: as it is
	index bool              // drop the unique index
	plain bool              // take over by an UPDATE alone, that locks nothing first
}

const lockClause = "FOR KEY SHARE OF l"

// The fence as it is, and the ways in which it has been got wrong: without the key column that
// makes a takeover wait, without a lock (a sub-select EXISTS reads the lease by the statement's
// snapshot in the same way), and with the time of the transaction's start.
var (
	asItIs   = mutation{name: "as it is"}
	byUpdate = mutation{name: "a plain UPDATE takes over", plain: true}
	locked   = mutation{
		name:  "without the unique index, but with the takeover's own lock",
		index: true,
	}
	noIndex  = mutation{name: "without the unique index", index: true, plain: true}
	anExists = mutation{name: "EXISTS instead of a lock", text: strings.NewReplacer(
		"FROM change c\n      JOIN submitter_lease l ON l.submitter_id = c.submitter_id AND "+
			"l.fencing_token = c.fencing_token\n     WHERE l.owner_node",
		"FROM change c\n      JOIN submitter_lease l ON l.submitter_id = c.submitter_id\n     "+
			"WHERE EXISTS (SELECT FROM submitter_lease x "+
			"WHERE x.submitter_id = c.submitter_id AND x.fencing_token = c.fencing_token) AND "+
			"l.owner_node",
		lockClause,
		"",
	)}
	frozenTime = mutation{
		name: "now() instead of clock_timestamp()",
		text: strings.NewReplacer("expires_at > clock_timestamp()", "expires_at > now()"),
	}
)

// mutant runs statements of the store with a changed text.
type mutant struct {
	pgx.Tx
	t    testing.TB
	text *strings.Replacer
}

func (m mutant) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if m.text != nil {
		changed := m.text.Replace(sql)
		if changed == sql {
			m.t.Error("the mutation changes nothing: it no longer fits the statement")
		}
		sql = changed
	}
	return m.Tx.Query(ctx, sql, args...)
}

func (m mutant) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return m.Tx.Exec(ctx, sql, args...)
}

// twoNodes is an owner with a transaction that was opened by hand, and a node that wants its lease.
type twoNodes struct {
	*kit
	old, successor *Store
	id             txn.SubmitterID
	lease          *Lease
	tx             txn.Tx // queued
	open           pgx.Tx // the old owner's
	m              mutation
}

func newTwoNodes(t *testing.T, m mutation, opts ...dbtest.Option) *twoNodes {
	d := &twoNodes{kit: newKit(t, opts...), m: m}
	d.old, d.successor = d.kit.open("old"), d.kit.open("successor")
	if m.index {
		d.exec("ALTER TABLE submitter_lease DROP CONSTRAINT submitter_lease_fence")
	}
	d.id, d.lease = d.owned(d.old, "alice")
	d.tx = d.queue(d.old, d.id, "r1")
	var err error
	d.open, err = d.session().Begin(d.ctx)
	d.must(err)
	t.Cleanup(func() { _ = d.open.Rollback(context.Background()) }) // if it is still open
	return d
}

// write sends the old owner's change within its open transaction.
func (d *twoNodes) write() (string, error) {
	job := &commitJob{lease: d.lease, change: take(d.tx, 0)}
	rows, err := db.New(mutant{d.open, d.t, d.m.text}).Commit(d.ctx,
		commitParams(d.old.cfg.Node, []*commitJob{job}))
	if err != nil {
		return "", err
	}
	return rows[0].Outcome, nil
}

// takeOver starts the takeover and returns once it either waits or is through.
func (d *twoNodes) takeOver() <-chan *Lease {
	d.t.Helper()
	d.lapse(d.id)
	taken := make(chan *Lease, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l, err := d.acquire()
		if err != nil || l == nil {
			d.t.Errorf("the takeover got %v, %v", l, err)
		}
		taken <- l
	}()
	d.eventually("the takeover waits or is through", func() bool {
		select {
		case <-ended:
			return true
		default:
			return value[int](
				d.kit,
				`SELECT count(*) FROM pg_stat_activity
				  WHERE application_name = 'fencepost/taker/successor' AND wait_event_type = 'Lock'
				    AND query LIKE '%AcquireLease %'
				    AND pid IN (SELECT pid FROM pg_locks
				                 WHERE relation = 'submitter_lease'::REGCLASS)`,
			) > 0
		}
	})
	return taken
}

// acquire takes over as the store does, or by a plain UPDATE, to show the effect of the index
// alone.
func (d *twoNodes) acquire() (*Lease, error) {
	if !d.m.plain {
		return d.successor.AcquireOne(d.ctx, d.id)
	}
	l := &Lease{submitter: d.id}
	conn, err := d.successor.taker.Acquire(d.ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	// takeOver finds the statement by the comment in it.
	return l, conn.QueryRow(
		d.ctx,
		`UPDATE submitter_lease -- AcquireLease without a lock
		    SET owner_node = 'successor/boot', fencing_token = fencing_token + 1,
		        expires_at = clock_timestamp() + INTERVAL '6 s'
		  WHERE submitter_id = $1 AND expires_at <= clock_timestamp()
		RETURNING fencing_token`,
		d.id,
	).Scan(&l.token)
}

func through(taken <-chan *Lease) bool { return len(taken) > 0 }

// lateWrite reports whether a ledger row was written under the old token after the takeover.
func (d *twoNodes) lateWrite() bool {
	d.t.Helper()
	return value[bool](
		d.kit,
		`SELECT EXISTS (SELECT FROM managed_tx t, submitter_lease l
		                 WHERE t.tx_id = $1 AND t.submitter_id = l.submitter_id
		                   AND t.state = 'ALLOCATED'
		                   AND t.fencing_token = 1 AND l.fencing_token = 2)`,
		d.tx.ID,
	)
}

// TestFence_OpenCommit_TakeoverWaits: the old owner has written and not committed when its lease
// lapses (E1a of the requirements).
func TestFence_OpenCommit_TakeoverWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mutation
		fences bool
	}{{asItIs, true}, {byUpdate, true}, {locked, true}, {noIndex, false}, {anExists, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newTwoNodes(t, c.mutation, dbtest.WithoutGuard())
			outcome, err := d.write()
			d.must(err)
			if outcome != "DONE" {
				t.Fatalf("outcome %s", outcome)
			}
			taken := d.takeOver()
			if through(taken) == c.fences {
				t.Fatalf("the takeover is through: %v", through(taken))
			}
			d.must(d.open.Commit(d.ctx))
			if l := <-taken; l.Token() != 2 {
				t.Fatalf("token %d after the takeover, want 2", l.Token())
			}
			// Either way the row carries token 1 now. The test is whether the successor could have
			// read the ledger before.
			if !d.lateWrite() {
				t.Fatal("the old owner's write is gone")
			}
		})
	}
}

// TestFence_UpdateWaitsAcrossTakeover_Fenced: the old owner's statement waits for a row while its
// lease lapses (E1b).
func TestFence_UpdateWaitsAcrossTakeover_Fenced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mutation
		fences bool
	}{{asItIs, true}, {byUpdate, true}, {locked, true}, {noIndex, false}, {anExists, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newTwoNodes(t, c.mutation, dbtest.WithoutGuard())
			holder, err := d.session().Begin(d.ctx)
			d.must(err)
			_, err = holder.Exec(d.ctx, "SELECT FROM managed_tx WHERE tx_id = $1 FOR UPDATE",
				d.tx.ID)
			d.must(err)
			pid := d.open.Conn().PgConn().PID()
			outcome := make(chan string, 1)
			go func() {
				o, err := d.write()
				if err != nil {
					t.Error(err)
				}
				outcome <- o
			}()
			d.eventually("the old owner waits", func() bool {
				return value[int](d.kit,
					"SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = "+
						"'Lock'",
					pid) > 0
			})
			taken := d.takeOver()
			if through(taken) == c.fences {
				t.Fatalf("the takeover is through: %v", through(taken))
			}
			d.must(holder.Rollback(d.ctx))
			if o := <-outcome; o != "DONE" {
				t.Fatalf("outcome %s",
					o) // the mutants write here under a token that was already taken over
			}
			d.must(d.open.Commit(d.ctx))
			<-taken
		})
	}
}

// TestFence_OldTransactionAfterTakeover_Fenced: a transaction that was opened while the lease was
// live resumes after another node has acquired it.
func TestFence_OldTransactionAfterTakeover_Fenced(t *testing.T) {
	t.Parallel()
	d := newTwoNodes(t, asItIs)
	_, err := d.open.Exec(d.ctx, "SELECT now()")
	d.must(err)
	taken := d.takeOver()
	if l := <-taken; l.Token() != 2 {
		t.Fatalf("token %d", l.Token())
	}
	outcome, err := d.write()
	d.must(err)
	d.must(d.open.Commit(d.ctx))
	if outcome != "FENCED" || d.lateWrite() {
		t.Fatalf("outcome %s, late write %v", outcome, d.lateWrite())
	}
}

// TestFence_OldTransactionAfterLapse_Fenced: no node has acquired the lease, but it has expired by
// the current time (E5).
func TestFence_OldTransactionAfterLapse_Fenced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mutation
		outcome string
	}{{asItIs, "FENCED"}, {frozenTime, "DONE"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newTwoNodes(t, c.mutation)
			_, err := d.open.Exec(d.ctx, "SELECT now()")
			d.must(err)
			d.exec(
				"UPDATE submitter_lease SET expires_at = clock_timestamp() WHERE submitter_id = $1",
				d.id)
			outcome, err := d.write()
			d.must(err)
			if outcome != c.outcome {
				t.Fatalf("outcome %s, want %s", outcome, c.outcome)
			}
		})
	}
}

// TestGuard_MutantWrite_Caught: ring 4 refuses the commit of a late write.
func TestGuard_MutantWrite_Caught(t *testing.T) {
	t.Parallel()
	for _, m := range []mutation{noIndex, anExists} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			d := newTwoNodes(t, m)
			_, err := d.write()
			d.must(err)
			<-d.takeOver()
			if err := d.open.Commit(d.ctx); err == nil ||
				!strings.Contains(err.Error(), "the live token is 2") {
				t.Fatalf("the guard says %v", err)
			}
		})
	}
}

// TestRenew_OpenCommit_DoesNotWait: neither for a commit under way, nor for a takeover that waits
// for that commit.
func TestRenew_OpenCommit_DoesNotWait(t *testing.T) {
	t.Parallel()
	d := newTwoNodes(t, asItIs)
	_, err := d.write()
	d.must(err)
	at := time.Now()
	if renewed, err := d.old.Renew(d.ctx, []*Lease{d.lease}); err != nil || len(renewed) != 1 {
		t.Fatalf("renewed %v, %v", renewed, err)
	}
	// The lease expires, another session waits for it, and it becomes live again, as after a late
	// renewal.
	successor, err := d.session().Begin(d.ctx)
	d.must(err)
	waited := make(chan int64, 1)
	pid := successor.Conn().PgConn().PID()
	d.lapse(d.id)
	go func() {
		tag, err := successor.Exec(d.ctx,
			"UPDATE submitter_lease SET fencing_token = fencing_token + 1, owner_node = "+
				"'successor' "+
				"WHERE submitter_id = $1 AND expires_at < clock_timestamp()",
			d.id)
		if err != nil {
			t.Error(err)
		}
		waited <- tag.RowsAffected()
	}()
	d.eventually("the successor waits", func() bool {
		return value[int](d.kit,
			"SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'",
			pid) > 0
	})
	d.exec(
		"UPDATE submitter_lease SET expires_at = clock_timestamp() + INTERVAL '1 minute' WHERE "+
			"submitter_id = $1",
		d.id)
	if renewed, err := d.old.Renew(d.ctx, []*Lease{d.lease}); err != nil || len(renewed) != 1 {
		t.Fatalf("renewed %v, %v", renewed, err)
	}
	if took := time.Since(at); took > patience/2 {
		t.Fatalf("renewals took %v", took)
	}
	d.must(d.open.Commit(d.ctx))
	if rows := <-waited; rows != 0 {
		t.Fatal("a takeover that had waited took a lease that was live again")
	}
	d.must(successor.Rollback(d.ctx))
}

// TestAcquire_OpenCommit_Skipped: only AcquireOne waits.
func TestAcquire_OpenCommit_Skipped(t *testing.T) {
	t.Parallel()
	d := newTwoNodes(t, asItIs)
	_, err := d.write()
	d.must(err)
	other := d.submitter(d.old, "bob")
	d.lapse(d.id)
	leases, err := d.successor.Acquire(d.ctx, []txn.SubmitterID{d.id, other})
	d.must(err)
	if len(leases) != 1 || leases[0].Submitter() != other {
		t.Fatalf("acquired %+v", leases)
	}
}

// TestAcquireOne_FrozenOwner_SessionTerminated: a session that keeps the lease's row locked for
// longer than a statement can last is ended.
func TestAcquireOne_FrozenOwner_SessionTerminated(t *testing.T) {
	t.Parallel()
	d := newTwoNodes(t, asItIs)
	successor := d.kit.open("quick",
		func(c *Config) { c.LeaseDuration, c.OwnerConns = 600*time.Millisecond, 1 })
	_, err := d.write() // and then nothing: the client is frozen
	d.must(err)
	d.lapse(d.id)
	l, err := successor.AcquireOne(d.ctx, d.id)
	d.must(err)
	if l == nil || l.Token() != 2 {
		t.Fatalf("lease %+v", l)
	}
	if err := d.open.Commit(d.ctx); err == nil {
		t.Fatal("the frozen owner's commit went through after it was ended")
	}
	if d.lateWrite() {
		t.Fatal("the frozen owner's write is there")
	}
}

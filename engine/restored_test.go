package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holiman/uint256"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// backup copies every table of the ledger and returns a function that restores the copies.
func (r *harness) backup() (restore func()) {
	r.t.Helper()
	ctx := context.Background()
	rows, err := r.db.Pool.Query(ctx,
		"SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename <> "+
			"'node' ORDER BY 1")
	if err != nil {
		r.t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		r.t.Fatal(err)
	}
	in := func(format string) (all []string) {
		for _, name := range tables {
			all = append(all, fmt.Sprintf(format, name))
		}
		return all
	}
	do := func(statements []string) {
		if _, err := r.db.Pool.Exec(ctx, strings.Join(statements, ";\n")); err != nil {
			r.t.Fatal(err)
		}
	}
	do(in("CREATE TABLE backup_of_%[1]s AS TABLE %[1]s"))
	return func() {
		do(
			slices.Concat([]string{"BEGIN", "SET LOCAL session_replication_role = replica"},
				in("DELETE FROM %[1]s"),
				in("INSERT INTO %[1]s OVERRIDING SYSTEM VALUE SELECT * FROM backup_of_%[1]s"),
				[]string{"COMMIT"}),
		)
	}
}

// TestRestored_LaggingEndpoint_NeedsKeepQueue restores a backup in which executed transactions are
// still queued, and lifts the protection behind a lagging endpoint. The next nonce is used by an
// unknown transaction, so nothing still queued is sent before the queue is confirmed again.
func TestRestored_LaggingEndpoint_NeedsKeepQueue(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	n := w.node()
	w.confirmOne("zero")
	n.stop()
	first, second := w.create(0, "one", transfer()), w.create(0, "two", transfer())
	restore, at := w.backup(), w.chain.MineEmpty(1).Number
	n = w.node()
	w.finish(first)
	w.finish(second)
	w.chain.SetBaseFee(
		*uint256.NewInt(5e9)) // otherwise the same bytes would be signed, and found
	n.stop()

	restore()
	if _, err := w.admin.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	behind := w.chain.MineEmpty(1).Number - at
	w.chain.Intercept(
		func(context.Context, chaintest.Call) chaintest.Fault { return chaintest.Lag(behind) })
	w.node()
	// by the lagging endpoint the account matches the cursor
	for _, action := range []txn.Action{txn.ActionAlign, txn.ActionResume} {
		w.want(w.exit(action), txn.ResultRefused, "RESUME_KEEP_QUEUE")
	}
	w.want(w.exit(txn.ActionResumeKeep), txn.Applied)
	w.await(first, "it has a nonce", func(tx txn.Tx) bool { return tx.Nonce != nil })
	w.chain.Intercept(nil)
	w.awaitProtected(txn.ReasonNonceElsewhere)
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.resolve(txn.ActionFail, first), txn.Applied)
	for _, action := range []txn.Action{txn.ActionAlign, txn.ActionResume} {
		w.want(w.exit(action), txn.ResultRefused)
	}
	if done, err := w.admin.CancelQueued(t.Context(), second); err != nil || !done {
		t.Fatal(done, err)
	}
	w.want(w.exit(txn.ActionAlignKeep), txn.Applied)
	w.finish(w.create(0, "three", transfer()))
	if executed := w.executions(); !slices.Equal(executed, []txn.Nonce{0, 1, 2, 3}) {
		t.Errorf("executed under %v", executed)
	}
	for _, id := range []txn.TxID{first, second} {
		if tx := w.awaitFinal(id); tx.Executed != txn.Unknown || tx.Reason != txn.ReasonRestored {
			t.Errorf("%+v", tx.Status)
		}
	}
	w.checkInvariants()
}

// failedOver makes the ledger look as after a fail-over: no account was compared with the chain.
func (r *harness) failedOver() {
	r.t.Helper()
	_, err := r.db.Pool.Exec(context.Background(), "UPDATE submitter SET timeline = 0")
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestLostCommits_RunningNode_Protects takes commits away from a node that knows them: the whole
// first use of the account, or its second transaction.
func TestLostCommits_RunningNode_Protects(t *testing.T) {
	t.Parallel()
	for name, used := range map[string]bool{"first use lost": false, "later use lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSharedKeyHarness(t)
			w.node()
			var want []txn.Nonce
			if used {
				w.confirmOne("zero")
				want = append(want, 0)
			}
			restore := w.backup()
			for _, request := range []string{"one", "two"} {
				w.finish(w.create(0, request, transfer()))
				want = append(want, txn.Nonce(len(want)))
			}
			restore()
			// As its client does, which knows no better. Both at once: after the first, the node
			// may protect the account at any time.
			var first txn.TxID
			for i, created := range w.admin.CreateTxs(t.Context(), []store.Intent{
				{Submitter: w.submitters[0], RequestID: "one", Payload: transfer()},
				{Submitter: w.submitters[0], RequestID: "two", Payload: transfer()},
			}) {
				if created.Err != nil {
					t.Fatal(created.Err)
				}
				if i == 0 {
					first = created.Info.ID
				}
			}
			protected := w.awaitProtected(txn.ProtectRestored)
			if !strings.Contains(protected.Evidence, "lost commits") {
				t.Errorf("evidence %q", protected.Evidence)
			}
			w.await(first, "it is marked", func(tx txn.Tx) bool { return tx.Restored })
			w.want(w.exit(txn.ActionAlign), txn.ResultRefused, "ALIGN_FORWARD_KEEP_QUEUE")
			if ran := w.executions(); !slices.Equal(ran, want) {
				t.Errorf("ran under %v, want %v", ran, want)
			}
		})
	}
}

// TestLostCommits_ProtectedByOtherNode_DecidedOnce: another node has protected the submitter for
// the loss before the one that knows the lost commits owns it again. One decision is enough.
func TestLostCommits_ProtectedByOtherNode_DecidedOnce(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	w.node()
	w.confirmOne("zero")
	restore := w.backup()
	for _, request := range []string{"one", "two"} {
		w.finish(w.create(0, request, transfer()))
	}
	restore()
	if _, err := w.db.Pool.Exec(t.Context(), `BEGIN;
		SET LOCAL session_replication_role = replica;
		UPDATE submitter_nonce_cursor
		   SET protect_reason = 'DATABASE_RESTORED', protect_evidence = 'by another node',
		       protect_at = clock_timestamp(), protections = protections + 1;
		UPDATE submitter_lease SET fencing_token = fencing_token + 1,
		       expires_at = clock_timestamp();
		COMMIT`); err != nil {
		t.Fatal(err)
	}
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.exit(txn.ActionAlign), txn.Applied)
	w.finish(w.create(0, "three", transfer()))
	if p := w.cursor().Protected; p != nil {
		t.Errorf("protected again: %+v", p)
	}
	if ran := w.executions(); !slices.Equal(ran, []txn.Nonce{0, 1, 2, 3}) {
		t.Errorf("ran under %v", ran)
	}
}

// TestLostCommits_DecidedUnderOtherNode_Continues lets another node protect the submitter for the
// loss and apply the decision to resume, below the nonce that this one knows.
func TestLostCommits_DecidedUnderOtherNode_Continues(t *testing.T) {
	t.Parallel()
	for name, decided := range map[string]bool{"decided": true, "not decided": false} {
		w := newSharedKeyHarness(t)
		w.node()
		w.confirmOne("zero")
		restore := w.backup()
		w.finish(w.create(0, "one", transfer()))
		restore()
		record := ""
		if decided {
			record = `UPDATE submitter_nonce_cursor SET protections = protections + 1;
				INSERT INTO submitter_command
				       (submitter_id, kind, action, expect, applied_at, result)
				SELECT submitter_id, kind, action, protections, clock_timestamp(), 'APPLIED'
				  FROM submitter_nonce_cursor, (VALUES ('PROTECT', 'DATABASE_RESTORED'),
				       ('EXIT_PROTECT', 'RESUME')) AS c (kind, action);`
		}
		if _, err := w.db.Pool.Exec(t.Context(), `BEGIN;
			SET LOCAL session_replication_role = replica;`+record+`
			UPDATE submitter_lease SET fencing_token = fencing_token + 100,
			       expires_at = clock_timestamp();
			COMMIT`); err != nil {
			t.Fatal(err)
		}
		w.create(0, "two", transfer())
		want := txn.ProtectRestored
		if decided { // the chain is ahead of the cursor, which is another matter
			want = txn.ReasonNonceElsewhere
		}
		if p := w.awaitProtected(want); p.Reason != want {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestFailedOver_NewNode_Protects takes commits away before a node starts that does not know them.
func TestFailedOver_NewNode_Protects(t *testing.T) {
	t.Parallel()
	for name, used := range map[string]bool{"first use lost": false, "later use lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSharedKeyHarness(t)
			n := w.node()
			var want []txn.Nonce
			if used {
				w.confirmOne("zero")
				want = append(want, 0)
			}
			n.stop()
			queued := []txn.TxID{w.create(0, "one", transfer()), w.create(0, "two", transfer())}
			restore := w.backup()
			n = w.node()
			for _, id := range queued {
				w.finish(id)
				want = append(want, txn.Nonce(len(want)))
			}
			n.stop()
			restore()
			w.failedOver()
			w.chain.SetBaseFee(*uint256.NewInt(5e9)) // other bytes than before
			w.node()
			w.awaitProtected(txn.ProtectRestored)
			for _, id := range queued {
				w.await(id, "it is marked", func(tx txn.Tx) bool { return tx.Restored })
			}
			w.want(w.exit(txn.ActionResume), txn.ResultRefused, "KEEP_QUEUE")
			if ran := w.executions(); !slices.Equal(ran, want) {
				t.Errorf("ran under %v, want %v", ran, want)
			}
		})
	}
}

// TestFailedOver_LaggingEndpoint_Protects loses executed transactions, and compares the account by
// an endpoint that does not have them yet. The nonce that is taken then turns out to be used.
func TestFailedOver_LaggingEndpoint_Protects(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	n := w.node()
	w.confirmOne("zero")
	n.stop()
	first, second := w.create(0, "one", transfer()), w.create(0, "two", transfer())
	restore, at := w.backup(), w.chain.MineEmpty(1).Number
	n = w.node()
	w.finish(first)
	w.finish(second)
	w.chain.SetBaseFee(*uint256.NewInt(5e9)) // other bytes than before
	n.stop()
	restore()
	w.failedOver()
	behind := w.chain.MineEmpty(1).Number - at
	w.chain.Intercept(
		func(context.Context, chaintest.Call) chaintest.Fault { return chaintest.Lag(behind) })
	w.node()
	w.await(first, "it has a nonce", func(tx txn.Tx) bool { return tx.Nonce != nil })
	w.chain.Intercept(nil)
	w.awaitProtected(txn.ProtectRestored)
	w.await(second, "it is marked", func(tx txn.Tx) bool { return tx.Restored })
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.resolve(txn.ActionRequeue, first), txn.ResultRefused)
	w.want(w.resolve(txn.ActionFail, first), txn.Applied)
	w.want(w.exit(txn.ActionAlign), txn.ResultRefused, "KEEP_QUEUE")
	if executed := w.executions(); !slices.Equal(executed, []txn.Nonce{0, 1, 2}) {
		t.Errorf("executed under %v", executed)
	}
}

// TestFailedOver_SameBytes_Protects: a lagging endpoint shows the account where the ledger is. The
// lost part used the first nonce by the very bytes that are signed again, and higher ones by other
// bytes.
func TestFailedOver_SameBytes_Protects(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	n := w.node()
	w.confirmOne("zero")
	n.stop()
	var queued []txn.TxID
	for _, request := range []string{"one", "two", "three"} {
		queued = append(queued, w.create(0, request, transfer()))
	}
	restore, at := w.backup(), w.chain.MineEmpty(1).Number
	n = w.node()
	for _, id := range queued {
		w.finish(id)
	}
	before := w.attempts()[queued[0].String()]
	n.stop()
	restore()
	w.failedOver()
	behind := w.chain.MineEmpty(1).Number - at
	w.chain.Intercept(
		func(context.Context, chaintest.Call) chaintest.Fault { return chaintest.Lag(behind) })
	w.node()
	w.await(queued[0], "it has a nonce", func(tx txn.Tx) bool { return tx.Nonce != nil })
	if !bytes.Equal(w.attempts()[queued[0].String()], before) {
		t.Fatal("it has other bytes than before")
	}
	w.chain.SetBaseFee(*uint256.NewInt(5e9))
	w.chain.Intercept(nil)
	w.awaitProtected(txn.ProtectRestored)
	for _, id := range queued[1:] {
		w.await(id, "it is marked", func(tx txn.Tx) bool { return tx.Restored })
	}
	w.want(w.exit(txn.ActionAlign), txn.ResultRefused, "KEEP_QUEUE")
	if executed := w.executions(); !slices.Equal(executed, []txn.Nonce{0, 1, 2, 3}) {
		t.Errorf("executed under %v", executed)
	}
}

// TestFailedOver_NothingLost_Continues compares each account with the chain once.
func TestFailedOver_NothingLost_Continues(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	n := w.node()
	w.confirmOne("zero")
	n.stop()
	w.failedOver()
	w.node()
	w.confirmOne("one")
	w.eventually("the account counts as compared", func() error {
		if w.number("SELECT count(*) FROM submitter WHERE timeline = 0") > 0 {
			return errors.New("not yet")
		}
		return nil
	})
}

package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holiman/uint256"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/txn"
)

// backup copies every table of the ledger; what it returns puts the copies in their place.
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

// What was queued when a backup was made runs in the part that is lost, and somebody compares it,
// and leaves the protection of the restore, behind an endpoint that lags. The next nonce turns out
// to be used: by what, nobody here can tell, so nothing that is still queued is sent before
// somebody says once more that it was compared.
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
		*uint256.NewInt(5e9)) // or the same bytes would be signed again, which are found
	n.stop()

	restore()
	if _, err := w.admin.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	behind := w.chain.MineEmpty(1).Number - at
	w.chain.Intercept(
		func(context.Context, chaintest.Call) chaintest.Fault { return chaintest.Lag(behind) })
	w.node()
	// the endpoint says that the account stands where the cursor does
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
	if ran := w.executions(); !slices.Equal(ran, []txn.Nonce{0, 1, 2, 3}) {
		t.Errorf("ran under %v", ran)
	}
	for _, id := range []txn.TxID{first, second} {
		if tx := w.awaitFinal(id); tx.Executed != txn.Unknown || tx.Reason != txn.ReasonRestored {
			t.Errorf("%+v", tx.Status)
		}
	}
	w.checkInvariants()
}

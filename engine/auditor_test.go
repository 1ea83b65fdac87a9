package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fencepost/fencepost/audit"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// meter reads counters.
type meter struct {
	t      *testing.T
	reader *metric.ManualReader
}

// auditing makes a node audit continuously, and returns its counters.
func auditing(t *testing.T, o *Options) *meter {
	m := &meter{t, metric.NewManualReader()}
	o.Meter = metric.NewMeterProvider(metric.WithReader(m.reader)).Meter("")
	// only owned submitters are audited
	o.AuditInterval, o.IdleAfter = 1, time.Hour
	return m
}

// count returns the values of a counter by the value of its one attribute, without zeros.
func (m *meter) count(name string) map[string]int64 {
	m.t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		m.t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, c := range scope.Metrics {
			sum, ok := c.Data.(metricdata.Sum[int64])
			if c.Name != name || !ok {
				continue
			}
			for _, p := range sum.DataPoints {
				if p.Value == 0 {
					continue
				}
				for _, kv := range p.Attributes.ToSlice() {
					counts[kv.Value.AsString()] += p.Value
				}
			}
		}
	}
	return counts
}

func (r *harness) protection(i int) *txn.Protected {
	r.t.Helper()
	info, err := r.admin.Submitter(context.Background(), r.submitters[i])
	if err != nil {
		r.t.Fatal(err)
	}
	if info.Cursor == nil {
		return nil
	}
	return info.Cursor.Protected
}

func (r *harness) awaitProtection(i int) *txn.Protected {
	r.t.Helper()
	r.eventually("it is protected", func() error {
		if r.protection(i) == nil {
			return errors.New("not yet")
		}
		return nil
	})
	return r.protection(i)
}

// TestAuditor_SoundLedger_NoViolation audits several submitters continuously while they work,
// through takeovers.
func TestAuditor_SoundLedger_NoViolation(t *testing.T) {
	t.Parallel()
	const (
		submitters = 3
		rounds     = 3
		each       = 4
	)
	r := newHarness(t, submitters, blockPeriod)
	audits := int64(0)
	for round := range rounds {
		var m *meter
		n := r.startNode(fmt.Sprint("n", round), func(o *Options) { m = auditing(t, o) })
		var ids []txn.TxID
		for i := range each {
			for s := range submitters {
				ids = append(ids, r.create(s, fmt.Sprint(round, i), transfer()))
			}
		}
		// except in the first round, the last ones are in flight when the node stops
		for _, id := range ids[:len(ids)-submitters*min(round, 1)] {
			r.awaitFinal(id)
		}
		r.eventually("audits", func() error {
			if got := m.count("fencepost_audit")["ok"]; got < 10 {
				return fmt.Errorf("%d", got)
			}
			return nil
		})
		n.stop()
		if found := m.count("fencepost_audit_violation"); len(found) > 0 {
			t.Errorf("violations %v", found)
		}
		audits += m.count("fencepost_audit")["ok"]
	}
	for i, id := range r.submitters {
		report, err := audit.Run(t.Context(), audit.Options{Store: r.admin, Submitter: id})
		if err != nil || len(report.Violations) > 0 || r.protection(i) != nil {
			t.Errorf("%+v %v", report, err)
		}
	}
	t.Logf("%d audits", audits)
}

// corrupt writes to the ledger without its triggers.
func (r *harness) corrupt(query string) {
	r.t.Helper()
	tx, err := r.db.Pool.Begin(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(context.Background(), "SET LOCAL session_replication_role = replica")
	if err != nil {
		r.t.Fatal(err)
	}
	if tag, err := tx.Exec(context.Background(), query); err != nil || tag.RowsAffected() == 0 {
		r.t.Fatalf("%s: %d rows, %v", query, tag.RowsAffected(), err)
	}
	if err := tx.Commit(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

// corruptions break one law each; $tx is the second transaction of a submitter, $s the submitter.
var corruptions = []struct{ what, query, law string }{
	{
		"unused nonce",
		"UPDATE submitter_nonce_cursor SET next_nonce = next_nonce + 1 WHERE submitter_id = $s",
		"L4",
	},
	{
		"used nonce is also a gap",
		"INSERT INTO nonce_gap (submitter_id, first_nonce, last_nonce, reason, fencing_token) " +
			"VALUES ($s, 1, 1, 'x', 1)",
		"L4",
	},
	{
		"cursor moved back",
		"UPDATE submitter_nonce_cursor SET next_nonce = next_nonce - 1 WHERE submitter_id = $s",
		"L4",
	},
	{"missing event", "DELETE FROM tx_event WHERE seq = 3 AND tx_id = $tx", "L8"},
	{
		"event with another state",
		"UPDATE tx_event SET state = 'TRACKING' WHERE kind = 'CONFIRMED' AND tx_id = $tx",
		"L8",
	},
	{
		"move without event",
		"UPDATE managed_tx SET version = version + 1 WHERE tx_id = $tx",
		"L8",
	},
	{
		"unknown token",
		"UPDATE tx_event SET fencing_token = 1000 WHERE seq = 3 AND tx_id = $tx",
		"L1",
	},
	{"write under an older token", "UPDATE tx_event SET fencing_token = 2 WHERE seq = 2 AND " +
		"tx_id = $tx", "L2"},
	{
		"cursor with an unknown token",
		"UPDATE submitter_nonce_cursor SET fencing_token = 1000 WHERE submitter_id = $s",
		"L1",
	},
	{"missing attempt", "DELETE FROM tx_attempt WHERE tx_id = $tx", "L3"},
	{
		"receipt of another transaction",
		"UPDATE managed_tx SET receipt_tx_hash = decode(repeat('ee', 32), 'hex') WHERE tx_id = $tx",
		"L6",
	},
	{
		"hash of another transaction",
		"UPDATE managed_tx SET tx_hash = decode(repeat('ee', 32), 'hex') WHERE tx_id = $tx",
		"L3",
	},
	{"requeue without event", "UPDATE managed_tx SET requeued = 1 WHERE tx_id = $tx", "L10"},
}

// TestAuditor_BrokenLaw_Protects corrupts the ledger of each submitter in another way. The auditor
// must protect those submitters and no other.
func TestAuditor_BrokenLaw_Protects(t *testing.T) {
	t.Parallel()
	r := newHarness(t, len(corruptions)+1, blockPeriod, dbtest.WithoutGuard())
	everywhere := func(request string) {
		t.Helper()
		var ids []txn.TxID
		for i := range r.submitters {
			ids = append(ids, r.create(i, request, transfer()))
		}
		for _, id := range ids {
			r.awaitFinal(id)
		}
	}
	n := r.startNode("a", nil)
	everywhere("1")
	everywhere("2")
	n.stop()
	var m *meter
	r.startNode("b", func(o *Options) { m = auditing(t, o) }) // under token 2
	everywhere("3")
	if found := m.count("fencepost_audit_violation"); len(found) > 0 {
		t.Fatalf("violations in a sound ledger: %v", found)
	}
	for i, c := range corruptions {
		second := fmt.Sprintf(
			"(SELECT tx_id FROM managed_tx WHERE submitter_id = %d AND nonce = 1)", r.submitters[i])
		r.corrupt(
			strings.NewReplacer("$tx", second, "$s", fmt.Sprint(r.submitters[i])).Replace(c.query))
	}
	laws := map[string]bool{}
	for i, c := range corruptions {
		laws[c.law] = true
		p := r.awaitProtection(i)
		if c.what == "cursor moved back" && p.Reason == txn.ProtectRestored {
			continue // the owner noticed it before the auditor
		}
		if p.Reason != txn.ProtectByAudit || !strings.Contains(p.Evidence, c.law) {
			t.Errorf("%s: %+v", c.what, p)
		}
	}
	for law := range laws {
		if found := m.count("fencepost_audit_violation"); found[law] == 0 {
			t.Errorf("violations %v", found)
		}
	}
	last := len(corruptions)
	if tx := r.awaitFinal(r.create(last, "4", transfer())); tx.State != txn.Confirmed ||
		r.protection(last) != nil {
		t.Errorf("the sound submitter: %+v", tx.Status)
	}
}

// TestAuditor_SameViolation_ProtectsOnce resumes after a violation. The same violation does not
// protect again, another does. The previous release recorded violations by text only.
func TestAuditor_SameViolation_ProtectsOnce(t *testing.T) {
	t.Parallel()
	for name, recorded := range map[string]func(*harness, txn.TxID){
		"recorded by key": func(*harness, txn.TxID) {},
		"recorded by text": func(r *harness, tx txn.TxID) {
			r.corrupt(fmt.Sprintf("UPDATE submitter_command SET violations = NULL, reason = "+
				"'L8: transaction %s: it has version 5 and 4 events, numbered 1 to 5' "+
				"WHERE violations IS NOT NULL", tx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testProtectsOnce(t, recorded)
		})
	}
}

func testProtectsOnce(t *testing.T, recorded func(*harness, txn.TxID)) {
	r := newHarness(t, 1, blockPeriod, dbtest.WithoutGuard())
	var m *meter
	audit := func(o *Options) { m = auditing(t, o) }
	n := r.startNode("a", audit)
	first, second := r.create(0, "1", transfer()), r.create(0, "2", transfer())
	r.awaitFinal(first)
	r.awaitFinal(second)
	r.corrupt(fmt.Sprintf("DELETE FROM tx_event WHERE seq = 3 AND tx_id = '%s'", first))
	p := r.awaitProtection(0)
	if got := r.decide(store.Ask{Kind: txn.CommandExitProtect, Action: txn.ActionResume,
		Expect: p.ID}); got != txn.Applied {
		t.Fatal(got)
	}
	n.stop()
	recorded(r, first)
	// Many other commands are recorded in between.
	r.corrupt(
		"INSERT INTO submitter_command (submitter_id, kind, applied_at, result) SELECT " +
			"submitter_id, 'RESUME', clock_timestamp(), 'APPLIED' FROM submitter, " +
			"generate_series(1, 2500)")
	r.startNode("b", audit)
	r.awaitFinal(r.create(0, "3", transfer()))
	r.eventually("it is found again", func() error {
		if found := m.count("fencepost_audit_violation"); found["L8"] < 2 {
			return fmt.Errorf("%v", found)
		}
		return nil
	})
	if p := r.protection(0); p != nil {
		t.Fatalf("protected again: %+v", p)
	}
	r.corrupt(fmt.Sprintf("DELETE FROM tx_event WHERE seq = 3 AND tx_id = '%s'", second))
	if p := r.awaitProtection(0); strings.Contains(p.Evidence, first.String()) ||
		!strings.Contains(p.Evidence, second.String()) {
		t.Errorf("%+v", p)
	}
}

// TestAuditor_KeyUsedElsewhere_Protects has an empty queue, so the owner does not read the account.
// Two audits at different blocks protect, one does not.
func TestAuditor_KeyUsedElsewhere_Protects(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	var m *meter
	w.startNode("a", func(o *Options) { o.Chains[0].Chain = w.chain; m = auditing(t, o) })
	w.confirmOne("one")
	other := w.inject(w.foreignTx(1))
	w.chain.Mine(1)
	seen := m.count("fencepost_audit")["ok"]
	w.eventually("audits at one block", func() error {
		if got := m.count("fencepost_audit")["ok"]; got < seen+4 {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
	if p := w.protection(0); p != nil {
		t.Fatalf("protected after audits at one block: %+v", p)
	}
	w.chain.MineEmpty(1)
	if p := w.awaitProtection(0); p.Reason != txn.ReasonNonceElsewhere ||
		p.ChainNonce == nil || *p.ChainNonce != 2 ||
		!strings.Contains(p.Evidence, other.Hash().Hex()) {
		t.Errorf("%+v", p)
	}
	if found := m.count("fencepost_audit_violation"); found["L10"] == 0 {
		t.Errorf("%v", found)
	}
}

// TestFullAudit compares a ledger with the chain in every way in which they can differ.
func TestFullAudit(t *testing.T) {
	t.Parallel()
	const second = "(SELECT tx_id FROM managed_tx WHERE nonce = 1)"
	unreceipted := "receipt_tx_hash = NULL, receipt_block = NULL, receipt_block_hash = NULL, " +
		"receipt_success = NULL, receipt_gas_used = NULL, receipt_gas_price = NULL"
	for name, c := range map[string]struct {
		corrupt string
		prepare func(*sharedKeyHarness)
		checks  []string // expected to fail
	}{
		"sound": {},
		"in another block": {corrupt: "UPDATE managed_tx SET receipt_block_hash = " +
			"decode(repeat('ee', 32), 'hex') WHERE tx_id = " + second,
			checks: []string{"other_block"}},
		"reverted, by the ledger": {corrupt: "UPDATE managed_tx SET receipt_success = FALSE " +
			"WHERE " +
			"tx_id = " + second, checks: []string{"other_result"}},
		"not executed, by the ledger": {
			corrupt: "UPDATE managed_tx SET state = 'FAILED_FINAL', executed = 'NO', " +
				unreceipted +
				" WHERE tx_id = " + second, checks: []string{"last_event", "unknown_execution"}},
		"the chain has lost blocks": {
			prepare: func(w *sharedKeyHarness) { w.rollback() },
			checks:  []string{"not_on_chain", "not_on_chain", "not_on_chain", "chain_behind"}},
		"the key is used elsewhere": {
			prepare: func(w *sharedKeyHarness) { w.inject(w.foreignTx(3)) },
			checks:  []string{"used_elsewhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSharedKeyHarness(t)
			n := w.node()
			for i := range 3 {
				w.confirmOne(fmt.Sprint(i))
			}
			n.stop()
			if c.corrupt != "" {
				w.corrupt(c.corrupt)
			}
			if c.prepare != nil {
				c.prepare(w)
			}
			var progress []audit.Progress
			report, err := audit.Run(t.Context(), audit.Options{
				Store: w.admin, Chain: w.chain, Submitter: w.submitters[0],
				Progress: func(p audit.Progress) { progress = append(progress, p) },
			})
			if err != nil || report.Transactions != 3 || report.Hashes != 3 ||
				report.Unanswered != 0 ||
				!slices.Equal(progress, []audit.Progress{{Transactions: 3, Nonce: 2, Next: 3}}) {
				t.Errorf("%+v %v %v", report, progress, err)
			}
			if got := failedChecks(report); !slices.Equal(got, c.checks) {
				t.Errorf("found %+v, want %v", report.Violations, c.checks)
			}
		})
	}
}

func failedChecks(r audit.Report) (checks []string) {
	for _, v := range r.Violations {
		checks = append(checks, v.Check)
	}
	return checks
}

// TestFullAudit_RequeuedIncluded_Reported verifies that a transaction without a nonce, queued again
// or cancelled there, is reported if an earlier attempt is on chain.
func TestFullAudit_RequeuedIncluded_Reported(t *testing.T) {
	t.Parallel()
	w, id, n := protectedAfterLoss(t, 0)
	before := w.attempts()[id.String()]
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.resolve(txn.ActionRequeue, id), txn.Applied)
	n.stop()
	finds := func(states ...txn.State) {
		t.Helper()
		report, err := audit.Run(t.Context(),
			audit.Options{Store: w.admin, Chain: w.chain, Submitter: w.submitters[0]})
		if err != nil || report.Transactions != 2 || report.Hashes != 2 ||
			len(report.Violations) != len(states) {
			t.Fatalf("%+v %v", report, err)
		}
		for i, v := range report.Violations {
			if v.Check != "unknown_execution" || v.Tx == nil || *v.Tx != id ||
				v.Values[0] != states[i] {
				t.Errorf("%s; want %s", v.Key(), states[i])
			}
		}
	}
	finds()
	if err := w.chain.Reorg(int(w.chain.MineEmpty(1).Number)-4, chaintest.Drop); err != nil {
		t.Fatal(err)
	}
	if o := w.chain.Send(t.Context(), w.signed(before)); o.Class != txn.Accepted {
		t.Fatalf("%+v", o)
	}
	w.chain.Mine(1)
	finds(txn.Queued)
	successor := w.openStore("successor", w.db.NodeURL) // which writes a wrong outcome
	lease, err := successor.AcquireOne(t.Context(), w.submitters[0])
	if err != nil {
		t.Fatal(err)
	}
	tx, err := successor.Tx(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	next := tx.Status
	next.State = txn.Cancelled
	next.Executed = txn.No
	next.Version = tx.Version + 1
	wrong := txn.Write{
		Tx:      id,
		Version: tx.Version,
		From:    tx.State,
		Kind:    txn.EventCancelled,
		Next:    next,
	}
	outcome, err := successor.Commit(lease, txn.Change{Writes: []txn.Write{wrong}})
	if outcome != store.Done {
		t.Fatal(outcome, err)
	}
	finds(txn.Cancelled)
}

// rollback replaces all blocks.
func (w *sharedKeyHarness) rollback() {
	w.t.Helper()
	if err := w.chain.Reorg(int(w.chain.MineEmpty(1).Number), chaintest.Drop); err != nil {
		w.t.Fatal(err)
	}
}

// TestFullAudit_ChainLagsOrFails_NoFalseFinding verifies that a lagging or failing endpoint is not
// a violation.
func TestFullAudit_ChainLagsOrFails_NoFalseFinding(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	n := w.node()
	for i := range 3 {
		w.confirmOne(fmt.Sprint(i))
	}
	n.stop()
	only := func(method chaintest.Method, f chaintest.Fault) {
		w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
			if call.Method == method || method == "" {
				return f
			}
			return chaintest.Fault{}
		})
	}
	audit := func() (audit.Report, error) {
		return audit.Run(t.Context(),
			audit.Options{Store: w.admin, Chain: w.chain, Submitter: w.submitters[0]})
	}
	only(chaintest.MethodReceipts, chaintest.Unavailable())
	if report, err := audit(); err != nil || report.Unanswered != 3 || len(report.Violations) > 0 {
		t.Errorf("%+v %v", report, err)
	}
	for _, method := range []chaintest.Method{chaintest.MethodHead, chaintest.MethodAccount} {
		only(method, chaintest.Unavailable())
		if report, err := audit(); !errors.Is(err, txn.ErrUnavailable) ||
			len(report.Violations) > 0 {
			t.Errorf("%+v %v", report, err)
		}
	}
	only("", chaintest.Lag(10))
	if report, err := audit(); err != nil || report.Unanswered == 0 ||
		!slices.Equal(failedChecks(report), []string{"chain_behind"}) {
		t.Errorf("%+v %v", report, err)
	}
}

// TestQuirk_AuditReceiptMissingOnce_NoFalseFinding hides a receipt from a single reading.
// One that no reading has is reported.
func TestQuirk_AuditReceiptMissingOnce_NoFalseFinding(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	n := w.node()
	w.confirmOne("one")
	n.stop()
	for name, c := range map[string]struct {
		readings int // that do not have it
		found    []string
	}{
		"one reading":  {1, nil},
		"two readings": {2, []string{"not_on_chain"}},
	} {
		left := c.readings
		hidden := hiddenReceipts{w.chain, func() bool { left--; return left >= 0 }}
		report, err := audit.Run(t.Context(),
			audit.Options{Store: w.admin, Chain: hidden, Submitter: w.submitters[0]})
		if err != nil || !slices.Equal(failedChecks(report), c.found) {
			t.Errorf("%s: %+v %v", name, report, err)
		}
	}
}

// hiddenReceipts is a chain with an endpoint that lacks receipts while hide returns true.
type hiddenReceipts struct {
	audit.Chain
	hide func() bool
}

func (c hiddenReceipts) Receipts(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult {
	results := c.Chain.Receipts(ctx, hashes)
	if c.hide() {
		for i := range results {
			results[i].Receipt = nil
		}
	}
	return results
}

// TestAuditor_AlreadyProtected_Waits verifies that the auditor does not replace the reason of a
// protection. It protects when that protection is lifted.
func TestAuditor_AlreadyProtected_Waits(t *testing.T) {
	t.Parallel()
	r := newHarness(t, 1, blockPeriod, dbtest.WithoutGuard())
	var m *meter
	r.startNode("a", func(o *Options) { m = auditing(t, o) })
	id := r.create(0, "1", transfer())
	r.awaitFinal(id)
	if got := r.decide(store.Ask{Kind: txn.CommandProtect}); got != txn.Applied {
		t.Fatal(got)
	}
	r.corrupt(fmt.Sprintf("DELETE FROM tx_event WHERE seq = 3 AND tx_id = '%s'", id))
	r.eventually("several audits report it", func() error {
		if found := m.count("fencepost_audit_violation"); found["L8"] < 4 {
			return fmt.Errorf("%v", found)
		}
		return nil
	})
	if commands, err := r.admin.Commands(t.Context(), r.submitters[0], 0, 10); err != nil ||
		len(commands) != 1 {
		t.Errorf("%+v %v", commands, err)
	}
	if got := r.decide(store.Ask{Kind: txn.CommandExitProtect, Action: txn.ActionResume,
		Expect: 1}); got != txn.Applied {
		t.Fatal(got)
	}
	r.eventually("it is protected by the audit", func() error {
		if p := r.protection(0); p == nil || p.Reason != txn.ProtectByAudit {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
}

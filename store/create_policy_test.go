package store

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"pgregory.net/rapid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

func denied(err error, rule txn.Rule) bool {
	policy, ok := errors.AsType[*PolicyError](err)
	return ok && policy.Rule == rule
}

// payOf returns intents of a caller that pay an amount each.
func payOf(id txn.SubmitterID, quota txn.Quota, amounts ...uint64) []Intent {
	intents := make([]Intent, len(amounts))
	for i, amount := range amounts {
		intents[i] = Intent{Submitter: id, RequestID: fmt.Sprint("pay-", i), Caller: "shop",
			Payload: payload("pay"), Quota: quota}
		intents[i].Payload.Value = *uint256.NewInt(amount)
		intents[i].Payload.GasLimit = 21000
	}
	return intents
}

// TestQuota_ManyCallersThreeNodes_NeverExceeded: 64 clients on three nodes use one caller's quotas
// up to the last unit.
func TestQuota_ManyCallersThreeNodes_NeverExceeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		quota txn.Quota
		want  int
	}{
		"value of a day": {txn.Quota{DayValue: uint256.NewInt(40 * 7)}, 40},
		"gas of a day":   {txn.Quota{DayGas: 40*21000 + 20999}, 40},
		"rate":           {txn.Quota{Rate: 0.0001}, 1}, // a burst of one
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			stores := []*Store{k.open("a"), k.open("b"), k.open("c")}
			id := k.submitter(stores[0], "alice")
			quota, amounts := c.quota, slices.Repeat([]uint64{7}, 64)
			accepted := 0
			for _, r := range k.createAll(stores, payOf(id, quota, amounts...)) {
				if _, policy := errors.AsType[*PolicyError](r.err); policy {
					continue
				}
				k.must(r.err)
				accepted++
			}
			rows := value[int](k, `SELECT count(*) FROM managed_tx`)
			if accepted != c.want || rows != c.want {
				t.Fatalf("%d accepted, %d rows; the quota is %d", accepted, rows, c.want)
			}
			// an accepted one is still found, though the quota is used up
			again := 0
			for _, r := range k.createAll(stores, payOf(id, quota, amounts...)) {
				if r.err == nil && !r.first {
					again++
				}
			}
			if again != c.want {
				t.Errorf("%d of %d accepted transactions are found again", again, c.want)
			}
			if quota.DayValue != nil {
				if used := value[int](k, `SELECT value::INT FROM caller_usage`); used != 40*7 {
					t.Errorf("%d counted, %d used", used, 40*7)
				}
			}
		})
	}
}

// TestQuota_SmallAfterLarge_Admitted: a transaction that does not fit leaves room for a later one.
func TestQuota_SmallAfterLarge_Admitted(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	intents := payOf(id, txn.Quota{DayValue: uint256.NewInt(10)}, 6, 9, 4, 1)
	var got []bool
	for _, r := range s.CreateTxs(k.ctx, intents) {
		if r.Err != nil && !denied(r.Err, txn.RuleDayValue) {
			t.Fatal(r.Err)
		}
		got = append(got, r.Created)
	}
	if want := []bool{true, false, true, false}; !slices.Equal(got, want) {
		t.Errorf("created %v, want %v", got, want)
	}
}

func TestQuota_NewDay_StartsAtZero(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	quota := txn.Quota{DayValue: uint256.NewInt(10), DayGas: 50000}
	all := payOf(id, quota, 10, 1)
	_, _, err := s.CreateTx(k.ctx, all[0])
	k.must(err)
	if rule, err := s.WouldExceed(k.ctx, all[1]); rule != txn.RuleDayValue || err != nil {
		t.Errorf("foreseen: %q, %v", rule, err)
	}
	if _, _, err = s.CreateTx(k.ctx, all[1]); !denied(err, txn.RuleDayValue) {
		t.Fatalf("beyond the quota: %v", err)
	}
	k.exec(`UPDATE caller_usage SET day = day - 1`)
	if rule, err := s.WouldExceed(k.ctx, all[1]); rule != "" || err != nil {
		t.Errorf("foreseen on the next day: %q, %v", rule, err)
	}
	_, _, err = s.CreateTx(k.ctx, all[1])
	k.must(err)
	if used := value[int](k, `SELECT value::INT FROM caller_usage`); used != 1 {
		t.Errorf("%d counted on the next day", used)
	}
}

// TestQuota_DeniedBeforeMidnight_NoNumbersOfNewDay: numbers that were read after the day of the
// denial do not contradict it.
func TestQuota_DeniedBeforeMidnight_NoNumbersOfNewDay(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	all := payOf(id, txn.Quota{DayValue: uint256.NewInt(20), DayGas: 50000}, 18, 5)
	_, _, err := s.CreateTx(k.ctx, all[0])
	k.must(err)
	day := func(rule txn.Rule, gas uint64) *Exceeded {
		job := &createJob{intent: all[1], beyond: rule}
		job.intent.Payload.GasLimit = gas
		return (&policyErrors{s, map[usageKey]*db.UsageRow{}}).of(k.ctx, job).Exceeded
	}
	if d := day(txn.RuleDayValue, 21000); d == nil || !d.Used.Eq(uint256.NewInt(18)) {
		t.Errorf("on the same day: %+v", d)
	}
	k.exec(`UPDATE caller_usage SET day = day - 1`)
	for _, rule := range []txn.Rule{txn.RuleDayValue, txn.RuleDayGas} {
		if d := day(rule, 21000); d != nil {
			t.Errorf("%s on the next day: %+v", rule, d)
		}
	}
	if d := day(txn.RuleDayGas, 0); d == nil || !d.Requested.IsZero() {
		t.Errorf("without a gas limit: %+v", d)
	}
}

func TestQuota_Reported_AcceptedAndCounted(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	var reports atomic.Int64
	for _, intent := range payOf(id, txn.Quota{DayValue: uint256.NewInt(10)}, 8, 8, 8) {
		intent.BeyondQuota = func(rule txn.Rule) {
			if rule == txn.RuleDayValue {
				reports.Add(1)
			}
		}
		_, created, err := s.CreateTx(k.ctx, intent)
		k.must(err)
		if !created {
			t.Error("not created")
		}
	}
	used := value[int](k, `SELECT value::INT FROM caller_usage`)
	if reports.Load() != 2 || used != 24 {
		t.Errorf("%d reports, %d used", reports.Load(), used)
	}
}

func TestQuota_Rate_Refills(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	all := payOf(id, txn.Quota{Rate: 0.001}, 1, 1)
	_, _, err := s.CreateTx(k.ctx, all[0])
	k.must(err)
	_, _, err = s.CreateTx(k.ctx, all[1])
	policy, ok := errors.AsType[*PolicyError](err)
	if !ok || policy.Rule != txn.RuleRate || policy.RetryAfter() <= 0 {
		t.Fatalf("beyond the rate: %v", err)
	}
	k.exec(`UPDATE caller_usage SET creates_at = creates_at - interval '1000 s'`)
	_, _, err = s.CreateTx(k.ctx, all[1])
	k.must(err)
}

// TestPolicy_Denied_RetryOfAcceptedFound: a policy that was tightened does not deny a retry of an
// accepted transaction.
func TestPolicy_Denied_RetryOfAcceptedFound(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	all := payOf(id, txn.Quota{}, 1, 1)
	first, _, err := s.CreateTx(k.ctx, all[0])
	k.must(err)
	for i := range all {
		all[i].Denied = txn.RuleRecipients
	}
	results := s.CreateTxs(k.ctx, all)
	if r := results[0]; r.Err != nil || r.Created || r.Info.ID != first.ID {
		t.Errorf("retry of an accepted one: %+v", r)
	}
	if !denied(results[1].Err, txn.RuleRecipients) {
		t.Errorf("new: %v", results[1].Err)
	}
}

// TestQuota_RateSetLater_AdmitsBurst: transactions that were accepted without a rate, or where it
// was only reported, do not use up a rate that is set later.
func TestQuota_RateSetLater_AdmitsBurst(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]struct {
		quota txn.Quota
		only  func(txn.Rule) // reports
	}{
		"without a rate": {quota: txn.Quota{DayGas: 1e9}},
		"reported":       {txn.Quota{Rate: 1}, func(txn.Rule) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			s := k.open("a")
			id := k.submitter(s, "alice")
			all := payOf(id, before.quota, slices.Repeat([]uint64{1}, 102)...)
			for i := range all {
				all[i].BeyondQuota = before.only
			}
			for _, r := range s.CreateTxs(k.ctx, all[:100]) {
				k.must(r.Err)
			}
			k.exec(`UPDATE caller_usage SET creates_at = creates_at - interval '2 s'`)
			for i, intent := range all[100:] {
				intent.Quota, intent.BeyondQuota = txn.Quota{Rate: 0.6}, nil
				rule, err := s.WouldExceed(k.ctx, intent)
				k.must(err)
				_, _, err = s.CreateTx(k.ctx, intent)
				if want := i > 0; denied(err, txn.RuleRate) != want || !want && err != nil ||
					(rule == txn.RuleRate) != want {
					t.Errorf("transaction %d: foreseen %q, %v", i, rule, err)
				}
			}
		})
	}
}

// onChain registers a submitter on a chain of its own.
func (k *kit) onChain(s *Store, name string, chain txn.ChainID) txn.SubmitterID {
	k.t.Helper()
	var a txn.Address
	copy(a[:], name)
	info, _, err := s.Register(k.ctx, Registration{Name: name, Chain: chain, Address: a,
		Signer: "local", Mode: txn.Strict, StartFrom: "0"})
	k.must(err)
	return info.ID
}

// TestQuota_AnyBatches_AdmittedInOrder compares batches of two callers on two chains, some of which
// repeat earlier requests, with a count of each transaction alone.
func TestQuota_AnyBatches_AdmittedInOrder(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	ids := []txn.SubmitterID{k.onChain(s, "one", 1), k.onChain(s, "two", 2)}
	type key struct{ caller, chain int }
	type use struct{ value, gas uint64 }
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		quota := txn.Quota{}
		dayValue := rapid.Uint64Range(0, 60).Draw(t, "value")
		dayGas := rapid.Uint64Range(0, 60).Draw(t, "gas")
		if dayValue > 0 {
			quota.DayValue = uint256.NewInt(dayValue)
		}
		quota.DayGas = dayGas
		uses, accepted := map[key]use{}, []Intent(nil)
		for batch := range rapid.IntRange(1, 4).Draw(t, "batches") {
			var intents []Intent
			var want []bool
			known := len(accepted)
			for n := range rapid.IntRange(1, 8).Draw(t, "transactions") {
				if known > 0 && rapid.IntRange(0, 3).Draw(t, "repeats") == 0 {
					known--
					intents, want = append(intents, accepted[known]), append(want, false)
					continue
				}
				of := key{rapid.IntRange(1, 2).Draw(t, "caller"),
					rapid.IntRange(1, 2).Draw(t, "chain")}
				i := Intent{Submitter: ids[of.chain-1], Payload: payload("pay"), Quota: quota,
					RequestID: fmt.Sprint(round, "/", batch, "/", n),
					Caller:    fmt.Sprint("shop-", round, "-", of.caller)}
				i.Payload.GasLimit = rapid.Uint64Range(0, 20).Draw(t, "gas of one")
				amount := rapid.Uint64Range(0, 20).Draw(t, "value of one")
				i.Payload.Value = *uint256.NewInt(amount)
				u := uses[of]
				fits := (dayValue == 0 || u.value+amount <= dayValue) &&
					(dayGas == 0 || u.gas+i.Payload.GasLimit <= dayGas)
				if fits {
					uses[of] = use{u.value + amount, u.gas + i.Payload.GasLimit}
					accepted = append(accepted, i)
				}
				intents, want = append(intents, i), append(want, fits)
			}
			for i, r := range s.CreateTxs(k.ctx, intents) {
				_, policy := errors.AsType[*PolicyError](r.Err)
				if r.Created != want[i] || r.Err != nil && (want[i] || !policy) {
					t.Fatalf("transaction %d of batch %d: created %v, %v; want %v", i, batch,
						r.Created, r.Err, want[i])
				}
			}
		}
		for of, u := range uses {
			counted := value[string](k, `SELECT coalesce(max(value || '/' || gas), '0/0')
				FROM caller_usage WHERE caller = $1 AND chain_id = $2`,
				fmt.Sprint("shop-", round, "-", of.caller), of.chain)
			if want := fmt.Sprint(u.value, "/", u.gas); quota.Any() && counted != want {
				t.Fatalf("%+v: %s is counted, %s was accepted", of, counted, want)
			}
		}
	})
}

// TestQuota_RememberedChainWrong_CountsNothing: a node that remembers another chain of a submitter
// counts nothing there, and reads it again.
func TestQuota_RememberedChainWrong_CountsNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.onChain(s, "alice", 1)
	all := payOf(id, txn.Quota{DayValue: uint256.NewInt(100)}, 1, 10)
	_, _, err := s.CreateTx(k.ctx, all[0])
	k.must(err)
	k.exec(`UPDATE submitter SET chain_id = 2`)
	if _, _, err = s.CreateTx(k.ctx, all[1]); !errors.Is(err, ErrUnavailable) {
		t.Errorf("on the remembered chain: %v", err)
	}
	_, created, err := s.CreateTx(k.ctx, all[1])
	k.must(err)
	used := value[string](k, `SELECT string_agg(chain_id || ':' || value, ' ' ORDER BY chain_id)
		FROM caller_usage`)
	if !created || used != "1:1 2:10" {
		t.Errorf("created %v; used by chain: %s", created, used)
	}
}

// TestQuota_NoAccount_NotRemembered: without an account there is no chain to count on.
func TestQuota_NoAccount_NotRemembered(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	all := payOf(id, txn.Quota{DayGas: 50000}, 1, 1)
	all[0].Submitter = id + 1000
	for i, r := range s.CreateTxs(k.ctx, all) {
		if i == 0 && !errors.Is(r.Err, ErrSubmitterNotFound) || i == 1 && r.Err != nil {
			t.Errorf("transaction %d: %v", i, r.Err)
		}
	}
	var open []usageKey
	s.usageOpen.Range(func(key, _ any) bool {
		open = append(open, key.(usageKey))
		return true
	})
	if want := []usageKey{{"shop", 31337}}; !slices.Equal(open, want) {
		t.Errorf("remembered as open: %+v, want %+v", open, want)
	}
}

// TestQuota_PolicyChanges_StrictestApplies: of two policies of a caller in one statement, as while
// a node reloads, the strictest applies to all.
func TestQuota_PolicyChanges_StrictestApplies(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	all := payOf(k.submitter(s, "alice"), txn.Quota{DayValue: uint256.NewInt(100)}, 4, 4, 4)
	for _, i := range []int{0, 2} {
		all[i].BeyondQuota = func(txn.Rule) { t.Error("an enforced quota was only reported") }
	}
	all[1].Quota.DayValue = uint256.NewInt(9)
	for i, r := range s.CreateTxs(k.ctx, all) {
		if i < 2 && !r.Created || i == 2 && !denied(r.Err, txn.RuleDayValue) {
			t.Errorf("transaction %d: created %v, %v", i, r.Created, r.Err)
		}
	}
	if used := value[int](k, `SELECT value::INT FROM caller_usage`); used != 8 {
		t.Errorf("%d counted", used)
	}
}

// TestQuota_OthersNotInserted_UseNoRoom: a transaction that is not queued uses up no quota of
// others in its statement.
func TestQuota_OthersNotInserted_UseNoRoom(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, paused := k.submitter(s, "alice"), k.submitter(s, "paused")
	k.exec(`UPDATE submitter SET status = 'PAUSED' WHERE name = 'paused'`)
	three := payOf(id, txn.Quota{DayValue: uint256.NewInt(20)}, 10, 10, 10)
	repeated := []Intent{three[0], three[0], three[1]}
	unpaid := slices.Clone(three)
	unpaid[0].Submitter = paused
	late := payOf(id, txn.Quota{Rate: 1e-4}, 10, 10)
	late[0].Terms.NotAfter = time.Now().Add(-time.Hour)
	for name, batch := range map[string][]Intent{"repeated": repeated, "paused": unpaid,
		"late": late} {
		for i := range batch {
			batch[i].Caller, batch[i].RequestID = name, name+batch[i].RequestID
		}
		refused := map[string]error{"paused": ErrPaused, "late": ErrLate}[name]
		for i, r := range s.CreateTxs(k.ctx, batch) {
			if i == 0 && !errors.Is(r.Err, refused) || i > 0 && r.Err != nil {
				t.Errorf("%s: transaction %d: %v", name, i, r.Err)
			}
		}
	}
	if n := value[int](k, "SELECT count(*) FROM managed_tx"); n != 5 {
		t.Errorf("%d transactions", n)
	}
	beyond := payOf(id, txn.Quota{DayValue: uint256.NewInt(20)}, 10, 10, 10)
	for i := range beyond {
		beyond[i].Caller, beyond[i].RequestID = "beyond", "beyond"+beyond[i].RequestID
	}
	for i, r := range s.CreateTxs(k.ctx, append(beyond[:1:1], beyond...)) {
		_, denied := errors.AsType[*PolicyError](r.Err)
		if denied != (i == 3) {
			t.Errorf("with a repeat: transaction %d: %v", i, r.Err)
		}
	}
}

// TestQuota_OthersNotInserted_KeepOrder: the transactions of an account are queued in the order of
// their batch, also if others of it are not queued.
func TestQuota_OthersNotInserted_KeepOrder(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, paused := k.submitter(s, "alice"), k.submitter(s, "paused")
	k.exec(`UPDATE submitter SET status = 'PAUSED' WHERE name = 'paused'`)
	all := payOf(id, txn.Quota{DayValue: uint256.NewInt(20)}, 10, 15, 5)
	all[0].Submitter = paused
	var seqs []int64
	for i, r := range s.CreateTxs(k.ctx, all) {
		if r.Created != (i > 0) {
			t.Errorf("transaction %d: created %v, %v", i, r.Created, r.Err)
		}
		if r.Created {
			seqs = append(seqs, int64(r.Info.QueueSeq))
		}
	}
	if !slices.IsSorted(seqs) {
		t.Errorf("positions in the queue: %v", seqs)
	}
}

// TestQuota_NoneInserted_OneStatement: transactions that are refused anyway take one statement,
// which takes a position in the queue for each. Others wait behind it.
func TestQuota_NoneInserted_OneStatement(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	paused := k.submitter(s, "paused")
	k.exec(`UPDATE submitter SET status = 'PAUSED'`)
	all := payOf(paused, txn.Quota{Rate: 1}, make([]uint64, 50)...)
	s.CreateTxs(k.ctx, all)
	if n := value[int](k, "SELECT last_value FROM queue_seq"); n > 2*len(all) {
		t.Errorf("%d positions were taken for %d transactions", n, len(all))
	}
}

package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/holiman/uint256"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// PolicyError reports a transaction that the policy of its caller denies. Nothing was queued.
type PolicyError struct {
	Rule     txn.Rule
	Rate     float64   // of the policy; 0: no limit
	Exceeded *Exceeded // of a rule that limits an amount; nil: another one, or unknown by now
}

// Exceeded is the limit of an amount that a transaction exceeds, in wei or gas.
type Exceeded struct {
	Limit, Requested txn.Wei
	Used             txn.Wei   // today, on the chain
	Ends             time.Time // of the day; zero: the transaction alone exceeds the limit
}

func (e *PolicyError) Error() string {
	return "denied by the policy of its caller: " + string(e.Rule)
}

// RetryAfter is when the same request may be accepted; 0: not before the policy or the day changes.
func (e *PolicyError) RetryAfter() time.Duration {
	if e.Rule != txn.RuleRate {
		return 0
	}
	return time.Duration(min(max(1/e.Rate, 0.1), 3600) * float64(time.Second))
}

// quotaRules are the rules by the number that InsertTxs returns.
var quotaRules = [...]txn.Rule{1: txn.RuleDayValue, 2: txn.RuleDayGas, 3: txn.RuleRate}

// denial returns the rule that denies a job; empty: none.
func (j *createJob) denial() txn.Rule {
	if j.intent.Denied != "" {
		return j.intent.Denied
	}
	return j.beyond
}

// policyErrors makes the errors of denied jobs, and reads the usage of each caller once.
type policyErrors struct {
	s    *Store
	read map[usageKey]*db.UsageRow // nil: unknown
}

func (p *policyErrors) of(ctx context.Context, job *createJob) *PolicyError {
	of := &job.intent
	e := &PolicyError{Rule: job.denial(), Rate: of.Quota.Rate}
	var is Exceeded
	var used func(*db.UsageRow) string
	switch {
	case e.Rule == txn.RuleMaxValue && of.MaxValue != nil:
		is.Limit, is.Requested = *of.MaxValue, of.Payload.Value
	case e.Rule == txn.RuleDayValue && of.Quota.DayValue != nil:
		is.Limit, is.Requested = *of.Quota.DayValue, of.Payload.Value
		used = func(r *db.UsageRow) string { return r.Value }
	case e.Rule == txn.RuleDayGas && of.Quota.DayGas > 0:
		is.Limit.SetUint64(of.Quota.DayGas)
		is.Requested.SetUint64(of.Payload.GasLimit)
		used = func(r *db.UsageRow) string { return r.Gas }
	default:
		return e
	}
	if of.Denied == "" { // together with others of the day
		row := p.usage(ctx, job)
		if row == nil {
			return e
		}
		is.Used, is.Ends = amount(used(row)), row.DayEnds
		if noGas := e.Rule == txn.RuleDayGas && is.Requested.IsZero(); !noGas &&
			!beyond(&is.Used, &is.Requested, &is.Limit) {
			return e // of a day that ended since, or of a stricter policy
		}
	}
	e.Exceeded = &is
	return e
}

func (p *policyErrors) usage(ctx context.Context, job *createJob) *db.UsageRow {
	row, known := p.read[job.usageKey()]
	if !known {
		got, err := p.s.read().Usage(ctx, db.UsageParams{
			SubmitterID: int32(job.intent.Submitter), Caller: job.intent.Caller})
		if err == nil {
			row = &got
		}
		p.read[job.usageKey()] = row
	}
	return row
}

// findDenied answers the jobs that a policy denies, and returns the others.
func (s *Store) findDenied(ctx context.Context,
	group []*createJob) (left []*createJob, why *refusal) {
	var denied []*createJob
	for _, job := range group {
		if job.intent.Denied != "" {
			denied = append(denied, job)
		} else {
			left = append(left, job)
		}
	}
	if len(denied) > 0 {
		why = s.findCreated(ctx, denied)
	}
	return left, why
}

// usageKey names the row in which the quotas of a caller on a chain are counted.
type usageKey struct {
	caller string
	chain  txn.ChainID
}

func (j *createJob) usageKey() usageKey { return usageKey{j.intent.Caller, j.chain} }

// quotaUse is the quota of a caller on a chain, and all that a statement may queue under it.
type quotaUse struct {
	usageKey
	txn.Quota
	enforced bool // else it is only reported

	value, gas big.Int
	creates    int64

	one big.Int // scratch space of add
}

// add adds a job. While a policy changes, jobs may differ: the strictest quota applies to all.
func (u *quotaUse) add(job *createJob) {
	of := job.intent.Quota
	if of.DayValue != nil && (u.DayValue == nil || of.DayValue.Lt(u.DayValue)) {
		u.DayValue = of.DayValue
	}
	if of.DayGas > 0 && (u.DayGas == 0 || of.DayGas < u.DayGas) {
		u.DayGas = of.DayGas
	}
	if of.Rate > 0 && (u.Rate == 0 || of.Rate < u.Rate) {
		u.Rate = of.Rate
	}
	u.enforced = u.enforced || job.intent.BeyondQuota == nil
	one := &u.one
	job.intent.Payload.Value.IntoBig(&one)
	u.value.Add(&u.value, one)
	u.gas.Add(&u.gas, one.SetUint64(job.intent.Payload.GasLimit))
	u.creates++
}

// useQuotas numbers the quotas of jobs, from 1.
func useQuotas(group []*createJob) (uses []*quotaUse) {
	nos := map[usageKey]int32{}
	for _, job := range group {
		if job.quota = 0; !job.intent.Quota.Any() {
			continue
		}
		key := job.usageKey()
		if nos[key] == 0 {
			uses = append(uses, &quotaUse{usageKey: key})
			nos[key] = int32(len(uses))
		}
		job.quota = nos[key]
		uses[job.quota-1].add(job)
	}
	for _, job := range group {
		if job.quota > 0 && uses[job.quota-1].enforced {
			job.intent.BeyondQuota = nil
		}
	}
	return uses
}

// openUsage makes the rows that quotas are counted in.
func (s *Store) openUsage(ctx context.Context, uses []*quotaUse) error {
	var p db.OpenUsageParams
	var opened []usageKey
	for _, use := range uses {
		if _, open := s.usageOpen.Load(use.usageKey); !open && use.chain != 0 { // 0: no account
			p.Callers = append(p.Callers, use.caller)
			p.ChainIds = append(p.ChainIds, int64(use.chain))
			opened = append(opened, use.usageKey)
		}
	}
	if len(opened) == 0 {
		return nil
	}
	if err := s.read().OpenUsage(ctx, p); err != nil {
		return err
	}
	for _, key := range opened {
		s.usageOpen.Store(key, true)
	}
	return nil
}

// forget drops what this node remembers about the account and usage row of a job. A job that was
// refused without a known reason may have been sent with values from before a restore.
func (s *Store) forget(job *createJob) {
	s.lookups.forget(job.intent.Submitter)
	s.usageOpen.Delete(job.usageKey())
}

// reportQuotas notes the quota that a job exceeds, or reports it if quotas are only reported.
func reportQuotas(group []*createJob, rows []db.InsertTxsRow) {
	beyond := map[RequestKey]txn.Rule{}
	for _, r := range rows {
		if r.Exceeded > 0 {
			beyond[RequestKey{txn.TxID(r.TxID).Submitter(), r.RequestID}] = quotaRules[r.Exceeded]
		}
	}
	if len(beyond) == 0 {
		return
	}
	for _, job := range group {
		rule := beyond[job.intent.Key()]
		switch {
		case rule == "":
		case job.intent.BeyondQuota != nil:
			job.intent.BeyondQuota(rule)
		default:
			job.beyond = rule
		}
	}
}

// addQuotas adds quotas to the lists of InsertTxs.
func addQuotas(p *db.InsertTxsParams, uses []*quotaUse) {
	for i, u := range uses {
		p.QuotaNos = append(p.QuotaNos, int32(i+1))
		p.QuotaCallers = append(p.QuotaCallers, u.caller)
		p.QuotaChains = append(p.QuotaChains, int64(u.chain))
		p.Enforced = append(p.Enforced, u.enforced)
		dayValue, burst := "", 0.0
		if u.DayValue != nil {
			dayValue = u.DayValue.Dec()
		}
		if u.Rate > 0 {
			burst = u.Burst()
		}
		p.DayValues = append(p.DayValues, dayValue)
		p.DayGases = append(p.DayGases, int64(min(u.DayGas, math.MaxInt64)))
		p.Rates = append(p.Rates, u.Rate)
		p.Bursts = append(p.Bursts, burst)
		p.SumValues = append(p.SumValues, u.value.String())
		p.SumGases = append(p.SumGases, u.gas.String())
		p.SumCreates = append(p.SumCreates, u.creates)
	}
}

// WouldExceed returns the quota of a caller that a further transaction would exceed now; empty:
// none. Nothing is counted.
func (s *Store) WouldExceed(ctx context.Context, intent Intent) (txn.Rule, error) {
	q := intent.Quota
	if !q.Any() {
		return "", nil
	}
	verb := fmt.Sprintf("read the usage of caller %q", intent.Caller)
	row, err := s.read().Usage(ctx,
		db.UsageParams{SubmitterID: int32(intent.Submitter), Caller: intent.Caller})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", nil
	case err != nil:
		return "", s.failed(ctx, verb, err)
	}
	value, gas := used(row.Value), used(row.Gas)
	wanted := uint256.NewInt(intent.Payload.GasLimit)
	switch {
	case q.DayValue != nil && beyond(value, &intent.Payload.Value, q.DayValue):
		return txn.RuleDayValue, nil
	case q.DayGas > 0 && beyond(gas, wanted, uint256.NewInt(q.DayGas)):
		return txn.RuleDayGas, nil
	}
	if q.Rate > 0 && max(0, min(row.Creates, q.Burst())-q.Rate*row.AgeSeconds)+1 > q.Burst() {
		return txn.RuleRate, nil
	}
	return "", nil
}

// used reads an amount of the ledger, which may exceed 256 bits where quotas are only reported.
func used(decimal string) *uint256.Int {
	amount, err := uint256.FromDecimal(decimal)
	if err != nil {
		return new(uint256.Int).SetAllOne()
	}
	return amount
}

func beyond(used, wanted, most *uint256.Int) bool {
	sum, overflow := new(uint256.Int).AddOverflow(used, wanted)
	return overflow || sum.Gt(most)
}

// addMACs adds the authentication codes of intents to the lists of InsertTxs.
func (s *Store) addMACs(p *db.InsertTxsParams, group []*createJob) {
	p.Macs = make([][]byte, len(group))
	for i, job := range group {
		p.Macs[i] = []byte{}
		if of := &job.intent; len(s.cfg.IntentKey) > 0 {
			p.Macs[i] = txn.IntentMAC(s.cfg.IntentKey, of.Submitter, of.RequestID, job.hash,
				of.Caller, of.approval().Required())
		}
	}
}

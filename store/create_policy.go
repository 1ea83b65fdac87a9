package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holiman/uint256"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// PolicyError reports a transaction that the policy of its caller denies. Nothing was queued.
type PolicyError struct {
	Rule txn.Rule
	Rate float64 // of the policy; 0: no limit
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

// usageKey names the row in which the quotas of a caller are counted: by a submitter, which names
// the chain.
type usageKey struct {
	caller    string
	submitter txn.SubmitterID
}

// openUsage makes the rows that the quotas of these jobs are counted in.
func (s *Store) openUsage(ctx context.Context, group []*createJob) error {
	var p db.OpenUsageParams
	keys := map[usageKey]bool{}
	for _, job := range group {
		key := usageKey{job.intent.Caller, job.intent.Submitter}
		if _, open := s.usageOpen.Load(key); !open && job.intent.Quota.Any() && !keys[key] {
			keys[key] = true
			p.Callers = append(p.Callers, key.caller)
			p.SubmitterIds = append(p.SubmitterIds, int32(key.submitter))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	if err := s.read().OpenUsage(ctx, p); err != nil {
		return err
	}
	for key := range keys {
		s.usageOpen.Store(key, true)
	}
	return nil
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

// addQuota adds the quota of an intent to the lists of InsertTxs.
func addQuota(p *db.InsertTxsParams, i int, intent *Intent) {
	p.DayValues[i] = "-1"
	q := intent.Quota
	if !q.Any() {
		return
	}
	p.Quotas[i] = 1
	if intent.BeyondQuota != nil {
		p.Quotas[i] = 2
	}
	if q.DayValue != nil {
		p.DayValues[i] = q.DayValue.Dec()
	}
	p.DayGases[i] = int64(min(q.DayGas, math.MaxInt64))
	p.Rates[i] = q.Rate
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

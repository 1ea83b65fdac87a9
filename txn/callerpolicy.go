package txn

import (
	"slices"
	"time"
)

// Rule names a rule of a caller's policy, as the configuration does.
type Rule string

// The rules. Those after RuleApproval are quotas, which the ledger counts.
const (
	RuleRecipients Rule = "recipients"
	RuleSelectors  Rule = "selectors"
	RuleMaxValue   Rule = "value_per_tx"
	RuleApproval   Rule = "approve_above"
	RuleDayValue   Rule = "value_per_day"
	RuleDayGas     Rule = "gas_per_day"
	RuleRate       Rule = "creates_per_second"
)

// Rules lists every rule.
var Rules = []Rule{
	RuleRecipients, RuleSelectors, RuleMaxValue, RuleApproval, RuleDayValue, RuleDayGas, RuleRate,
}

// Selector is the start of the call data that names the function of a contract.
type Selector [4]byte

// CallerPolicy limits the transactions that one caller may create. The zero value allows all.
type CallerPolicy struct {
	Recipients []Address  // that payloads may be sent to; empty: all
	Selectors  []Selector // that call data may start with; empty: all
	MaxValue   *Wei       // of one transaction; nil: no limit
	// value above which a transaction awaits the approval of another caller; nil: none does
	ApproveAbove *Wei
	ApprovalTime time.Duration // after which it fails without one
	Quota
	DryRun bool // violations are reported, and the transaction is accepted
}

// Quota limits the use of one chain of a ledger by a caller, on all nodes together.
type Quota struct {
	DayValue *Wei    // sum of the values of a day (UTC); nil: no limit
	DayGas   uint64  // sum of the gas limits of a day (UTC); 0: no limit
	Rate     float64 // transactions per second, with bursts of one second; 0: no limit
}

// Any reports whether there is a quota.
func (q Quota) Any() bool { return q.DayValue != nil || q.DayGas > 0 || q.Rate > 0 }

// Burst is how many transactions the rate admits at once.
func (q Quota) Burst() float64 { return max(1, q.Rate) }

// Denies returns the first rule that a payload violates regardless of other transactions; empty:
// none. A payload beyond the quota of a whole day violates that quota. Where gas is counted, a
// payload needs a gas limit.
func (p *CallerPolicy) Denies(payload *Payload) Rule {
	switch {
	case p == nil:
		return ""
	case len(p.Recipients) > 0 &&
		(payload.To == nil || !slices.Contains(p.Recipients, *payload.To)):
		return RuleRecipients
	case len(p.Selectors) > 0 && !p.calls(payload):
		return RuleSelectors
	case p.MaxValue != nil && payload.Value.Gt(p.MaxValue):
		return RuleMaxValue
	case p.DayValue != nil && payload.Value.Gt(p.DayValue):
		return RuleDayValue
	case p.DayGas > 0 && (payload.GasLimit == 0 || payload.GasLimit > p.DayGas):
		return RuleDayGas
	}
	return ""
}

// calls reports whether a payload is a plain transfer, or a call of an allowed function.
func (p *CallerPolicy) calls(payload *Payload) bool {
	switch {
	case payload.To == nil, len(payload.Data) > 0 && len(payload.Data) < len(Selector{}):
		return false
	case len(payload.Data) == 0:
		return true
	}
	return slices.Contains(p.Selectors, Selector(payload.Data[:len(Selector{})]))
}

// Refusal is why a queued transaction is not signed; the zero value: it is.
type Refusal struct {
	Reason, Message string
	Hold            bool // it waits at the head of the queue for an operator; else it fails
}

// RefusedByPolicy is the refusal of a transaction that violates a rule.
func RefusedByPolicy(caller string, rule Rule) Refusal {
	return Refusal{Reason: ReasonPolicyDenied, Message: "the policy of caller " + caller +
		" denies it: rule " + string(rule) +
		"; change the policy, and resend under a new request_id"}
}

// CallerUnknown is the refusal of a transaction whose caller is not configured, so that no policy
// applies to it. It waits for an operator: the configuration of a node may be older than the
// transaction.
func CallerUnknown(caller string) Refusal {
	return Refusal{Reason: ReasonCallerUnknown, Hold: true, Message: "its caller " + caller +
		" is not in the configuration of the node, so no policy applies; cancel it, or add the " +
		"caller again"}
}

// refused returns why the owner must not sign a queued transaction.
func (v *View) refused(tx *Tx) (Refusal, bool) {
	if v.Refuse == nil {
		return Refusal{}, false
	}
	why := v.Refuse(tx)
	return why, why.Reason != ""
}

// refuse returns the change that follows a refusal.
func refuse(v *View, tx *Tx, why Refusal) Change {
	if why.Hold {
		return waitFor(v, tx, why.Reason, why.Message, 0)
	}
	return failUnsent(v, tx, why.Reason, why.Message)
}

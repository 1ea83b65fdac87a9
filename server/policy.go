package server

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Whether a violated rule denies a transaction.
const (
	enforced = "enforced"
	dryRun   = "dry_run"
)

// applyPolicy adds the policy of the caller to its intent. With dry_run violations are logged and
// counted, and nothing is denied.
func (s *txService) applyPolicy(ctx context.Context, intent *store.Intent) {
	policy := auth.RightsOf(ctx).Policy()
	if policy == nil {
		return
	}
	rule := policy.Denies(&intent.Payload)
	intent.Quota = policy.Quota
	approval := policy.NeedsApproval(&intent.Payload)
	if !policy.DryRun {
		intent.Denied, intent.MaxValue = rule, policy.MaxValue
		if approval {
			intent.ApprovalTime = policy.ApprovalTime
		}
		return
	}
	of := *intent
	report := func(rule txn.Rule) {
		s.metrics.deny(of.Caller, rule, dryRun)
		s.log.Warn("policy would deny a transaction; dry_run accepts it", "caller", of.Caller,
			"rule", string(rule), "submitter_id", int32(of.Submitter), "request_id", of.RequestID)
	}
	if rule != "" {
		report(rule)
	}
	if approval {
		report(txn.RuleApproval)
	}
	intent.BeyondQuota = report
}

// deniedBy returns the rule that denies an intent now; empty: none.
func (s *txService) deniedBy(ctx context.Context, intent store.Intent) (txn.Rule, error) {
	policy := auth.RightsOf(ctx).Policy()
	if policy == nil {
		return "", nil
	}
	if rule := policy.Denies(&intent.Payload); rule != "" {
		return rule, nil
	}
	intent.Quota = policy.Quota
	return s.store.WouldExceed(ctx, intent)
}

// needsApproval reports whether a payload of the caller is sent only once it is approved.
func needsApproval(ctx context.Context, payload *txn.Payload) bool {
	policy := auth.RightsOf(ctx).Policy()
	return policy.NeedsApproval(payload) && !policy.DryRun
}

// deny counts a transaction that violates a rule of its caller's policy.
func (m *metrics) deny(caller string, rule txn.Rule, mode string) {
	m.denials.Add(context.Background(), 1, metric.WithAttributes(
		attribute.String("caller", caller), attribute.String("rule", string(rule)),
		attribute.String("mode", mode)))
}

package status

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Keys of ErrorInfo's metadata of a transaction that a policy denies: see ErrorReason.
const (
	metadataRule      = "rule"
	metadataLimit     = "limit"
	metadataRequested = "requested"
	metadataUsed      = "used"
	metadataReset     = "reset_time"
)

// PolicyDenied rejects a transaction that the policy of its caller denies. Beyond the rate of the
// policy the client is asked to wait, like at other limits of callers. All that it reports is of
// this caller.
func PolicyDenied(caller string, denied *store.PolicyError) error {
	e := &refusedError{metadata: map[string]string{metadataRule: string(denied.Rule)}}
	if wait := denied.RetryAfter(); wait > 0 {
		rate := strconv.FormatFloat(denied.Rate, 'f', -1, 64)
		e.metadata[metadataLimit] = rate
		e.mapping = mapping{
			code: codes.ResourceExhausted, reason: pb.ErrorReason_ERROR_REASON_CALLER_LIMITED,
			message: fmt.Sprintf("policy of caller %q: rule %s allows %s on a chain of a ledger, "+
				"on all nodes together; nothing was queued; retry the call unchanged later",
				caller, denied.Rule, rate),
			retry: wait,
		}
		return e
	}
	cause, remedy := "", "change the transaction, or ask for another policy"
	if denied.Exceeded != nil {
		cause, remedy = exceeded(denied.Rule, denied.Exceeded)
		maps.Copy(e.metadata, amounts(denied.Exceeded))
	}
	e.mapping = mapping{
		code: codes.PermissionDenied, reason: pb.ErrorReason_ERROR_REASON_POLICY_DENIED,
		message: fmt.Sprintf("denied by the policy of caller %q: rule %s%s; nothing was queued; %s",
			caller, denied.Rule, cause, remedy),
	}
	return e
}

// exceeded explains the limit of an amount that a transaction exceeds.
func exceeded(rule txn.Rule, q *store.Exceeded) (cause, remedy string) {
	unit, per := "wei", "day"
	switch rule {
	case txn.RuleDayGas:
		unit = "gas"
	case txn.RuleMaxValue:
		per = "transaction"
	}
	switch {
	case rule == txn.RuleDayGas && q.Requested.IsZero():
		return " counts gas limits, and the transaction has none",
			"set payload.gas_limit, then retry"
	case q.Ends.IsZero():
		return fmt.Sprintf(" allows %s %s a %s, and %s are requested", q.Limit.Dec(), unit, per,
			q.Requested.Dec()), "request less, or ask for another policy"
	}
	return fmt.Sprintf(" allows %s %s a day on a chain of a ledger, %s are used, and %s are "+
			"requested", q.Limit.Dec(), unit, q.Used.Dec(), q.Requested.Dec()),
		"request less, or retry unchanged after " + q.Ends.UTC().Format(time.RFC3339)
}

func amounts(q *store.Exceeded) map[string]string {
	m := map[string]string{metadataLimit: q.Limit.Dec(), metadataRequested: q.Requested.Dec()}
	if !q.Ends.IsZero() {
		m[metadataUsed] = q.Used.Dec()
		m[metadataReset] = q.Ends.UTC().Format(time.RFC3339)
	}
	return m
}

package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// TestStatus_ApprovalsWait_Shown: with their age and the command that lists them.
func TestStatus_ApprovalsWait_Shown(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		totals *pb.LedgerTotals
		want   string
	}{
		"none": {&pb.LedgerTotals{}, "Nothing needs a decision."},
		"two": {&pb.LedgerTotals{AwaitingApproval: 2,
			OldestApprovalTime: timestamppb.New(now.Add(-time.Hour))},
			"  2 awaiting approval, oldest waits 1h0m0s   " +
				"# fencepost tx list --awaiting-approval --wide"},
	} {
		var out strings.Builder
		o := overview{status: &pb.GetStatusResponse{Totals: c.totals, Time: timestamppb.New(now)}}
		if err := o.print(&out); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

// TestBalances_TopUp_WaitingShown: a top-up without a transaction is no payment yet, and its age
// proves no cause.
func TestBalances_TopUp_WaitingShown(t *testing.T) {
	t.Parallel()
	now := time.Now()
	decided := func(ago time.Duration) *pb.TopUp {
		return &pb.TopUp{Amount: "7", Time: timestamppb.New(now.Add(-ago))}
	}
	for want, b := range map[string]*pb.Balance{
		"":                     {},
		"7 (decided 0s ago)":   {TopUp: decided(-time.Second)},
		"7 (decided 9m0s ago)": {TopUp: decided(9 * time.Minute)},
		"7 (decided 11m0s ago, no cause recorded: is a node with a rule for it running?)": {
			TopUp: decided(11 * time.Minute)},
		"7":       {TopUp: &pb.TopUp{Amount: "7", TxId: "x"}},
		"NO_RULE": {TopUp: decided(time.Hour), TopUpHeld: "NO_RULE"},
	} {
		if got := topUpOf(b, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

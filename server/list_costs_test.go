package server

import (
	"testing"
	"time"

	"github.com/holiman/uint256"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

func TestListCosts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(statusCallers)
	ops, one := role{token: tokenOf("ops")}.in(h.ctx), role{token: tokenOf("one")}.in(h.ctx)
	from := timestamppb.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	by := pb.CostGroup_COST_GROUP_LABEL
	got, err := n.status.ListCosts(ops,
		&pb.ListCostsRequest{By: by, LabelKey: "customer", From: from})
	h.must(err)
	if len(got.GetCosts()) != 0 || got.GetMore() {
		t.Errorf("costs %v of an empty ledger", got)
	}
	_, err = n.status.ListCosts(one, &pb.ListCostsRequest{By: by, LabelKey: "a", From: from})
	wantStatus(t, err, codes.PermissionDenied, "PERMISSION_DENIED")
	for field, ask := range map[string]*pb.ListCostsRequest{
		"by":        {From: from},
		"from":      {By: pb.CostGroup_COST_GROUP_DAY},
		"label_key": {By: by, From: from},
		"before": {By: pb.CostGroup_COST_GROUP_DAY, From: from,
			Before: &timestamppb.Timestamp{Seconds: 1 << 60}},
	} {
		_, err := n.status.ListCosts(ops, ask)
		wantField(t, err, field)
	}
}

func TestRunway(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		balance uint64
		of      *pb.Balance
		want    time.Duration // below 0: unknown
	}{
		"spending":          {1100, &pb.Balance{Committed: "100", SpentPerDay: "500"}, 2 * day},
		"all committed":     {100, &pb.Balance{Committed: "100", SpentPerDay: "500"}, 0},
		"nothing was spent": {100, &pb.Balance{Committed: "0"}, -1},
		"for ever":          {1 << 60, &pb.Balance{Committed: "0", SpentPerDay: "1"}, maxRunway},
	} {
		got := runway(uint256.NewInt(c.balance), c.of)
		if (got == nil) != (c.want < 0) || got != nil && got.AsDuration() != c.want {
			t.Errorf("%s: %v, want %v", name, got.AsDuration(), c.want)
		}
	}
}

package server

import (
	"context"
	"math/big"
	"strings"
	"time"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
)

// maxCosts bounds the groups of a cost report.
const maxCosts = 10_000

// ListCosts adds up costs.
func (s *statusService) ListCosts(ctx context.Context,
	r *pb.ListCostsRequest) (*pb.ListCostsResponse, error) {
	filter := store.CostFilter{
		By:       store.CostGroup(strings.TrimPrefix(r.GetBy().String(), "COST_GROUP_")),
		LabelKey: r.GetLabelKey(), From: r.GetFrom().AsTime(), Before: lastTime,
		Names: auth.RightsOf(ctx).Submitters(), Limit: maxCosts + 1,
	}
	byLabel := r.GetBy() == pb.CostGroup_COST_GROUP_LABEL
	switch {
	case byLabel && r.GetLabelKey() == "":
		return nil, status.InvalidField("label_key", "is missing; set the key of a label")
	case !byLabel && r.GetLabelKey() != "":
		return nil, status.InvalidField("label_key",
			"applies only to COST_GROUP_LABEL; omit it, or group by label")
	}
	if r.GetBefore() != nil {
		filter.Before = r.GetBefore().AsTime()
	}
	for field, at := range map[string]time.Time{"from": filter.From, "before": filter.Before} {
		if at.Year() < 1 || at.After(lastTime) {
			return nil, status.InvalidField(field, "must be within years 1 to 9999")
		}
	}
	costs, err := s.store.Costs(ctx, filter)
	if err != nil {
		return nil, status.About("costs", err)
	}
	response := &pb.ListCostsResponse{}
	if response.More = len(costs) > maxCosts; response.GetMore() {
		costs = costs[:maxCosts]
	}
	for _, c := range costs {
		response.Costs = append(response.Costs, &pb.Cost{
			ChainId: uint64(c.Chain), Key: c.Key, Transactions: c.Transactions,
			Reverted: c.Reverted, GasUsed: c.GasUsed, GasPaid: c.GasPaid, L1Fee: c.L1Fee,
			Total: addDecimals(c.GasPaid, c.L1Fee),
		})
	}
	return response, nil
}

// addDecimals adds two amounts of the database, which are whole numbers of any size.
func addDecimals(a, b string) string {
	x, _ := new(big.Int).SetString(a, 10)
	y, _ := new(big.Int).SetString(b, 10)
	if x == nil || y == nil {
		return ""
	}
	return x.Add(x, y).String()
}

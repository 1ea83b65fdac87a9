package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/txn"
)

// ChainStatus is the state of a configured chain.
type ChainStatus struct {
	Name      string
	ID        txn.ChainID
	Endpoints []EndpointStatus
}

// EndpointStatus is the state of an RPC endpoint. It holds no address, which is a secret.
type EndpointStatus struct {
	Name            string // "endpoint 1"
	Healthy         bool
	Class, Reason   string // of the last failure, while it is not healthy
	RetryIn         time.Duration
	Head            uint64
	BatchLimit      int
	BatchLimitCause string
}

// GetStatus returns the rights of the caller and the totals of its submitters.
func (s *statusService) GetStatus(ctx context.Context,
	_ *pb.GetStatusRequest) (*pb.GetStatusResponse, error) {
	rights := auth.RightsOf(ctx)
	names := rights.Submitters()
	t, err := s.store.Totals(ctx, names)
	if err != nil {
		return nil, status.About("totals", err)
	}
	return &pb.GetStatusResponse{
		Caller: &pb.CallerRights{
			Name: rights.Caller(), Operator: rights.Operator(), AllSubmitters: names == nil,
			Approve: rights.Approve(),
		},
		NodeId: s.node, Version: s.version, Time: wireTime(t.At),
		Totals: &pb.LedgerTotals{
			Submitters: t.Submitters, Owned: t.Owned, Protected: t.Protected, Paused: t.Paused,
			Unfunded: t.Unfunded, Queued: t.Queued, InFlight: t.InFlight, Stuck: t.Stuck,
			OldestQueueTime: wireTime(t.OldestQueued), QueuedIsAtLeast: t.More,
			UndecidedNonces: t.UndecidedNonces, AwaitingApproval: t.AwaitingApproval,
			OldestApprovalTime: wireTime(t.OldestApproval),
		},
	}, nil
}

// ListNodes lists the live nodes.
func (s *statusService) ListNodes(ctx context.Context,
	_ *pb.ListNodesRequest) (*pb.ListNodesResponse, error) {
	nodes, err := s.store.NodesWithLeases(ctx)
	if err != nil {
		return nil, status.About("nodes", err)
	}
	response := &pb.ListNodesResponse{}
	for _, n := range nodes {
		out := &pb.Node{
			NodeId: n.ID, Accepting: n.Accepting, StartTime: wireTime(n.StartedAt),
			ExpireTime: wireTime(n.ExpiresAt), Leases: n.Leases,
		}
		for _, c := range n.Chains {
			out.ChainIds = append(out.ChainIds, uint64(c))
		}
		response.Nodes = append(response.Nodes, out)
	}
	return response, nil
}

// ListChains lists the chains of this node.
func (s *statusService) ListChains(context.Context,
	*pb.ListChainsRequest) (*pb.ListChainsResponse, error) {
	response := &pb.ListChainsResponse{NodeId: s.node}
	for _, c := range s.chains() {
		out := &pb.Chain{Name: c.Name, ChainId: uint64(c.ID)}
		for _, e := range c.Endpoints {
			out.Endpoints = append(out.Endpoints, wireEndpoint(e))
		}
		response.Chains = append(response.Chains, out)
	}
	return response, nil
}

func wireEndpoint(e EndpointStatus) *pb.ChainEndpoint {
	out := &pb.ChainEndpoint{
		Name: e.Name, Healthy: e.Healthy, OutcomeClass: e.Class, Reason: e.Reason, Head: e.Head,
		BatchLimit: int32(e.BatchLimit), BatchReason: e.BatchLimitCause,
	}
	if !e.Healthy {
		out.RetryDelay = durationpb.New(e.RetryIn)
	}
	return out
}

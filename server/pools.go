package server

import (
	"context"
	"fmt"
	"log/slog"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// poolService implements PoolService.
type poolService struct {
	pb.UnimplementedPoolServiceServer

	store    Store
	resolver *resolver
	known    known
	log      *slog.Logger
}

func aboutPool(name string, err error) error {
	return status.About(fmt.Sprintf("pool %q", name), err)
}

// CreatePool creates an empty pool.
func (s *poolService) CreatePool(ctx context.Context,
	r *pb.CreatePoolRequest) (*pb.CreatePoolResponse, error) {
	chain := txn.ChainID(r.GetChainId())
	if !s.known.chain(chain) {
		return nil, status.InvalidField("chain_id", "%d is not a chain of this node; "+
			"use a configured chain, or call a node that serves it", r.GetChainId())
	}
	pool, created, err := s.store.CreatePool(ctx, r.GetPool(), chain)
	if err != nil {
		return nil, aboutPool(r.GetPool(), err)
	}
	if created {
		s.log.InfoContext(ctx, "pool created", "pool", pool.Name, "chain_id", r.GetChainId(),
			"caller", auth.RightsOf(ctx).Caller())
	}
	return &pb.CreatePoolResponse{Pool: wirePool(pool), Created: created}, nil
}

// ListPools pages through pools by name.
func (s *poolService) ListPools(ctx context.Context,
	r *pb.ListPoolsRequest) (*pb.ListPoolsResponse, error) {
	digest := filterDigest(&pb.ListPoolsRequest{})
	last, err := parsePageToken(r.GetPageToken(), digest)
	if err != nil {
		return nil, err
	}
	if !submitterName.Match(last) {
		return nil, errPageToken()
	}
	size := pageSize(r.GetPageSize())
	// One more row shows whether there is another page.
	pools, err := s.store.Pools(ctx, auth.RightsOf(ctx).Pools(), string(last), size+1)
	if err != nil {
		return nil, status.About("pools", err)
	}
	response := &pb.ListPoolsResponse{}
	if len(pools) > size {
		pools = pools[:size]
		response.NextPageToken = pageToken(digest, []byte(pools[size-1].Name))
	}
	for _, p := range pools {
		response.Pools = append(response.Pools, wirePool(p))
	}
	return response, nil
}

// GetPool returns a pool.
func (s *poolService) GetPool(ctx context.Context,
	r *pb.GetPoolRequest) (*pb.GetPoolResponse, error) {
	if _, err := s.resolver.pool(ctx, r.GetPool()); err != nil {
		return nil, err
	}
	pool, err := s.store.Pool(ctx, r.GetPool())
	if err != nil {
		return nil, aboutPool(r.GetPool(), err)
	}
	return &pb.GetPoolResponse{Pool: wirePool(pool)}, nil
}

// AddPoolMember adds an account, or makes it active again.
func (s *poolService) AddPoolMember(ctx context.Context,
	r *pb.AddPoolMemberRequest) (*pb.AddPoolMemberResponse, error) {
	pool, err := s.setMember(ctx, r, store.MemberActive)
	return &pb.AddPoolMemberResponse{Pool: pool}, err
}

// DrainPoolMember stops new transactions of an account.
func (s *poolService) DrainPoolMember(ctx context.Context,
	r *pb.DrainPoolMemberRequest) (*pb.DrainPoolMemberResponse, error) {
	pool, err := s.setMember(ctx, r, store.MemberDraining)
	return &pb.DrainPoolMemberResponse{Pool: pool}, err
}

// RemovePoolMember removes an account.
func (s *poolService) RemovePoolMember(ctx context.Context,
	r *pb.RemovePoolMemberRequest) (*pb.RemovePoolMemberResponse, error) {
	pool, err := s.setMember(ctx, r, store.MemberRemoved)
	return &pb.RemovePoolMemberResponse{Pool: pool}, err
}

// memberRequest is a request about a member of a pool.
type memberRequest interface {
	GetPool() string
	GetSubmitter() string
	GetReason() string
	GetOperator() string
}

func (s *poolService) setMember(ctx context.Context, r memberRequest,
	to store.MemberStatus) (*pb.Pool, error) {
	ref, err := s.resolver.pool(ctx, r.GetPool())
	if err != nil {
		return nil, err
	}
	submitter, err := s.resolver.lookup(ctx, "submitter", r.GetSubmitter())
	if err != nil {
		return nil, err
	}
	caller := auth.RightsOf(ctx).Caller()
	ask := store.Ask{Reason: r.GetReason(), Operator: r.GetOperator(), Caller: caller}
	if err := s.store.SetPoolMember(ctx, ref, submitter, to, ask); err != nil {
		return nil, status.About(
			fmt.Sprintf("submitter %q of pool %q", r.GetSubmitter(), r.GetPool()), err)
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "pool command accepted", slog.String("pool", ref.Name),
		slog.String("submitter", r.GetSubmitter()), slog.String("status", string(to)),
		slog.String("operator", r.GetOperator()), slog.String("caller", caller))
	pool, err := s.store.Pool(ctx, ref.Name)
	if err != nil {
		return nil, aboutPool(ref.Name, err)
	}
	return wirePool(pool), nil
}

func wirePool(p store.Pool) *pb.Pool {
	out := &pb.Pool{Name: p.Name, ChainId: uint64(p.Chain), CreateTime: wireTime(p.CreatedAt)}
	for _, m := range p.Members {
		out.Members = append(out.Members, &pb.PoolMember{
			Submitter: m.Name,
			Status: pb.PoolMemberStatus(
				pb.PoolMemberStatus_value["POOL_MEMBER_STATUS_"+string(m.Status)]),
			StatusTime: wireTime(m.ChangedAt), Accepting: m.Accepts(), Paused: m.Paused,
			Protected: m.Protected, Unfunded: m.Unfunded, Queued: m.Queued, InFlight: m.InFlight,
		})
	}
	return out
}

package server

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"golang.org/x/sync/semaphore"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// Simulate simulates a draft on the newest block of a chain. It returns ErrUnknownChain if the node
// does not serve the chain.
type Simulate func(ctx context.Context, chain txn.ChainID,
	draft txn.Draft) (txn.Quote, txn.Outcome, error)

// maxSimulations bounds the simulations in progress, because owners need the same endpoints. Others
// wait for their turn. Where there are callers, one has at most half of them.
const (
	maxSimulations       = 8
	maxCallerSimulations = maxSimulations / 2
)

// simulations are the simulations in progress.
type simulations struct {
	all      *semaphore.Weighted
	mu       sync.Mutex
	byCaller map[string]*callerSimulations // that have or wait for one
}

type callerSimulations struct {
	own   *semaphore.Weighted
	calls int
}

func newSimulations() *simulations {
	return &simulations{
		all:      semaphore.NewWeighted(maxSimulations),
		byCaller: map[string]*callerSimulations{},
	}
}

// acquire waits for the turn of a caller; release ends its simulation.
func (s *simulations) acquire(ctx context.Context, caller string) (release func(), err error) {
	if caller == "" {
		return func() { s.all.Release(1) }, s.all.Acquire(ctx, 1)
	}
	of := s.enter(caller)
	if err := of.own.Acquire(ctx, 1); err != nil {
		s.leave(caller, of)
		return nil, err
	}
	if err := s.all.Acquire(ctx, 1); err != nil {
		of.own.Release(1)
		s.leave(caller, of)
		return nil, err
	}
	return func() {
		s.all.Release(1)
		of.own.Release(1)
		s.leave(caller, of)
	}, nil
}

func (s *simulations) enter(caller string) *callerSimulations {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.byCaller[caller]
	if of == nil {
		of = &callerSimulations{own: semaphore.NewWeighted(maxCallerSimulations)}
		s.byCaller[caller] = of
	}
	of.calls++
	return of
}

func (s *simulations) leave(caller string, of *callerSimulations) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.calls--; of.calls == 0 {
		delete(s.byCaller, caller)
	}
}

// SimulateTx simulates a transaction. Nothing is written.
func (s *txService) SimulateTx(ctx context.Context,
	r *pb.SimulateTxRequest) (*pb.SimulateTxResponse, error) {
	intent, err := s.intent(ctx, &pb.CreateTxRequest{
		Submitter: r.GetSubmitter(), Payload: r.GetPayload(), Terms: r.GetTerms(),
		Pool: r.GetPool(), StickyKey: r.GetStickyKey(),
	})
	if err == nil && intent.Pool.ID != 0 {
		intent.Submitter, err = s.store.PoolAccount(ctx, intent.Pool, intent.StickyKey)
		err = aboutPool(r.GetPool(), err)
	}
	if err != nil {
		return nil, err
	}
	info, err := s.store.Submitter(ctx, intent.Submitter)
	if err != nil {
		return nil, aboutAccount(r.GetSubmitter(), r.GetPool(), err)
	}
	denied, err := s.deniedBy(ctx, intent)
	if err != nil {
		return nil, aboutAccount(r.GetSubmitter(), r.GetPool(), err)
	}
	release, err := s.simulations.acquire(ctx, intent.Caller)
	if err != nil {
		return nil, aboutAccount(r.GetSubmitter(), r.GetPool(), err)
	}
	defer release()
	quote, outcome, err := s.simulate(ctx, info.Chain, txn.Draft{
		From: info.Address, Payload: intent.Payload, Speed: intent.Terms.Speed,
		MaxFee: txn.LowerLimit(intent.Terms.MaxFee, info.MaxFee),
	})
	switch {
	case errors.Is(err, ErrUnknownChain):
		outcome = txn.Outcome{Class: txn.Unavailable, Detail: "this node is not configured for " +
			"chain " + strconv.FormatUint(uint64(info.Chain), 10) + "; call another node"}
	case err != nil:
		return nil, aboutAccount(r.GetSubmitter(), r.GetPool(), err)
	}
	response := simulated(intent.Payload.Value, quote, outcome)
	response.DeniedBy = string(denied)
	response.NeedsApproval = needsApproval(ctx, &intent.Payload)
	response.Submitter = info.Name
	return response, nil
}

func simulated(value txn.Wei, q txn.Quote, o txn.Outcome) *pb.SimulateTxResponse {
	response := &pb.SimulateTxResponse{OutcomeClass: string(o.Class)}
	if o.Class != txn.Accepted {
		response.Message = o.Detail
		if o.Class == txn.InsufficientFunds && o.Short != nil {
			response.MissingFunds = o.Short.Dec()
		}
		return response
	}
	most := q.Cost(value)
	response.GasLimit = q.GasLimit
	response.FeeCap = q.Fees.Cap.Dec()
	response.Tip = q.Fees.Tip.Dec()
	response.L1Fee = q.L1Fee.Dec()
	response.MaxCost = most.Dec()
	return response
}

func noSimulation(context.Context, txn.ChainID, txn.Draft) (txn.Quote, txn.Outcome, error) {
	return txn.Quote{}, txn.Outcome{}, ErrUnknownChain
}

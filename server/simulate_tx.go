package server

import (
	"context"
	"errors"
	"strconv"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// Simulate simulates a draft on the newest block of a chain. It returns ErrUnknownChain if the node
// does not serve the chain.
type Simulate func(ctx context.Context, chain txn.ChainID,
	draft txn.Draft) (txn.Quote, txn.Outcome, error)

// maxSimulations bounds the simulations in progress, because owners need the same endpoints. Others
// wait for their turn.
const maxSimulations = 8

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
	if err := s.simulations.Acquire(ctx, 1); err != nil {
		return nil, aboutAccount(r.GetSubmitter(), r.GetPool(), err)
	}
	defer s.simulations.Release(1)
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

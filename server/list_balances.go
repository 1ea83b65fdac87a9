package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/holiman/uint256"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Balances reads the balances of accounts on a chain, in wei. It returns ErrUnknownChain if the
// node does not serve the chain; any other error means that no endpoint responds.
type Balances func(ctx context.Context, chain txn.ChainID,
	of []txn.Address) ([]uint256.Int, error)

// ErrUnknownChain is returned by Balances and Simulate.
var ErrUnknownChain = errors.New("chain not configured")

// ListBalances reads the balances of submitters, with one read per chain.
func (s *statusService) ListBalances(ctx context.Context,
	r *pb.ListBalancesRequest) (*pb.ListBalancesResponse, error) {
	response := &pb.ListBalancesResponse{}
	accounts, err := s.accounts(ctx, r.GetSubmitters())
	if err != nil {
		return nil, err
	}
	addresses := map[txn.ChainID][]txn.Address{}
	places := map[txn.ChainID][]*pb.Balance{} // of the addresses
	if err := s.addCommitments(ctx, r.GetSubmitters(), response); err != nil {
		return nil, err
	}
	for i, a := range accounts {
		place := response.GetBalances()[i]
		addresses[a.chain] = append(addresses[a.chain], a.address)
		places[a.chain] = append(places[a.chain], place)
	}
	for chain, of := range addresses {
		balances, err := s.balances(ctx, chain, of)
		for i, place := range places[chain] {
			switch {
			case errors.Is(err, ErrUnknownChain):
				place.Reason = "CHAIN_NOT_CONFIGURED"
			case err != nil:
				place.Reason = "CHAIN_UNAVAILABLE"
			default:
				place.Balance = balances[i].Dec()
				place.Runway = runway(&balances[i], place)
			}
		}
	}
	return response, nil
}

// addCommitments adds a balance for each submitter, with the funds that its transactions need.
func (s *statusService) addCommitments(ctx context.Context, submitters []string,
	response *pb.ListBalancesResponse) error {
	ids := make([]txn.SubmitterID, len(submitters))
	for i, text := range submitters {
		var err error
		if ids[i], err = s.resolver.lookup(ctx, "submitters", text); err != nil {
			return err
		}
	}
	all, err := s.store.Commitments(ctx, ids, nil)
	if err != nil {
		return status.About("submitters", err)
	}
	funds, err := s.store.FundsOf(ctx, ids)
	if err != nil {
		return status.About("submitters", err)
	}
	for i, text := range submitters {
		of, known := all[ids[i]], funds[ids[i]]
		place := &pb.Balance{Submitter: text, Committed: of.Committed.Dec(),
			TopUp: wireTopUp(known.TopUp), TopUpHeld: known.HeldNow()}
		if !of.PerDay.IsZero() {
			place.SpentPerDay = of.PerDay.Dec()
		}
		response.Balances = append(response.Balances, place)
	}
	return nil
}

// wireTopUp returns the message of a top-up; nil for none.
func wireTopUp(u store.TopUp) *pb.TopUp {
	if u.No == 0 {
		return nil
	}
	m := &pb.TopUp{No: uint64(u.No), Treasury: u.From, Amount: u.Amount.Dec(),
		Time: timestamppb.New(u.CreatedAt)}
	if u.Tx != (txn.TxID{}) {
		m.TxId = u.Tx.String()
	}
	return m
}

// maxRunway is the longest runway that is reported.
const maxRunway = 10 * 365 * 24 * time.Hour

// runway returns how long a balance lasts; nil if that is unknown.
func runway(balance *uint256.Int, of *pb.Balance) *durationpb.Duration {
	perDay, err1 := uint256.FromDecimal(of.GetSpentPerDay())
	committed, err2 := uint256.FromDecimal(of.GetCommitted())
	if err1 != nil || err2 != nil || perDay.IsZero() {
		return nil
	}
	if !balance.Gt(committed) {
		return durationpb.New(0)
	}
	left := new(uint256.Int).Sub(balance, committed)
	seconds, beyond := left.MulDivOverflow(left, uint256.NewInt(24*60*60), perDay)
	if most := uint64(maxRunway / time.Second); beyond || !seconds.IsUint64() ||
		seconds.Uint64() > most {
		return durationpb.New(maxRunway)
	}
	return durationpb.New(time.Duration(seconds.Uint64()) * time.Second)
}

// account is the identity of a submitter.
type account struct {
	chain   txn.ChainID
	address txn.Address
}

// accounts returns the accounts of submitters, in their order. One query reads those given by name.
func (s *statusService) accounts(ctx context.Context, submitters []string) ([]account, error) {
	all := make([]account, len(submitters))
	places := map[string][]int{} // of names
	for i, text := range submitters {
		if _, err := s.resolver.lookup(ctx, "submitters", text); err != nil {
			return nil, err
		}
		if chain, address, isAccount, _ := txn.ParseAccountID(text); isAccount {
			all[i] = account{chain, address}
		} else {
			places[text] = append(places[text], i)
		}
	}
	if len(places) == 0 {
		return all, nil
	}
	names := slices.Collect(maps.Keys(places))
	infos, err := s.store.Submitters(ctx, names, "", len(names))
	if err != nil {
		return nil, status.About("submitters", err)
	}
	for _, info := range infos {
		for _, i := range places[info.Name] {
			all[i] = account{info.Chain, info.Address}
		}
	}
	return all, nil
}

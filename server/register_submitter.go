package server

import (
	"context"
	"fmt"
	"strings"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// startFresh is the default of start_from: the account must never have sent a transaction.
const startFresh = "0"

// RegisterSubmitter registers an account under a name.
func (s *submitterService) RegisterSubmitter(ctx context.Context,
	r *pb.RegisterSubmitterRequest) (*pb.RegisterSubmitterResponse, error) {
	registration, err := s.registration(r)
	if err != nil {
		return nil, err
	}
	info, created, err := s.store.Register(ctx, registration)
	if err != nil {
		return nil, status.AboutSubmitter(r.GetName(), err)
	}
	if created {
		s.log.InfoContext(ctx, "submitter registered", "submitter", info.Name, "submitter_id",
			int64(info.ID), "caller", auth.RightsOf(ctx).Caller())
	}
	return &pb.RegisterSubmitterResponse{Submitter: wireSubmitter(info), Created: created}, nil
}

func (s *submitterService) registration(
	r *pb.RegisterSubmitterRequest) (store.Registration, error) {
	out := store.Registration{
		Name:      r.GetName(),
		Chain:     txn.ChainID(r.GetChainId()),
		Signer:    r.GetSigner(),
		Mode:      modeOfWire(r.GetMode()),
		StartFrom: r.GetStartFrom(),
	}
	out.MaxInFlight = int(r.GetMaxInFlight())
	if out.StartFrom == "" {
		out.StartFrom = startFresh
	}
	var found []status.Violation
	var err error
	if out.Address, err = txn.ParseAddress(r.GetAddress()); err != nil {
		found = append(found, status.Violation{Field: "address", Message: err.Error()})
	} else if out.Address == (txn.Address{}) {
		found = append(found, status.Violation{Field: "address",
			Message: "must not be the zero address; use the address of the sending account"})
	}
	if out.Mode == txn.Strict && out.MaxInFlight > 1 {
		found = append(found, status.Violation{Field: "max_in_flight", Message: limitOfStrict})
	}
	if !s.known.chain(out.Chain) {
		found = append(found, status.Violation{
			Field: "chain_id",
			Message: fmt.Sprintf(
				"is not a configured chain (configured: %s); "+
					"correct it, or add the chain to the node configuration",
				listed(s.known.chains)),
		})
	}
	if !s.known.signer(out.Signer) {
		found = append(found, status.Violation{
			Field: "signer",
			Message: fmt.Sprintf(
				"is not a configured signer (configured: %s); "+
					"correct it, or add the signer to the node configuration",
				listed(s.known.signers)),
		})
	}
	if len(found) > 0 {
		return out, status.Invalid(found...)
	}
	return out, nil
}

const limitOfStrict = "must be 0 or 1 in mode STRICT; use mode PIPELINED for more"

// modeOfWire returns the requested mode; the default is strict.
func modeOfWire(m pb.SubmitterMode) txn.Mode {
	switch m {
	case pb.SubmitterMode_SUBMITTER_MODE_PIPELINED:
		return txn.Pipelined
	case pb.SubmitterMode_SUBMITTER_MODE_EXTERNAL:
		return txn.External
	}
	return txn.Strict
}

// listed joins values for a message.
func listed[T any](all []T) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = fmt.Sprint(one)
	}
	return strings.Join(texts, ", ")
}

package main

import (
	"context"
	"errors"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	signerv1 "github.com/fencepost/fencepost/gen/go/fencepost/signer/v1"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// server signs the transactions that a policy allows, with a holder of keys.
type server struct {
	signerv1.UnimplementedSignerServiceServer
	keys   sign.Holder
	policy *policy
}

func (s *server) SignTransaction(ctx context.Context,
	r *signerv1.SignTransactionRequest) (*signerv1.SignTransactionResponse, error) {
	unsigned, err := read(r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	var refused refusal
	switch err := s.policy.allow(r, time.Now()); {
	case errors.As(err, &refused):
		return nil, status.Error(codes.PermissionDenied, "policy: "+refused.Error())
	case err != nil:
		return nil, status.Error(codes.Unavailable, "the policy cannot decide")
	}
	raw, err := s.keys.Sign(ctx, unsigned)
	if errors.Is(err, txn.ErrKeyMissing) { // also looked for in files that were added meanwhile
		return nil, status.Error(codes.NotFound, "no key for this account")
	}
	if err != nil {
		return nil, status.Error(codes.Unavailable, "not signed")
	}
	return &signerv1.SignTransactionResponse{SignedTransaction: raw}, nil
}

func (s *server) CheckAccount(ctx context.Context,
	r *signerv1.CheckAccountRequest) (*signerv1.CheckAccountResponse, error) {
	if err := s.has(ctx, common.HexToAddress(r.GetAddress())); err != nil {
		return nil, err
	}
	return &signerv1.CheckAccountResponse{}, nil
}

// has returns NOT_FOUND, which is final, only for an account that surely has no key here.
func (s *server) has(ctx context.Context, account txn.Address) error {
	all, err := s.keys.Addresses(ctx)
	if err != nil {
		return status.Error(codes.Unavailable, "the keys cannot be read")
	}
	for _, a := range all {
		if a == account {
			return nil
		}
	}
	return status.Error(codes.NotFound, "no key for this account")
}

// read reads the fields of a request.
func read(r *signerv1.SignTransactionRequest) (u txn.Unsigned, err error) {
	u = txn.Unsigned{
		ChainID:  txn.ChainID(r.GetChainId()),
		From:     common.HexToAddress(r.GetFrom()),
		Nonce:    txn.Nonce(r.GetNonce()),
		GasLimit: r.GetGasLimit(),
	}
	u.Payload.Data = r.GetData()
	if r.GetTo() != "" {
		to := common.HexToAddress(r.GetTo())
		u.Payload.To = &to
	}
	limit, tip := r.GetMaxFeePerGas(), r.GetMaxPriorityFeePerGas()
	if u.Fees.Legacy = r.GetGasPrice() != ""; u.Fees.Legacy {
		limit, tip = r.GetGasPrice(), r.GetGasPrice()
	}
	for _, amount := range []struct {
		text string
		in   *uint256.Int
	}{{r.GetValue(), &u.Payload.Value}, {limit, &u.Fees.Cap}, {tip, &u.Fees.Tip}} {
		if err := amount.in.SetFromDecimal(amount.text); err != nil {
			return u, errors.New("an amount is not a decimal number")
		}
	}
	return u, nil
}

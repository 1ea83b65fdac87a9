package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// SubmitSigned has the owner broadcast and track a transaction that the client signed. First its
// hash is recorded, which makes its nonce PENDING for good, and then its bytes.
func (s *nonceService) SubmitSigned(ctx context.Context,
	r *pb.SubmitSignedRequest) (*pb.SubmitSignedResponse, error) {
	text := r.GetReservationId()
	id, info, held, err := s.reservation(ctx, text)
	if err != nil {
		return nil, err
	}
	about := func(err error) error { return status.About("reservation "+text, err) }
	of, err := s.store.Submitter(ctx, id.Submitter())
	if err != nil {
		return nil, about(err)
	}
	signed, payload, err := decodeSigned(r.GetRawTx(), of.Submitter, info.Nonce)
	if err != nil {
		return nil, status.InvalidField("raw_tx", "%v", err)
	}
	recorded := store.NonceAsk{Kind: txn.RequestRecordHash, Hash: signed.Hash}
	if !held { // refused, but recorded: two clients have signed for the nonce
		if _, err := s.change(ctx, text, recorded); err != nil {
			return nil, err
		}
		return nil, about(status.NonceState("nonce %d was released, and is reserved by another "+
			"client; never send a transaction for it", info.Nonce))
	}
	if err := s.mayReplace(ctx, info, of.Submitter, signed, payload); err != nil {
		return nil, about(err)
	}
	if _, err := s.change(ctx, text, recorded); err != nil {
		return nil, err
	}
	tx, err := s.store.QueueReserved(ctx, store.ReservedTx{
		Reservation: id, Payload: payload, Caller: auth.RightsOf(ctx).Caller(), Signed: signed,
	})
	if errors.Is(err, store.ErrNotHeld) {
		err = status.NonceState("its nonce cannot take a transaction any more")
	}
	if err == nil {
		_, err = s.store.AddSigned(ctx, tx, *signed)
	}
	if err != nil {
		return nil, about(err)
	}
	return s.submitted(ctx, id, tx)
}

func (s *nonceService) submitted(ctx context.Context, id txn.ReservationID,
	tx txn.TxID) (*pb.SubmitSignedResponse, error) {
	created, err := s.store.Tx(ctx, tx)
	if err != nil {
		return nil, status.AboutTx(tx.String(), err)
	}
	info, _, err := s.store.NonceOf(ctx, id)
	if err != nil {
		return nil, status.About("reservation "+id.String(), err)
	}
	return &pb.SubmitSignedResponse{Nonce: wireNonce(info), Tx: wireTx(created)}, nil
}

// mayReplace rejects bytes for a nonce that has another transaction, unless they replace its
// attempts: the same payload, or a cancel transaction. It sets the kind of the attempt.
func (s *nonceService) mayReplace(ctx context.Context, info store.NonceInfo, of txn.Submitter,
	signed *txn.Attempt, payload txn.Payload) error {
	if info.Tx == nil {
		if info.State == txn.NonceAccepted {
			return status.NonceState("nonce %d is ACCEPTED: the chain has used it", info.Nonce)
		}
		return nil
	}
	first, err := s.store.Tx(ctx, *info.Tx)
	switch {
	case err != nil:
		return err
	case !first.Signed:
		return status.NonceState("nonce %d is being filled by transaction %s", info.Nonce, first.ID)
	case samePayload(first.Payload, payload):
		signed.Kind = txn.Bump
	case samePayload(payload, txn.CancelPayload(of.Address)):
		signed.Kind = txn.Cancel
	default:
		return status.NonceState("nonce %d has transaction %s; only the same payload or a "+
			"self-transfer of 0 replaces it", info.Nonce, first.ID)
	}
	return nil
}

func samePayload(a, b txn.Payload) bool {
	same := a.To == nil && b.To == nil || a.To != nil && b.To != nil && *a.To == *b.To
	return same && a.Value.Eq(&b.Value) && bytes.Equal(a.Data, b.Data)
}

// decodeSigned decodes and checks a signed transaction: its sender, chain, nonce and type.
func decodeSigned(raw []byte, of txn.Submitter,
	nonce txn.Nonce) (*txn.Attempt, txn.Payload, error) {
	var tx types.Transaction
	var payload txn.Payload
	if err := tx.UnmarshalBinary(raw); err != nil {
		return nil, payload, errors.New("is not a signed transaction; send the bytes of " +
			"eth_sendRawTransaction")
	}
	if t := tx.Type(); t > types.DynamicFeeTxType {
		return nil, payload, fmt.Errorf("has type %d; use type 0, 1 or 2", t)
	}
	if !tx.Protected() || !tx.ChainId().IsUint64() ||
		txn.ChainID(tx.ChainId().Uint64()) != of.Chain {
		return nil, payload, fmt.Errorf("is signed for chain %s; sign for chain %d", tx.ChainId(),
			of.Chain)
	}
	sender, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), &tx)
	if err != nil || sender != of.Address {
		return nil, payload, fmt.Errorf("is signed by %s; sign with the key of %s", sender.Hex(),
			of.Address.Hex())
	}
	if txn.Nonce(tx.Nonce()) != nonce {
		return nil, payload, fmt.Errorf("has nonce %d; the reservation is for nonce %d", tx.Nonce(),
			nonce)
	}
	value, over := uint256.FromBig(tx.Value())
	limit, overCap := uint256.FromBig(tx.GasFeeCap())
	tip, overTip := uint256.FromBig(tx.GasTipCap())
	if over || overCap || overTip || tx.Gas() == 0 {
		return nil, payload, errors.New("has an amount or a gas limit out of range")
	}
	payload = txn.Payload{To: tx.To(), Value: *value, Data: tx.Data(), GasLimit: tx.Gas()}
	return &txn.Attempt{
		Kind: txn.Original, Nonce: nonce, Hash: tx.Hash(), Raw: raw, GasLimit: tx.Gas(),
		Fees: txn.Fees{Cap: *limit, Tip: *tip, Legacy: tx.Type() != types.DynamicFeeTxType},
	}, payload, nil
}

// ResolveNonce applies an operator's decision on a PENDING nonce.
func (s *nonceService) ResolveNonce(ctx context.Context,
	r *pb.ResolveNonceRequest) (*pb.ResolveNonceResponse, error) {
	submitter, err := s.submitter(ctx, r.GetSubmitter())
	if err != nil {
		return nil, err
	}
	about := func(err error) error {
		return status.AboutNonce(r.GetSubmitter(), r.GetNonce(), err)
	}
	info, err := s.store.Nonce(ctx, submitter, txn.Nonce(r.GetNonce()))
	if err != nil {
		return nil, about(err)
	}
	if info.Reservation.String() != r.GetReservationId() {
		return nil, about(status.NonceState("reservation %s holds it; read it and decide again",
			info.Reservation))
	}
	action := txn.NonceNeverSigned
	if r.GetDecision() == pb.NonceDecision_NONCE_DECISION_FILL {
		action = txn.NonceFill
	}
	if _, _, err := s.ask(ctx, store.NonceAsk{
		Submitter: submitter, Kind: txn.RequestResolve, Reservation: info.Reservation,
		Action: action, Reason: r.GetReason(), Operator: r.GetOperator(),
	}); err != nil {
		return nil, about(err)
	}
	if action == txn.NonceFill {
		if err := s.fill(ctx, info, submitter); err != nil {
			return nil, about(err)
		}
	}
	if info, err = s.store.Nonce(ctx, submitter, info.Nonce); err != nil {
		return nil, about(err)
	}
	return &pb.ResolveNonceResponse{Nonce: wireNonce(info)}, nil
}

// fill queues the cancel transaction that fills a nonce.
func (s *nonceService) fill(ctx context.Context, info store.NonceInfo,
	submitter txn.SubmitterID) error {
	of, err := s.store.Submitter(ctx, submitter)
	if err != nil {
		return err
	}
	_, err = s.store.QueueReserved(ctx, store.ReservedTx{
		Reservation: info.Reservation, Payload: txn.CancelPayload(of.Address),
		Caller: auth.RightsOf(ctx).Caller(),
	})
	if errors.Is(err, store.ErrNotHeld) {
		return status.NonceState("it is not PENDING any more")
	}
	return err
}

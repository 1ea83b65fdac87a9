package server

import (
	"context"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// GetTx returns one transaction.
func (s *txService) GetTx(ctx context.Context, r *pb.GetTxRequest) (*pb.GetTxResponse, error) {
	info, err := s.find(ctx, r)
	if err != nil {
		return nil, err
	}
	tx, err := s.view(ctx, info, r.GetView())
	if err != nil {
		return nil, err
	}
	return &pb.GetTxResponse{Tx: tx}, nil
}

func (s *txService) find(ctx context.Context, r *pb.GetTxRequest) (store.TxInfo, error) {
	if r.GetRequest() != nil {
		return s.txByRequest(ctx, r.GetRequest())
	}
	_, info, err := s.txByID(ctx, r.GetTxId())
	return info, err
}

// txByRequest reads the transaction that a caller names by the key that created it.
func (s *txService) txByRequest(ctx context.Context, key *pb.RequestKey) (store.TxInfo, error) {
	submitter, err := s.lookup(ctx, "request.submitter", key.GetSubmitter())
	if err != nil {
		return store.TxInfo{}, err
	}
	info, err := s.store.TxByRequest(ctx, submitter, key.GetRequestId())
	return info, status.AboutRequest(key.GetSubmitter(), key.GetRequestId(), err)
}

// txByID reads the transaction that a caller names. A UUID that Fencepost did not make names none.
func (s *Server) txByID(ctx context.Context, text string) (txn.TxID, store.TxInfo, error) {
	id, err := s.txID(ctx, text)
	if err != nil {
		return id, store.TxInfo{}, err
	}
	info, err := s.store.Tx(ctx, id)
	return id, info, status.AboutTx(text, err)
}

// txID reads the id of a transaction that the caller may know of.
func (s *Server) txID(ctx context.Context, text string) (txn.TxID, error) {
	id, err := txn.ParseTxID(text)
	if err != nil {
		return id, status.AboutTx(text, store.ErrTxNotFound)
	}
	return id, s.authz.MaySee(ctx, id)
}

// view tells as much of a transaction as was asked for.
func (s *txService) view(ctx context.Context, info store.TxInfo, view pb.TxView) (*pb.Tx, error) {
	tx := wireTx(info)
	if view != pb.TxView_TX_VIEW_OPERATOR {
		return tx, nil
	}
	attempts, err := s.store.Attempts(ctx, info.ID)
	if err != nil {
		return nil, status.AboutTx(tx.GetTxId(), err)
	}
	tx.Operator = wireOperator(info.Tx, attempts)
	return tx, nil
}

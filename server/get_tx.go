package server

import (
	"context"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
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
	switch key := r.GetKey().(type) {
	case *pb.GetTxRequest_Request:
		return s.resolver.txByRequest(ctx, key.Request)
	case *pb.GetTxRequest_Hash:
		return s.resolver.txByHash(ctx, key.Hash)
	}
	_, info, err := s.resolver.txByID(ctx, r.GetTxId())
	return info, err
}

// view returns the requested view of a transaction.
func (s *txService) view(ctx context.Context, info store.TxInfo, view pb.TxView) (*pb.Tx, error) {
	tx := wireTx(info)
	if view != pb.TxView_TX_VIEW_OPERATOR {
		return tx, nil
	}
	attempts, err := s.store.Attempts(ctx, info.ID)
	if err != nil {
		return nil, status.AboutTx(tx.GetTxId(), err)
	}
	tx.Operator = wireOperator(info, attempts)
	return tx, nil
}

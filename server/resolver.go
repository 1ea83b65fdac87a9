package server

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// resolver finds the submitters and transactions that requests name, if the caller has a right to
// them.
type resolver struct {
	store Store
	authz *auth.Authorizer
}

// lookup returns the submitter that a field names by name or account id, if the caller has a right
// to it.
func (r *resolver) lookup(ctx context.Context, field, text string) (txn.SubmitterID, error) {
	if _, _, _, err := txn.ParseAccountID(text); err != nil {
		return 0, status.InvalidField(field, "%v", err)
	}
	if err := r.authz.MayUse(ctx, text); err != nil {
		return 0, err
	}
	id, err := r.store.Lookup(ctx, text)
	return id, status.AboutSubmitter(text, err)
}

// pool returns a pool, if the caller has a right to it.
func (r *resolver) pool(ctx context.Context, name string) (store.PoolRef, error) {
	if err := r.authz.MayUsePool(ctx, name); err != nil {
		return store.PoolRef{}, err
	}
	ref, err := r.store.LookupPool(ctx, name)
	return ref, aboutPool(name, err)
}

// account returns the submitter or the pool of a request, of which one is named.
func (r *resolver) account(ctx context.Context, prefix, submitter,
	pool string) (id txn.SubmitterID, ref store.PoolRef, err error) {
	if pool != "" {
		ref, err = r.pool(ctx, pool)
		return 0, ref, err
	}
	id, err = r.lookup(ctx, prefix+"submitter", submitter)
	return id, ref, err
}

// txByRequest reads the transaction with the key that created it.
func (r *resolver) txByRequest(ctx context.Context, key *pb.RequestKey) (store.TxInfo, error) {
	found := accountViolations(
		&pb.CreateTxRequest{Submitter: key.GetSubmitter(), Pool: key.GetPool()})
	for i := range found {
		found[i].Field = "request." + found[i].Field
	}
	if len(found) > 0 {
		return store.TxInfo{}, status.Invalid(found...)
	}
	submitter, pool, err := r.account(ctx, "request.", key.GetSubmitter(), key.GetPool())
	if err != nil {
		return store.TxInfo{}, err
	}
	var info store.TxInfo
	if pool.ID != 0 {
		info, err = r.store.TxByPoolRequest(ctx, pool.ID, key.GetRequestId())
	} else {
		info, err = r.store.TxByRequest(ctx, submitter, key.GetRequestId())
	}
	return info, aboutRequest(key.GetSubmitter(), key.GetPool(), key.GetRequestId(), err)
}

// txByID reads a transaction. A UUID that Fencepost did not create is unknown.
func (r *resolver) txByID(ctx context.Context, text string) (txn.TxID, store.TxInfo, error) {
	id, err := r.txID(ctx, text)
	if err != nil {
		return id, store.TxInfo{}, err
	}
	info, err := r.store.Tx(ctx, id)
	return id, info, status.AboutTx(text, err)
}

// txByHash reads the transaction with an attempt of this hash. One that the caller has no right to
// is unknown: hashes are public, and a rejection would reveal that the account is of this ledger.
func (r *resolver) txByHash(ctx context.Context, text string) (store.TxInfo, error) {
	about := "transaction with hash " + text
	id, err := r.store.TxIDByHash(ctx, common.HexToHash(text))
	if errors.Is(err, store.ErrTxNotFound) {
		return store.TxInfo{}, status.HashNotFound(text)
	}
	if err != nil {
		return store.TxInfo{}, status.About(about, err)
	}
	if err := r.authz.MaySee(ctx, id); err != nil {
		if status.From(err, "").Code() == codes.PermissionDenied {
			err = status.HashNotFound(text)
		}
		return store.TxInfo{}, err
	}
	info, err := r.store.Tx(ctx, id)
	return info, status.About(about, err)
}

// txID parses the id of a transaction that the caller may see.
func (r *resolver) txID(ctx context.Context, text string) (txn.TxID, error) {
	id, err := txn.ParseTxID(text)
	if err != nil {
		return id, status.AboutTx(text, store.ErrTxNotFound)
	}
	return id, r.authz.MaySee(ctx, id)
}

package auth

import (
	"context"
	"fmt"
	"slices"

	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Submitters reads the submitters with some names, in the order of names, as store.Store does.
type Submitters interface {
	Submitters(ctx context.Context, names []string, afterName string,
		limit int) ([]store.SubmitterInfo, error)
	// MovedNames returns the accounts with these names that have moved to another ledger.
	MovedNames(ctx context.Context, names []string) ([]store.Former, error)
}

// Pools reads the pool of a transaction; empty if it has none or does not exist.
type Pools interface {
	PoolOf(ctx context.Context, id txn.TxID) (name string, err error)
}

// Ledger is the part of the ledger that an Authorizer reads.
type Ledger interface {
	Submitters
	Pools
}

// Authorizer checks the rights of the caller of a call to submitters and transactions.
type Authorizer struct{ ledger Ledger }

// NewAuthorizer returns an authorizer that reads the identities of submitters from the ledger.
func NewAuthorizer(l Ledger) *Authorizer { return &Authorizer{l} }

// MayUsePool rejects a pool to which the caller has no right, whether or not it exists.
func (a *Authorizer) MayUsePool(ctx context.Context, name string) error {
	r := RightsOf(ctx)
	if r.all || slices.Contains(r.pools, name) {
		return nil
	}
	return r.denied("no right to pool %q; use one of its own pools, "+
		"or add this one to the caller in the node configuration", name)
}

// MayUse rejects a submitter, named by its name or its account id, to which the caller has no
// right, whether or not it exists.
func (a *Authorizer) MayUse(ctx context.Context, nameOrAccountID string) error {
	r := RightsOf(ctx)
	if r.all || slices.Contains(r.submitters, nameOrAccountID) {
		return nil
	}
	if chain, address, isAccount, _ := txn.ParseAccountID(nameOrAccountID); isAccount {
		is, err := a.isOwn(ctx, r,
			func(one txn.Submitter) bool { return one.Chain == chain && one.Address == address })
		if is || err != nil {
			return err
		}
	}
	return r.denied("no right to submitter %q; use one of its own submitters, "+
		"or add this one to the caller in the node configuration", nameOrAccountID)
}

// MaySee rejects a transaction if the caller has a right neither to its submitter nor to the pool
// that it was created with, whether or not the transaction exists.
func (a *Authorizer) MaySee(ctx context.Context, id txn.TxID) error {
	r := RightsOf(ctx)
	if r.all {
		return nil
	}
	is, err := a.isOwn(ctx, r, func(one txn.Submitter) bool { return one.ID == id.Submitter() })
	if is || err != nil {
		return err
	}
	if len(r.pools) > 0 {
		pool, err := a.ledger.PoolOf(ctx, id)
		if err != nil {
			return status.About("call", err)
		}
		if slices.Contains(r.pools, pool) {
			return nil
		}
	}
	return r.denied("no right to the submitter of transaction %s; correct the tx_id, "+
		"or add the submitter to the caller in the node configuration", id)
}

// namesPerRead is how many names are looked up in the ledger at once.
const namesPerRead = 1000

// isOwn reports whether one of the caller's submitters satisfies is. The ledger is read only until
// all of them have been found. One that has moved to another ledger is a [store.MovedError].
func (a *Authorizer) isOwn(ctx context.Context, r *Rights,
	is func(txn.Submitter) bool) (bool, error) {
	var own []txn.Submitter
	if known := r.own.Load(); known != nil {
		own = *known
	}
	if slices.ContainsFunc(own, is) {
		return true, nil
	}
	if len(own) == len(r.submitters) {
		return false, nil
	}
	own = slices.Clone(own)
	for names := range slices.Chunk(r.unknown(own), namesPerRead) {
		infos, err := a.ledger.Submitters(ctx, names, "", len(names))
		if err != nil {
			return false, status.About("call", err)
		}
		for _, info := range infos {
			own = append(own, info.Submitter)
		}
	}
	r.own.Store(&own)
	if slices.ContainsFunc(own, is) {
		return true, nil
	}
	return false, a.hasMoved(ctx, r.unknown(own), is)
}

// hasMoved returns an error if one of these submitters satisfies is and has moved to another
// ledger.
func (a *Authorizer) hasMoved(ctx context.Context, names []string,
	is func(txn.Submitter) bool) error {
	for some := range slices.Chunk(names, namesPerRead) {
		moved, err := a.ledger.MovedNames(ctx, some)
		if err != nil {
			return status.About("call", err)
		}
		for _, one := range moved {
			if is(one.Submitter) {
				return status.About(fmt.Sprintf("submitter %q", one.Name),
					&store.MovedError{Submitter: one.Name, Ledger: one.Ledger})
			}
		}
	}
	return nil
}

// unknown returns the names of the caller's submitters that were not found so far.
func (r *Rights) unknown(own []txn.Submitter) (names []string) {
	found := make(map[string]bool, len(own))
	for _, one := range own {
		found[one.Name] = true
	}
	for _, name := range r.submitters {
		if !found[name] {
			names = append(names, name)
		}
	}
	return names
}

// Package audit checks the ledger of a submitter against its laws, and against the chain. The laws
// are listed in docs/invariants.md.
//
// [Run] checks everything that is recorded of one submitter; the CLI does that. The engine audits
// its own submitters continuously: [store.Store.Audit] checks the recent part of a ledger, and
// [AccountWatch] compares the nonce cursor with the account on chain. An audit only reads.
//
// A broken law is a [store.Violation]. Its key has the failed check, the transaction, and the
// values. [New] compares keys to find the violations without an earlier protection.
package audit

import (
	"context"
	"fmt"
	"slices"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Laws are the laws that an audit can find broken.
var Laws = []string{"L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L10"}

// Chain reads the chain's side of the comparison. Errors that are txn.ErrUnavailable prove nothing.
type Chain interface {
	// Head is the newest block.
	Head(ctx context.Context) (txn.Block, error)
	// Receipts looks up every hash; results come in the order of the hashes.
	Receipts(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult
	// Account reads an account; settled is the depth of Account.Settled below the head.
	Account(ctx context.Context, address txn.Address, settled uint64) (txn.Account, error)
}

// Describe returns a violation as one line of text.
func Describe(v store.Violation) string { return describe(v, v.What) }

func describe(v store.Violation, what string) string {
	if v.Tx == nil {
		return v.Law + ": " + what
	}
	return fmt.Sprintf("%s: transaction %s: %s", v.Law, v.Tx, what)
}

// New returns the violations that no earlier protection of the submitter was for. An operator has
// seen the others and decided to continue.
func New(found []store.Violation, past []store.PastProtection) (fresh []store.Violation) {
	for _, v := range found {
		seen := func(p store.PastProtection) bool {
			if p.Violations == nil {
				return formerlyRecorded(v, p.Evidence)
			}
			return slices.Contains(p.Violations, v.Key())
		}
		if !slices.ContainsFunc(past, seen) {
			fresh = append(fresh, v)
		}
	}
	return fresh
}

// AccountWatch compares an account on chain with the ledger. It needs two reads at different
// blocks, because one read may come from a branch that is left again.
type AccountWatch struct {
	ahead *txn.Account // the first read that found the chain ahead
}

// Ahead reports that the account has used nonces that the ledger never gave out: next is the
// ledger's next nonce, read after the account. A nil account is a read that failed. The result is
// nil unless an earlier read at a lower block had found the same.
func (w *AccountWatch) Ahead(account *txn.Account, next txn.Nonce) *Ahead {
	switch {
	case account == nil:
	case account.Latest <= next && account.Pending <= next:
		w.ahead = nil
	case w.ahead == nil:
		w.ahead = account
	case account.Head > w.ahead.Head:
		first := *w.ahead
		w.ahead = nil
		return &Ahead{Next: next, First: first, Second: *account}
	}
	return nil
}

// Ahead is an account that used nonces which the ledger never gave out.
type Ahead struct {
	Next   txn.Nonce   // the ledger's next nonce
	First  txn.Account // the two reads, at different blocks
	Second txn.Account
}

// ChainNonce is the account's next nonce on chain, with its pool.
func (a *Ahead) ChainNonce() txn.Nonce { return max(a.Second.Latest, a.Second.Pending) }

// Evidence describes it in words.
func (a *Ahead) Evidence() string {
	return fmt.Sprintf(aheadFormat+"; seen at block %d (%s) and at block %d (%s)",
		a.Second.Latest, a.Second.Pending, a.Next,
		a.First.Head, a.First.HeadHash.Hex(), a.Second.Head, a.Second.HeadHash.Hex())
}

const aheadFormat = "the account's next nonce is %d on chain and %d in its pool, " +
	"but the ledger gave out only those below %d: the key is used elsewhere"

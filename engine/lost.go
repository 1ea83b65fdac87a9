package engine

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// A database that fails over to a standby which lagged, or that is restored under live nodes, goes
// back: it lacks commits that owners know to be done, and their bytes may be on chain. Tokens,
// cursors and versions only rise, so an owner that reads a lower one than it knows has proof. It
// protects the submitter before it does anything else.

// knowledge is the newest state of a submitter that this node has seen committed. It outlives the
// owner, because a lost lease is how most owners notice a fail-over.
type knowledge struct {
	token   txn.Token
	started bool
	next    txn.Nonce // of the cursor, if started
	// number of its protections then: a later one may be for the loss of this very knowledge
	protections int64
}

// knows returns the newest known state of a submitter.
func (r *router) knows(id txn.SubmitterID) knowledge {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[id]
}

func (r *router) learnState(id txn.SubmitterID, k knowledge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[id] = k
}

// lostToken describes a new lease that is older than an earlier one of this node; empty: it is not.
func (a *actor) lostToken(l *store.Lease) string {
	if known := a.e.router.knows(a.id); l.Token() <= known.token {
		return fmt.Sprintf("the ledger lost commits: this node had fencing token %d, and now "+
			"gets %d",
			known.token, l.Token())
	}
	return ""
}

// lostState describes a known state that a newly read ledger lacks; empty: none.
func (a *actor) lostState(l *store.Ledger) string {
	known := a.e.router.knows(a.id)
	switch {
	case known.started && l.Cursor == nil:
		return fmt.Sprintf("the ledger lost commits: this node knows the next nonce as %d, and "+
			"the ledger has none", known.next)
	case known.started && l.Cursor.Next < known.next:
		return fmt.Sprintf("the ledger lost commits: this node knows the next nonce as %d, and "+
			"the ledger has %d", known.next, l.Cursor.Next)
	}
	for i := range a.ledger.Open {
		was := &a.ledger.Open[i]
		if at := placeOf(l.Open, was.ID); at >= 0 && l.Open[at].Version < was.Version {
			return fmt.Sprintf("the ledger lost commits: this node knows version %d of "+
				"transaction %s, and the ledger has %d", was.Version, was.ID, l.Open[at].Version)
		}
	}
	for i := range a.ledger.Nonces {
		was := &a.ledger.Nonces[i]
		for k := range l.Nonces {
			if is := &l.Nonces[k]; is.Nonce == was.Nonce && is.Version < was.Version {
				return fmt.Sprintf("the ledger lost commits: this node knows version %d of "+
					"nonce %d, and the ledger has %d", was.Version, was.Nonce, is.Version)
			}
		}
	}
	return ""
}

// compare compares a newly read ledger with the known state, and learns from it. What an operator
// has decided under another owner is right as the ledger has it.
func (a *actor) compare(ctx context.Context, l *store.Ledger) error {
	if a.missing == "" && !a.believed {
		a.missing = a.lostState(l)
	}
	a.believed = false
	if a.missing != "" && l.Cursor != nil &&
		(l.Cursor.Protected == nil || l.Cursor.Protected.Reason != txn.ProtectRestored) {
		decided, err := a.e.Store.LossDecided(ctx, a.lease, a.e.router.knows(a.id).protections)
		if err != nil {
			return err
		}
		if decided {
			a.missing = ""
		}
	}
	if a.missing == "" {
		a.learn(l.Cursor)
		return nil
	}
	a.log.Error("database lost commits; submitter will be protected", "evidence", a.missing)
	return nil
}

// learn records the lease and the cursor as known.
func (a *actor) learn(c *txn.Cursor) {
	k := knowledge{token: a.lease.Token()}
	if c != nil {
		k.started, k.next = true, c.Next
		k.protections = c.Protections
	}
	a.e.router.learnState(a.id, k)
}

// remember learns from a committed change to a cursor. A protection for lost commits makes the
// ledger right as it is. It is read again, because that change marked the transactions in it. If
// another node protected the submitter for that, the decision on it does.
func (a *actor) remember(before *txn.Cursor, c *txn.Change) {
	switch {
	case c.Protect != nil && c.Protect.Reason == txn.ProtectRestored:
		a.missing = ""
		a.believed, a.loaded = true, false
	case c.Unprotect != nil && before.Protected.Reason == txn.ProtectRestored:
		a.missing = ""
	case c.Init == nil && c.Take == nil && c.Unprotect == nil && !c.Reserves():
		return
	}
	a.learn(a.ledger.Cursor)
}

package txn

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// answer answers the requests in their order.
func (b *nonceBook) answer() (Step, bool) {
	limit := maxNonceResults
	if b.v.External.OneByOne {
		limit = 1
		if len(b.order) > 0 {
			return nil, false // not beside the evidence either
		}
	}
	for i := range b.v.External.Requests {
		r := &b.v.External.Requests[i]
		if len(b.change.Results) == limit || b.afterThis(r) {
			break
		}
		if r.Rejected {
			b.change.Results = append(b.change.Results,
				NonceResult{No: r.No, Result: ledgerRejects})
			continue
		}
		if r.Kind == RequestAllocate {
			if step, ok := b.prepareAllocation(); ok {
				if len(b.change.Results) == 0 && len(b.order) == 0 {
					return step, true
				}
				break // the decisions so far are recorded first
			}
		}
		result, nonce := b.apply(r)
		b.change.Results = append(b.change.Results, NonceResult{r.No, result, nonce})
	}
	return nil, false
}

// ledgerRejects is the result of a request that the database rejects: a defect, which must not keep
// others waiting.
const ledgerRejects = ResultNonceState + ": the database rejects the change; an operator finds " +
	"the cause in the log of the node"

// afterThis reports whether a request waits until this change is recorded: a nonce that it frees
// is the lowest one for an allocation, and a row takes one hash at a time.
func (b *nonceBook) afterThis(r *NonceRequest) bool {
	switch r.Kind {
	case RequestAllocate:
		return slices.ContainsFunc(b.rows, func(n ExternalNonce) bool {
			return n.State == NonceRecyclable && b.writes[n.Nonce] != nil
		})
	case RequestRecordHash:
		i := b.held(r)
		if i < 0 {
			return r.Accepted != nil && b.writes[r.Accepted.Nonce] != nil
		}
		w := b.writes[b.rows[i].Nonce]
		return w != nil && (b.rows[i].Reservation != r.Reservation ||
			w.Hash != (Hash{}) && w.Hash != r.Hash)
	case RequestQuarantine:
		i := b.held(r)
		return i >= 0 && b.rows[i].Reservation != r.Reservation &&
			b.writes[b.rows[i].Nonce] != nil
	}
	return false
}

// held returns the row of the nonce that the reservation of a request holds, or held before; -1: it
// is not in memory.
func (b *nonceBook) held(r *NonceRequest) int {
	if i := b.find(r.Reservation); i >= 0 || r.Given == nil {
		return i
	}
	return slices.IndexFunc(b.rows, func(n ExternalNonce) bool { return n.Nonce == *r.Given })
}

func (b *nonceBook) apply(r *NonceRequest) (result string, nonce *Nonce) {
	switch r.Kind {
	case RequestAllocate:
		return b.allocate(r)
	case RequestRecordHash:
		return b.recordHash(r), nil
	case RequestRelease:
		return b.release(r), nil
	case RequestQuarantine:
		return b.quarantine(r), nil
	case RequestExtend:
		return b.extend(r), nil
	case RequestResolve:
		return b.resolve(r), nil
	}
	return ResultUnknownCommand, nil
}

// readPause is the pause before an early read of the account: for an allocation, or the second one
// that settles a nonce. A shorter reconcile_interval replaces it.
const readPause = time.Second

// prepareAllocation returns the step that an allocation needs first: a read of the account, since
// the owner knows nothing of it or has not looked for long, and the start of the cursor. The
// account only shows whether another program uses the key: the nonce comes from the cursor.
func (b *nonceBook) prepareAllocation() (Step, bool) {
	v := b.v
	if v.Submitter.Status != Active || v.Cursor != nil && v.Cursor.Protected != nil {
		return nil, false
	}
	if at := v.External.ReadAt; v.Account == nil &&
		(at.IsZero() || v.Now.Sub(at) >= min(v.Policy.External.interval(), readPause)) {
		return b.read(), true
	}
	if v.Cursor == nil && b.notReady() == "" {
		a := v.Account
		return Record{Change{
			Init:    &CursorInit{Nonce: a.Latest, Block: a.Head, BlockHash: a.HeadHash},
			Protect: lostStart(v), // protectFailedOver follows
		}}, true
	}
	return nil, false
}

// notReady returns why the cursor cannot start; empty: it can.
func (b *nonceBook) notReady() string {
	a, from := b.v.Account, b.v.Submitter.StartFrom
	switch {
	case a == nil:
		return "the chain is unavailable; retry later"
	case a.Latest != a.Pending || a.Latest != a.Settled:
		return fmt.Sprintf("the account has unsettled transactions (next nonce %d at the head, "+
			"%d in the pool, %d settled); retry once they are settled", a.Latest, a.Pending,
			a.Settled)
	case from != StartChain && from != strconv.FormatUint(uint64(a.Latest), 10):
		return fmt.Sprintf("start_from is %s but the account's next nonce is %d; register the "+
			"submitter again with start_from \"chain\"", from, a.Latest)
	}
	return ""
}

// allocate gives out the lowest recyclable nonce, or the cursor's.
func (b *nonceBook) allocate(r *NonceRequest) (string, *Nonce) {
	v := b.v
	switch {
	case r.Stale:
		return ResultStale, nil
	case v.Submitter.Status != Active:
		return ResultPaused, nil
	case v.Cursor != nil && v.Cursor.Protected != nil:
		return ResultProtected, nil
	case v.Cursor == nil:
		return ResultNotReady + ": " + b.notReady(), nil
	case !v.acceptsCode():
		return ResultNotReady + ": " + v.hasCode(), nil
	case v.Suspicion != nil:
		return ResultNotReady + ": the account differs from the ledger; retry once it was read " +
			"again", nil
	case b.unsettled() >= v.limit():
		return fmt.Sprintf("%s: %d nonces are RESERVED or PENDING", ResultExhausted,
			b.unsettled()), nil
	}
	// a nonce that the chain shows as used, or may, was signed after all: see protectUsed
	i := slices.IndexFunc(b.rows, func(n ExternalNonce) bool {
		return n.State == NonceRecyclable && b.writes[n.Nonce] == nil &&
			v.Account != nil && n.Nonce >= v.Account.Latest
	})
	if i < 0 {
		i = len(b.rows)
		b.rows = append(b.rows, ExternalNonce{Nonce: b.next, State: NonceReserved})
		b.next++
	}
	b.change.Reserves = true
	w := b.move(i, NonceReserved, NonceAllocated, "")
	w.TTL = r.TTL
	n := &b.rows[i]
	n.Reservation, n.Hashes = r.Reservation, nil
	n.Holder, n.Caller = r.Holder, r.Caller
	n.Since, n.Expires = v.Now, v.Now.Add(r.TTL)
	return Applied, new(n.Nonce)
}

// unsettled returns how many nonces clients hold, or may have used.
func (b *nonceBook) unsettled() (n int) {
	for i := range b.rows {
		if s := b.rows[i].State; s == NonceReserved || s == NoncePending {
			n++
		}
	}
	return n
}

package server

import (
	"context"
	"errors"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// The ledger of an account, transaction or pool is found in the index, or by asking all ledgers.

// mayName reports whether the caller may know that a submitter exists.
func mayName(ctx context.Context, text string) bool {
	own := auth.RightsOf(ctx).Submitters()
	return own == nil || slices.Contains(own, text)
}

// ofSubmitter returns the ledger of a submitter, by name or account id. Of one that the caller has
// no right to, or that no ledger has, it returns any: its services return the error. No error names
// the ledger of another caller's account.
func (r *router) ofSubmitter(ctx context.Context, text string) (*ledger, error) {
	chain, address, isAccount, err := txn.ParseAccountID(text)
	if err != nil || text == "" {
		return r.any(), nil
	}
	may := mayName(ctx, text)
	if isAccount {
		text = txn.AccountID(chain, address)
		if may, err = r.isOwn(ctx, text); err != nil {
			return nil, err
		}
	}
	if !may {
		return r.any(), nil
	}
	l, missing, err := r.locate(ctx, text)
	switch {
	case err != nil:
		return nil, err
	case l != nil:
		return l, nil
	case len(missing) > 0:
		return nil, missingLedgers(missing)
	}
	return r.any(), nil
}

// isOwn reports whether the caller has a right to an account id. It asks only for the caller's own
// names, so neither the answer nor its time tells whether another account exists.
func (r *router) isOwn(ctx context.Context, id string) (bool, error) {
	names := auth.RightsOf(ctx).Submitters()
	if names == nil {
		return true, nil
	}
	is, unknown := r.index.among(names, id)
	if is || len(unknown) == 0 {
		return is, nil
	}
	_, missing, err := r.find(ctx, func(ctx context.Context, l *ledger) (bool, error) {
		for some := range slices.Chunk(unknown, namesPerRead) {
			infos, err := l.store.Submitters(ctx, some, "", len(some))
			if err != nil {
				return false, err
			}
			for _, info := range infos {
				r.index.add(l, info.Submitter)
			}
		}
		return false, nil
	})
	if err != nil {
		return false, err
	}
	is, unknown = r.index.among(names, id)
	if !is && len(unknown) > 0 && len(missing) > 0 {
		return false, missingLedgers([]string{"one of several"}) // it may be one of these names
	}
	return is, nil
}

// namesPerRead is how many names are looked up in a ledger at once.
const namesPerRead = 1000

// locate returns the ledger that has a submitter, or had it last; nil if none has. missing are
// ledgers that were asked and did not respond.
func (r *router) locate(ctx context.Context, text string) (l *ledger, missing []string,
	err error) {
	if l := r.index.submitter(text); l != nil {
		return l, nil, nil
	}
	var mu sync.Mutex
	left := map[string]*store.MovedError{} // by the ledgers that the account has left
	found, missing, err := r.find(ctx, func(ctx context.Context, l *ledger) (bool, error) {
		id, err := l.store.Lookup(ctx, text)
		if moved, ok := errors.AsType[*store.MovedError](err); ok {
			mu.Lock()
			defer mu.Unlock()
			left[l.name] = moved
			return false, nil
		}
		if errors.Is(err, store.ErrSubmitterNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		info, err := l.store.Submitter(ctx, id)
		if err == nil {
			r.index.add(l, info.Submitter)
		}
		return err == nil, err
	})
	if err == nil && len(found) > 0 {
		return found[0], nil, nil
	}
	return r.lastOf(text, left), missing, err
}

// lastOf returns the ledger that an account has moved to last, or one that it has left if the node
// does not serve that; nil if it has left none.
func (r *router) lastOf(text string, left map[string]*store.MovedError) (last *ledger) {
	for _, l := range r.ledgers {
		moved := left[l.name]
		if moved == nil || left[moved.Ledger] != nil {
			continue
		}
		r.index.addName(text, moved.Submitter)
		if next := r.movedTo(moved); next != nil {
			return next
		}
		last = l // its services name the other one
	}
	return last
}

// ofPool returns the ledger of a pool.
func (r *router) ofPool(ctx context.Context, name string) (*ledger, error) {
	if rights := auth.RightsOf(ctx).Pools(); rights != nil && !slices.Contains(rights, name) {
		return r.any(), nil
	}
	l, err := r.findPool(ctx, name)
	if l == nil && err == nil {
		return r.any(), nil
	}
	return l, err
}

// findPool returns the ledger of a pool; nil if no ledger has it.
func (r *router) findPool(ctx context.Context, name string) (*ledger, error) {
	if l := r.index.pool(name); l != nil {
		return l, nil
	}
	found, missing, err := r.find(ctx, func(ctx context.Context, l *ledger) (bool, error) {
		_, err := l.store.LookupPool(ctx, name)
		if errors.Is(err, store.ErrPoolNotFound) {
			return false, nil
		}
		return err == nil, err
	})
	switch {
	case err != nil:
		return nil, err
	case len(missing) > 0 && len(found) == 0: // the directory gave a name to one ledger only
		return nil, aboutPool(name, missingLedgers(missing))
	case len(found) > 1:
		return nil, aboutPool(name, status.DecisionRefused(
			"ledgers %s and %s have a pool of this name; use the nodes of one ledger only",
			found[0].name, found[1].name))
	case len(found) == 0:
		return nil, nil
	}
	r.index.addPool(name, found[0])
	return found[0], nil
}

// ofTx returns the ledger of a transaction, by the number of its submitter. Of an id that names no
// ledger of the node it returns any.
func (r *router) ofTx(text string) (*ledger, error) {
	id, err := txn.ParseTxID(text)
	if err != nil {
		return r.any(), nil
	}
	if l := r.index.id(id.Submitter()); l != nil {
		return l, nil
	}
	var unknown []string
	for _, l := range r.ledgers {
		switch l.number.Load() {
		case id.Submitter().Ledger():
			return l, nil
		case -1: // it has not responded since the node started
			unknown = append(unknown, l.name)
		}
	}
	if len(unknown) > 0 {
		return nil, status.AboutTx(text, missingLedgers(unknown))
	}
	return r.any(), nil
}

// ofKey returns the ledger of the key of a request.
func (r *router) ofKey(ctx context.Context, key *pb.RequestKey) (*ledger, error) {
	if key.GetPool() != "" {
		return r.ofPool(ctx, key.GetPool())
	}
	return r.ofSubmitter(ctx, key.GetSubmitter())
}

// find asks all ledgers at once whether they have something. missing are those that did not
// respond.
func (r *router) find(ctx context.Context, has func(context.Context, *ledger) (bool, error)) (
	found []*ledger, missing []string, err error) {
	is := make([]bool, len(r.ledgers))
	errs := make([]error, len(r.ledgers))
	var all sync.WaitGroup
	for i, l := range r.ledgers {
		all.Go(func() {
			errs[i] = l.do(ctx, func(ctx context.Context) (err error) {
				is[i], err = has(ctx, l)
				return err
			})
		})
	}
	all.Wait()
	for i, l := range r.ledgers {
		switch {
		case isMissing(errs[i]), errs[i] != nil && codeOf(errs[i]) == codes.ResourceExhausted:
			missing = append(missing, l.name) // also one that has no room for the question
		case errs[i] != nil:
			return nil, nil, errs[i]
		case is[i]:
			found = append(found, l)
		}
	}
	return found, missing, nil
}

// part is the response of one ledger.
type part struct {
	ledger   *ledger
	response proto.Message
	err      error
}

// ask runs a call in all ledgers at once. A nil request leaves a ledger out.
func (c call) ask(ctx context.Context, request func(*ledger) proto.Message) []part {
	parts := make([]part, 0, len(c.ledgers))
	var requests []proto.Message
	for _, l := range c.ledgers {
		if message := request(l); message != nil {
			parts, requests = append(parts, part{ledger: l}), append(requests, message)
		}
	}
	var all sync.WaitGroup
	for i := range parts {
		all.Go(func() {
			parts[i].response, parts[i].err = c.on(ctx, parts[i].ledger, requests[i])
		})
	}
	all.Wait()
	return parts
}

// answered returns the parts of ledgers that responded, and the names of the others. If none did,
// or one refused the call, it returns that error.
func answered(parts []part) (those []part, missing []string, err error) {
	for _, p := range parts {
		switch {
		case p.err == nil:
			those = append(those, p)
		case isMissing(p.err), codeOf(p.err) == codes.ResourceExhausted:
			missing = append(missing, p.ledger.name) // also one that has no room for the call
		default:
			return nil, nil, p.err
		}
	}
	if len(those) == 0 && len(parts) > 0 {
		return nil, nil, parts[0].err
	}
	return those, missing, nil
}

// codeOf returns the code of an error.
func codeOf(err error) codes.Code { return status.From(err, "").Code() }

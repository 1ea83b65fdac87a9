package server

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/rpc"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/txn"
)

// What a caller may do is decided here and nowhere else, at two moments. Before a call is looked at: does its method take an operator? When a request names an
// account, or a transaction, whose id tells its account: is that one of the caller's? Lists and watches that name no account are narrowed to the caller's.
//
// Whatever is not a caller's own is refused with PERMISSION_DENIED before the ledger is asked about it. So the answer, and the time that it takes, are the same
// whether or not there is such a thing.

// Caller is somebody who is let in, and what it may do.
type Caller struct {
	Name string
	// Tokens and Certificates are what it shows: one of the tokens, or a certificate with one of the names ("cn:", "dns:", "uri:" or "email:", and the name); both
	// if it has both.
	Tokens, Certificates []string
	Submitters           []string // names of the accounts that it may use; AllSubmitters: all of them
	Operator             bool     // may decide what operators decide
}

// AllSubmitters stands for all accounts, those that are registered later too.
const AllSubmitters = "*"

// rights are those of one caller.
type rights struct {
	caller     string // its name; empty where callers have none
	all        bool
	submitters []string // names, sorted, unless all
	operator   bool

	// own are those of the submitters that were found in the ledger: what is known of them here never changes.
	own atomic.Pointer[[]txn.Submitter]
}

func rightsOf(c Caller) *rights {
	r := &rights{
		caller:   c.Name,
		all:      slices.Contains(c.Submitters, AllSubmitters),
		operator: c.Operator,
	}
	if !r.all {
		r.submitters = slices.Compact(slices.Sorted(slices.Values(c.Submitters)))
	}
	return r
}

// same tells whether rights are the same of the same caller.
func (r *rights) same(as *rights) bool {
	return r.caller == as.caller && r.all == as.all && r.operator == as.operator &&
		slices.Equal(r.submitters, as.submitters)
}

// everything is what everybody may do where callers have no names.
func everything() *rights { return &rights{all: true, operator: true} }

type rightsKey struct{}

func withRights(ctx context.Context, r *rights) context.Context {
	return context.WithValue(ctx, rightsKey{}, r)
}

// rightsIn are those of the caller whose call this is: none at all if nobody looked.
func rightsIn(ctx context.Context) *rights {
	if r, ok := ctx.Value(rightsKey{}).(*rights); ok {
		return r
	}
	return &rights{}
}

// need is what a method takes beside a right to the account.
type need int

const (
	aCaller         need = iota + 1
	anOperator           // of the account
	anOperatorOfAll      // who registers an account chooses its key
)

var needs = map[string]need{
	pb.TxService_CreateTx_FullMethodName:                 aCaller,
	pb.TxService_BatchCreateTx_FullMethodName:            aCaller,
	pb.TxService_GetTx_FullMethodName:                    aCaller,
	pb.TxService_ListTxs_FullMethodName:                  aCaller,
	pb.TxService_CancelTx_FullMethodName:                 aCaller,
	pb.TxService_SpeedUpTx_FullMethodName:                aCaller,
	pb.TxService_WatchTx_FullMethodName:                  aCaller,
	pb.SubmitterService_GetSubmitter_FullMethodName:      aCaller,
	pb.SubmitterService_ListSubmitters_FullMethodName:    aCaller,
	pb.SubmitterService_ListCommands_FullMethodName:      aCaller,
	pb.SubmitterService_UpdateSubmitter_FullMethodName:   anOperator,
	pb.SubmitterService_PauseSubmitter_FullMethodName:    anOperator,
	pb.SubmitterService_ResumeSubmitter_FullMethodName:   anOperator,
	pb.SubmitterService_ProtectSubmitter_FullMethodName:  anOperator,
	pb.SubmitterService_ExitProtect_FullMethodName:       anOperator,
	pb.SubmitterService_ResolveStuck_FullMethodName:      anOperator,
	pb.SubmitterService_RegisterSubmitter_FullMethodName: anOperatorOfAll,
}

// mayCall refuses a method that takes more than the caller is. One that is not in the table is for nobody.
func (r *rights) mayCall(full string) error {
	if !rpc.IsFencepost(full) {
		return nil
	}
	switch needs[full] {
	case aCaller:
		return nil
	case anOperator:
		if r.operator {
			return nil
		}
	case anOperatorOfAll:
		if r.operator && r.all {
			return nil
		}
		return r.denied(
			"%s takes an operator of all accounts; ask one, or have its role made operator and its submitters \"*\" in callers of the nodes' configuration",
			rpc.Name(full))
	}
	return r.denied(
		"%s takes an operator; ask one, or have its role made operator in callers of the nodes' configuration",
		rpc.Name(full))
}

func (r *rights) denied(format string, args ...any) error {
	return status.About(
		fmt.Sprintf("caller %q", r.caller),
		status.PermissionDenied(format,
			args...),
	)
}

// only are the names of the accounts that a list or a watch of all is narrowed to; nil: it is not.
func (r *rights) only() []string {
	if r.all {
		return nil
	}
	return append([]string{}, r.submitters...)
}

// mayUse refuses an account that is not the caller's, whether or not it exists. It is named by its name or its account id.
func (s *Server) mayUse(ctx context.Context, text string) error {
	r := rightsIn(ctx)
	if r.all || slices.Contains(r.submitters, text) {
		return nil
	}
	if chain, address, isAccount, _ := txn.ParseAccountID(text); isAccount {
		is, err := s.isOwn(ctx, r,
			func(one txn.Submitter) bool { return one.Chain == chain && one.Address == address })
		if is || err != nil {
			return err
		}
	}
	return r.denied(
		"it has no right to submitter %q; use one of its own, or have that added to its submitters in callers of the nodes' configuration",
		text)
}

// maySee refuses a transaction of an account that is not the caller's, whether or not it exists.
func (s *Server) maySee(ctx context.Context, id txn.TxID) error {
	r := rightsIn(ctx)
	if r.all {
		return nil
	}
	is, err := s.isOwn(ctx, r, func(one txn.Submitter) bool { return one.ID == id.Submitter() })
	if is || err != nil {
		return err
	}
	return r.denied(
		"transaction %s is of no submitter that it has a right to; correct the tx_id, or have its submitter added to its submitters in callers of the nodes' configuration",
		id)
}

// lookedUp is how many names are looked up in the ledger at once.
const lookedUp = 1000

// isOwn tells whether there is such an account among the caller's. The ledger is read only until all of them are known.
func (s *Server) isOwn(ctx context.Context, r *rights, is func(txn.Submitter) bool) (bool, error) {
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
	for names := range slices.Chunk(r.unknown(own), lookedUp) {
		infos, err := s.store.Submitters(ctx, names, "", len(names))
		if err != nil {
			return false, status.About("call", err)
		}
		for _, info := range infos {
			own = append(own, info.Submitter)
		}
	}
	r.own.Store(&own)
	return slices.ContainsFunc(own, is), nil
}

// unknown are the names of the caller's accounts that were not found so far.
func (r *rights) unknown(own []txn.Submitter) (names []string) {
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

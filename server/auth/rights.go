// Package auth authenticates the callers of calls, and checks their rights.
//
// Rights are checked at two moments. Before a request is read: does the method require an operator?
// And when a request names a submitter, or a transaction, whose id names its submitter: does the
// caller have a right to it? Lists and watches that name none are narrowed to the caller's.
//
// A request for anything else is rejected with PERMISSION_DENIED before the ledger is read. So the
// response, and the time that it takes, do not reveal whether the submitter or transaction exists.
package auth

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

// Caller is an identity that can be authenticated, and its rights.
type Caller struct {
	Name string
	// Tokens and Certificates are the credentials: one of the tokens, or a client certificate with
	// one of the names ("cn:", "dns:", "uri:" or "email:", and the name); both if the caller has
	// both.
	Tokens, Certificates []string
	Claims               []Claim  // of a token of an issuer, in place of one of Tokens
	Submitters           []string // names of the submitters that it may use, or AllSubmitters
	Pools                []string // names of the pools that it may use
	Operator             bool     // may make the decisions of operators
	Nonces               bool     // may reserve nonces and submit signed transactions
	Approve              bool     // may approve and deny transactions of other callers

	Weight int     // of its guaranteed share of a node, relative to other callers; 0 is 1
	Rate   float64 // calls a second; 0: no limit

	Policy *txn.CallerPolicy // of its transactions; nil: none
}

// AllSubmitters stands for all submitters, also those that are registered later.
const AllSubmitters = "*"

// Rights are the rights of one caller. The zero value has none.
type Rights struct {
	caller     string // its name; empty if callers have none
	all        bool
	submitters []string // names, sorted, unless all
	pools      []string // names, sorted, unless all
	operator   bool
	policy     *txn.CallerPolicy // nil: none
	nonces     bool
	approve    bool

	// own holds the submitters that were found in the ledger. Their identity never changes.
	own atomic.Pointer[[]txn.Submitter]
}

func rightsOf(c Caller) *Rights {
	r := &Rights{
		caller:   c.Name,
		all:      slices.Contains(c.Submitters, AllSubmitters),
		operator: c.Operator,
		policy:   c.Policy,
		nonces:   c.Nonces || c.Operator,
		approve:  c.Approve || c.Operator,
	}
	if !r.all {
		r.submitters = slices.Compact(slices.Sorted(slices.Values(c.Submitters)))
		r.pools = slices.Compact(slices.Sorted(slices.Values(c.Pools)))
	}
	return r
}

// Everything returns the rights of all calls where callers have no names.
func Everything() *Rights {
	return &Rights{all: true, operator: true, nonces: true, approve: true}
}

func (r *Rights) equal(to *Rights) bool {
	return r.caller == to.caller && r.all == to.all && r.operator == to.operator &&
		r.nonces == to.nonces && r.approve == to.approve &&
		slices.Equal(r.submitters, to.submitters) && slices.Equal(r.pools, to.pools)
}

// Caller returns the name of the caller; empty if it has none.
func (r *Rights) Caller() string { return r.caller }

// Policy returns the policy of the caller's transactions; nil: none.
func (r *Rights) Policy() *txn.CallerPolicy { return r.policy }

// Operator reports whether the caller may make the decisions of operators.
func (r *Rights) Operator() bool { return r.operator }

// Approve reports whether the caller may approve and deny transactions of other callers.
func (r *Rights) Approve() bool { return r.approve }

// Submitters returns the names of the submitters to which lists and watches of all are narrowed,
// sorted; nil if they are not.
func (r *Rights) Submitters() []string {
	if r.all {
		return nil
	}
	return append([]string{}, r.submitters...)
}

// Pools returns the names of the pools to which lists are narrowed, sorted; nil if they are not.
func (r *Rights) Pools() []string {
	if r.all {
		return nil
	}
	return append([]string{}, r.pools...)
}

type rightsKey struct{}

// WithRights returns the context of a call whose caller has these rights.
func WithRights(ctx context.Context, r *Rights) context.Context {
	return context.WithValue(ctx, rightsKey{}, r)
}

// RightsOf returns the rights of the caller of a call: none if they were never looked up.
func RightsOf(ctx context.Context) *Rights {
	if r, ok := ctx.Value(rightsKey{}).(*Rights); ok {
		return r
	}
	return &Rights{}
}

// role is the requirement of a method beside a right to the submitter.
type role int

const (
	anyCaller     role = iota + 1
	operator           // of the submitter, or of any
	operatorOfAll      // registering an account chooses its key
	nonceHolder        // an operator, or a caller with the right nonces
	approver           // an operator, or a caller with the right approve
)

var requirements = map[string]role{
	pb.TxService_CreateTx_FullMethodName:                 anyCaller,
	pb.TxService_BatchCreateTx_FullMethodName:            anyCaller,
	pb.TxService_SimulateTx_FullMethodName:               anyCaller,
	pb.TxService_GetTx_FullMethodName:                    anyCaller,
	pb.TxService_ListTxs_FullMethodName:                  anyCaller,
	pb.TxService_CancelTx_FullMethodName:                 anyCaller,
	pb.TxService_SpeedUpTx_FullMethodName:                anyCaller,
	pb.TxService_WatchTx_FullMethodName:                  anyCaller,
	pb.TxService_ApproveTx_FullMethodName:                approver,
	pb.TxService_DenyTx_FullMethodName:                   approver,
	pb.SubmitterService_GetSubmitter_FullMethodName:      anyCaller,
	pb.SubmitterService_ListSubmitters_FullMethodName:    anyCaller,
	pb.SubmitterService_ListCommands_FullMethodName:      anyCaller,
	pb.StatusService_GetStatus_FullMethodName:            anyCaller,
	pb.StatusService_ListNodes_FullMethodName:            operator,
	pb.StatusService_ListChains_FullMethodName:           operator,
	pb.StatusService_ListBalances_FullMethodName:         operator,
	pb.StatusService_ListCosts_FullMethodName:            operator,
	pb.SubmitterService_UpdateSubmitter_FullMethodName:   operator,
	pb.SubmitterService_PauseSubmitter_FullMethodName:    operator,
	pb.SubmitterService_ResumeSubmitter_FullMethodName:   operator,
	pb.SubmitterService_ProtectSubmitter_FullMethodName:  operator,
	pb.SubmitterService_ExitProtect_FullMethodName:       operator,
	pb.SubmitterService_ResolveStuck_FullMethodName:      operator,
	pb.SubmitterService_RegisterSubmitter_FullMethodName: operatorOfAll,
	pb.PoolService_GetPool_FullMethodName:                anyCaller,
	pb.PoolService_ListPools_FullMethodName:              anyCaller,
	// A new member of a pool may be used by all callers with a right to the pool.
	pb.PoolService_CreatePool_FullMethodName:       operatorOfAll,
	pb.PoolService_AddPoolMember_FullMethodName:    operatorOfAll,
	pb.PoolService_DrainPoolMember_FullMethodName:  operatorOfAll,
	pb.PoolService_RemovePoolMember_FullMethodName: operatorOfAll,
	// A sink has the events of all submitters.
	pb.SinkService_ListSinks_FullMethodName:        operatorOfAll,
	pb.SinkService_ListUndelivered_FullMethodName:  operatorOfAll,
	pb.SinkService_PauseSink_FullMethodName:        operatorOfAll,
	pb.SinkService_ResumeSink_FullMethodName:       operatorOfAll,
	pb.SinkService_RetryUndelivered_FullMethodName: operatorOfAll,
	pb.SinkService_SkipUndelivered_FullMethodName:  operatorOfAll,
	pb.SinkService_ReplaySink_FullMethodName:       operatorOfAll,

	pb.NonceService_AllocateNonce_FullMethodName:     nonceHolder,
	pb.NonceService_RecordNonceHash_FullMethodName:   nonceHolder,
	pb.NonceService_ReleaseNonce_FullMethodName:      nonceHolder,
	pb.NonceService_QuarantineNonce_FullMethodName:   nonceHolder,
	pb.NonceService_ExtendReservation_FullMethodName: nonceHolder,
	pb.NonceService_SubmitSigned_FullMethodName:      nonceHolder,
	pb.NonceService_GetNonce_FullMethodName:          nonceHolder,
	pb.NonceService_ListNonces_FullMethodName:        nonceHolder,
	pb.NonceService_ResolveNonce_FullMethodName:      operator,
}

// MayCall rejects a method that requires another role. A method that is missing in the table is
// always rejected.
func (r *Rights) MayCall(method string) error {
	if !rpc.IsFencepost(method) {
		return nil
	}
	switch requirements[method] {
	case anyCaller:
		return nil
	case operator:
		if r.operator {
			return nil
		}
	case nonceHolder:
		if r.nonces {
			return nil
		}
		return r.denied("%s requires role operator or the right nonces; "+
			"ask an operator, or change the caller in the node configuration", rpc.Name(method))
	case approver:
		if r.approve {
			return nil
		}
		return r.denied("%s requires role operator or the right approve; "+
			"ask an operator, or change the caller in the node configuration", rpc.Name(method))
	case operatorOfAll:
		if r.operator && r.all {
			return nil
		}
		return r.denied("%s requires role operator and submitters \"*\"; "+
			"ask such an operator, or change the caller in the node configuration",
			rpc.Name(method))
	}
	return r.denied("%s requires role operator; "+
		"ask an operator, or change the caller in the node configuration", rpc.Name(method))
}

func (r *Rights) denied(format string, args ...any) error {
	return status.About(fmt.Sprintf("caller %q", r.caller),
		status.PermissionDenied(format, args...))
}

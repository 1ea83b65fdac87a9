package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// A call on one account, transaction or pool goes to its ledger, whose services handle it as those
// of a server with one ledger do. A call on all goes to each, and the responses are merged
// (ledgers_merge.go). routes has the route of every method.

// call is a call in progress.
type call struct {
	*router
	method grpc.MethodDesc
	of     func(*ledger) any // the service
}

// route handles a call.
type route func(ctx context.Context, c call, request proto.Message) (proto.Message, error)

// maxMoves bounds the ledgers that a call follows an account through.
const maxMoves = 3

// on runs a call in one ledger, or in the one that its account has moved to. An account never
// returns to a ledger that it has left.
func (c call) on(ctx context.Context, l *ledger,
	request proto.Message) (response proto.Message, err error) {
	for range maxMoves {
		response, err = c.in(ctx, l, request)
		if l = c.movedTo(err); l == nil {
			break
		}
	}
	return response, err
}

// movedTo returns the ledger that the account of an error has moved to; nil if the error is another
// one, or the node does not serve that ledger.
func (r *router) movedTo(err error) *ledger {
	moved, ok := errors.AsType[*store.MovedError](err)
	if !ok {
		return nil
	}
	i := slices.IndexFunc(r.ledgers, func(l *ledger) bool { return l.name == moved.Ledger })
	if i < 0 {
		return nil
	}
	r.index.move(moved.Submitter, r.ledgers[i])
	return r.ledgers[i]
}

// in runs a call in one ledger.
func (c call) in(ctx context.Context, l *ledger,
	request proto.Message) (response proto.Message, err error) {
	err = l.do(ctx, func(ctx context.Context) error {
		out, err := c.method.Handler(c.of(l), ctx, func(any) error { return nil },
			func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo,
				handler grpc.UnaryHandler) (any, error) {
				return handler(ctx, request)
			})
		if message, ok := out.(proto.Message); ok && err == nil {
			response = message
		}
		return err
	})
	l.label(response)
	return response, err
}

// label adds the name of the ledger to the submitters of its response.
func (l *ledger) label(response proto.Message) {
	switch r := response.(type) {
	case interface{ GetSubmitter() *pb.Submitter }:
		if s := r.GetSubmitter(); s != nil {
			s.Ledger = l.name
		}
	case *pb.ListSubmittersResponse:
		for _, s := range r.GetSubmitters() {
			s.Ledger = l.name
		}
	}
}

// routes has the route of each method, by full name.
var routes = map[string]route{
	pb.TxService_CreateTx_FullMethodName:      toAccount,
	pb.TxService_BatchCreateTx_FullMethodName: splitBatch,
	pb.TxService_SimulateTx_FullMethodName:    toAccount,
	pb.TxService_GetTx_FullMethodName:         toTxKey,
	pb.TxService_ListTxs_FullMethodName:       mergeTxs,
	pb.TxService_CancelTx_FullMethodName:      toTx,
	pb.TxService_SpeedUpTx_FullMethodName:     toTx,
	pb.TxService_ApproveTx_FullMethodName:     toTx,
	pb.TxService_DenyTx_FullMethodName:        toTx,

	pb.SubmitterService_RegisterSubmitter_FullMethodName: registerIn,
	pb.SubmitterService_GetSubmitter_FullMethodName:      toSubmitter,
	pb.SubmitterService_ListSubmitters_FullMethodName:    mergeSubmitters,
	pb.SubmitterService_UpdateSubmitter_FullMethodName:   toSubmitter,
	pb.SubmitterService_PauseSubmitter_FullMethodName:    toSubmitter,
	pb.SubmitterService_ResumeSubmitter_FullMethodName:   toSubmitter,
	pb.SubmitterService_ProtectSubmitter_FullMethodName:  toSubmitter,
	pb.SubmitterService_ExitProtect_FullMethodName:       toSubmitter,
	pb.SubmitterService_ResolveStuck_FullMethodName:      toTx,
	pb.SubmitterService_ListCommands_FullMethodName:      mergeCommands,

	pb.StatusService_GetStatus_FullMethodName:    sumStatus,
	pb.StatusService_ListNodes_FullMethodName:    mergeNodes,
	pb.StatusService_ListChains_FullMethodName:   ofNode,
	pb.StatusService_ListBalances_FullMethodName: mergeBalances,
	pb.StatusService_ListCosts_FullMethodName:    sumCosts,

	pb.PoolService_CreatePool_FullMethodName:       createIn,
	pb.PoolService_ListPools_FullMethodName:        mergePools,
	pb.PoolService_GetPool_FullMethodName:          toPool,
	pb.PoolService_AddPoolMember_FullMethodName:    toPoolMember,
	pb.PoolService_DrainPoolMember_FullMethodName:  toPool,
	pb.PoolService_RemovePoolMember_FullMethodName: toPool,

	pb.SinkService_ListSinks_FullMethodName:        mergeSinks,
	pb.SinkService_ListUndelivered_FullMethodName:  mergeUndelivered,
	pb.SinkService_PauseSink_FullMethodName:        inEvery,
	pb.SinkService_ResumeSink_FullMethodName:       inAll,
	pb.SinkService_RetryUndelivered_FullMethodName: retryUndelivered,
	pb.SinkService_SkipUndelivered_FullMethodName:  whereUndelivered,
	pb.SinkService_ReplaySink_FullMethodName:       replaySink,

	pb.NonceService_AllocateNonce_FullMethodName:     toSubmitter,
	pb.NonceService_RecordNonceHash_FullMethodName:   toReservation,
	pb.NonceService_ReleaseNonce_FullMethodName:      toReservation,
	pb.NonceService_QuarantineNonce_FullMethodName:   toReservation,
	pb.NonceService_ExtendReservation_FullMethodName: toReservation,
	pb.NonceService_SubmitSigned_FullMethodName:      toReservation,
	pb.NonceService_GetNonce_FullMethodName:          toNonce,
	pb.NonceService_ListNonces_FullMethodName:        toSubmitter,
	pb.NonceService_ResolveNonce_FullMethodName:      toSubmitter,
}

// routed returns a service whose methods are routed. Its requests pass the interceptors as usual.
func (r *router) routed(desc grpc.ServiceDesc, of func(*ledger) any) *grpc.ServiceDesc {
	desc.Methods = slices.Clone(desc.Methods)
	for i, method := range desc.Methods {
		c := call{router: r, method: method, of: of}
		to := routes["/"+desc.ServiceName+"/"+method.MethodName]
		desc.Methods[i].Handler = func(service any, ctx context.Context,
			decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			handle := func(ctx context.Context, request any) (any, error) {
				response, err := to(ctx, c, request.(proto.Message))
				if err != nil { // a nil message in an interface is not nil
					return nil, err
				}
				return response, nil
			}
			return method.Handler(service, ctx, decode,
				func(ctx context.Context, request any, info *grpc.UnaryServerInfo,
					_ grpc.UnaryHandler) (any, error) {
					if intercept == nil {
						return handle(ctx, request)
					}
					return intercept(ctx, request, info, handle)
				})
		}
	}
	return &desc
}

// register adds the routed services.
func (r *router) register(to *grpc.Server) {
	first := r.ledgers[0]
	txs := r.routed(pb.TxService_ServiceDesc, func(l *ledger) any { return l.txs })
	to.RegisterService(txs, routedTxs{first.txs, r})
	to.RegisterService(r.routed(pb.SubmitterService_ServiceDesc,
		func(l *ledger) any { return l.submitters }), first.submitters)
	to.RegisterService(r.routed(pb.StatusService_ServiceDesc,
		func(l *ledger) any { return l.status }), first.status)
	to.RegisterService(r.routed(pb.SinkService_ServiceDesc,
		func(l *ledger) any { return l.sinks }), first.sinks)
	to.RegisterService(r.routed(pb.PoolService_ServiceDesc,
		func(l *ledger) any { return l.pools }), first.pools)
	to.RegisterService(r.routed(pb.NonceService_ServiceDesc,
		func(l *ledger) any { return l.nonces }), first.nonces)
}

// Routes.

func toSubmitter(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	return c.onSubmitter(ctx, request.(interface{ GetSubmitter() string }).GetSubmitter(), request)
}

// onSubmitter runs a call in the ledger of a submitter. If that does not have it any more, the
// others are asked.
func (c call) onSubmitter(ctx context.Context, text string,
	request proto.Message) (proto.Message, error) {
	l, err := c.ofSubmitter(ctx, text)
	if err != nil {
		return nil, err
	}
	response, err := c.on(ctx, l, request)
	if errors.Is(err, store.ErrSubmitterNotFound) && c.index.submitter(text) == l {
		c.index.forget(text)
		if other, failed := c.ofSubmitter(ctx, text); failed == nil && other != l {
			return c.on(ctx, other, request)
		}
	}
	return response, err
}

func toAccount(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	account := request.(interface {
		GetSubmitter() string
		GetPool() string
	})
	if account.GetPool() != "" {
		return toPool(ctx, c, request)
	}
	return c.onSubmitter(ctx, account.GetSubmitter(), request)
}

func toPool(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	l, err := c.ofPool(ctx, request.(interface{ GetPool() string }).GetPool())
	if err != nil {
		return nil, err
	}
	return c.on(ctx, l, request)
}

// toPoolMember also checks that the account is in the ledger of the pool.
func toPoolMember(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	r := request.(*pb.AddPoolMemberRequest)
	pool, err := c.ofPool(ctx, r.GetPool())
	if err != nil {
		return nil, err
	}
	if of := c.index.submitter(r.GetSubmitter()); of != nil && of != pool &&
		mayName(ctx, r.GetSubmitter()) {
		return nil, status.About(
			fmt.Sprintf("submitter %q of pool %q", r.GetSubmitter(), r.GetPool()),
			status.DecisionRefused("the account is in ledger %s and the pool in %s; add accounts "+
				"of the pool's ledger only", of.name, pool.name))
	}
	return c.on(ctx, pool, request)
}

func toTx(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	return c.onTx(ctx, request.(interface{ GetTxId() string }).GetTxId(), request)
}

func toReservation(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	return c.onTx(ctx, request.(interface{ GetReservationId() string }).GetReservationId(), request)
}

// onTx runs a call in the ledger of a transaction or reservation.
func (c call) onTx(ctx context.Context, text string,
	request proto.Message) (proto.Message, error) {
	l, err := c.ofTx(text)
	if err != nil {
		return nil, err
	}
	response, err := c.on(ctx, l, request)
	next, err := c.left(ctx, l, text, err)
	if next != nil {
		return c.on(ctx, next, request)
	}
	return response, err
}

// left returns the ledger of a transaction whose account has left the ledger of its number. If it
// has not, it returns the error of the call there, or why that is not known.
func (r *router) left(ctx context.Context, l *ledger, text string, err error) (*ledger, error) {
	if err == nil || codeOf(err) != codes.NotFound {
		return nil, err
	}
	id, failed := txn.ParseTxID(text)
	if failed != nil {
		return nil, err
	}
	next, failed := r.movedID(ctx, l, id.Submitter())
	if next == nil && failed != nil && !errors.Is(failed, store.ErrSubmitterNotFound) &&
		!errors.Is(failed, store.ErrMoved) {
		return nil, failed
	}
	return next, err
}

// movedID returns the ledger that a submitter of a ledger has moved to; nil if it has not. The
// error is ErrMoved if the node does not serve that ledger.
func (r *router) movedID(ctx context.Context, l *ledger,
	id txn.SubmitterID) (next *ledger, err error) {
	err = l.do(ctx, func(ctx context.Context) error {
		_, err := l.store.Submitter(ctx, id)
		return err
	})
	if next = r.movedTo(err); next == nil {
		return nil, err
	}
	r.index.moveID(id, next)
	return next, nil
}

func toNonce(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	if request.(*pb.GetNonceRequest).GetReservationId() != "" {
		return toReservation(ctx, c, request)
	}
	return toSubmitter(ctx, c, request)
}

func toTxKey(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	switch key := request.(*pb.GetTxRequest).GetKey().(type) {
	case *pb.GetTxRequest_Request:
		l, err := c.ofKey(ctx, key.Request)
		if err != nil {
			return nil, err
		}
		return c.on(ctx, l, request)
	case *pb.GetTxRequest_Hash:
		return c.first(ctx, request)
	}
	return toTx(ctx, c, request)
}

// first asks all ledgers, and returns the response of the one that has it.
func (c call) first(ctx context.Context, request proto.Message) (proto.Message, error) {
	parts := c.ask(ctx, func(*ledger) proto.Message { return request })
	for _, p := range parts {
		if p.err == nil {
			return p.response, nil
		}
	}
	for _, p := range parts {
		if codeOf(p.err) != codes.NotFound {
			return nil, p.err // it may have it
		}
	}
	return nil, parts[0].err
}

// ofNode asks any ledger, for a call on the node itself.
func ofNode(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	out, err := c.method.Handler(c.of(c.ledgers[0]), ctx, func(any) error { return nil },
		func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo,
			handler grpc.UnaryHandler) (any, error) {
			return handler(ctx, request)
		})
	if err != nil {
		return nil, err
	}
	return out.(proto.Message), nil
}

// registerIn registers a submitter in the ledger that has it, or in the named one.
func registerIn(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	r := request.(*pb.RegisterSubmitterRequest)
	l, err := c.named("ledger", r.GetLedger())
	if err != nil {
		return nil, err
	}
	if r.GetLedger() == "" { // the directory refuses one that a ledger has that does not respond
		has, _, err := c.locate(ctx, r.GetName())
		if err != nil {
			return nil, err
		}
		if has != nil {
			l = has
		}
	}
	return c.on(ctx, l, request)
}

// createIn creates a pool in the ledger that has it, or in the named one. All must respond: a pool
// of one name in two ledgers would have its requests executed twice.
func createIn(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	r := request.(*pb.CreatePoolRequest)
	to, err := c.named("ledger", r.GetLedger())
	if err != nil {
		return nil, err
	}
	has, err := c.findPool(ctx, r.GetPool())
	switch {
	case err != nil:
		return nil, err
	case has == nil:
		return c.on(ctx, to, request)
	case r.GetLedger() != "" && has != to:
		return nil, aboutPool(r.GetPool(), store.ErrPoolExists)
	}
	return c.on(ctx, has, request)
}

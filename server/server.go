// Package server is the gRPC API: it validates what callers ask, calls the store and maps what
// comes back. It decides nothing: what becomes of a transaction is the business of the owner of its
// account, which server is not linked to.
//
// # A call
//
// There is one file per RPC. A call passes the interceptors (intercept.go), which give it an id for
// the log, turn a panic into INTERNAL, and refuse what no handler should have to look at: fields
// that this server does not know, text that the ledger cannot hold, and whatever breaks a rule of
// the contract (package contract). A handler checks the rest, calls the store, and returns ordinary
// errors; package status is the one place that turns them into a gRPC status. So no text of a
// driver reaches a caller, and every error has a reason from the ErrorReason enum and a sentence
// that says what to do.
//
// # Protocols
//
// One port serves gRPC, gRPC-Web, Connect and JSON. Package port detects the protocol of a
// connection: gRPC goes to the transport of grpc-go, everything else to package web, which calls a
// second grpc.Server with the same services and interceptors. Package limit bounds the calls in
// progress and the responses that clients have not read.
//
// # Callers
//
// Where callers are configured, package auth finds out by token and certificate whose call it is,
// and refuses strangers. What a caller may do is decided there as well: by method before a call is
// looked at, and by account wherever a request names one, be it by name, account id, key or tx_id.
//
// # Watching
//
// Package feed serves the WatchTx streams.
//
// # Time
//
// No read of the ledger takes longer than Limits.Answer: a database that is silent is one that is
// down.
//
// A stream waits out a database that is down for Limits.Outage; meanwhile it sends no heartbeat,
// because a heartbeat says that the stream is up to date. Then it ends with UNAVAILABLE, and the
// client resumes on a node that is better off. A node that stops ends its streams with UNAVAILABLE,
// reason DRAINING, at once, and gives all other calls a grace.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/accesslog"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/contract"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/server/limit"
	"github.com/fencepost/fencepost/server/port"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/server/web"
)

// Server serves the API of one node.
type Server struct {
	store     Store
	log       *slog.Logger
	clock     clock.Clock
	access    *accesslog.Log
	limits    Limits
	known     known
	validator *contract.Validator

	txs        *txService
	submitters *submitterService
	limiter    *limit.Limiter
	authn      *auth.Authenticator
	authz      *auth.Authorizer
	feed       *feed.Feed
	metrics    *metrics
	health     *health.Server
	grpc       *grpc.Server // for gRPC, with a transport of its own
	inner      *grpc.Server // for all that is transcoded
	http       *http.Server
	methods    map[string]bool // by path
	creds      credentials.TransportCredentials

	// draining ends, with ErrDraining as its cause, when the node begins to stop; cutoff when the
	// grace of the calls in progress is over.
	draining, cutoff context.Context
	drain, cutOff    context.CancelCauseFunc
}

// New makes a server that does nothing before Serve.
func New(o Options) (*Server, error) {
	if o.Store == nil {
		return nil, errors.New("server: Options.Store is nil; set it")
	}
	o.complete()
	if err := o.Limits.check(); err != nil {
		return nil, err
	}
	validator, err := contract.New()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(o.MeterProvider)
	if err != nil {
		return nil, fmt.Errorf("server: create the metrics: %w", err)
	}
	s := &Server{
		store:     o.Store,
		log:       o.Logger,
		clock:     o.Clock,
		access:    accesslog.New(o.Logger, o.Clock),
		limits:    o.Limits,
		known:     o.known(),
		validator: validator,
		metrics:   m,
	}
	s.limiter = limit.New(
		limit.Limits{
			Calls: s.limits.Calls, Watches: s.limits.Watches,
			StreamsPerConnection: int(s.limits.StreamsPerConnection),
			Call:                 s.limits.wholeCall(), CheckEvery: s.limits.PingAfter,
		},
		s.clock, s.log, func() { m.refuse(pb.ErrorReason_ERROR_REASON_NODE_BUSY) })
	s.authn = auth.NewAuthenticator(o.Tokens, o.Callers)
	s.authz = auth.NewAuthorizer(o.Store)
	s.draining, s.drain = context.WithCancelCause(context.Background())
	s.cutoff, s.cutOff = context.WithCancelCause(context.Background())
	if s.feed, err = feed.New(o.feed()); err != nil {
		return nil, err
	}
	s.health = health.NewServer()
	s.creds = o.Credentials
	s.makeServices()
	s.grpc, s.inner = grpc.NewServer(
		s.options(o)...), grpc.NewServer(
		append(s.common(o), grpc.ForceServerCodecV2(contract.NewCodec()),
			grpc.ChainUnaryInterceptor(web.MarkCreated))...)
	s.register(s.grpc)
	s.register(s.inner)
	s.methods = methodsOf(s.inner)
	gateway, err := web.New(s.web(o.AllowedOrigins))
	if err != nil {
		return nil, err
	}
	s.http = s.newHTTP(gateway)
	return s, nil
}

// common are the options of both servers: what is read, and the interceptors.
func (s *Server) common(o Options) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(s.limits.messageBytes()),
		grpc.StatsHandler(
			shallow{
				otelgrpc.NewServerHandler(otelgrpc.WithMeterProvider(o.MeterProvider),
					otelgrpc.WithTracerProvider(o.TracerProvider)),
				s.serves,
			},
		),
		grpc.ChainUnaryInterceptor(s.interceptUnary),
		grpc.StreamInterceptor(s.interceptStream),
		grpc.UnknownServiceHandler(noMethod),
	}
}

// options are those of gRPC's own transport as well.
func (s *Server) options(o Options) []grpc.ServerOption {
	options := append(s.limiter.ServerOptions(contract.NewCodec()), s.common(o)...)
	options = append(
		options,
		grpc.InTapHandle(s.limiter.Tap(s.authn.Authenticate,
			func(ctx context.Context, method string, err error) error {
				return s.access.Begin(method).End(ctx, nil, err)
			})),
		grpc.MaxHeaderListSize(headerBytes),
		grpc.MaxConcurrentStreams(s.limits.StreamsPerConnection),
		// A client that vanished holds a stream until a ping goes unanswered.
		grpc.KeepaliveParams(
			keepalive.ServerParameters{Time: s.limits.PingAfter, Timeout: s.limits.PingTimeout}),
		// Watchers idle for long: let clients ping as well, but not at a rate that costs something.
		grpc.KeepaliveEnforcementPolicy(
			keepalive.EnforcementPolicy{MinTime: s.limits.PingTimeout, PermitWithoutStream: true}),
	)
	if o.Credentials != nil {
		options = append(options, grpc.Creds(port.Received{}))
	}
	return options
}

// web returns the options of the gateway.
func (s *Server) web(allowedOrigins []string) web.Options {
	txs := s.txs
	service := pb.TxService_ServiceDesc
	i := slices.IndexFunc(service.Streams,
		func(d grpc.StreamDesc) bool { return d.StreamName == "WatchTx" })
	watch := &grpc.StreamServerInfo{
		FullMethod:     pb.TxService_WatchTx_FullMethodName,
		IsServerStream: true,
	}
	return web.Options{
		Inner:          s.inner,
		AllowedOrigins: allowedOrigins,
		Limits: web.Limits{
			LightBody:   s.limits.lightBody(),
			HeavyBody:   s.limits.bodyBytes(),
			ReadTimeout: s.limits.PingAfter,
			CallTimeout: s.limits.wholeCall(),
		},
		Cutoff:       s.cutoff,
		Serves:       s.serves,
		Authenticate: s.authn.Authenticate,
		Enter: func(ctx context.Context, method string) (func(), error) {
			slot, err := s.limiter.Enter(limit.ConnOf(ctx), method)
			if err != nil {
				return nil, err
			}
			return slot.Release, nil
		},
		Reject: func(ctx context.Context, err error) error {
			return s.access.Begin("HTTP").End(ctx, nil, err)
		},
		Watch: func(stream grpc.ServerStream) error {
			return s.interceptStream(txs, stream, watch, service.Streams[i].Handler)
		},
	}
}

// newHTTP gives HTTP the limits that gRPC has, as far as it knows them.
func (s *Server) newHTTP(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(
		true) // of encryption nothing is left when a connection comes here
	return &http.Server{
		Handler: http.MaxBytesHandler(handler, int64(s.limits.bodyBytes())), Protocols: protocols,
		ReadHeaderTimeout: s.limits.PingAfter, IdleTimeout: idleConnections,
		MaxHeaderBytes: headerBytes,
		ConnContext:    web.ConnContext,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: min(maxHTTPStreams, int(s.limits.StreamsPerConnection)),
			SendPingTimeout:      s.limits.PingAfter,
			PingTimeout:          s.limits.PingTimeout,
			WriteByteTimeout:     s.limits.PingAfter,
		},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // of broken clients
	}
}

// headerBytes is the most of the head of a call, token and path included. It is read before anybody
// knows whose call it is, and each call holds its own; grpc-go takes 16 MiB by itself, and net/http
// 1 MiB.
const headerBytes = 64 << 10

// maxHTTPStreams bounds the concurrent calls of a connection over HTTP/2. Each holds a goroutine
// and its headers before it is admitted; a gRPC call holds nothing of the kind.
const maxHTTPStreams = 250

// idleConnections is how long HTTP keeps a connection that has no request.
const idleConnections = 5 * time.Minute

func (s *Server) makeServices() {
	r := &resolver{store: s.store, authz: s.authz}
	commands := &commander{
		store: s.store, log: s.log, clock: s.clock, draining: s.draining,
		wait: s.limits.CommandWait, poll: s.limits.CommandPoll,
	}
	s.txs = &txService{
		store: s.store, resolver: r, commands: commands, feed: s.feed, access: s.access,
		metrics: s.metrics, check: s.validator.Check, payloadBytes: s.limits.PayloadBytes,
	}
	s.submitters = &submitterService{
		store: s.store, resolver: r, commands: commands, known: s.known, log: s.log,
	}
}

// register adds the services. None is healthy before Serve.
func (s *Server) register(to *grpc.Server) {
	pb.RegisterTxServiceServer(to, s.txs)
	pb.RegisterSubmitterServiceServer(to, s.submitters)
	healthpb.RegisterHealthServer(to, s.health)
	reflection.RegisterV1(to)
	for _, name := range healthNames() {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_NOT_SERVING)
	}
}

// methodsOf are the paths of all methods of a server.
func methodsOf(of *grpc.Server) map[string]bool {
	all := map[string]bool{}
	for service, info := range of.GetServiceInfo() {
		for _, m := range info.Methods {
			all["/"+service+"/"+m.Name] = true
		}
	}
	return all
}

// serves tells whether a path is that of a method.
func (s *Server) serves(path string) bool { return s.methods[path] }

// SetCallers replaces tokens and callers. They count from now on, for open streams too.
func (s *Server) SetCallers(tokens []string, callers []auth.Caller) {
	s.authn.SetCallers(tokens, callers)
}

// healthNames are the services that health tells of; the empty name is the node as a whole. Health
// says whether this process takes calls. It does not follow the database: a node that restarts
// because the database is down heals nothing.
func healthNames() []string {
	return []string{
		"",
		pb.TxService_ServiceDesc.ServiceName,
		pb.SubmitterService_ServiceDesc.ServiceName,
	}
}

// Serve answers calls on the listener, which it closes, until ctx ends; then it drains and returns
// nil. A server serves once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	tailing, stopTailer := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { s.feed.Run(tailing) })
	background.Go(func() { s.limiter.CloseStalled(tailing) })
	defer background.Wait()
	defer stopTailer()

	for _, name := range healthNames() {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	split := port.New(listener,
		port.Options{Credentials: s.creds, Patience: s.limits.PingAfter, Clock: s.clock})
	served := make(chan error, 3)
	for _, serve := range []func() error{split.Run,
		func() error { return s.grpc.Serve(s.limiter.Listen(split.GRPC())) },
		func() error { return s.http.Serve(split.HTTP()) }} {
		background.Go(func() { served <- serve() })
	}
	select {
	case err := <-served:
		split.Close()
		s.cut()
		return fmt.Errorf("server: serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
		s.stop(split)
		return nil
	}
}

// stop tells everyone to go elsewhere, then waits for the calls in progress, but not beyond the
// grace. Calls that outlive it are cancelled, and have half as long again to respond to their
// clients; then connections are closed, and after as long again the calls that still run are left
// behind, since the process is about to end.
func (s *Server) stop(split *port.Split) {
	defer func() {
		s.inner.Stop() // last: a stopped inner server has no response for a call
		s.log.Info("calls and streams ended for shutdown", "calls",
			s.access.Drained())
	}()
	s.health.Shutdown()
	s.drain(status.ErrDraining)
	s.authn.CancelStreams(status.ErrDraining) // a stream that waits must not hold up the stop
	split.Close()
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer close(done)
		var both sync.WaitGroup
		both.Go(s.grpc.GracefulStop)
		both.Go(func() { _ = s.http.Shutdown(ctx) }) // what is left is cut off below
		both.Wait()
	}()
	if s.within(s.limits.Grace, done) {
		return
	}
	s.log.Warn("shutdown grace exceeded; calls cancelled", "grace", s.limits.Grace)
	s.cutOff(status.ErrDraining)
	if s.within(s.limits.Grace/2, done) {
		return
	}
	cancel()
	s.cut()
	if !s.within(s.limits.Grace/2, done) {
		s.log.Error("cancelled calls did not return")
	}
}

// cut ends what is under way. Connections come first, so that no client gets a response that an
// ended call did not give.
func (s *Server) cut() {
	s.cutOff(status.ErrDraining)
	_ = s.http.Close()
	s.grpc.Stop()
	s.inner.Stop()
}

// within tells whether done is closed before d has passed.
func (s *Server) within(d time.Duration, done <-chan struct{}) bool {
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

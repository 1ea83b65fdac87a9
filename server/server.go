// Package server is the API of a node: it validates requests, calls the store and converts the
// results. It makes no decision about a transaction: the owner of its submitter does, and that code
// is not linked to this package.
//
// # A call
//
// There is one file per RPC. A call passes the interceptors (intercept.go), which give it an id for
// the log, turn a panic into INTERNAL, and reject invalid requests (package contract): unknown
// fields, text that the ledger cannot store, and violations of the rules in the proto. A handler
// checks the rest, calls the store, and returns ordinary errors; package status is the only place
// that maps them to a gRPC status. So no text of a driver reaches a client, and every error has a
// reason from the ErrorReason enum and names a remedy.
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
// If callers are configured, package auth authenticates each call by token and certificate, and
// checks the rights of its caller: to the method before the request is read, and to every submitter
// that a request names, by name, account id, key or tx_id.
//
// # Watching
//
// Package feed serves the WatchTx streams.
//
// # Time
//
// No read of the ledger takes longer than Limits.Answer: a database that does not respond counts as
// down.
//
// While the database is down a stream waits for at most Limits.Outage. It sends no heartbeats: a
// heartbeat means that the stream is up to date. Then it ends with UNAVAILABLE, and the client
// resumes on another node. A node that stops ends its streams with UNAVAILABLE,
// reason DRAINING, at once, and gives all other calls a grace.
package server

import (
	"context"
	"crypto/tls"
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
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/accesslog"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/console"
	"github.com/fencepost/fencepost/server/contract"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/server/limit"
	"github.com/fencepost/fencepost/server/port"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/server/web"
)

// Server serves the API of one node.
type Server struct {
	log       *slog.Logger
	clock     clock.Clock
	access    *accesslog.Log
	limits    Limits
	known     known
	validator *contract.Validator

	services            // of the only ledger, or of the first
	router      *router // of several ledgers; nil: there is one
	limiter     *limit.Limiter
	connections *limit.Connections
	authn       *auth.Authenticator
	feed        *feed.Feed
	metrics     *metrics
	health      *health.Server
	grpc        *grpc.Server // for native gRPC, with its own transport
	inner       *grpc.Server // for the transcoded protocols
	http        *http.Server
	methods     map[string]bool // full method names
	tls         *tls.Config

	// draining ends with the cause status.ErrDraining when the node starts to stop; cutoff when the
	// grace of the calls in progress is over.
	draining, cutoff context.Context
	drain, cutOff    context.CancelCauseFunc
}

// New returns a server that does nothing before Serve.
func New(o Options) (*Server, error) {
	if o.Store == nil && len(o.Ledgers) == 0 {
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
		s.clock, s.log, limit.Counters{
			Busy: func() { m.refuse(pb.ErrorReason_ERROR_REASON_NODE_BUSY) },
			Limited: func(caller, limit string) {
				m.refuse(pb.ErrorReason_ERROR_REASON_CALLER_LIMITED)
				m.limitCaller(caller, limit, 1)
			},
		})
	s.connections = limit.NewConnections(s.limits.Connections, s.limits.ConnectionsPerSource,
		func(reason string) {
			m.refuseConnection(reason, 1)
			s.access.ConnectionRefused(reason)
		})
	if err := m.observeConnections(s.connections.States); err != nil {
		return nil, fmt.Errorf("server: create the metrics of connections: %w", err)
	}
	if err := m.observeCallers(s.limiter.Used); err != nil {
		return nil, fmt.Errorf("server: create the metrics of callers: %w", err)
	}
	s.shareAmong(o.Callers)
	s.authn = auth.NewAuthenticator(o.Tokens, o.Callers, o.Issuers...)
	s.draining, s.drain = context.WithCancelCause(context.Background())
	s.cutoff, s.cutOff = context.WithCancelCause(context.Background())
	if err := s.openLedgers(o); err != nil {
		return nil, err
	}
	s.health = health.NewServer()
	s.tls = o.TLS
	s.grpc = grpc.NewServer(s.options(o)...)
	s.inner = grpc.NewServer(append(s.common(o), grpc.ForceServerCodecV2(contract.NewCodec()),
		grpc.ChainUnaryInterceptor(web.MarkCreated))...)
	s.register(s.grpc)
	s.register(s.inner)
	s.methods = methodsOf(s.inner)
	pages, err := consoleOf(o)
	if err != nil {
		return nil, err
	}
	options := s.web(o)
	options.Console = pages
	gateway, err := web.New(options)
	if err != nil {
		return nil, err
	}
	s.http = s.newHTTP(gateway)
	return s, nil
}

// common returns the options of both gRPC servers.
func (s *Server) common(o Options) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(s.limits.messageBytes()),
		grpc.StatsHandler(statsHandler{
			otelgrpc.NewServerHandler(otelgrpc.WithMeterProvider(o.MeterProvider),
				otelgrpc.WithTracerProvider(o.TracerProvider),
				otelgrpc.WithPropagators(propagators(o.traced))),
			s.serves,
		}),
		grpc.ChainUnaryInterceptor(s.interceptUnary),
		grpc.StreamInterceptor(s.interceptStream),
		grpc.UnknownServiceHandler(unknownMethod),
	}
}

// options returns the options of the native gRPC server and its transport.
func (s *Server) options(o Options) []grpc.ServerOption {
	options := append(s.limiter.ServerOptions(contract.NewCodec()), s.common(o)...)
	options = append(
		options,
		grpc.InTapHandle(s.limiter.Tap(s.authenticate, auth.CallerOf,
			func(ctx context.Context, method string, err error) error {
				return s.access.Begin(method).End(ctx, nil, err)
			})),
		grpc.MaxHeaderListSize(headerBytes),
		grpc.ReadBufferSize(connBufferBytes),
		grpc.MaxConcurrentStreams(s.limits.StreamsPerConnection),
		// A vanished client holds a stream until a ping times out.
		grpc.KeepaliveParams(
			keepalive.ServerParameters{Time: s.limits.PingAfter, Timeout: s.limits.PingTimeout}),
		// Watches are idle for long, so clients may ping as well, at a limited rate.
		grpc.KeepaliveEnforcementPolicy(
			keepalive.EnforcementPolicy{MinTime: s.limits.PingTimeout, PermitWithoutStream: true}),
	)
	if o.TLS != nil {
		options = append(options, grpc.Creds(port.Received{}))
	}
	return options
}

// web returns the options of the gateway.
func (s *Server) web(o Options) web.Options {
	var txs pb.TxServiceServer = s.txs
	if s.router != nil {
		txs = routedTxs{s.txs, s.router}
	}
	service := pb.TxService_ServiceDesc
	i := slices.IndexFunc(service.Streams,
		func(d grpc.StreamDesc) bool { return d.StreamName == "WatchTx" })
	watch := &grpc.StreamServerInfo{
		FullMethod:     pb.TxService_WatchTx_FullMethodName,
		IsServerStream: true,
	}
	return web.Options{
		Inner:          s.inner,
		AllowedOrigins: o.AllowedOrigins,
		AllowHost:      o.allowHost,
		Limits: web.Limits{
			LightBody:   s.limits.lightBody(),
			HeavyBody:   s.limits.bodyBytes(),
			ReadTimeout: s.limits.PingAfter,
			CallTimeout: s.limits.wholeCall(),
		},
		Cutoff:       s.cutoff,
		Serves:       s.serves,
		Authenticate: s.authenticate,
		Caller:       auth.CallerOf,
		Enter: func(ctx context.Context, method string) (web.Slot, error) {
			return s.limiter.Enter(limit.ConnOf(ctx), auth.CallerOf(ctx), method)
		},
		Reject: func(ctx context.Context, err error) error {
			return s.access.Begin("HTTP").End(ctx, nil, err)
		},
		Watch: func(stream grpc.ServerStream) error {
			return s.interceptStream(txs, stream, watch, service.Streams[i].Handler)
		},
	}
}

// consoleOf returns the handler of the console; nil if it is disabled.
func consoleOf(o Options) (http.Handler, error) {
	if !o.Console {
		return nil, nil
	}
	return console.New()
}

// newHTTP returns an HTTP server with the limits of gRPC, as far as net/http supports them.
func (s *Server) newHTTP(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // the listener has already removed TLS
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
		// Logs broken connections of clients.
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// connBufferBytes is the read buffer of a connection, which every client gets without credentials.
// grpc-go takes 32 KiB by default.
const connBufferBytes = 4 << 10

// headerBytes is the size limit of the headers of a call, token and path included. They are read
// before the caller is authenticated, and each call holds its own. The default of grpc-go is 16
// MiB, and of net/http 1 MiB.
const headerBytes = 64 << 10

// maxHTTPStreams bounds the concurrent calls of a connection over HTTP/2. Each holds a goroutine
// and its headers before it is admitted; a gRPC call holds nothing of the kind.
const maxHTTPStreams = 250

// idleConnections is the time after which HTTP closes a connection without requests.
const idleConnections = 5 * time.Minute

// openLedgers makes the feed and the services of each ledger.
func (s *Server) openLedgers(o Options) (err error) {
	if len(o.Ledgers) == 0 {
		s.feed, err = feed.New(o.feed())
		s.services = s.makeServices(o, o.Store, s.feed)
		return err
	}
	s.router = &router{index: newIndex(), log: o.Logger, clock: o.Clock,
		outage: o.Limits.Outage, changed: make(chan struct{})}
	for _, one := range o.Ledgers {
		of := o
		of.Store, of.Tail = one.Store, one.Tail
		if one.MeterProvider != nil {
			of.MeterProvider = one.MeterProvider
		}
		if of.Tail == nil {
			of.Tail = one.Store
		}
		f, err := feed.New(of.feed())
		if err != nil {
			return err
		}
		l := newLedger(one.Name, one.Store, f, max(1, o.Limits.Calls/len(o.Ledgers)))
		l.services = s.makeServices(o, one.Store, f)
		s.router.ledgers = append(s.router.ledgers, l)
	}
	s.services = s.router.ledgers[0].services
	return nil
}

func (s *Server) makeServices(o Options, of Store, f *feed.Feed) (all services) {
	r := &resolver{store: of, authz: auth.NewAuthorizer(of)}
	commands := &commander{
		store: of, log: s.log, clock: s.clock, draining: s.draining,
		wait: s.limits.CommandWait, poll: s.limits.CommandPoll,
	}
	all.txs = &txService{
		store: of, resolver: r, commands: commands, feed: f, access: s.access,
		metrics: s.metrics, log: s.log, check: s.validator.Check,
		payloadBytes: s.limits.PayloadBytes,
		simulate:     o.Simulate, simulations: newSimulations(),
	}
	all.submitters = &submitterService{
		store: of, resolver: r, commands: commands, known: s.known, log: s.log,
	}
	all.status = &statusService{
		store: of, node: o.Node, version: o.Version, chains: o.ChainStatus,
		balances: o.Balances, resolver: r,
	}
	all.sinks = &sinkService{store: of, log: s.log}
	all.pools = &poolService{store: of, resolver: r, known: s.known, log: s.log}
	all.nonces = &nonceService{
		store: of, resolver: r, commands: commands, options: o.Nonces.complete(), log: s.log,
	}
	return all
}

// register adds the services. None is healthy before Serve.
func (s *Server) register(to *grpc.Server) {
	if s.router != nil {
		s.router.register(to)
	} else {
		pb.RegisterTxServiceServer(to, s.txs)
		pb.RegisterSubmitterServiceServer(to, s.submitters)
		pb.RegisterStatusServiceServer(to, s.status)
		pb.RegisterSinkServiceServer(to, s.sinks)
		pb.RegisterPoolServiceServer(to, s.pools)
		pb.RegisterNonceServiceServer(to, s.nonces)
	}
	healthpb.RegisterHealthServer(to, s.health)
	reflection.RegisterV1(to)
	for _, name := range healthNames() {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_NOT_SERVING)
	}
}

// methodsOf returns the full names of all methods of a server.
func methodsOf(of *grpc.Server) map[string]bool {
	all := map[string]bool{}
	for service, info := range of.GetServiceInfo() {
		for _, m := range info.Methods {
			all["/"+service+"/"+m.Name] = true
		}
	}
	return all
}

// serves reports whether a path is the full name of a method.
func (s *Server) serves(path string) bool { return s.methods[path] }

// SetCallers replaces tokens and callers, also for open streams.
func (s *Server) SetCallers(tokens []string, callers []auth.Caller) {
	s.shareAmong(callers)
	s.authn.SetCallers(tokens, callers)
}

// authenticate is that of the authenticator, and counts the calls that it rejects.
func (s *Server) authenticate(ctx context.Context, method string) (context.Context, error) {
	ctx, err := s.authn.Authenticate(ctx, method)
	if err != nil {
		s.metrics.unauthenticated.Add(ctx, 1)
	}
	return ctx, err
}

// shareAmong divides the node among callers, and sets their rates.
func (s *Server) shareAmong(callers []auth.Caller) {
	of := make(map[string]limit.Caller, len(callers))
	for _, c := range callers {
		of[c.Name] = limit.Caller{Weight: int64(c.Weight), Rate: c.Rate}
		for _, one := range []string{limit.LimitCalls, limit.LimitStreams, limit.LimitRate} {
			s.metrics.limitCaller(c.Name, one, 0)
		}
	}
	s.limiter.SetCallers(of)
}

// healthNames returns the services that health reports on; the empty name is the node as a whole. A
// node is healthy while it accepts calls, whether or not the database is up: restarting a node does
// not repair its database.
func healthNames() []string {
	return []string{
		"",
		pb.TxService_ServiceDesc.ServiceName,
		pb.SubmitterService_ServiceDesc.ServiceName,
		pb.StatusService_ServiceDesc.ServiceName,
		pb.SinkService_ServiceDesc.ServiceName,
		pb.PoolService_ServiceDesc.ServiceName,
		pb.NonceService_ServiceDesc.ServiceName,
	}
}

// Serve answers calls on the listener, which it closes, until ctx ends; then it drains and returns
// nil. A server serves once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	tailing, stopTailer := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	if s.router != nil {
		s.router.begin(ctx)
		background.Go(func() { s.router.run(tailing) })
		for _, l := range s.router.ledgers {
			background.Go(func() { l.feed.Run(tailing) })
		}
	} else {
		background.Go(func() { s.feed.Run(tailing) })
	}
	background.Go(func() { s.limiter.CloseStalled(tailing) })
	background.Go(func() { s.access.Run(tailing) })
	defer background.Wait()
	defer stopTailer()

	for _, name := range healthNames() {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	split := port.New(s.connections.Listen(listener), port.Options{
		TLS: s.tls, Patience: s.limits.PingAfter, Clock: s.clock,
		HandshakeFailed: s.metrics.failHandshake,
	})
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

// stop ends all streams with DRAINING and waits for the calls in progress, for at most the grace.
// Later calls are cancelled and have half the grace to respond. Then connections are closed. Calls
// that still run after another half are abandoned, since the process is about to exit.
func (s *Server) stop(split *port.Split) {
	defer func() {
		s.inner.Stop() // last: a stopped inner server has no response for a call
		s.log.Info("calls and streams ended for shutdown", "calls",
			s.access.Drained())
	}()
	s.health.Shutdown()
	s.drain(status.ErrDraining)
	s.authn.CancelStreams(status.ErrDraining) // idle streams must not delay the shutdown
	split.Close()
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer close(done)
		var both sync.WaitGroup
		both.Go(s.grpc.GracefulStop)
		both.Go(func() { _ = s.http.Shutdown(ctx) }) // remaining connections are closed below
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

// cut ends all calls. It closes connections first, so that no client receives the response of a
// server that was stopped.
func (s *Server) cut() {
	s.cutOff(status.ErrDraining)
	_ = s.http.Close()
	s.grpc.Stop()
	s.inner.Stop()
}

// within reports whether done is closed before d has passed.
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

// Package run starts a program's services in order and stops them in reverse.
//
// A service is a function that blocks: it returns when its context ends or when it fails. A Group
// gives each service its own context. It starts a service only when the one before is ready. To
// stop, it ends the last service first and waits for it, so that no service outlives its
// dependencies: a node has released its leases before the pool they need is closed.
//
// A group stops when its context ends, when Stop is called, or when any service returns without a
// request to stop; a return without an error counts too, because a loop that ends silently would go
// unnoticed otherwise. Each service has a grace period to return in. One that exceeds it is named
// in the error and left behind: the process is expected to exit.
//
// Signals turns the first interrupt into the end of a context, and the second into an immediate
// exit.
package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
)

const (
	// DefaultGrace is how long a service may take to return when it names no grace.
	DefaultGrace = 10 * time.Second
	// DefaultStartLimit is how long a service may take to get ready when it names no limit.
	DefaultStartLimit = time.Minute
)

var (
	// ErrEnded means that a service returned nil without a request to stop.
	ErrEnded = errors.New("ended unexpectedly")
	// ErrGrace means that a service did not return within its grace.
	ErrGrace = errors.New("did not stop within its grace")
	// ErrAgain means that a group was run twice.
	ErrAgain = errors.New("run: a group runs once")
)

// errStop ends a group without an error.
var errStop = errors.New("stop")

// Service is one part of a program.
type Service struct {
	// Name is how errors and logs call it.
	Name string
	// Run does the work and blocks. When its context ends it is to return nil
	// or the context's error within Grace.
	Run func(ctx context.Context) error
	// Ready, when set, blocks until others may use the service. The group waits
	// for it before it starts the next one.
	Ready func(ctx context.Context) error
	// StartLimit bounds Ready; zero means DefaultStartLimit.
	StartLimit time.Duration
	// Grace bounds the return of Run; zero means DefaultGrace.
	Grace time.Duration
}

// Group runs services. Make one with NewGroup; add services before Run.
type Group struct {
	log      *slog.Logger
	services []*service

	// end is ended by over; its cause is the reason for the stop.
	end  context.Context
	over context.CancelCauseFunc

	mu    sync.Mutex
	state state
	done  chan struct{} // closed when no service is started or waited for any longer
}

type state int

const (
	idle state = iota
	running
	neverRun // stopped while idle
)

// The verbs of a failure.
const (
	verbStart = "start"
	verbRun   = "service"
)

// failure is the cause of an end that a service brought about.
type failure struct {
	service *service
	verb    string
	err     error
}

func (f *failure) Error() string {
	return "run: " + f.verb + " " + f.service.Name + ": " + f.err.Error()
}
func (f *failure) Unwrap() error { return f.err }

// service is a Service under way.
type service struct {
	Service

	stop     context.CancelFunc
	returned chan struct{}
	err      error // set before returned is closed
}

// NewGroup is a group of services in the order of their start. A nil log is quiet.
func NewGroup(log *slog.Logger, services ...Service) *Group {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	g := &Group{log: log, done: make(chan struct{})}
	g.end, g.over = context.WithCancelCause(context.Background())
	for _, s := range services {
		g.Add(s)
	}
	return g
}

// Add appends a service. It must not be called once the group runs.
func (g *Group) Add(s Service) {
	if s.Grace == 0 {
		s.Grace = DefaultGrace
	}
	if s.StartLimit == 0 {
		s.StartLimit = DefaultStartLimit
	}
	g.services = append(g.services, &service{Service: s})
}

// Run starts the services and blocks until all have ended. It returns nil when
// ctx or Stop ended the group and every service returned in time; otherwise the
// failure that stopped the group, joined with those of the stopping.
func (g *Group) Run(ctx context.Context) error {
	if begin, err := g.begin(); !begin {
		return err
	}
	defer close(g.done)
	defer context.AfterFunc(ctx, func() { g.over(errStop) })()
	if ctx.Err() != nil {
		g.over(errStop)
	}
	started := g.start(ctx)
	<-g.end.Done()
	errs := []error{context.Cause(g.end)}
	if errors.Is(errs[0], errStop) {
		errs[0] = nil
	}
	for i := started - 1; i >= 0; i-- {
		errs = append(errs, g.stop(g.services[i]))
	}
	return errors.Join(errs...)
}

// Stop ends the group and returns when every service has ended or outstayed its
// grace. It may be called at any time, from anywhere but inside a service, and
// as often as one likes; a group stopped before Run never starts.
func (g *Group) Stop() {
	g.over(errStop)
	g.mu.Lock()
	if g.state == idle {
		g.state = neverRun
		close(g.done)
	}
	g.mu.Unlock()
	<-g.done
}

// begin claims the one run that a group has.
func (g *Group) begin() (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.state {
	case idle:
		g.state = running
		return true, nil
	case neverRun:
		return false, nil
	default:
		return false, ErrAgain
	}
}

// start starts services until all are ready or the group is over, and returns how many it started.
// The services' contexts outlive ctx: the group ends them one after the other.
func (g *Group) start(ctx context.Context) (started int) {
	for _, s := range g.services {
		if g.end.Err() != nil {
			return started
		}
		g.launch(context.WithoutCancel(ctx), s)
		started++
		if err := g.await(s); err != nil {
			g.over(&failure{s, verbStart, err})
			return started
		}
		g.log.Debug("service started", "service", s.Name)
	}
	return started
}

func (g *Group) launch(ctx context.Context, s *service) {
	ctx, s.stop = context.WithCancel(ctx)
	s.returned = make(chan struct{})
	go func() {
		s.err = s.Run(ctx)
		unasked := ctx.Err() == nil
		if unasked && s.err == nil {
			s.err = ErrEnded
		}
		if unasked {
			g.over(&failure{s, verbRun, s.err})
		}
		close(s.returned)
	}()
}

// await blocks until s is ready. A service or group that ends meanwhile is not a failure of its
// own: the end already has its cause.
func (g *Group) await(s *service) error {
	if s.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(g.end, s.StartLimit,
		fmt.Errorf("not ready after %v", s.StartLimit))
	defer cancel()
	err := s.Ready(ctx)
	switch {
	case err == nil || g.end.Err() != nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return err
	}
}

// stop ends s, waits for it, and returns its error unless that ended the group.
func (g *Group) stop(s *service) error {
	s.stop()
	grace := clock.Real{}.NewTimer(s.Grace)
	defer grace.Stop()
	select {
	case <-s.returned:
	case <-grace.C:
		g.log.Error("service did not stop", "service", s.Name, "grace", s.Grace)
		return fmt.Errorf("run: service %s %w of %v", s.Name, ErrGrace, s.Grace)
	}
	g.log.Debug("service stopped", "service", s.Name)
	var cause *failure
	known := errors.As(context.Cause(g.end), &cause) && cause.service == s && cause.verb == verbRun
	if s.err == nil || known || errors.Is(s.err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("run: stop %s: %w", s.Name, s.err)
}

// Package port lets gRPC and HTTP share one listening port, so that each keeps a transport of its
// own: gRPC that of grpc-go with keepalive, flow control and draining, everything else (JSON,
// Connect, gRPC-Web, over HTTP/1.1 or HTTP/2) that of net/http.
//
// # How a connection is told
//
// A connection that does not begin with the preface of HTTP/2 is HTTP/1. One that does is told by
// its first request: content-type application/grpc, with or without a "+codec", is gRPC. The first
// request belongs to the connection as a whole: a proxy that mixes gRPC and JSON of its clients on
// one connection to Fencepost has to keep two pools.
//
// Most gRPC clients send no request before they have the settings of the server. So an empty
// SETTINGS frame is sent at once, which promises nothing, and whoever gets the connection sends its
// own settings after it. The client acknowledges both in their order; the first acknowledgement is
// taken out of the stream, since nobody above has sent what it is for. A ping is answered here, and
// tells nothing. A client that stays without a request is one of gRPC that keeps a connection
// ready.
//
// Credentials are applied here, before the look at the connection, and gRPC is told what they said.
package port

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/fencepost/fencepost/internal/clock"
)

// Options say how connections are received.
type Options struct {
	Credentials credentials.TransportCredentials // nil: plain text
	// Patience is how long a connection may take for the handshake of its credentials and for its
	// first bytes, and again until it is taken for one of gRPC that waits.
	Patience time.Duration
	Clock    clock.Clock
}

// Split is a listener whose connections go to two.
type Split struct {
	options    Options
	listener   net.Listener
	grpc, http *side

	mu        sync.Mutex
	closed    bool
	undecided map[net.Conn]bool
	running   sync.WaitGroup
}

// New splits a listener, which is closed with the Split. Nothing is accepted before Run.
func New(listener net.Listener, o Options) *Split {
	return &Split{
		options: o, listener: listener, grpc: newSide(listener.Addr()),
		http: newSide(listener.Addr()), undecided: map[net.Conn]bool{},
	}
}

// GRPC is the listener of gRPC's connections.
func (s *Split) GRPC() net.Listener { return s.grpc }

// HTTP is the listener of all others.
func (s *Split) HTTP() net.Listener { return s.http }

// Run accepts connections until Close, and returns nil then. Errors of accepting that may pass are
// waited out.
func (s *Split) Run() error {
	pause := minPause
	for {
		conn, err := s.listener.Accept()
		switch {
		case err == nil:
			pause = minPause
			s.running.Go(func() { s.receive(conn) })
		case s.isClosed():
			return nil
		case !passes(err):
			return fmt.Errorf("port: accept a connection: %w", err)
		default: // out of file descriptors, mostly
			timer := s.options.Clock.NewTimer(pause)
			<-timer.C
			pause = min(2*pause, maxPause)
		}
	}
}

const (
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

func passes(err error) bool {
	temporary, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && temporary.Temporary()
}

// Close ends the accepting, and the connections that are not told yet: what was told is for the two
// servers to end. It returns when all has ended.
func (s *Split) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.listener.Close()
		for conn := range s.undecided {
			conn.Close()
		}
	}
	s.mu.Unlock()
	s.grpc.Close()
	s.http.Close()
	s.running.Wait()
}

func (s *Split) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// keep notes a connection that is being told; not when there is nobody any more to give it to.
func (s *Split) keep(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.undecided[conn] = true
	}
	return !s.closed
}

func (s *Split) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.undecided, conn)
}

// receive brings one connection to the side that it is for, or closes it.
func (s *Split) receive(raw net.Conn) {
	if !s.keep(raw) {
		raw.Close()
		return
	}
	conn, to, err := s.tell(raw)
	s.forget(raw)
	if err != nil || to.put(conn) != nil {
		raw.Close()
	}
}

func (s *Split) tell(raw net.Conn) (*Conn, *side, error) {
	if err := raw.SetDeadline(s.deadline()); err != nil {
		return nil, nil, err
	}
	conn := &Conn{Conn: raw}
	if s.options.Credentials != nil {
		secured, auth, err := s.options.Credentials.ServerHandshake(raw)
		if err != nil {
			return nil, nil, err
		}
		conn.Conn, conn.auth = secured, auth
	}
	isGRPC, err := conn.detect(s.deadline)
	if err != nil {
		return nil, nil, err
	}
	if isGRPC {
		return conn, s.grpc, raw.SetDeadline(time.Time{})
	}
	return conn, s.http, raw.SetDeadline(time.Time{})
}

// deadline is by the clock that sockets go by, whatever that of the node says.
func (s *Split) deadline() time.Time { return clock.Real{}.Now().Add(s.options.Patience) }

// side is the listener of one of the two.
type side struct {
	address net.Addr
	conns   chan net.Conn
	done    context.Context
	end     context.CancelFunc
}

func newSide(address net.Addr) *side {
	s := &side{address: address, conns: make(chan net.Conn)}
	s.done, s.end = context.WithCancel(context.Background())
	return s
}

func (s *side) put(conn net.Conn) error {
	select {
	case s.conns <- conn:
		return nil
	case <-s.done.Done():
		return net.ErrClosed
	}
}

// Accept returns the next connection, or net.ErrClosed.
func (s *side) Accept() (net.Conn, error) {
	select {
	case conn := <-s.conns:
		return conn, nil
	case <-s.done.Done():
		return nil, net.ErrClosed
	}
}

// Close ends Accept. The port stays open for the other side until the Split is closed.
func (s *side) Close() error {
	s.end()
	return nil
}

// Addr is that of the port.
func (s *side) Addr() net.Addr { return s.address }

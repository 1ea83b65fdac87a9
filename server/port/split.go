// Package port lets gRPC and HTTP share one listening port. Each keeps its own transport: gRPC the
// one of grpc-go, with keepalive, flow control and draining; JSON, Connect and gRPC-Web, over
// HTTP/1.1 or HTTP/2, the one of net/http.
//
// # Detection
//
// A connection that does not start with the preface of HTTP/2 is HTTP/1. Any other connection is
// classified by its first request: a POST with content-type application/grpc, optionally with a
// "+codec", is gRPC. The first request decides for the whole connection: a proxy that mixes gRPC
// and JSON of its clients on one connection to Fencepost must use two pools.
//
// Most gRPC clients send no request before they have the settings of the server. So an empty
// SETTINGS frame is sent at once. The server of the connection sends its own settings after it.
// The client acknowledges both in order; the first acknowledgement is removed from the stream,
// because that server has not sent the settings that it acknowledges. Pings are answered and
// reveal nothing. A client that sends no request for a while is gRPC that keeps a connection ready.
//
// The TLS handshake precedes the detection. A client that negotiates no protocol (ALPN) is served
// too: older clients of HTTP/1.1 know no ALPN.
package port

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/fencepost/fencepost/internal/clock"
)

// Options configure a Split.
type Options struct {
	TLS *tls.Config // nil: plain text; without NextProtos: "h2" and "http/1.1"
	// Patience is how long a connection may take for its handshake and first bytes. Without a
	// request for as long again, it is classified as gRPC.
	Patience time.Duration
	Clock    clock.Clock
	// HandshakeFailed is called for each failed TLS handshake; nil: not called.
	HandshakeFailed func()
}

// Split is a listener whose connections go to two servers.
type Split struct {
	options    Options
	listener   net.Listener
	grpc, http *side

	mu        sync.Mutex
	closed    bool
	undecided map[net.Conn]bool
	running   sync.WaitGroup
}

// New splits a listener, which the Split closes. No connection is accepted before Run.
func New(listener net.Listener, o Options) *Split {
	if o.TLS != nil && len(o.TLS.NextProtos) == 0 {
		o.TLS = o.TLS.Clone()
		o.TLS.NextProtos = []string{"h2", "http/1.1"}
	}
	return &Split{
		options: o, listener: listener, grpc: newSide(listener.Addr()),
		http: newSide(listener.Addr()), undecided: map[net.Conn]bool{},
	}
}

// GRPC returns the listener of gRPC connections.
func (s *Split) GRPC() net.Listener { return s.grpc }

// HTTP returns the listener of all other connections.
func (s *Split) HTTP() net.Listener { return s.http }

// Run accepts connections until Close, then returns nil. It retries after temporary errors.
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

// Close stops accepting, and closes the connections that are not classified yet. The two servers
// close theirs.
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

// keep records a connection without a protocol. It reports false after Close.
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

// receive passes one connection to its side, or closes it.
func (s *Split) receive(raw net.Conn) {
	if !s.keep(raw) {
		raw.Close()
		return
	}
	conn, to, err := s.classify(raw)
	s.forget(raw)
	if err != nil || to.put(conn) != nil {
		raw.Close()
	}
}

func (s *Split) classify(raw net.Conn) (*Conn, *side, error) {
	if err := raw.SetDeadline(s.deadline()); err != nil {
		return nil, nil, err
	}
	conn := &Conn{Conn: raw, socket: raw}
	if s.options.TLS != nil {
		secured := tls.Server(raw, s.options.TLS)
		if err := secured.Handshake(); err != nil {
			if s.options.HandshakeFailed != nil {
				s.options.HandshakeFailed()
			}
			return nil, nil, err
		}
		conn.Conn, conn.auth = secured, credentials.TLSInfo{
			State: secured.ConnectionState(),
			CommonAuthInfo: credentials.CommonAuthInfo{
				SecurityLevel: credentials.PrivacyAndIntegrity,
			},
		}
	}
	isGRPC, err := conn.detect(s.deadline)
	if err != nil {
		return nil, nil, err
	}
	to := s.http
	if isGRPC {
		to = s.grpc
	}
	return conn, to, raw.SetDeadline(time.Time{})
}

// deadline uses the clock of sockets, not the node's.
func (s *Split) deadline() time.Time { return clock.Real{}.Now().Add(s.options.Patience) }

// side is the listener of one of the two servers.
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

// Addr returns the address of the port.
func (s *side) Addr() net.Addr { return s.address }

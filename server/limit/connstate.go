package limit

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/stats"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/port"
)

// ConnState is the state of one connection: its calls, and the responses that its client has not
// read.
type ConnState struct {
	close  func() error // nil for HTTP, whose responses have deadlines
	source netip.Prefix // zero without an IP address
	socket *Connection  // nil if connections are not counted

	health atomic.Int64 // health calls in progress
	lists  atomic.Int64 // lists in progress or unread

	mu      sync.Mutex
	ended   bool
	cancel  context.CancelFunc // of the context from which all calls of the connection derive
	pending map[*pendingResponse]struct{}
	unread  int // bytes of pending
	// rejected are the deadlines of rejected calls: all that are still to come, and some past ones.
	rejected []time.Time
}

func (c *ConnState) add(p *pendingResponse) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	if c.pending == nil {
		c.pending = map[*pendingResponse]struct{}{}
	}
	c.pending[p] = struct{}{}
	c.unread += p.bytes
	return true
}

// remove reports whether the response was pending.
func (c *ConnState) remove(p *pendingResponse) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.pending[p]; !there {
		return false
	}
	delete(c.pending, p)
	c.unread -= p.bytes
	return true
}

func (c *ConnState) mayCall() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unread < MaxUnreadBytes
}

// reject records a call that is rejected before it starts. The transport has made a timer for the
// call's deadline and does not stop it: a client that is rejected again and again, with deadlines
// far away, would fill the memory with timers. They end with the connection, which is closed when
// more than max rejected calls have time left. Nothing else of the call is kept.
func (c *ConnState) reject(ctx context.Context, max int) {
	until, has := ctx.Deadline()
	if !has {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if c.rejected = append(c.rejected, until); len(c.rejected) <= max {
		return
	}
	now := clock.Real{}.Now() // the clock of the transport's timers
	c.rejected = slices.DeleteFunc(c.rejected,
		func(until time.Time) bool { return until.Before(now) })
	if len(c.rejected) > max && c.close != nil {
		go c.close() // which may wait for the peer; our caller holds a lock of the transport
	}
}

// stalled reports whether a response from before then is still unread.
func (c *ConnState) stalled(then time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.pending {
		if p.since.Before(then) {
			return true
		}
	}
	return false
}

// begin takes over the end of the calls' context.
func (c *ConnState) begin(cancel context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	if c.ended {
		cancel()
	}
}

// end releases all that is held: a transport that ends does not free the responses that it holds.
func (c *ConnState) end() {
	c.mu.Lock()
	pending, cancel := c.pending, c.cancel
	c.ended, c.unread = true, 0
	c.pending, c.rejected = nil, nil
	c.mu.Unlock()
	for p := range pending {
		p.slot.Release()
	}
	if cancel != nil {
		cancel()
	}
}

type connKey struct{}

// WithConn returns the context of a new connection over HTTP.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, newConnState(conn))
}

// newConnState returns the state of a connection that a Split has received.
func newConnState(conn net.Conn) *ConnState {
	c := &ConnState{source: sourceOf(conn.RemoteAddr())}
	if received, ok := conn.(*port.Conn); ok {
		c.socket, _ = received.Socket().(*Connection)
	}
	return c
}

// Key identifies a caller of the connection. A caller without a name is the address that the
// connection comes from, or its /64 network of IPv6.
func (c *ConnState) Key(caller string) string { return keyOf(c, caller) }

// prove records that a call of the connection was admitted.
func (c *ConnState) prove() {
	if c.socket != nil {
		c.socket.Prove()
	}
}

// ConnOf returns the state of the connection that a call comes over.
func ConnOf(ctx context.Context) *ConnState {
	if c, ok := ctx.Value(connKey{}).(*ConnState); ok {
		return c
	}
	return &ConnState{}
}

// statefulConn is a connection of gRPC.
type statefulConn struct {
	*port.Conn
	state *ConnState
	conns *connStates
}

// RemoteAddr brings the state along: the address is all that the transport shows of a connection.
func (c *statefulConn) RemoteAddr() net.Addr { return statefulAddr{c.Conn.RemoteAddr(), c.state} }

// Close ends all that is held for the connection.
func (c *statefulConn) Close() error {
	c.conns.remove(c.state)
	c.state.end()
	return c.Conn.Close()
}

type statefulAddr struct {
	net.Addr
	state *ConnState
}

// connStates are the states of the open gRPC connections.
type connStates struct {
	mu  sync.Mutex
	all map[*ConnState]struct{}
}

func (s *connStates) add(c *ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*ConnState]struct{}{}
	}
	s.all[c] = struct{}{}
}

func (s *connStates) remove(c *ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c)
}

// stalled returns the connections with an unread response from before then.
func (s *connStates) stalled(then time.Time) (found []*ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		if c.stalled(then) {
			found = append(found, c)
		}
	}
	return found
}

func (s *connStates) unread() (bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		c.mu.Lock()
		bytes += c.unread
		c.mu.Unlock()
	}
	return bytes
}

// Listen returns a listener for gRPC whose connections have a ConnState.
func (l *Limiter) Listen(inner net.Listener) net.Listener {
	return statefulListener{inner, &l.conns}
}

type statefulListener struct {
	net.Listener
	conns *connStates
}

// Accept implements net.Listener.
func (l statefulListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	received, ok := conn.(*port.Conn)
	if err != nil || !ok {
		return conn, err
	}
	c := &statefulConn{Conn: received, state: newConnState(received), conns: l.conns}
	c.state.close = c.Close
	l.conns.add(c.state)
	return c, nil
}

// connTagger gives the calls of a connection its ConnState, and a context that ends with it.
type connTagger struct{}

// TagConn implements stats.Handler.
func (connTagger) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	from, ok := info.RemoteAddr.(statefulAddr)
	if !ok {
		return ctx
	}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, connKey{}, from.state))
	from.state.begin(cancel)
	return ctx
}

// HandleConn implements stats.Handler.
func (connTagger) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC implements stats.Handler.
func (connTagger) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (connTagger) HandleRPC(context.Context, stats.RPCStats) {}

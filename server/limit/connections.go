package limit

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
)

// Connections bounds the open connections of a node, in total and per source address.
//
// A connection is a stranger until Prove is called for it, which happens with its first admitted
// call. When the node is full, the oldest stranger of the source that has most of them is closed
// in favour of the new connection, so strangers cannot lock out clients. A node that is full of
// proven connections closes the new one.
//
// A source is an IPv4 address, or the /64 network of an IPv6 address. Connections without an IP
// address, such as Unix sockets, share one source without a limit of its own.
type Connections struct {
	total, perSource int
	refused          func(reason string)

	open atomic.Int64

	mu        sync.Mutex
	sources   map[netip.Prefix]*source
	strangers int
}

// The reasons that are reported for a closed connection.
const (
	ReasonNodeFull   = "node_full"
	ReasonSourceFull = "source_full"
	ReasonEvicted    = "evicted"
)

type source struct {
	open      int
	strangers list.List // of *Connection, oldest first
}

// NewConnections bounds connections to total, and to perSource for one source. refused is called
// for each connection that is closed for lack of room, with the reason.
func NewConnections(total, perSource int, refused func(reason string)) *Connections {
	return &Connections{
		total: total, perSource: perSource, refused: refused,
		sources: map[netip.Prefix]*source{},
	}
}

// Open returns the number of open connections.
func (c *Connections) Open() int { return int(c.open.Load()) }

// States returns how many connections are proven, and how many are strangers.
func (c *Connections) States() (proven, strangers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.open.Load()) - c.strangers, c.strangers
}

// Listen returns a listener whose connections are counted.
func (c *Connections) Listen(l net.Listener) net.Listener { return &countingListener{l, c} }

type countingListener struct {
	net.Listener
	connections *Connections
}

// Accept waits for a connection that there is room for.
func (l *countingListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if counted := l.connections.add(conn); counted != nil {
			return counted, nil
		}
	}
}

// add counts a connection, or closes it and returns nil.
func (c *Connections) add(conn net.Conn) *Connection {
	counted := &Connection{Conn: conn, of: c, source: sourceOf(conn.RemoteAddr())}
	victim, reason := c.admit(counted)
	if victim != nil {
		c.refused(ReasonEvicted)
		reset(victim)
	}
	if reason != "" {
		c.refused(reason)
		reset(conn)
		return nil
	}
	return counted
}

// admit makes room for a connection. It returns the stranger to close for it, or the reason why
// there is no room.
func (c *Connections) admit(conn *Connection) (victim *Connection, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.sources[conn.source]
	if from == nil {
		from = new(source)
	}
	if conn.source.IsValid() && from.open >= c.perSource {
		victim = oldest(from)
		reason = ReasonSourceFull
	} else if int(c.open.Load()) >= c.total {
		victim = oldest(c.crowded())
		reason = ReasonNodeFull
	}
	if victim != nil {
		c.removeLocked(victim)
		reason = ""
	}
	if reason != "" {
		return nil, reason
	}
	c.sources[conn.source] = from
	from.open++
	conn.stranger = from.strangers.PushBack(conn)
	c.strangers++
	c.open.Add(1)
	return victim, ""
}

// crowded returns the source with most strangers; nil without any.
func (c *Connections) crowded() (most *source) {
	for _, s := range c.sources {
		if s.strangers.Len() > 0 && (most == nil || s.strangers.Len() > most.strangers.Len()) {
			most = s
		}
	}
	return most
}

func oldest(s *source) *Connection {
	if s == nil || s.strangers.Len() == 0 {
		return nil
	}
	return s.strangers.Front().Value.(*Connection)
}

func (c *Connections) remove(conn *Connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(conn)
}

func (c *Connections) removeLocked(conn *Connection) {
	if conn.removed {
		return
	}
	conn.removed = true
	from := c.sources[conn.source]
	if conn.stranger != nil {
		from.strangers.Remove(conn.stranger)
		conn.stranger = nil
		c.strangers--
	}
	if from.open--; from.open == 0 {
		delete(c.sources, conn.source)
	}
	c.open.Add(-1)
}

// Connection is a counted connection.
type Connection struct {
	net.Conn
	of     *Connections
	source netip.Prefix
	proven atomic.Bool

	// Guarded by of.mu.
	stranger *list.Element // nil once the connection is proven
	removed  bool
}

// Prove records that a call of this connection was admitted: it is not a stranger any longer.
func (c *Connection) Prove() {
	if c.proven.Swap(true) {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.stranger != nil && !c.removed {
		c.of.sources[c.source].strangers.Remove(c.stranger)
		c.stranger = nil
		c.of.strangers--
	}
}

// Close gives back the connection's room.
func (c *Connection) Close() error {
	c.of.remove(c)
	return c.Conn.Close()
}

// SyscallConn returns the socket, for its options.
func (c *Connection) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// reset closes a connection without a wait for unsent data.
func reset(conn net.Conn) {
	inner := conn
	if counted, ok := conn.(*Connection); ok {
		inner = counted.Conn
	}
	if tcp, ok := inner.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a broken connection is closed below anyway
	}
	_ = inner.Close()
}

// sourceOf returns the source of an address; the zero prefix for one without an IP address.
func sourceOf(address net.Addr) netip.Prefix {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	prefix, err := ip.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

package sim

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// link is a node's end of a connection to PostgreSQL: an in-memory pipe. The scheduler delivers
// each message the node writes to the real server, and each reply back to the node. A connection
// may be cut at any moment. The message or the reply is then lost, or the message still arrives
// after the node has given up.
type link struct {
	w    *World
	node *node
	db   *database
	no   int
	role string // from its application_name

	// Owned by the scheduler.
	server *server
	flying int // messages in transit

	mu      sync.Mutex
	out     []byte // written, not yet a complete message
	in      []byte // replies not read yet
	cut     bool   // by the network: reads fail
	silent  bool   // cut, but the next write succeeds
	closed  bool   // by the node
	expired bool
	// the driver reads while it copies rows, under a mutex that it needs after them: its read times
	// out once, and it reads again
	interrupted bool
	expiry      *time.Timer
	commit      *fencedCommit // sent by the node, not answered yet
	changed     chan struct{}
	names       map[string]string // of prepared statements
}

// dialer returns store.Config.Dial of a node for a database. It decides at once, because the
// purpose of the connection is not known yet. The real connection is made when the first message
// arrives.
func (n *node) dialer(db *database) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return n.dial(db) }
}

func (n *node) dial(db *database) (net.Conn, error) {
	n.w.mu.Lock()
	refused := n.crashed || max(n.noDatabase, db.away) > n.w.now()
	n.w.mu.Unlock()
	if refused {
		return nil, &net.OpError{
			Op:  "dial",
			Net: "unix",
			Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
		}
	}
	return &link{
		w:       n.w,
		node:    n,
		db:      db,
		server:  &server{},
		changed: make(chan struct{}),
		names:   map[string]string{},
	}, nil
}

// connect dials the real server for a link that is not connected yet.
func (w *World) connect(l *link) error {
	if l.server.conn != nil {
		return nil
	}
	if l.node.noDatabase > w.now() {
		return errSwitch
	}
	conn, err := l.db.dial()
	if err != nil {
		return err
	}
	l.server.conn = conn
	l.node.linksMade++
	l.no = l.node.linksMade
	l.node.links = append(l.node.links, l)
	return nil
}

// notify wakes the readers that wait for a change. The caller holds mu.
func (l *link) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Read waits for a reply.
func (l *link) Read(b []byte) (int, error) {
	for {
		l.mu.Lock()
		n, err := l.readable(b)
		wait := l.changed
		l.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
		<-wait
	}
}

func (l *link) readable(b []byte) (int, error) {
	switch {
	case l.closed:
		return 0, net.ErrClosed
	case l.expired:
		return 0, os.ErrDeadlineExceeded
	case l.interrupted:
		l.interrupted = false
		return 0, os.ErrDeadlineExceeded
	case len(l.in) > 0:
		n := copy(b, l.in)
		l.in = l.in[n:]
		return n, nil
	case l.cut:
		return 0, syscall.ECONNRESET
	}
	return 0, nil
}

// Write queues a message for delivery.
func (l *link) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return 0, net.ErrClosed
	case l.expired:
		return 0, os.ErrDeadlineExceeded
	case l.cut && !l.silent:
		return 0, syscall.EPIPE
	case l.cut:
		l.silent = false
		return len(b), nil
	}
	l.out = append(l.out, b...)
	m, whole := readMessage(l.out, l.names)
	if !whole {
		return len(b), nil
	}
	if m.role != "" {
		l.role = m.role
	}
	l.out = nil
	if m.copies {
		l.interrupted = true
		l.notify()
	}
	l.send(m)
	return len(b), nil
}

// send passes a complete message to the scheduler, except messages without effect.
func (l *link) send(m message) {
	switch {
	case m.goodbye, m.cancel:
		return // Close follows
	case m.ping && l.role != "renew" && l.role != "commit":
		// A pool pings depending on real idle time, so a ping must not affect the run.
		l.in = append(l.in, pong...)
		l.notify()
		return
	}
	it := &item{node: l.node, kind: "sql", label: m.label + "@" + l.role + l.db.mark}
	it.run = func() { l.w.deliver(l, m, it) }
	if !l.w.post(it) {
		l.cut = true
		l.notify()
		return
	}
	l.flying++
	l.commit = m.commit
}

// Close closes the node's end. Messages in transit may still arrive.
func (l *link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.closed = true
	l.doubt()
	l.notify()
	if l.flying == 0 {
		l.server.close()
	}
	return nil
}

// receive delivers a reply to the node.
func (l *link) receive(answer []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.in, l.commit = append(l.in, answer...), nil
	l.notify()
}

// doubt records that the node will never learn the outcome of a commit. The caller holds mu.
func (l *link) doubt() {
	if l.commit == nil {
		return
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	for i, s := range l.commit.submitters {
		l.node.unsettled[txn.SubmitterID(s)] = l.commit.tokens[i]
	}
	l.commit = nil
}

// sever cuts the connection in the network. If silent, the node notices only when it waits for a
// reply.
func (l *link) sever(silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.closed {
		return
	}
	l.cut, l.silent = true, silent
	l.doubt()
	l.notify()
	if l.flying == 0 {
		l.server.close()
	}
}

// over reports whether the node can no longer receive replies.
func (l *link) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut || l.closed
}

// landed records that a message is no longer in transit.
func (l *link) landed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	if l.flying == 0 && (l.cut || l.closed) {
		l.server.close()
	}
}

// SetDeadline makes reads and writes fail after the given time.
func (l *link) SetDeadline(at time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expiry != nil {
		l.expiry.Stop()
		l.expiry = nil
	}
	l.expired = false
	switch left := time.Until(at); {
	case at.IsZero():
	case left <= 0:
		l.expired = true
	default:
		l.expiry = time.AfterFunc(left, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.expired = true
			l.notify()
		})
	}
	l.notify()
	return nil
}

// SetReadDeadline is SetDeadline: only reads wait.
func (l *link) SetReadDeadline(at time.Time) error { return l.SetDeadline(at) }

// SetWriteDeadline does nothing: writes do not wait.
func (l *link) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr returns the node's address.
func (l *link) LocalAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// RemoteAddr returns the server's address.
func (l *link) RemoteAddr() net.Addr { return &net.UnixAddr{Name: "postgres", Net: "unix"} }

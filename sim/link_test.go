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

// link is a connection of a node to PostgreSQL as the node sees it: a pipe in memory. What the node writes is a message under way, which the scheduler delivers
// to the real server when its turn has come; so is the answer on its way back. A connection may be cut at any moment, with either of them lost, or with a message
// that still arrives after the node has given up.
type link struct {
	w    *World
	node *node
	no   int
	role string // what it is for, from the name that it gave the server

	// The scheduler's.
	server *server
	flying int // messages under way

	mu      sync.Mutex
	out     []byte // written and not yet a whole message
	in      []byte // answered and not yet read
	cut     bool   // by the network: reads fail
	silent  bool   // cut, and the next write does not notice
	closed  bool   // by the node
	expired bool
	expiry  *time.Timer
	commit  *fencedCommit // that the node has sent and heard nothing of
	changed chan struct{}
	names   map[string]string // of prepared statements
}

// dial is store.Config.Dial of a node. It is decided at once, since nothing tells yet what the connection is for; the real one is made when the first message
// arrives.
func (n *node) dial(context.Context, string, string) (net.Conn, error) {
	n.w.mu.Lock()
	refused := n.crashed || n.noDatabase > n.w.now()
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
		server:  &server{},
		changed: make(chan struct{}),
		names:   map[string]string{},
	}, nil
}

// connect makes the real connection of a link, if it has none yet.
func (w *World) connect(l *link) error {
	if l.server.conn != nil {
		return nil
	}
	if l.node.noDatabase > w.now() {
		return errSwitch
	}
	conn, err := w.db.dial()
	if err != nil {
		return err
	}
	l.server.conn = conn
	l.node.linksMade++
	l.no = l.node.linksMade
	l.node.links = append(l.node.links, l)
	return nil
}

// tell wakes whoever waits for a change. The caller holds mu.
func (l *link) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Read waits for an answer.
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
	case len(l.in) > 0:
		n := copy(b, l.in)
		l.in = l.in[n:]
		return n, nil
	case l.cut:
		return 0, syscall.ECONNRESET
	}
	return 0, nil
}

// Write sends a message on its way.
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
	l.send(m)
	return len(b), nil
}

// send hands a whole message to the scheduler, except those that say nothing.
func (l *link) send(m message) {
	switch {
	case m.goodbye, m.cancel:
		return // Close follows
	case m.ping && l.role != "renew" && l.role != "commit":
		// Whether a pool pings depends on the real time that a connection was idle for, so a ping must change nothing.
		l.in = append(l.in, pong...)
		l.tell()
		return
	}
	it := &item{node: l.node, kind: "sql", label: m.label + "@" + l.role}
	it.run = func() { l.w.deliver(l, m, it) }
	if !l.w.post(it) {
		l.cut = true
		l.tell()
		return
	}
	l.flying++
	l.commit = m.commit
}

// Close ends the connection on the node's side. What is under way may arrive all the same.
func (l *link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.closed = true
	l.doubt()
	l.tell()
	if l.flying == 0 {
		l.server.close()
	}
	return nil
}

// receive gives the node an answer.
func (l *link) receive(answer []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.in, l.commit = append(l.in, answer...), nil
	l.tell()
}

// doubt remembers that the node does not know, and never will, what became of a commit. The caller holds mu.
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

// sever cuts the connection by the network. silent: the node notices only when it waits for an answer.
func (l *link) sever(silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.closed {
		return
	}
	l.cut, l.silent = true, silent
	l.doubt()
	l.tell()
	if l.flying == 0 {
		l.server.close()
	}
}

// over tells whether the node cannot get an answer any more.
func (l *link) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut || l.closed
}

// landed says that a message is not under way any more.
func (l *link) landed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	if l.flying == 0 && (l.cut || l.closed) {
		l.server.close()
	}
}

// SetDeadline ends waiting at a time.
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
			l.tell()
		})
	}
	l.tell()
	return nil
}

// SetReadDeadline is SetDeadline.
func (l *link) SetReadDeadline(at time.Time) error { return l.SetDeadline(at) }

// SetWriteDeadline does nothing: writes do not wait.
func (l *link) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr names the node's end.
func (l *link) LocalAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// RemoteAddr names the server's end.
func (l *link) RemoteAddr() net.Addr { return &net.UnixAddr{Name: "postgres", Net: "unix"} }

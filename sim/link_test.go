package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strings"
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
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	return &link{w: n.w, node: n, server: &server{}, changed: make(chan struct{}), names: map[string]string{}}, nil
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

// message is what a node wrote in one go, as far as the scheduler needs to understand it (PostgreSQL's frontend protocol, version 3).
type message struct {
	bytes   []byte
	label   string
	role    string // of a start-up message
	answers int    // ReadyForQuery messages that it asks for
	startup bool
	goodbye bool
	cancel  bool
	ping    bool
	commit  *fencedCommit // of a fenced statement that is executed
}

// pong answers an empty query.
var pong = []byte{'I', 0, 0, 0, 4, 'Z', 0, 0, 0, 5, 'I'}

const (
	codeCancel   = 80877102
	codeStartup3 = 196608
)

// readMessage takes a written message apart. whole is false when more must come.
func readMessage(b []byte, names map[string]string) (m message, whole bool) {
	if len(b) >= 8 && b[0] == 0 { // no type: the first message of a connection
		switch code := binary.BigEndian.Uint32(b[4:]); {
		case code == codeCancel:
			return message{cancel: true}, true
		case code>>16 == codeStartup3>>16:
			text, role := restart(b)
			return message{bytes: text, label: "start", role: role, startup: true, answers: 1}, true
		}
	}
	m.bytes = b
	for rest := b; len(rest) > 0; {
		if len(rest) < 5 {
			return m, false
		}
		n := 1 + int(binary.BigEndian.Uint32(rest[1:]))
		if len(rest) < n {
			return m, false
		}
		m.read(rest[0], rest[5:n], names)
		rest = rest[n:]
	}
	return m, m.answers > 0 || m.goodbye
}

func (m *message) read(kind byte, body []byte, names map[string]string) {
	switch kind {
	case 'X':
		m.goodbye = true
	case 'S', 'p':
		m.answers++
	case 'Q':
		m.answers++
		text := cString(body)
		m.ping = text == "-- ping"
		m.label = first(text)
	case 'P':
		name := cString(body)
		names[name] = first(cString(body[len(name)+1:]))
		m.label = "prepare " + names[name]
	case 'B':
		portal := cString(body)
		name := cString(body[len(portal)+1:])
		m.label = names[name]
		if m.label == "Commit" {
			m.commit = readCommit(body[len(portal)+len(name)+2:])
		}
	}
}

// first is the name that sqlc gives a statement, or its first word.
func first(text string) string {
	if rest, ok := strings.CutPrefix(text, "-- name: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	word, _, _ := strings.Cut(text, " ")
	return strings.ToLower(word)
}

func cString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// restart takes the server's own time limits out of a start-up message: they count real time, in which a simulation lasts as long as the machine needs.
func restart(b []byte) (text []byte, role string) {
	out := append([]byte(nil), b[:8]...)
	for rest := b[8:]; len(rest) > 1; {
		key := cString(rest)
		value := cString(rest[len(key)+1:])
		rest = rest[len(key)+len(value)+2:]
		switch key {
		case "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout":
			value = "0"
		case "application_name":
			if parts := strings.Split(value, "/"); len(parts) > 1 {
				role = parts[1]
			}
		}
		out = append(append(append(append(out, key...), 0), value...), 0)
	}
	out = append(out, 0)
	binary.BigEndian.PutUint32(out, uint32(len(out)))
	return out, role
}

// fencedCommit is what a fenced statement says of itself.
type fencedCommit struct {
	submitters []int32
	tokens     []int64
	takes      bool // a nonce
}

// readCommit finds the submitters and tokens among the parameters of a Bind message. They are the second and third, in binary form; the fifth says whether a nonce is taken.
func readCommit(b []byte) *fencedCommit {
	formats := int(binary.BigEndian.Uint16(b))
	b = b[2+2*formats+2:]
	var params [][]byte
	for range 5 {
		n := int32(binary.BigEndian.Uint32(b))
		b = b[4:]
		if n < 0 {
			params = append(params, nil)
			continue
		}
		params = append(params, b[:n])
		b = b[n:]
	}
	c := &fencedCommit{}
	for _, v := range arrayItems(params[1]) {
		c.submitters = append(c.submitters, int32(binary.BigEndian.Uint32(v)))
	}
	for _, v := range arrayItems(params[2]) {
		c.tokens = append(c.tokens, int64(binary.BigEndian.Uint64(v)))
	}
	for _, v := range arrayItems(params[4]) {
		c.takes = c.takes || int64(binary.BigEndian.Uint64(v)) >= 0
	}
	return c
}

// arrayItems are the items of a one-dimensional array in PostgreSQL's binary form.
func arrayItems(b []byte) [][]byte {
	if len(b) < 20 {
		return nil
	}
	count := int(binary.BigEndian.Uint32(b[12:]))
	b = b[20:]
	var items [][]byte
	for range count {
		n := int(int32(binary.BigEndian.Uint32(b)))
		items = append(items, b[4:4+n])
		b = b[4+n:]
	}
	return items
}

// server is the real connection behind a link. Only the scheduler uses it, but for close.
type server struct {
	conn    net.Conn
	pid     int32
	buffer  []byte // received and not yet taken apart
	answer  []byte
	left    int // ReadyForQuery messages that are still to come
	failure string
	rows    [][]byte // bodies of DataRow messages
}

func (s *server) close() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
}

// Real time: how long to read before it is asked whether a session waits for a lock, and how long an exchange can last at most.
const (
	lookAfter = 4 * time.Millisecond
	hangLimit = 30 * time.Second
)

// send begins an exchange.
func (s *server) send(m message) error {
	s.answer, s.left, s.failure, s.rows = nil, m.answers, "", nil
	if err := s.conn.SetWriteDeadline(time.Now().Add(hangLimit)); err != nil {
		return err
	}
	_, err := s.conn.Write(m.bytes)
	return err
}

// receive reads what comes within a while; done when the answer is whole.
func (s *server) receive(patience time.Duration) (done bool, err error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return false, err
	}
	chunk := make([]byte, 16<<10)
	for s.left > 0 {
		n, err := s.conn.Read(chunk)
		s.buffer = append(s.buffer, chunk[:n]...)
		s.parse()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return s.left <= 0, nil
		}
		if err != nil {
			return s.left <= 0, err
		}
	}
	return true, nil
}

// parse takes whole messages from the buffer.
func (s *server) parse() {
	for len(s.buffer) >= 5 {
		n := 1 + int(binary.BigEndian.Uint32(s.buffer[1:]))
		if len(s.buffer) < n {
			return
		}
		kind, body := s.buffer[0], s.buffer[5:n]
		switch kind {
		case 'Z':
			s.left--
		case 'R':
			if auth := binary.BigEndian.Uint32(body); auth != 0 && auth != 12 {
				s.left-- // the node must answer
			}
		case 'K':
			s.pid = int32(binary.BigEndian.Uint32(body))
		case 'D':
			s.rows = append(s.rows, bytes.Clone(body))
		case 'E':
			s.failure = failed(body)
		}
		s.answer = append(s.answer, s.buffer[:n]...)
		s.buffer = bytes.Clone(s.buffer[n:])
	}
}

// failed reads SQLSTATE and words of an error.
func failed(body []byte) string {
	code, words := "", ""
	for len(body) > 1 {
		value := cString(body[1:])
		switch body[0] {
		case 'C':
			code = value
		case 'M':
			words = value
		}
		body = body[len(value)+2:]
	}
	return code + " " + words
}

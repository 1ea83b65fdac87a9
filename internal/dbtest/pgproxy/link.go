package pgproxy

import (
	"bufio"
	"io"
	"net"
	"slices"
	"sync"
)

// proxiedConn is one client's connection and the one to the server that goes with it.
type proxiedConn struct {
	proxy  *Proxy
	client net.Conn
	known  statements

	mu     sync.Mutex
	server net.Conn // nil until it is dialled
	gone   bool
	done   chan struct{} // closed by cut
	talk   exchange
	begun  []*Rule // taken on this connection and not settled
}

func newProxiedConn(p *Proxy, client net.Conn) *proxiedConn {
	return &proxiedConn{
		proxy: p, client: client, done: make(chan struct{}), known: newStatements(),
	}
}

// cut ends both connections. It may be called again.
func (l *proxiedConn) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return
	}
	l.gone = true
	close(l.done)
	l.client.Close()
	if l.server != nil {
		l.server.Close()
	}
}

// run serves the connection to its end.
func (l *proxiedConn) run() {
	defer l.settleAll()
	defer l.cut()
	from := bufio.NewReader(l.client)
	startup, err := l.startup(from)
	if err != nil {
		return
	}
	network, address := l.proxy.target()
	server, err := net.Dial(network, address)
	if err != nil {
		return
	}
	if !l.connected(server) {
		return
	}
	if l.pass(server, startup) != nil {
		return
	}
	var down sync.WaitGroup
	down.Go(l.down)
	l.up(from)
	l.cut() // which ends the other direction
	down.Wait()
}

func (l *proxiedConn) connected(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		server.Close()
		return false
	}
	l.server = server
	return true
}

// startup declines to encrypt, and reads on.
func (l *proxiedConn) startup(from io.Reader) ([]byte, error) {
	for {
		frame, code, err := readStartup(from)
		if err != nil {
			return nil, err
		}
		if code != tlsRequest && code != gssRequest {
			return frame, nil
		}
		if err := l.pass(l.client, []byte{'N'}); err != nil {
			return nil, err
		}
	}
}

// pass writes once bytes may pass.
func (l *proxiedConn) pass(to io.Writer, b []byte) error {
	select {
	case <-l.done:
		return net.ErrClosed
	case <-l.proxy.health():
	}
	_, err := to.Write(b)
	return err
}

// up carries messages to the server until the client ends or a rule cuts.
func (l *proxiedConn) up(from io.Reader) {
	for {
		frame, err := readFrame(from)
		if err != nil {
			return
		}
		if rule := l.proxy.take(l.known.learn(frame)); rule != nil {
			l.begin(rule)
			err = l.act(rule, frame)
		} else {
			err = l.ask(frame, nil)
		}
		if err != nil {
			return
		}
	}
}

// ask sends a message whose answer is expected, and subject to a rule when there
// is one.
func (l *proxiedConn) ask(frame []byte, rule *Rule) error {
	if asks(frame[0]) {
		l.mu.Lock()
		l.talk.ask(frame[0], rule)
		l.mu.Unlock()
	}
	return l.pass(l.server, frame)
}

func (l *proxiedConn) act(r *Rule, frame []byte) error {
	switch r.action {
	case CutMidway:
		err := l.pass(l.server, frame[:1])
		l.cut()
		close(r.fired)
		return err
	case HoldBefore:
		if err := l.hold(r); err != nil {
			return err
		}
		return l.ask(frame, r)
	case HoldAfter:
		if err := l.ask(frame, r); err != nil {
			return err
		}
		return l.hold(r)
	default:
		return l.ask(frame, r)
	}
}

func (l *proxiedConn) hold(r *Rule) error {
	close(r.fired)
	select {
	case <-r.released:
		return nil
	case <-l.done:
		return net.ErrClosed
	}
}

// down carries the server's messages to the client until the server ends. A
// client that does not listen any more is for up to notice: until then the
// server is to know nothing of it.
func (l *proxiedConn) down() {
	defer l.cut()
	from := bufio.NewReader(l.server)
	var kept [][]byte // by a HoldReply
	for {
		frame, err := readFrame(from)
		if err != nil {
			return
		}
		rule, through := l.answered(frame[0])
		switch {
		case rule != nil && rule.action == LoseReply:
			if through {
				l.cut()
				close(rule.fired)
				return
			}
			continue
		case rule != nil && rule.action == HoldReply:
			if kept = append(kept, frame); !through {
				continue
			}
			if l.hold(rule) != nil {
				return
			}
		default:
			kept = [][]byte{frame}
		}
		for _, frame := range kept {
			_ = l.pass(l.client, frame)
		}
		kept = nil
		if through && rule != nil {
			l.settle(rule)
		}
	}
}

func (l *proxiedConn) answered(kind byte) (rule *Rule, through bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.talk.answer(kind)
}

func (l *proxiedConn) begin(r *Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = append(l.begun, r)
}

func (l *proxiedConn) settle(r *Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := slices.Index(l.begun, r); at >= 0 {
		l.begun = slices.Delete(l.begun, at, at+1)
		close(r.settled)
	}
}

// settleAll settles every rule at the end of the connection.
func (l *proxiedConn) settleAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.begun {
		close(r.settled)
	}
	l.begun = nil
}

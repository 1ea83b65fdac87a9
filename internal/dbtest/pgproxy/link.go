package pgproxy

import (
	"bufio"
	"io"
	"net"
	"slices"
	"sync"
)

// link is one client's connection and the one to the server that goes with it.
type link struct {
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

func newLink(p *Proxy, client net.Conn) *link {
	return &link{
		proxy: p, client: client, done: make(chan struct{}), known: newStatements(),
	}
}

// cut ends both connections. It may be called again.
func (l *link) cut() {
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

// run serves the link to its end.
func (l *link) run() {
	defer l.settleAll()
	defer l.cut()
	from := bufio.NewReader(l.client)
	startup, err := l.startup(from)
	if err != nil {
		return
	}
	server, err := net.Dial(l.proxy.network, l.proxy.address)
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

func (l *link) connected(server net.Conn) bool {
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
func (l *link) startup(from io.Reader) ([]byte, error) {
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
func (l *link) pass(to io.Writer, b []byte) error {
	select {
	case <-l.done:
		return net.ErrClosed
	case <-l.proxy.health():
	}
	_, err := to.Write(b)
	return err
}

// up carries messages to the server until the client ends or a rule cuts.
func (l *link) up(from io.Reader) {
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
func (l *link) ask(frame []byte, rule *Rule) error {
	if asks(frame[0]) {
		l.mu.Lock()
		l.talk.ask(frame[0], rule)
		l.mu.Unlock()
	}
	return l.pass(l.server, frame)
}

func (l *link) act(r *Rule, frame []byte) error {
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

func (l *link) hold(r *Rule) error {
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
func (l *link) down() {
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

func (l *link) answered(kind byte) (rule *Rule, through bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.talk.answer(kind)
}

func (l *link) begin(r *Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = append(l.begun, r)
}

func (l *link) settle(r *Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := slices.Index(l.begun, r); at >= 0 {
		l.begun = slices.Delete(l.begun, at, at+1)
		close(r.settled)
	}
}

// settleAll is for the end of the connection: nothing more comes of any rule.
func (l *link) settleAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.begun {
		close(r.settled)
	}
	l.begun = nil
}

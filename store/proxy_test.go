package store

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// proxy stands between a store and the server and knows PostgreSQL's messages. A test gives it a rule that looks at each message on its way.
type proxy struct {
	t        testing.TB
	listener net.Listener
	upstream string
	serving  sync.WaitGroup

	mu    sync.Mutex
	rule  func(m message) verdict
	conns map[net.Conn]bool
	down  bool
}

// message is one message with its frame. The first of a connection has no kind.
type message struct {
	fromServer bool
	kind       byte
	frame      []byte
}

// verdict is what a proxy does with a message.
type verdict int

const (
	pass  verdict = iota
	cut           // both connections end at once; the message is lost
	tear          // some bytes of the message go through, and then both connections end
	stall         // this message and all after it in its direction stay; the connections stay open
)

func (k *kit) proxy() *proxy {
	k.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	k.must(err)
	p := &proxy{t: k.t, listener: l, upstream: k.db.TCPAddr(), conns: map[net.Conn]bool{}}
	p.serving.Go(p.serve)
	k.t.Cleanup(func() {
		l.Close()
		p.shut()
		p.serving.Wait()
	})
	return p
}

// url leads through the proxy.
func (p *proxy) url(k *kit) string { return k.db.Through(p.listener.Addr().String()) }

// on sets the rule; nil lets everything pass.
func (p *proxy) on(rule func(m message) verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// shut ends all connections. Those that come are refused until open.
func (p *proxy) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.upstream)
		if err != nil || !p.admit(client, server) {
			client.Close()
			if server != nil {
				server.Close()
			}
			continue
		}
		end := func() { client.Close(); server.Close() }
		p.serving.Go(func() { p.pump(client, server, false, end) })
		p.serving.Go(func() { p.pump(server, client, true, end) })
	}
}

func (p *proxy) admit(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if !p.down {
			p.conns[c] = true
		}
	}
	return !p.down
}

func (p *proxy) pump(from, to net.Conn, fromServer bool, end func()) {
	defer end()
	started := fromServer // a server's messages all have a kind
	for {
		m, err := readMessage(from, started)
		if err != nil {
			return
		}
		started, m.fromServer = true, fromServer
		p.mu.Lock()
		rule := p.rule
		p.mu.Unlock()
		v := pass
		if rule != nil {
			v = rule(m)
		}
		switch v {
		case cut:
			return
		case tear:
			_, _ = to.Write(m.frame[:min(10, len(m.frame))])
			return
		case stall:
			_, _ = io.Copy(io.Discard, from) // until somebody closes it
			return
		}
		if _, err := to.Write(m.frame); err != nil {
			return
		}
	}
}

func readMessage(from io.Reader, hasKind bool) (m message, err error) {
	header := make([]byte, 4)
	if hasKind {
		header = make([]byte, 5)
	}
	if _, err := io.ReadFull(from, header); err != nil {
		return m, err
	}
	length := binary.BigEndian.Uint32(header[len(header)-4:])
	m.frame = append(header, make([]byte, length-4)...)
	if hasKind {
		m.kind = header[0]
	}
	_, err = io.ReadFull(from, m.frame[len(header):])
	return m, err
}

// carries tells whether a message is the Bind of a fenced statement that carries these bytes.
func (m message) carries(b []byte) bool {
	return !m.fromServer && m.kind == 'B' && bytes.Contains(m.frame, b)
}

// Package pgproxy stands between PostgreSQL clients and their server, and breaks
// the line where a test wants it broken.
//
// It reads the wire protocol message by message, so it can lose exactly the answer to a COMMIT, or
// freeze a client between two messages of one statement. After these faults a client does not know
// the outcome, and no tool that sees only bytes can inject them.
//
//	proxy, err := pgproxy.Start(server.URL("postgres"))
//	lost := proxy.On(pgproxy.Commit, pgproxy.LoseReply)
//	err = tx.Commit(ctx) // through proxy.URL(): fails, and is committed
//	<-lost.Fired()
//
// A rule of On works once, on the first message of any connection that it
// matches. BlackHole, Refuse and CutAll break all connections at once.
//
// Connections are not encrypted. Messages are known by the text of their
// statement, also when it was prepared earlier on the same connection.
package pgproxy

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	portName   = "5432" // names the socket: clients derive the one from the other
	socketFile = ".s.PGSQL." + portName
)

// Proxy is a running proxy. Its methods are safe for concurrent use.
type Proxy struct {
	upstream string // URL
	dir      string
	listener net.Listener

	mu      sync.Mutex
	network string // of the server
	address string
	links   map[*proxiedConn]struct{}
	rules   []*Rule
	refuse  bool
	healthy chan struct{} // closed unless there is a black hole
	closed  bool
	wg      sync.WaitGroup
}

// Start starts a proxy for the server at a URL. It listens on a socket in a
// private folder.
func Start(upstream string) (*Proxy, error) {
	p, err := start(upstream)
	if err != nil {
		return nil, fmt.Errorf("pgproxy: start: %w", err)
	}
	return p, nil
}

func start(upstream string) (*Proxy, error) {
	p := &Proxy{upstream: upstream, links: map[*proxiedConn]struct{}{},
		healthy: make(chan struct{})}
	close(p.healthy)
	var err error
	if p.network, p.address, err = addressOf(upstream); err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "pgproxy-"); err != nil {
		return nil, err
	}
	if p.listener, err = net.Listen("unix", filepath.Join(p.dir, socketFile)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	p.wg.Go(p.accept)
	return p, nil
}

func addressOf(server string) (network, address string, err error) {
	cfg, err := pgconn.ParseConfig(server)
	if err != nil {
		return "", "", errors.New(
			"the server's URL cannot be parsed") // the error may quote its password
	}
	network, address = pgconn.NetworkAddress(cfg.Host, cfg.Port)
	return network, address, nil
}

// Redirect leads new connections to the server of another URL, and cuts the existing ones.
func (p *Proxy) Redirect(server string) error {
	network, address, err := addressOf(server)
	if err != nil {
		return fmt.Errorf("pgproxy: redirect: %w", err)
	}
	p.mu.Lock()
	p.network, p.address = network, address
	p.mu.Unlock()
	p.CutAll()
	return nil
}

func (p *Proxy) target() (network, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.network, p.address
}

// URL is the server's URL, led through the proxy.
func (p *Proxy) URL() string { return p.Through(p.upstream) }

// Through leads another URL of the same server through the proxy. Its database,
// user, password and settings stay.
func (p *Proxy) Through(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	q := u.Query()
	q.Set("host", p.dir)
	q.Set("port", portName)
	q.Set("sslmode", "disable")
	u.Host, u.RawQuery = "", q.Encode()
	return u.String()
}

// Close ends the proxy and all its connections. It may be called again.
func (p *Proxy) Close() error {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.mu.Unlock()
	if again {
		p.wg.Wait()
		return nil
	}
	err := p.listener.Close()
	p.CutAll()
	p.wg.Wait()
	return errors.Join(err, os.RemoveAll(p.dir))
}

// CutAll cuts all connections that there are. New ones are welcome.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// BlackHole stops all bytes in both directions, on existing and new connections, until Heal. No
// connection is closed and no byte is lost.
func (p *Proxy) BlackHole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.healthy:
		p.healthy = make(chan struct{})
	default:
	}
}

// Refuse closes new connections at once, until Heal. Existing connections stay open.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = true
}

// Heal ends BlackHole and Refuse. Rules stay.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = false
	select {
	case <-p.healthy:
	default:
		close(p.healthy)
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.admit(client)
	}
}

// admit starts a connection, unless the proxy refuses or has been closed meanwhile.
func (p *Proxy) admit(client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse || p.closed {
		client.Close()
		return
	}
	l := newProxiedConn(p, client)
	p.links[l] = struct{}{}
	p.wg.Go(func() {
		l.run()
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	})
}

// health is closed when bytes may pass.
func (p *Proxy) health() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.healthy
}

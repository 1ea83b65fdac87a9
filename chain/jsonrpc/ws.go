package jsonrpc

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/gorilla/websocket"
)

const (
	// pingInterval keeps intermediaries from closing idle connections.
	pingInterval = 30 * time.Second
	// readTimeout is how long the peer may be silent, pongs included, before the connection counts
	// as dead.
	readTimeout = 2 * pingInterval
	// closeTimeout limits the writing of the close frame.
	closeTimeout = time.Second
	// maxHandshake bounds the bytes that are read until the WebSocket is open, TLS included.
	maxHandshake = 256 << 10
)

// wsTransport is one WebSocket connection. It never reconnects: the caller verifies every
// connection. Its deadlines use the system clock.
type wsTransport struct {
	conn    *websocket.Conn
	timeout time.Duration // to write one message
	skip    map[string]bool
	maxWire int64
	clock   clock.Real
	over    chan struct{} // closed at the end of the connection
	end     sync.Once

	writing sync.Mutex

	mu      sync.Mutex
	waiting map[string]*pending // by the id of each call
	notify  map[string]func()   // by subscription
	reason  error               // why the connection ended; nil while it lives
	// a call was given up: an error without an id may be the response to it
	givenUp bool
}

// pending is a request whose responses are awaited.
type pending struct {
	*request
	done  chan struct{} // closed when it is complete
	found []response
	err   error
}

// DialWS opens a WebSocket. timeout limits the writing of one message. A user name and password in
// the address are sent in the Authorization header.
func DialWS(ctx context.Context, address string, timeout time.Duration,
	o Options) (*Client, error) {
	plain, header, err := withoutUser(address)
	if err != nil {
		return nil, err
	}
	var bounded handshakeConn
	dialer := websocket.Dialer{Proxy: http.ProxyFromEnvironment, NetDialContext: bounded.dial}
	conn, resp, err := dialer.DialContext(ctx, plain, header)
	if err != nil && bounded.Conn != nil && bounded.left <= 0 {
		return nil, &TooLargeError{maxHandshake}
	}
	if err != nil && resp != nil {
		return nil, &HandshakeError{err, resp.StatusCode}
	}
	if err != nil {
		return nil, err
	}
	bounded.open.Store(true)
	t := &wsTransport{
		conn: conn, timeout: timeout, skip: o.Skip, maxWire: o.MaxWire, over: make(chan struct{}),
		waiting: map[string]*pending{}, notify: map[string]func(){},
	}
	conn.SetReadLimit(o.MaxWire)
	t.extendDeadline()
	conn.SetPongHandler(func(string) error { t.extendDeadline(); return nil })
	go t.read()
	go t.ping()
	return &Client{o: o, t: t}, nil
}

// handshakeConn bounds what is read of a connection before it is open: the WebSocket library
// accepts response headers of any length.
type handshakeConn struct {
	net.Conn
	left int64 // bytes, until it is open
	open atomic.Bool
}

func (c *handshakeConn) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.Conn, c.left = conn, maxHandshake
	return c, nil
}

// Read implements net.Conn.
func (c *handshakeConn) Read(p []byte) (int, error) {
	if c.open.Load() {
		return c.Conn.Read(p)
	}
	if c.left <= 0 {
		return 0, &TooLargeError{maxHandshake}
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// withoutUser moves user name and password from the address to a header.
func withoutUser(address string) (plain string, header http.Header, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", nil, err
	}
	header = http.Header{}
	if u.User != nil {
		password, _ := u.User.Password()
		header.Set("Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
		u.User = nil
	}
	return u.String(), header, nil
}

// Done is closed when the WebSocket has ended; it is nil over HTTP.
func (c *Client) Done() <-chan struct{} {
	if t, ok := c.t.(*wsTransport); ok {
		return t.over
	}
	return nil
}

func (t *wsTransport) roundTrip(ctx context.Context, r *request) ([]response, error) {
	p := &pending{request: r, done: make(chan struct{})}
	if err := t.add(p); err != nil {
		return nil, err
	}
	defer t.remove(p)
	if err := t.write(r.body); err != nil {
		return nil, err
	}
	select {
	case <-p.done:
		return p.found, p.err
	case <-ctx.Done():
		t.mu.Lock()
		t.givenUp = true
		t.mu.Unlock()
		return nil, ctx.Err()
	}
}

func (t *wsTransport) add(p *pending) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reason != nil {
		return t.reason
	}
	for _, id := range p.ids {
		t.waiting[id] = p
	}
	return nil
}

func (t *wsTransport) remove(p *pending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range p.ids {
		delete(t.waiting, id)
	}
}

func (t *wsTransport) write(body []byte) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	err := t.conn.SetWriteDeadline(t.clock.Now().Add(t.timeout))
	if err == nil {
		err = t.conn.WriteMessage(websocket.TextMessage, body)
	}
	if err != nil {
		t.fail(ErrClosed)
		return ErrClosed
	}
	return nil
}

// read delivers the messages until the connection ends. After a message that is not JSON-RPC the
// responses can no longer be separated, so it ends the connection.
func (t *wsTransport) read() {
	for {
		_, from, err := t.conn.NextReader()
		if err != nil {
			t.fail(ErrClosed)
			return
		}
		t.extendDeadline()
		if err := t.deliver(from); err != nil {
			t.fail(err)
			return
		}
	}
}

// deliver reads one message and passes it to the request that awaits it, or to subscriptions.
// Responses to calls that were given up are skipped.
func (t *wsTransport) deliver(from io.Reader) error {
	var found []response
	alone, err := parse(from, t.maxWire, t.maxKept(), t.skip, math.MaxInt, func(m message) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if notify := t.notify[m.subscription]; notify != nil {
			notify()
			return
		}
		if len(found) >= len(t.waiting)+maxUnknown {
			return // the message repeats ids
		}
		refused := m.id == "" && m.err != nil && len(found) < maxUnknown
		if refused || t.waiting[m.id] != nil {
			found = append(found, m.response)
		}
	})
	var tooLarge *TooLargeError
	switch {
	case errors.Is(err, websocket.ErrReadLimit):
		return &TooLargeError{t.maxWire}
	case errors.As(err, &tooLarge), errors.Is(err, ErrMalformed):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ErrMalformed // the message ended within a value, the connection did not
	case err != nil:
		return ErrClosed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resolve(found, alone)
	return nil
}

// maxKept returns the largest limit of the requests that wait.
func (t *wsTransport) maxKept() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := int64(maxID)
	for _, p := range t.waiting {
		kept = max(kept, p.kept)
	}
	return kept
}

// resolve completes the request that the responses belong to. The caller holds t.mu.
func (t *wsTransport) resolve(found []response, alone bool) {
	p := t.requestOf(found)
	if p == nil {
		for i := range found {
			if found[i].id == "" {
				t.failWaiting(&NoIDError{found[i].err})
				return
			}
		}
		return
	}
	switch {
	case p.batch:
		p.found, p.err = p.ofBatch(found, alone)
	case alone:
		p.found = found
	default:
		p.err = ErrMalformed
	}
	for _, id := range p.ids {
		delete(t.waiting, id)
	}
	close(p.done)
}

// requestOf finds the request by the ids of its responses. An error without an id belongs to the
// only request that waits, if there was no other.
func (t *wsTransport) requestOf(found []response) *pending {
	for i := range found {
		if p := t.waiting[found[i].id]; p != nil {
			return p
		}
	}
	var only *pending
	for _, p := range t.waiting {
		if only != nil && only != p || t.givenUp {
			return nil
		}
		only = p
	}
	for i := range found {
		if found[i].id == "" && found[i].err != nil {
			return only
		}
	}
	return nil
}

// extendDeadline postpones the read timeout.
func (t *wsTransport) extendDeadline() {
	_ = t.conn.SetReadDeadline(t.clock.Now().Add(readTimeout))
}

// ping keeps the connection alive.
func (t *wsTransport) ping() {
	timer := t.clock.NewTimer(pingInterval)
	defer timer.Stop()
	for {
		select {
		case <-t.over:
			return
		case <-timer.C:
		}
		deadline := t.clock.Now().Add(t.timeout)
		if t.conn.WriteControl(websocket.PingMessage, nil, deadline) != nil {
			t.fail(ErrClosed)
		}
		timer.Reset(pingInterval)
	}
}

func (t *wsTransport) close() { t.fail(ErrClosed) }

// fail ends the connection, its reader, and every request that waits. It sends a close frame first.
func (t *wsTransport) fail(reason error) {
	t.end.Do(func() {
		t.mu.Lock()
		t.reason = ErrClosed
		t.failWaiting(reason)
		t.mu.Unlock()
		close(t.over)
		frame := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = t.conn.WriteControl(websocket.CloseMessage, frame, t.clock.Now().Add(closeTimeout))
		_ = t.conn.Close()
	})
}

// failWaiting ends every request that waits. The caller holds t.mu.
func (t *wsTransport) failWaiting(reason error) {
	for _, p := range t.waiting {
		if p.err == nil {
			p.err = reason
			close(p.done)
		}
	}
	clear(t.waiting)
}

// Subscription is a subscription over a WebSocket. It ends with its connection.
type Subscription struct {
	c  *Client
	t  *wsTransport
	id string
}

// ErrNoSubscriptions means that the transport has no notifications.
var ErrNoSubscriptions = errors.New("subscriptions need a WebSocket")

// Subscribe calls notify, which must not block, for each notification of a topic of eth_subscribe.
func (c *Client) Subscribe(ctx context.Context, topic string,
	notify func()) (*Subscription, error) {
	t, ok := c.t.(*wsTransport)
	if !ok {
		return nil, ErrNoSubscriptions
	}
	s := &Subscription{c: c, t: t}
	if err := c.Call(ctx, &s.id, "eth_subscribe", topic); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notify[s.id] = notify
	return s, nil
}

// Done is closed when the connection has ended.
func (s *Subscription) Done() <-chan struct{} { return s.t.over }

// Unsubscribe ends the subscription. ctx limits the wait for the server's confirmation.
func (s *Subscription) Unsubscribe(ctx context.Context) {
	s.t.mu.Lock()
	delete(s.t.notify, s.id)
	s.t.mu.Unlock()
	_ = s.c.Call(ctx, nil, "eth_unsubscribe", s.id) // no notification is delivered anyway
}

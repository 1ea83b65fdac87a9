package chain

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/gorilla/websocket"
)

const (
	// wsPingInterval keeps intermediaries from closing idle connections.
	wsPingInterval = 30 * time.Second
	// wsReadTimeout is how long the peer may be silent, pongs included, before the connection
	// counts as dead.
	wsReadTimeout = 2 * wsPingInterval
	// wsCloseGrace gives responses that arrived before the end time to reach their callers.
	// rpc.Client may forget a call whose connection ends while it is sent; without the grace its
	// caller would wait for the whole timeout.
	wsCloseGrace = 100 * time.Millisecond
)

// wsConn is a WebSocket under an rpc.Client. The library's own WebSocket does not expose messages;
// this one normalizes them as responseNormalizer does over HTTP. It never reconnects, because a new
// connection would not be verified.
//
// Connection deadlines use the system clock, whatever clock the client has.
type wsConn struct {
	conn          *websocket.Conn
	timeout       time.Duration // to write one message
	clock         clock.Real
	over          chan struct{} // closed at the end of the connection
	end           sync.Once
	waiting       context.Context // context of calls; ends wsCloseGrace after the connection
	cancelWaiting context.CancelFunc

	writing sync.Mutex
	rest    bytes.Reader // of the current message; read by one goroutine at a time
}

// dialWS opens a connection that is used until it breaks and never replaced implicitly. Call
// shutDown before closing the client, which waits for its reader.
func dialWS(ctx context.Context, address string, timeout time.Duration,
	maxAnswer int64) (client *rpc.Client, s *wsConn, err error) {
	plain, header, err := withoutUser(address)
	if err != nil {
		return nil, nil, err
	}
	dialer := websocket.Dialer{Proxy: http.ProxyFromEnvironment}
	conn, resp, err := dialer.DialContext(ctx, plain, header)
	if err != nil && resp != nil {
		return nil, nil, &handshakeError{err, resp.StatusCode}
	}
	if err != nil {
		return nil, nil, err
	}
	s = &wsConn{conn: conn, timeout: timeout, over: make(chan struct{})}
	s.waiting, s.cancelWaiting = context.WithCancel(context.Background())
	conn.SetReadLimit(maxAnswer)
	s.extendDeadline()
	conn.SetPongHandler(func(string) error { s.extendDeadline(); return nil })
	if client, err = rpc.DialIO(ctx, s, s); err != nil {
		s.shutDown()
		return nil, nil, err
	}
	go s.ping()
	return client, s, nil
}

// handshakeError is a handshake rejected with an HTTP status.
type handshakeError struct {
	err    error
	status int
}

func (e *handshakeError) Error() string {
	return fmt.Sprintf("%v (HTTP status %d)", e.err, e.status)
}
func (e *handshakeError) Unwrap() error { return e.err }

// withoutUser moves user name and password from the address to the Authorization header.
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

// Read returns the messages one after the other. A message that is not JSON ends the connection,
// because responses can no longer be separated.
func (s *wsConn) Read(p []byte) (int, error) {
	if s.rest.Len() == 0 {
		_, message, err := s.conn.ReadMessage()
		if err != nil {
			s.shutDown()
			return 0, errConnClosed
		}
		s.extendDeadline()
		if !json.Valid(message) {
			s.shutDown()
			return 0, json.Unmarshal(message, new(any))
		}
		s.rest.Reset(normalized(message))
	}
	return s.rest.Read(p)
}

// Write sends one message. rpc.Client writes each message in one call.
func (s *wsConn) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.isClosed() {
		return 0, errConnClosed
	}
	if err := s.conn.SetWriteDeadline(s.clock.Now().Add(s.timeout)); err != nil {
		return 0, errConnClosed
	}
	if err := s.conn.WriteMessage(websocket.TextMessage, p); err != nil {
		s.shutDown()
		return 0, errConnClosed
	}
	return len(p), nil
}

// extendDeadline postpones the read timeout.
func (s *wsConn) extendDeadline() { _ = s.conn.SetReadDeadline(s.clock.Now().Add(wsReadTimeout)) }

func (s *wsConn) isClosed() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// withConn returns a ctx that ends with the cause errConnClosed when the connection ends. Call done
// after the call.
func (s *wsConn) withConn(ctx context.Context) (up context.Context, done func()) {
	up, lose := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.waiting, func() { lose(errConnClosed) })
	return up, func() { stop(); lose(nil) }
}

// closeCause returns errConnClosed for a call that ended because of it.
func closeCause(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errConnClosed) {
		return errConnClosed
	}
	return err
}

// ping keeps the connection alive. At the end of the connection it cancels the waiting calls.
func (s *wsConn) ping() {
	timer := s.clock.NewTimer(wsPingInterval)
	defer timer.Stop()
	for {
		select {
		case <-s.over:
			timer.Reset(wsCloseGrace)
			<-timer.C
			s.cancelWaiting()
			return
		case <-timer.C:
		}
		if s.conn.WriteControl(websocket.PingMessage, nil, s.clock.Now().Add(s.timeout)) != nil {
			s.shutDown()
		}
		timer.Reset(wsPingInterval)
	}
}

// shutDown ends the connection and its reader. It sends a close frame first, within a second.
func (s *wsConn) shutDown() {
	s.end.Do(func() {
		close(s.over)
		closeFrame := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = s.conn.WriteControl(websocket.CloseMessage, closeFrame, s.clock.Now().Add(time.Second))
		_ = s.conn.Close()
	})
}

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
	// wsPingInterval is the time between two pings. They keep a connection without calls from being cut by what is in between.
	wsPingInterval = 30 * time.Second
	// wsReadTimeout is how long the other side may be silent, pongs included, before the connection is taken to be dead.
	wsReadTimeout = 2 * wsPingInterval
	// wsCloseGrace is the time that answers which came before the end have to reach their callers. The library may forget a call whose connection ends while
	// it is sent; whoever is without an answer then would wait for its whole timeout.
	wsCloseGrace = 100 * time.Millisecond
)

// wsConn is a WebSocket under an rpc.Client. The library has one of its own, which hands messages to nobody before it reads them: this one mends each as
// responseNormalizer does over HTTP. What broke stays broken: whoever answered on another connection would not have been verified.
//
// Deadlines of a connection are the machine's, so they go by its clock whatever the client's is.
type wsConn struct {
	conn          *websocket.Conn
	timeout       time.Duration // for one message to leave
	clock         clock.Real
	over          chan struct{} // closed when it is
	end           sync.Once
	waiting       context.Context // of calls; it ends wsCloseGrace after the connection did
	cancelWaiting context.CancelFunc

	writing sync.Mutex
	rest    bytes.Reader // of the message that is being read; one goroutine reads at a time
}

// dialWS opens a connection that is used until it breaks and never replaced behind our back. The socket's shutDown ends it, and has to come before the client is
// closed, which waits for its reader.
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

// handshakeError is a handshake that the server refused with an HTTP status.
type handshakeError struct {
	err    error
	status int
}

func (e *handshakeError) Error() string {
	return fmt.Sprintf("%v (HTTP status %d)", e.err, e.status)
}
func (e *handshakeError) Unwrap() error { return e.err }

// withoutUser moves name and password from an address to where a handshake has them.
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

// Read gives the library one message after the other. One that is no JSON ends the connection: nothing says where the next answer begins.
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

// Write sends one message; the library writes each whole.
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

// extendDeadline puts off when the connection is taken to be dead.
func (s *wsConn) extendDeadline() { _ = s.conn.SetReadDeadline(s.clock.Now().Add(wsReadTimeout)) }

func (s *wsConn) isClosed() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// withConn is ctx that ends with the cause errConnClosed when the connection is over. done is to be called after the call.
func (s *wsConn) withConn(ctx context.Context) (up context.Context, done func()) {
	up, lose := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.waiting, func() { lose(errConnClosed) })
	return up, func() { stop(); lose(nil) }
}

// closeCause is errConnClosed in place of what a call says that ended by it.
func closeCause(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errConnClosed) {
		return errConnClosed
	}
	return err
}

// ping keeps the connection alive; when it is over, ping ends the waiting for answers.
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

// shutDown ends the connection, and with it whoever reads from it. It says good-bye, which a connection that is dead does not hold up for long.
func (s *wsConn) shutDown() {
	s.end.Do(func() {
		close(s.over)
		closeFrame := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = s.conn.WriteControl(websocket.CloseMessage, closeFrame, s.clock.Now().Add(time.Second))
		_ = s.conn.Close()
	})
}

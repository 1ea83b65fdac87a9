package jsonrpc

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

func TestDialWS_EndlessHeaders_Rejected(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, err = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n"))
		line := bytes.Repeat([]byte("X-Filler: "+strings.Repeat("a", 1000)+"\r\n"), 64)
		for err == nil {
			_, err = conn.Write(line)
		}
	}()
	_, err = DialWS(t.Context(), "ws://"+l.Addr().String(), time.Second, Options{MaxWire: 1 << 20})
	var tooLarge *TooLargeError
	if !errors.As(err, &tooLarge) {
		t.Errorf("error %v, want a TooLargeError", err)
	}
}

const refusedWithoutID = `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"refused"}}`

// serveWS runs a WebSocket server that passes its connection to serve, and dials it.
func serveWS(t *testing.T, serve func(*websocket.Conn)) *Client {
	t.Helper()
	var upgrader websocket.Upgrader
	server := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			conn, err := upgrader.Upgrade(w, r, nil)
			if err != nil {
				return
			}
			defer conn.Close()
			serve(conn)
			for err == nil {
				_, _, err = conn.ReadMessage()
			}
		}))
	t.Cleanup(server.Close)
	c, err := DialWS(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), time.Second,
		Options{MaxWire: 1 << 20, Limit: func(string, []any) Limit {
			return Limit{Wire: 1 << 10, Kept: 1 << 10}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// An error without an id ends every call that waits, because one of them gets no response. It is
// the response of none, and the connection stays.
func TestWebSocket_ErrorWithoutID_EndsAllThatWait(t *testing.T) {
	t.Parallel()
	const callers = 3
	c := serveWS(t, func(conn *websocket.Conn) {
		for range callers {
			if _, _, err := conn.ReadMessage(); err != nil {
				return
			}
		}
		_ = conn.WriteMessage(websocket.TextMessage, []byte(refusedWithoutID))
		if _, _, err := conn.ReadMessage(); err == nil {
			_ = conn.WriteMessage(websocket.TextMessage,
				[]byte(`{"jsonrpc":"2.0","id":4,"result":"0x1"}`))
		}
	})
	errs := make(chan error)
	for range callers {
		go func() { errs <- c.Call(t.Context(), nil, "eth_blockNumber") }()
	}
	for range callers {
		var noID *NoIDError
		if err := <-errs; !errors.As(err, &noID) || noID.Err.Code != -32000 {
			t.Errorf("error %v, want a NoIDError", err)
		}
	}
	var result string
	if err := c.Call(t.Context(), &result, "eth_blockNumber"); err != nil || result != "0x1" {
		t.Errorf("the next call: %q, %v", result, err)
	}
}

// An error without an id is the response of the only call of a connection, but not if it may be
// that of a call that was given up.
func TestWebSocket_ErrorWithoutID_OneCall(t *testing.T) {
	t.Parallel()
	for name, givenUp := range map[string]bool{"first call": false, "after one given up": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			received := make(chan struct{}, 2)
			c := serveWS(t, func(conn *websocket.Conn) {
				if givenUp {
					_, _, _ = conn.ReadMessage()
					received <- struct{}{}
				}
				if _, _, err := conn.ReadMessage(); err == nil {
					_ = conn.WriteMessage(websocket.TextMessage, []byte(refusedWithoutID))
				}
			})
			if givenUp {
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-received; cancel() }()
				if err := c.Call(ctx, nil, "eth_blockNumber"); !errors.Is(err, context.Canceled) {
					t.Fatalf("error %v, want the call cancelled", err)
				}
			}
			err := c.Call(t.Context(), nil, "eth_blockNumber")
			var (
				noID    *NoIDError
				refused *Error
			)
			if errors.As(err, &noID) != givenUp || errors.As(err, &refused) == givenUp {
				t.Errorf("error %v", err)
			}
		})
	}
}

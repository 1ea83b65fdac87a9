package chain

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
)

// awaitBroken waits until the endpoint's WebSocket is known to be broken.
func awaitBroken(t *testing.T, e *endpoint) {
	t.Helper()
	await(t, "a dead connection", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.isBroken()
	})
}

// A broken WebSocket is replaced before the next call, whether it broke between calls or behind a
// late call, which alone is no reason to replace it.
func TestWebSocket_Broken_NoCallLost(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"between calls": false, "behind a late call": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			r := dial(t, nil, n.wsURL())
			r.mustHead(t)
			e := r.endpoints[0]
			if late {
				lateFault := &fault{class: txn.Ambiguous, late: true}
				e.recordHealth(t.Context(), lateFault, e.currentOutage())
			}
			n.stop()
			awaitBroken(t, e)
			n.listen(t)
			if late {
				r.clock.Advance(lastBackoff)
			}
			r.mustHead(t)
		})
	}
}

// A call whose connection breaks does not wait for its timeout, and the fault is a lost connection,
// not a late response.
func TestWebSocket_CallInFlight_EndsWithConnection(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(context.Context, *endpoint, *jsonrpc.Client) error{
		"call": func(ctx context.Context, _ *endpoint, client *jsonrpc.Client) error {
			return client.Call(ctx, nil, "eth_sendRawTransaction", "0x01")
		},
		"batch": func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
			return e.batchFault(ctx, client.Batch(ctx,
				[]jsonrpc.Call{{Method: "eth_sendRawTransaction", Args: []any{"0x01"}}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			taken, stopped := make(chan struct{}), make(chan struct{})
			n.set(func(n *fakeNode) {
				n.send = func(hexutil.Bytes) (common.Hash, error) {
					close(taken)
					<-stopped
					return common.Hash{}, nil
				}
			})
			r := dial(t, nil, n.wsURL())
			r.mustHead(t)
			r.o.Timeout = 10 * time.Second
			e := r.endpoints[0]
			go func() {
				<-taken
				n.http.CloseClientConnections()
				e.mu.Lock()
				client := e.client
				e.mu.Unlock()
				client.Close()
			}()
			f := e.call(t.Context(), func(ctx context.Context, client *jsonrpc.Client) error {
				return say(ctx, e, client)
			})
			close(stopped)
			if f == nil || f.late || f.class != txn.Ambiguous ||
				f.detail != describe(jsonrpc.ErrClosed) {
				t.Fatalf("%+v; want the connection lost, with the request perhaps taken", f)
			}
			r.clock.Advance(lastBackoff)
			r.mustHead(t)
		})
	}
}

// The failure of a call on the old connection does not affect the new one.
func TestWebSocket_OldFailure_NewUnaffected(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.wsURL())
	r.mustHead(t)
	e := r.endpoints[0]
	f := e.call(t.Context(), func(context.Context, *jsonrpc.Client) error {
		n.stop()
		awaitBroken(t, e)
		n.listen(t)
		r.mustHead(t)
		return jsonrpc.ErrClosed
	})
	if f == nil || f.detail != describe(jsonrpc.ErrClosed) {
		t.Errorf("%+v; want the connection lost", f)
	}
	if e.isUnhealthy() {
		t.Error("the new connection is taken to be ailing")
	}
	r.mustHead(t)
}

// Nothing is written to a connection that was dropped while a call waited for its slot.
func TestWebSocket_Detached_NothingSent(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.wsURL())
	r.mustHead(t)
	e := r.endpoints[0]
	client, f := e.ready(t.Context())
	if f != nil {
		t.Fatal(f)
	}
	e.close()
	f = e.do(t.Context(), client, time.Second, new(callInfo),
		func(context.Context, *jsonrpc.Client) error { return errors.New("it was called") })
	if f == nil || f.class != txn.Unavailable || f.detail != describe(jsonrpc.ErrClosed) {
		t.Errorf("%+v; want unavailable, as not a byte left", f)
	}
}

func TestWebSocket_RejectedHandshake_ReportsStatus(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.answerHTTP(http.StatusForbidden, nil, "secret-body")
	r := dial(t, nil, n.wsURL())
	_, err := r.endpoints[0].open(t.Context())
	refused := (*jsonrpc.HandshakeError)(nil)
	if !errors.As(err, &refused) || refused.Code != http.StatusForbidden {
		t.Fatalf("error %v, want a HandshakeError with status 403", err)
	}
	if got := describe(err); !strings.Contains(got, "HTTP 403") {
		t.Errorf("described as %q", got)
	}
}

// An error that does not name its call may be that of another: nothing is known about the bytes.
func TestWebSocket_ErrorWithoutID_NotAttributed(t *testing.T) {
	t.Parallel()
	r := dial(t, nil, newNode(t).wsURL())
	err := &jsonrpc.NoIDError{Err: &jsonrpc.Error{Code: -32000, Message: "nonce too low"}}
	for sent, want := range map[bool]txn.Class{true: txn.Ambiguous, false: txn.Unavailable} {
		var n callInfo
		n.mayHaveLeft.Store(sent)
		if f := r.endpoints[0].faultOf(err, &n); f.class != want || f.answered {
			t.Errorf("sent %v: %+v, want %s", sent, f, want)
		}
	}
}

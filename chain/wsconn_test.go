package chain

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
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
func TestWSConn_Broken_NoCallLost(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"between calls": false, "behind a late call": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			r := dial(t, nil, n.wsURL())
			r.mustHead(t)
			e := r.endpoints[0]
			if late {
				e.recordHealth(t.Context(), &fault{class: txn.Ambiguous, late: true})
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

// The library may never end a call whose connection broke while it was sent. Its caller does not
// wait for the timeout, and the fault is a lost connection, not a late response.
func TestWSConn_ForgottenCall_EndsWithConnection(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(context.Context, *endpoint) error{
		"call": func(ctx context.Context, _ *endpoint) error { return ctx.Err() },
		"batch": func(ctx context.Context, e *endpoint) error {
			return e.batchFault(ctx, ctx.Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			r := dial(t, nil, n.wsURL())
			r.mustHead(t)
			r.o.Timeout = 10 * time.Second
			e := r.endpoints[0]
			f := e.call(t.Context(), func(ctx context.Context, _ *rpc.Client) error {
				n.stop()
				<-ctx.Done()
				return say(ctx, e)
			})
			if f == nil || f.late || f.class != txn.Ambiguous ||
				f.detail != describe(errConnClosed) {
				t.Fatalf("%+v; want the connection lost, with the request perhaps taken", f)
			}
			n.listen(t)
			r.clock.Advance(lastBackoff)
			r.mustHead(t)
		})
	}
}

// The failure of a call on the old connection does not affect the new one.
func TestWSConn_OldFailure_NewUnaffected(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.wsURL())
	r.mustHead(t)
	e := r.endpoints[0]
	f := e.call(t.Context(), func(context.Context, *rpc.Client) error {
		n.stop()
		awaitBroken(t, e)
		n.listen(t)
		r.mustHead(t)
		return errConnClosed
	})
	if f == nil || f.detail != describe(errConnClosed) {
		t.Errorf("%+v; want the connection lost", f)
	}
	if e.isUnhealthy() {
		t.Error("the new connection is taken to be ailing")
	}
	r.mustHead(t)
}

// Nothing is written to a connection that was dropped while a call waited for its slot.
func TestWSConn_Detached_NothingSent(t *testing.T) {
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
		func(context.Context, *rpc.Client) error { return errors.New("it was called") })
	if f == nil || f.class != txn.Unavailable || f.detail != describe(errConnClosed) {
		t.Errorf("%+v; want unavailable, as not a byte left", f)
	}
}

func TestDialWS_RejectedHandshake_ReportsStatus(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.answerHTTP(http.StatusForbidden, nil, "secret-body")
	_, _, err := dialWS(t.Context(), n.wsURL(), time.Second, maxAnswer)
	refused := (*handshakeError)(nil)
	if !errors.As(err, &refused) || refused.status != http.StatusForbidden {
		t.Fatalf("error %v, want a handshakeError with status 403", err)
	}
	if got := describe(err); !strings.Contains(got, "HTTP 403") {
		t.Errorf("described as %q", got)
	}
}

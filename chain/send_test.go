package chain

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
)

var signed = txn.Signed{Hash: common.HexToHash("0x5e"), Raw: []byte{0x02, 0xab}}

func accept(hexutil.Bytes) (common.Hash, error) { return signed.Hash, nil }

func says(code int, msg string) func(hexutil.Bytes) (common.Hash, error) {
	return func(hexutil.Bytes) (common.Hash, error) {
		return common.Hash{}, coded{code: code, msg: msg}
	}
}

func TestSend(t *testing.T) {
	t.Parallel()
	body := func(status int, body string) func(*fakeNode) {
		return func(n *fakeNode) {
			n.onSend(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				_, _ = w.Write([]byte(body))
			})
		}
	}
	response := func(send func(hexutil.Bytes) (common.Hash, error)) func(*fakeNode) {
		return func(n *fakeNode) { n.set(func(n *fakeNode) { n.send = send }) }
	}
	for name, c := range map[string]struct {
		node func(*fakeNode)
		want txn.Class
	}{
		"accepted": {response(accept), txn.Accepted},
		"known":    {response(says(-32000, "already known")), txn.AlreadyKnown},
		"another hash": {
			response(
				func(hexutil.Bytes) (common.Hash, error) { return common.HexToHash("0xbad"), nil },
			),
			txn.Ambiguous,
		},
		"zero hash": {
			response(func(hexutil.Bytes) (common.Hash, error) { return common.Hash{}, nil }),
			txn.Ambiguous,
		},
		"null": {
			body(200, `{"jsonrpc":"2.0","id":1,"result":null}`),
			txn.Ambiguous,
		},
		"no result":      {body(200, `{"jsonrpc":"2.0","id":1}`), txn.Ambiguous},
		"not JSON":       {body(200, `<html>welcome</html>`), txn.Ambiguous},
		"half an answer": {body(200, `{"jsonrpc":"2.0","id":1,"res`), txn.Ambiguous},
		"empty":          {body(200, ``), txn.Ambiguous},
		"unknown words": {
			response(says(-32000, "the moon is in the wrong house")),
			txn.Ambiguous,
		},
		"500": {body(500, `Internal Server Error`), txn.Ambiguous},
		"502": {body(502, `<h1>502 Bad Gateway</h1>`), txn.Ambiguous},
		"503": {body(503, `Service Unavailable`), txn.Ambiguous},
		"504": {body(504, `upstream timed out`), txn.Ambiguous},
		"429": {body(429, ``), txn.RateLimited},
		"401": {body(401, ``), txn.Unauthorized},
		"302": {body(302, ``), txn.Unavailable},
		"nonce too low in a 400": {
			body(400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"nonce too low"}}`),
			txn.NonceTooLow,
		},
		"known in a 500": {
			body(500, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"already known"}}`),
			txn.AlreadyKnown,
		},
		"invalid in a 400": {
			body(
				400,
				`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"invalid sender"}}`,
			),
			txn.Invalid,
		},
		"invalid in a 500": {
			body(
				500,
				`{"jsonrpc":"2.0","id":1,`+
					`"error":{"code":-32000,"message":"intrinsic gas too low"}}`,
			),
			txn.Ambiguous,
		},
		"invalid in a 502": {
			body(
				502,
				`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"invalid sender"}}`,
			),
			txn.Ambiguous,
		},
		"wrong chain in a 503": {
			body(
				503,
				`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"invalid chain id"}}`,
			),
			txn.Ambiguous,
		},
		"reverts in a 500": {
			body(500, `{"jsonrpc":"2.0","id":1,"error":{"code":3,"message":"execution reverted"}}`),
			txn.Ambiguous,
		},
		"invalid page in a 504": {
			body(504, `<html>transaction type not supported</html>`),
			txn.Ambiguous,
		},
		"no funds in a 500": {
			body(
				500,
				`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"insufficient funds"}}`,
			),
			txn.InsufficientFunds,
		},
		"batch answer in a 429": {
			body(429, `[{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"limit"}}]`),
			txn.RateLimited,
		},
		"invalid": {
			response(says(-32000, "intrinsic gas too low: gas 20000, minimum needed 21000")),
			txn.Invalid,
		},
		"wrong chain": {
			response(
				says(-32000, "invalid sender: invalid chain id for signer: have 1 want 31337"),
			),
			txn.WrongChain,
		},
		"method is closed": {
			response(
				says(-32601, "the method eth_sendRawTransaction does not exist/is not available"),
			),
			txn.Unauthorized,
		},
		"node shuts down": {response(says(-32000, "server shutting down")), txn.Unavailable},
		"cut": {func(n *fakeNode) {
			n.onSend(func(w http.ResponseWriter, r *http.Request) { cutConnection(w, r) })
		}, txn.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			r := dial(t, nil, n.url())
			r.mustHead(t)
			c.node(n)
			o := r.Send(t.Context(), signed)
			if o.Class != c.want || (o.Detail == "") != (o.Class == txn.Accepted) {
				t.Errorf("%+v, want %s with a detail unless it was accepted", o, c.want)
			}
		})
	}
}

// The numbers in a response are in the outcome.
func TestSend_Rejection_ReturnsNumbers(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) { n.send = says(-32000, "nonce too low: next nonce 12, tx nonce 11") })
	o := dial(t, nil, n.url()).Send(t.Context(), signed)
	if o.NonceExpected == nil || *o.NonceExpected != 12 || o.NonceGiven == nil ||
		*o.NonceGiven != 11 {
		t.Errorf("%+v", o)
	}
}

func TestSend_NoResponse_Ambiguous(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ws"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			entered, release := make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { close(release) })
			n.set(func(n *fakeNode) {
				n.send = func(hexutil.Bytes) (common.Hash, error) {
					close(entered)
					<-release
					return signed.Hash, nil
				}
			})
			r := dial(t, func(o *Options) { o.Timeout = time.Minute }, transport+"://"+n.addr)
			r.mustHead(t)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-entered
				cancel()
			}()
			if o := r.Send(ctx, signed); o.Class != txn.Ambiguous {
				t.Errorf("%+v; the node has the bytes", o)
			}
			// A caller that leaves says nothing about the endpoint.
			r.mustHead(t)
		})
	}
}

func TestSendTimeout(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	r := dial(t, func(o *Options) { o.Timeout = 100 * time.Millisecond }, n.url())
	r.mustHead(t)
	n.onSend(func(http.ResponseWriter, *http.Request) { <-release })
	if o := r.Send(t.Context(), signed); o.Class != txn.Ambiguous ||
		!strings.Contains(o.Detail, "timed out") {
		t.Errorf("%+v, want AMBIGUOUS", o)
	}
}

func TestSend_NoByteSent_Unavailable(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ws"} {
		for _, connected := range []bool{false, true} {
			n := newNode(t)
			r := dial(t, nil, transport+"://"+n.addr)
			if connected {
				r.mustHead(t)
				n.stop()
				r.Close() // idle connections are closed, so the send has to dial
			} else {
				n.stop()
			}
			if o := r.Send(t.Context(), signed); o.Class != txn.Unavailable {
				t.Errorf("%s, connected before %v: %+v; not a byte left, want UNAVAILABLE",
					transport, connected, o)
			}
			n.listen(t)
		}
	}
	t.Run("context over", func(t *testing.T) {
		t.Parallel()
		n := newNode(t)
		r := dial(t, nil, n.url())
		r.mustHead(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if o := r.Send(ctx, signed); o.Class != txn.Unavailable ||
			n.called("eth_sendRawTransaction") != 0 {
			t.Errorf("%+v", o)
		}
	})
}

func TestSend_Ambiguous_TriesNextEndpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		second func(hexutil.Bytes) (common.Hash, error)
		want   txn.Class
	}{
		"settled by acceptance":  {accept, txn.Accepted},
		"settled by known":       {says(-32000, "already known"), txn.AlreadyKnown},
		"settled by nonce":       {says(-32000, "nonce too low"), txn.NonceTooLow},
		"a refusal says nothing": {says(-32000, "intrinsic gas too low"), txn.Ambiguous},
		"no funds there says nothing": {
			says(-32000, "insufficient funds for gas * price + value"),
			txn.Ambiguous,
		},
		"unavailable says nothing": {says(-32000, "server shutting down"), txn.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := newNode(t), newNode(t)
			r := dial(t, nil, a.url(), b.url())
			r.mustHead(t)
			a.onSend(func(w http.ResponseWriter, r *http.Request) { cutConnection(w, r) })
			b.set(func(n *fakeNode) { n.send = c.second })
			if o := r.Send(t.Context(), signed); o.Class != c.want {
				t.Errorf("%+v, want %s", o, c.want)
			}
			if b.called("eth_sendRawTransaction") != 1 {
				t.Error("the second endpoint was not asked")
			}
		})
	}
}

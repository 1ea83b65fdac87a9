package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

func TestHealth_RejectedBytes_StaysHealthy(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	a.set(func(n *fakeNode) {
		n.send = func(hexutil.Bytes) (common.Hash, error) {
			return common.Hash{}, coded{
				code: -32000,
				msg:  "nonce too low: next nonce 12, tx nonce 11",
			}
		}
	})
	r := dial(t, nil, a.url(), b.url())
	for i := range 3 {
		o := r.Send(t.Context(), txn.Signed{Raw: []byte{1}})
		if o.Class != txn.NonceTooLow || a.called("eth_sendRawTransaction") != i+1 ||
			b.called("eth_sendRawTransaction") != 0 {
			t.Fatalf(
				"send %d: %+v, %d and %d calls; want NONCE_TOO_LOW of the first endpoint each time",
				i, o, a.called("eth_sendRawTransaction"), b.called("eth_sendRawTransaction"))
		}
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.url())
	r.mustHead(t)
	n.answerHTTP(http.StatusTooManyRequests, map[string]string{"Retry-After": "7"}, "slow down")
	if o := r.Send(t.Context(), txn.Signed{Raw: []byte{1}}); o.Class != txn.RateLimited ||
		o.RetryAfter != 7*time.Second {
		t.Fatalf("%+v; want RATE_LIMITED for 7 s", o)
	}
	n.set(func(n *fakeNode) { n.intercept = nil })
	before := n.called("eth_getBlockByNumber")
	r.clock.Advance(6 * time.Second)
	if _, err := r.Head(t.Context()); !errors.Is(err, txn.ErrUnavailable) ||
		n.called("eth_getBlockByNumber") != before {
		t.Errorf("asked within the time that the provider wants: %v, %d calls", err,
			n.called("eth_getBlockByNumber")-before)
	}
	if o := r.Send(t.Context(), txn.Signed{Raw: []byte{1}}); o.Class != txn.RateLimited ||
		o.RetryAfter != time.Second {
		t.Errorf("%+v; want RATE_LIMITED for the second that is left", o)
	}
	r.clock.Advance(time.Second)
	r.mustHead(t)
}

func TestRateLimit_HintInBody(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"one": `{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"limit",` +
			`"data":{"try_again_in":"3s"}}}`,
		"batch": `[{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"limit",` +
			`"data":{"try_again_in":"3s"}}}]`,
	} {
		n := newNode(t)
		r := dial(t, nil, n.url())
		r.mustHead(t)
		n.answerHTTP(http.StatusTooManyRequests, nil, body)
		if o := r.Send(t.Context(), signed); o.Class != txn.RateLimited ||
			o.RetryAfter != 3*time.Second ||
			o.Detail != "limit" {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// Signed bytes are sent to configured addresses only.
func TestRedirect_NotFollowed(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	r := dial(t, nil, a.url())
	r.mustHead(t)
	a.onSend(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, b.url(), http.StatusTemporaryRedirect)
	})
	if o := r.Send(t.Context(), signed); o.Class != txn.Unavailable ||
		b.called("eth_sendRawTransaction") != 0 {
		t.Errorf("%+v, and the other address got %d sends", o, b.called("eth_sendRawTransaction"))
	}
}

func TestResponse_Endless_Cut(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, func(o *Options) { o.Timeout, o.maxAnswer = 30*time.Second, 1<<20 }, n.url())
	r.mustHead(t)
	n.onSend(func(w http.ResponseWriter, _ *http.Request) {
		blank := bytes.Repeat([]byte{' '}, 1<<16)
		for { // until the client disconnects
			if _, err := w.Write(blank); err != nil {
				return
			}
		}
	})
	if o := r.Send(t.Context(), signed); o.Class != txn.Ambiguous ||
		!strings.Contains(o.Detail, "larger than") {
		t.Errorf("%+v", o)
	}
}

func TestRateLimit_TriesNext(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	hash := common.HexToHash("0x5e")
	a.set(func(n *fakeNode) {
		n.send = func(hexutil.Bytes) (common.Hash, error) {
			return common.Hash{}, coded{
				code: -32005,
				msg:  "daily request count exceeded",
				data: map[string]any{"rate": map[string]any{"backoff_seconds": 30}},
			}
		}
	})
	b.set(
		func(n *fakeNode) {
			n.send = func(hexutil.Bytes) (common.Hash, error) { return hash, nil }
		})
	r := dial(t, nil, a.url(), b.url())
	for range 2 {
		if o := r.Send(
			t.Context(),
			txn.Signed{Hash: hash, Raw: []byte{1}},
		); o.Class != txn.Accepted {
			t.Fatalf("%+v; the second endpoint would take it", o)
		}
	}
	if a.called("eth_sendRawTransaction") != 1 {
		t.Errorf("the limited endpoint was asked %d times", a.called("eth_sendRawTransaction"))
	}
}

func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, func(o *Options) { o.MaxInFlight = 1 }, n.url())
	r.mustHead(t)
	inside, release := make(chan struct{}, 2), make(chan struct{})
	n.onSend(func(w http.ResponseWriter, _ *http.Request) {
		inside <- struct{}{}
		<-release
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"nonce too low"}}`)
	})
	done := make(chan txn.Outcome, 2)
	go func() { done <- r.Send(t.Context(), signed) }()
	<-inside
	late, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if _, err := r.BlockByNumber(late, 1); !errors.Is(err, txn.ErrUnavailable) ||
		!strings.Contains(err.Error(), "concurrent calls") {
		t.Errorf("a call that waited for a slot in vain: %v", err)
	}
	go func() { done <- r.Send(t.Context(), signed) }()
	close(release)
	// the second starts when the first ends; a local limit is not a fault of the endpoint
	for range 2 {
		if o := <-done; o.Class != txn.NonceTooLow {
			t.Errorf("%+v", o)
		}
	}
	r.mustHead(t)
}

// No text that leaves the package contains a part of the address.
func TestErrors_Secrets_Hidden(t *testing.T) {
	t.Parallel()
	secrets := []string{"hunter2", "SeCrEtKeY0123456789", "queryToken987"}
	for name, breakIt := range map[string]func(*fakeNode){
		"down":     func(n *fakeNode) { n.stop() },
		"wrong id": func(n *fakeNode) { n.set(func(n *fakeNode) { n.chainID = 5 }) },
		"echo": func(n *fakeNode) {
			n.set(func(n *fakeNode) {
				n.intercept = func(w http.ResponseWriter, r *http.Request) bool {
					http.Error(
						w,
						fmt.Sprintf(
							"<h1>failed</h1> http://%s%s and %s%s for user:hunter2",
							r.Host,
							r.URL,
							r.Host,
							r.URL,
						),
						http.StatusInternalServerError,
					)
					return true
				}
			})
		},
		"echo in JSON": func(n *fakeNode) {
			n.set(func(n *fakeNode) {
				n.intercept = func(w http.ResponseWriter, r *http.Request) bool {
					w.WriteHeader(http.StatusForbidden)
					fmt.Fprintf(
						w,
						`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"key `+
							`SeCrEtKeY0123456789 at http://%s%s is not valid"}}`,
						r.Host,
						r.URL,
					)
					return true
				}
			})
		},
		"not JSON": func(n *fakeNode) { n.answerHTTP(200, nil, "<html>hello</html>") },
		"redirect": func(n *fakeNode) {
			n.answerHTTP(
				302,
				map[string]string{"Location": "http://127.0.0.1:1/SeCrEtKeY0123456789"},
				"",
			)
		},
		"connection cut": func(n *fakeNode) {
			n.set(func(n *fakeNode) { n.intercept = cutConnection })
		},
	} {
		for _, transport := range []string{"http", "ws"} {
			t.Run(name+" "+transport, func(t *testing.T) {
				t.Parallel()
				n := newNode(t)
				r := dial(t, nil,
					transport+"://user:hunter2@"+n.addr+
						"/v3/SeCrEtKeY0123456789?token=queryToken987")
				breakIt(n)
				_, headErr := r.Head(t.Context())
				if headErr == nil {
					t.Fatal("no error")
				}
				r.clock.Advance(time.Minute)
				o := r.Send(t.Context(), txn.Signed{Raw: []byte{1}})
				r.clock.Advance(time.Minute)
				_, quoted := r.Quote(t.Context(), txn.Draft{})
				r.clock.Advance(time.Minute)
				receipt := r.Receipts(t.Context(), []txn.Hash{{1}})[0].Err
				text := fmt.Sprint(headErr, o.Detail, quoted.Detail, receipt, r.Verify(t.Context()),
					r.log)
				for _, secret := range append(secrets, n.addr) {
					if strings.Contains(text, secret) {
						t.Errorf("%q is not hidden: %s", secret, text)
					}
				}
				if name == "down" {
					n.listen(t)
				}
			})
		}
	}
}

// A body is cut at outcome.TextLimit, where half a secret must not remain.
func TestErrors_SecretAtCut_Hidden(t *testing.T) {
	t.Parallel()
	const secret = "SeCrEtKeY0123456789"
	address := "http://127.0.0.1:1/v3/" + secret
	for kept := 1; kept < len(secret); kept++ {
		padding := strings.Repeat("<b></b>\n", outcome.TextLimit)
		body := padding[len(padding)-outcome.TextLimit+kept:] + secret
		f := httpFault(&jsonrpc.HTTPError{Code: 500, Status: "500", Body: []byte(body)}, 0,
			redactorFor(address))
		if strings.Contains(f.detail, secret[:4]) {
			t.Errorf("%d bytes of the secret remain: %q", kept, f.detail)
		}
	}
}

// Some servers put the text of an error into its data.
func TestErrors_SecretInData_Hidden(t *testing.T) {
	t.Parallel()
	f := refusal(&jsonrpc.Error{
		Code: 3, Message: "execution reverted",
		Data: []byte(`{"message":"user hunter2 denied","details":["path /v3/key4711"]}`),
	}, 0, redactorFor("http://hunter2@127.0.0.1:1/v3/key4711"))
	if strings.Contains(f.detail, "hunter2") || strings.Contains(f.detail, "key4711") {
		t.Errorf("a secret remains: %q", f.detail)
	}
}

// cutConnection closes the connection without a response.
func cutConnection(w http.ResponseWriter, _ *http.Request) bool {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
	return true
}

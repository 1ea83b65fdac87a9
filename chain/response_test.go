package chain

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/txn"
	"github.com/gorilla/websocket"
)

// answering rewrites the node's responses over HTTP and WebSocket. Subscriptions get no
// notifications.
func (n *fakeNode) answering(rewrite func(asked, response []byte) []byte) {
	response := func(asked []byte) []byte {
		to := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(asked))
		r.Header.Set("Content-Type", "application/json")
		n.rpc.ServeHTTP(to, r)
		return rewrite(asked, to.Body.Bytes())
	}
	n.set(func(n *fakeNode) {
		n.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			if !websocket.IsWebSocketUpgrade(r) {
				_, _ = w.Write(response([]byte(readBody(r))))
				return true
			}
			conn, err := new(websocket.Upgrader).Upgrade(w, r, nil)
			if err != nil {
				return true
			}
			defer conn.Close()
			for {
				_, asked, err := conn.ReadMessage()
				if err != nil || conn.WriteMessage(websocket.TextMessage, response(asked)) != nil {
					return true
				}
			}
		}
	})
}

// onTransports runs a test over each transport.
func onTransports(t *testing.T, test func(t *testing.T, transport string)) {
	t.Parallel()
	for _, transport := range []string{"http", "ws"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			test(t, transport)
		})
	}
}

// Nodes that return "error": null next to every result work like others, in single calls and
// batches.
func TestResponse_NullError_Ignored(t *testing.T) {
	onTransports(t, func(t *testing.T, transport string) {
		n := newNode(t)
		n.set(func(n *fakeNode) { n.send = accept })
		n.answering(func(_, response []byte) []byte {
			return bytes.ReplaceAll(response, []byte(`"result":`),
				[]byte(`"error" : null, "result":`))
		})
		r := dial(t, nil, transport+"://"+n.addr)
		r.mustHead(t)
		if o := r.Send(t.Context(), signed); o.Class != txn.Accepted {
			t.Errorf("%+v, want ACCEPTED", o)
		}
		for _, a := range r.Receipts(t.Context(), []txn.Hash{{1}, {2}}) {
			if a.Err != nil {
				t.Error(a.Err)
			}
		}
	})
}

// The hash of the bytes next to an error means that they may have been accepted, whatever the
// error.
func TestResponse_HashNextToError(t *testing.T) {
	onTransports(t, func(t *testing.T, transport string) {
		response := func(result, message string) string {
			return `{"jsonrpc":"2.0","id":ID,"result":` + result +
				`,"error":{"code":-32000,"message":"` + message + `"}}`
		}
		ours := `"` + signed.Hash.Hex() + `"`
		for name, c := range map[string]struct {
			body string
			want txn.Class
		}{
			"refused for good": {response(ours, "intrinsic gas too low"), txn.Ambiguous},
			"refused for now":  {response(ours, "txpool is full"), txn.Ambiguous},
			"not looked at":    {response(ours, "node is not synced"), txn.Ambiguous},
			"known":            {response(ours, "already known"), txn.AlreadyKnown},
			"outbid": {
				response(ours, "replacement transaction underpriced"),
				txn.ReplacementUnderpriced,
			},
			"another hash": {response(`"`+txn.Hash{7}.Hex()+
				`"`, "intrinsic gas too low"), txn.Invalid},
			"null":    {response(`null`, "intrinsic gas too low"), txn.Invalid},
			"no hash": {response(`{"hash":1}`, "intrinsic gas too low"), txn.Invalid},
			"null error": {`{"jsonrpc":"2.0","id":ID,"result":` + ours +
				`,"error":null}`, txn.Accepted},
			"null error, spaced": {
				"\n {\"error\" :\tnull , \"jsonrpc\":\"2.0\",\"id\":ID,\"result\":" + ours + "}",
				txn.Accepted,
			},
			"nothing but nulls": {
				`{"jsonrpc":"2.0","id":ID,"result":null,"error":null}`,
				txn.Ambiguous,
			},
			"broken": {`{"jsonrpc":"2.0","id":ID,"error":null,"result":"0x`, txn.Ambiguous},
			"with data": {`{"jsonrpc":"2.0","id":ID,"result":` + ours +
				`,"error":{"code":-32000,"message":"server error","data":"intrinsic gas too low"}}`,
				txn.Ambiguous},
			"an error that is a text": {`{"jsonrpc":"2.0","id":ID,"result":` + ours +
				`,"error":"no"}`, txn.Ambiguous},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				n := newNode(t)
				n.answering(func(asked, response []byte) []byte {
					if !bytes.Contains(asked, []byte("eth_sendRawTransaction")) {
						return response
					}
					var call struct{ ID json.RawMessage }
					if err := json.Unmarshal(asked, &call); err != nil {
						t.Error(err)
					}
					return []byte(strings.ReplaceAll(c.body, "ID", string(call.ID)))
				})
				r := dial(t, nil, transport+"://"+n.addr)
				r.mustHead(t)
				if o := r.Send(t.Context(), signed); o.Class != c.want ||
					(o.Detail == "") != (c.want == txn.Accepted) ||
					strings.Contains(o.Detail, "fencepost:") {
					t.Errorf("%+v, want %s", o, c.want)
				}
			})
		}
	})
}

// The same with an HTTP error status.
func TestResponse_HashNextToError_HTTP400(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.url())
	r.mustHead(t)
	overHTTP(400, nil,
		`{"jsonrpc":"2.0","id":1,"result":"`+signed.Hash.Hex()+
			`","error":{"code":-32000,"message":"invalid sender"}}`)(
		n,
	)
	if o := r.Send(t.Context(), signed); o.Class != txn.Ambiguous || o.Detail == "" {
		t.Errorf("%+v, want AMBIGUOUS", o)
	}
}

// User name and password of an address are sent in the handshake, as over HTTP.
func TestWebSocket_Password_SentAsHeader(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	var user, password string
	n.set(func(n *fakeNode) {
		n.intercept = func(_ http.ResponseWriter, r *http.Request) bool {
			user, password, _ = r.BasicAuth()
			return false
		}
	})
	r := dial(t, nil, "ws://me:a%2Fb@"+n.addr)
	r.mustHead(t)
	if user != "me" || password != "a/b" {
		t.Errorf("%q, %q", user, password)
	}
}

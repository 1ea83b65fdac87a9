package chain

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// Nodes that write "error": null beside every result are as good as others, for single calls and for batches.
func TestNullErrorIsNone(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.send = accept
		n.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			to := httptest.NewRecorder()
			n.rpc.ServeHTTP(to, r)
			answer := bytes.ReplaceAll(to.Body.Bytes(), []byte(`"result":`), []byte(`"error" : null, "result":`))
			_, _ = w.Write(answer)
			return true
		}
	})
	r := dial(t, nil, n.url())
	r.mustHead(t)
	if o := r.Send(t.Context(), signed); o.Class != txn.Accepted {
		t.Errorf("%+v, want ACCEPTED", o)
	}
	for _, a := range r.Receipts(t.Context(), []txn.Hash{{1}, {2}}) {
		if a.Err != nil {
			t.Error(a.Err)
		}
	}
}

// The hash of the bytes beside an error says that they may have been taken, whatever the error says.
func TestHashBesideAnError(t *testing.T) {
	t.Parallel()
	answer := func(result, message string) string {
		return `{"jsonrpc":"2.0","id":1,"result":` + result + `,"error":{"code":-32000,"message":"` + message + `"}}`
	}
	ours := `"` + signed.Hash.Hex() + `"`
	for name, c := range map[string]struct {
		status int
		body   string
		want   txn.Class
	}{
		"refused for good":   {200, answer(ours, "intrinsic gas too low"), txn.Ambiguous},
		"refused for now":    {200, answer(ours, "txpool is full"), txn.Ambiguous},
		"not looked at":      {200, answer(ours, "node is not synced"), txn.Ambiguous},
		"in a 400":           {400, answer(ours, "invalid sender"), txn.Ambiguous},
		"known":              {200, answer(ours, "already known"), txn.AlreadyKnown},
		"outbid":             {200, answer(ours, "replacement transaction underpriced"), txn.ReplacementUnderpriced},
		"another hash":       {200, answer(`"`+txn.Hash{7}.Hex()+`"`, "intrinsic gas too low"), txn.Invalid},
		"null":               {200, answer(`null`, "intrinsic gas too low"), txn.Invalid},
		"no hash":            {200, answer(`{"hash":1}`, "intrinsic gas too low"), txn.Invalid},
		"null error":         {200, `{"jsonrpc":"2.0","id":1,"result":` + ours + `,"error":null}`, txn.Accepted},
		"null error, spaced": {200, "\n {\"error\" :\tnull , \"jsonrpc\":\"2.0\",\"id\":1,\"result\":" + ours + "}", txn.Accepted},
		"nothing but nulls":  {200, `{"jsonrpc":"2.0","id":1,"result":null,"error":null}`, txn.Ambiguous},
		"broken":             {200, `{"jsonrpc":"2.0","id":1,"error":null,"result":"0x`, txn.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			r := dial(t, nil, n.url())
			r.mustHead(t)
			overHTTP(c.status, nil, c.body)(n)
			if o := r.Send(t.Context(), signed); o.Class != c.want || (o.Detail == "") != (c.want == txn.Accepted) {
				t.Errorf("%+v, want %s", o, c.want)
			}
		})
	}
}

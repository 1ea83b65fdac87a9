package e2e

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// invalidData is the data of a transaction that no chain behind lossyRPC accepts.
var invalidData = []byte("invalid")

// lossyRPC stands between a node and its chain, which does every call. One reply in twenty is lost,
// and transactions with invalidData arrive there without a valid signature. It returns its URL.
func lossyRPC(t *testing.T, chain string) string {
	t.Helper()
	to, err := url.Parse(chain)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(*http.Response) error {
			if rand.IntN(20) == 0 {
				return errors.New("lost")
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { hangUp(w) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			hangUp(w)
			return
		}
		body = invalidated(t, body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// invalidated returns a request without the signatures of transactions with invalidData.
func invalidated(t *testing.T, body []byte) []byte {
	for _, raw := range rawTransactions(body) {
		var tx types.Transaction
		if err := tx.UnmarshalBinary(raw); err != nil || !bytes.Equal(tx.Data(), invalidData) {
			continue
		}
		unsigned, err := types.NewTx(&types.DynamicFeeTx{
			ChainID: tx.ChainId(), Nonce: tx.Nonce(), To: tx.To(), Value: tx.Value(),
			Data: tx.Data(), Gas: tx.Gas(), GasFeeCap: tx.GasFeeCap(), GasTipCap: tx.GasTipCap(),
		}).MarshalBinary()
		if err != nil {
			t.Error(err)
			continue
		}
		body = bytes.ReplaceAll(body, []byte(hexutil.Encode(raw)), []byte(hexutil.Encode(unsigned)))
	}
	return body
}

package jsonrpc

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestCall_BodyWithoutEnd_ReturnsAtOnce(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"id":1,"result":"0x1"}`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	limit := Limit{Wire: 1 << 10, Kept: 1 << 10}
	c := NewHTTP(s.URL, s.Client(), Options{
		MaxWire: 1 << 20, Limit: func(string, []any) Limit { return limit },
	}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var result string
	if err := c.Call(ctx, &result, "eth_chainId"); err != nil || result != "0x1" ||
		ctx.Err() != nil {
		t.Errorf("%q, %v, %v", result, err, ctx.Err())
	}
}

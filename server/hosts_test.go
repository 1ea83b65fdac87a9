package server

import (
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// TestHost: over HTTP a node answers only under its own names. Native gRPC takes any authority, as
// web pages cannot use it, and proxies send their own.
func TestHost(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	leaf, _ := newAuthority(t).make(&x509.Certificate{DNSNames: []string{"*.node.test"}})
	n := h.serve(func(o *Options) {
		o.AllowedHosts = []string{"fencepost.test"}
		o.Certificate = func() *x509.Certificate { return leaf }
	})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	const method = pb.SubmitterService_ListSubmitters_FullMethodName
	for host, want := range map[string]int{
		"127.0.0.1": http.StatusOK, "localhost:9090": http.StatusOK, "[::1]:9090": http.StatusOK,
		"fencepost.test:9090": http.StatusOK, "a.node.test": http.StatusOK,
		"evil.example": http.StatusMisdirectedRequest,
		"node.test":    http.StatusMisdirectedRequest,
	} {
		for _, client := range []*http.Client{http.DefaultClient, {Transport: transport}} {
			for _, call := range [][3]string{
				{"GET", "/api/v1/submitters", ""},
				{"POST", method, "application/json"},
				{"POST", method, "application/grpc-web+proto"},
				{"OPTIONS", "/api/v1/submitters", ""},
				{"GET", "/", ""},
			} {
				body := ""
				if call[2] == "application/json" {
					body = "{}"
				}
				if strings.Contains(call[2], "grpc-web") {
					body = "\x00\x00\x00\x00\x00"
				}
				r, err := http.NewRequestWithContext(h.ctx, call[0],
					"http://"+n.conn.Target()+call[1], strings.NewReader(body))
				h.must(err)
				r.Host = host
				r.Header.Set("Content-Type", call[2])
				response, err := client.Do(r)
				h.must(err)
				text, err := io.ReadAll(response.Body)
				h.must(err)
				h.must(response.Body.Close())
				rejected := response.StatusCode == http.StatusMisdirectedRequest
				if rejected != (want == http.StatusMisdirectedRequest) ||
					rejected && !strings.Contains(string(text), "grpc.allowed_hosts") {
					t.Errorf("%s %q %s: %d %s", host, call, response.Proto, response.StatusCode,
						text)
				}
			}
		}
	}
	other := *n
	other.dial(n.conn.Target(), grpc.WithAuthority("evil.example"))
	if err := other.get(); err != nil {
		t.Errorf("gRPC with another authority: %v", err)
	}
}

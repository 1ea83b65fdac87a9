package hosts

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	names := Names{"node.example"}
	for header, want := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:9090": true, "10.0.0.5": true, "[::1]:9090": true,
		"[fe80::1%eth0]": true, "localhost": true, "LOCALHOST:9090": true, "a.localhost": true,
		"": true, "node.example:9090": true, "Node.Example.": true,
		"evil.example": false, "evil.example:9090": false, "node.example.evil.example": false,
		"127.0.0.1.evil.example": false, "evillocalhost": false, "x.node.example": false,
		"[::1].evil.example": false, "*": false,
	} {
		if got := names.Allow(header); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
	if !(Names{"*"}).Allow("evil.example") {
		t.Error(`"*" does not allow all hosts`)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	handler := Names{}.Check("ops.allowed_hosts", http.NotFoundHandler())
	for host, want := range map[string]int{
		"127.0.0.1:9091": http.StatusNotFound, "evil.example": http.StatusMisdirectedRequest,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Host = host
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%q: %d, want %d", host, w.Code, want)
		}
	}
}

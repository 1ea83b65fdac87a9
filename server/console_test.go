package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// The console is served without credentials, and only its own pages may call the node.
func TestConsole_OwnPagesOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	off := h.serve()
	on := h.serve(func(o *Options) { o.Console = true })
	guarded := h.serve(statusCallers, func(o *Options) { o.Console = true })
	do := func(n *node, method, path string, header map[string]string) *http.Response {
		t.Helper()
		body := "{}"
		if method == http.MethodGet {
			body = ""
		}
		r, err := http.NewRequestWithContext(h.ctx, method, "http://"+n.conn.Target()+path,
			strings.NewReader(body))
		h.must(err)
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/json")
		}
		for key, value := range header {
			r.Header.Set(key, value)
		}
		got, err := http.DefaultClient.Do(r)
		h.must(err)
		_, err = io.Copy(io.Discard, got.Body)
		h.must(err)
		h.must(got.Body.Close())
		return got
	}
	const list = "/fencepost.v1.SubmitterService/ListSubmitters"
	own := map[string]string{"Origin": "http://" + on.conn.Target()}
	for name, c := range map[string]struct {
		n            *node
		method, path string
		header       map[string]string
		status       int
	}{
		"disabled": {off, "GET", "/console/", nil, 404},
		"disabled, own page": {off, "POST", list, map[string]string{
			"Origin": "http://" + off.conn.Target(), "Sec-Fetch-Site": "same-origin",
		}, 403},
		"guarded, no token": {guarded, "GET", "/console/unknown.js", nil, 404},
		"own page": {on, "POST", list, map[string]string{
			"Origin": "https://node.example", "Sec-Fetch-Site": "same-origin",
		}, 200},
		"own page, older browser": {on, "POST", list, own, 200},
		"other page": {on, "POST", list, map[string]string{
			"Origin": own["Origin"], "Sec-Fetch-Site": "same-site",
		}, 403},
		"other page, older browser": {on, "POST", list, map[string]string{
			"Origin": "http://example.com",
		}, 403},
		"own page, no token": {guarded, "POST", list, map[string]string{
			"Origin": own["Origin"], "Sec-Fetch-Site": "same-origin",
		}, 401},
	} {
		if got := do(c.n, c.method, c.path, c.header); got.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", name, got.StatusCode, c.status)
		}
	}
	if got := do(on, "GET", "/console/", nil); got.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("the console has no policy: %d %v", got.StatusCode, got.Header)
	}
}

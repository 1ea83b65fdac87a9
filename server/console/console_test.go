package console

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func newTestHandler(t *testing.T, names ...string) *Handler {
	t.Helper()
	files := fstest.MapFS{placeholder: {Data: []byte("not built")}}
	for _, name := range names {
		files[name] = &fstest.MapFile{Data: []byte("content of " + name)}
	}
	h, err := newHandler(files)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(h http.Handler, method, path string, header ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestHandler_Paths(t *testing.T) {
	t.Parallel()
	h := newTestHandler(t, index, "main-0123.js", "main-0123.css")
	for _, c := range []struct {
		method, path, kind, cache string
		status                    int
	}{
		{"GET", "/console/", "text/html; charset=utf-8", "no-cache", 200},
		{"GET", "/console/main-0123.js", "text/javascript; charset=utf-8", "immutable", 200},
		{"GET", "/console/main-9999.js", "text/javascript; charset=utf-8", "no-store", 200},
		{"GET", "/console/main-9999.css", "", "", 404},
		{"GET", "/console/other-9999.js", "", "", 404},
		{"HEAD", "/console/main-0123.css", "text/css; charset=utf-8", "immutable", 200},
		{"GET", "/console", "", "", 308},
		{"GET", "/console/placeholder.html", "", "", 404},
		{"GET", "/console/../server.go", "", "", 404},
		{"POST", "/console/", "", "", 405},
	} {
		got := get(h, c.method, c.path)
		if got.StatusCode != c.status {
			t.Errorf("%s %s: status %d, want %d", c.method, c.path, got.StatusCode, c.status)
		}
		if c.status != 200 {
			continue
		}
		if got.Header.Get("Content-Type") != c.kind ||
			!strings.Contains(got.Header.Get("Cache-Control"), c.cache) {
			t.Errorf("%s %s: headers %v", c.method, c.path, got.Header)
		}
		policy := got.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s %s: policy %q", c.method, c.path, policy)
		}
	}
}

func TestHandler_Compresses(t *testing.T) {
	t.Parallel()
	h := newTestHandler(t, index)
	got := get(h, "GET", Path, "Accept-Encoding", "gzip, br")
	if got.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("headers %v, want gzip", got.Header)
	}
	plain, err := gzip.NewReader(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(plain)
	if err != nil || string(text) != "content of index.html" {
		t.Errorf("content %q, %v", text, err)
	}
	again := get(h, "GET", Path, "If-None-Match", got.Header.Get("ETag"))
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("status %d for the known content, want 304", again.StatusCode)
	}
}

func TestHandler_NotBuilt_NamesCommand(t *testing.T) {
	t.Parallel()
	got := get(newTestHandler(t), "GET", Path)
	text, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusServiceUnavailable ||
		string(text) != "not built" {
		t.Errorf("status %d, %q, %v; want 503 and the placeholder", got.StatusCode, text, err)
	}
}

// The budget is for all files that a browser loads.
func TestConsole_FitsBudget(t *testing.T) {
	t.Parallel()
	const budget = 200_000
	h, err := New()
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for name, a := range h.assets {
		if strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".css") || name == "" {
			total += len(a.zipped)
		}
	}
	if total > budget {
		t.Errorf("%d bytes compressed, want at most %d", total, budget)
	}
	t.Logf("%d bytes compressed, built %v", total, Built())
}

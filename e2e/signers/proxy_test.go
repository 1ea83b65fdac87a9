package signers

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fencepost/fencepost/sign/signtest"
)

// proxy is between a holder and a real signer, and behaves as a script: it fails, or changes
// requests and replies.
type proxy struct {
	script *signtest.Script
	// fail writes the protocol's error for a fault.
	fail func(http.ResponseWriter, signtest.Fault)
	// request returns the signer to ask and the request to send.
	request func(r *http.Request, body []byte) (url string, changed []byte)
	reply   func(r *http.Request, body []byte) []byte // nil: as it is
}

func (p *proxy) start(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return server.URL
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch fault := p.script.Fault(); fault {
	case signtest.None, signtest.Missing: // the real signer has no such key
		p.forward(w, r)
	case signtest.Hangs:
		_, _ = io.Copy(io.Discard, r.Body)
		p.script.Hang(r.Context())
	case signtest.Reset:
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0) // closes with RST
			_ = conn.Close()
		}
	default:
		p.fail(w, fault)
	}
}

func (p *proxy) forward(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	url, body := p.request(r, body)
	forwarded, err := http.NewRequestWithContext(r.Context(), r.Method, url,
		bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	forwarded.Header = r.Header.Clone()
	forwarded.Header.Del("Accept-Encoding")
	response, err := http.DefaultClient.Do(forwarded)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if p.reply != nil && response.StatusCode == http.StatusOK {
		content = p.reply(r, content)
	}
	w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(content)
}

// editJSON changes an object; anything else is returned unchanged.
func editJSON(body []byte, edit func(map[string]any)) []byte {
	var object map[string]any
	numbers := json.NewDecoder(bytes.NewReader(body))
	numbers.UseNumber()
	if numbers.Decode(&object) != nil {
		return body
	}
	edit(object)
	changed, err := json.Marshal(object)
	if err != nil {
		return body
	}
	return changed
}

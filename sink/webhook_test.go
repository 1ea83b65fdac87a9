package sink

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

var (
	oldSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef01234567"))
	newSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("abcdefabcdefabcdefabcdef"))
)

// eventOf is an event of a transaction.
func eventOf(tx byte, seq int64) *Event {
	id := txn.TxID{15: tx}
	message := &pb.TxEvent{TxId: id.String(), Submitter: "alice", Seq: uint64(seq),
		Kind: pb.TxEventKind_TX_EVENT_KIND_INCLUDED, State: pb.TxState_TX_STATE_TRACKING}
	return &Event{Tx: id, Seq: seq, Name: "alice", Kind: txn.EventIncluded, State: txn.Tracking,
		At: time.Unix(1_700_000_000, 5000), Content: &pb.SinkEvent{
			Id: fmt.Sprintf("%s/%d", id, seq), RequestId: "ordér 1",
			Labels:  map[string]string{"team": "a"},
			Content: &pb.SinkEvent_Event{Event: message}}}
}

func webhook(t *testing.T, url string, tweak func(*WebhookOptions)) *Webhook {
	t.Helper()
	o := WebhookOptions{URL: url, Encoder: Encoder{Format: Structured, Source: "urn:test"},
		Secrets: func() ([]string, error) { return []string{newSecret, oldSecret}, nil },
		Timeout: 2 * time.Second, Concurrency: 4, AllowPrivate: true, Clock: clock.Real{}}
	if tweak != nil {
		tweak(&o)
	}
	w, err := NewWebhook(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// TestWebhook_Signature_PublishedLibraryVerifies: a receiver may have any of the secrets.
func TestWebhook_Signature_PublishedLibraryVerifies(t *testing.T) {
	t.Parallel()
	for _, format := range []Format{Structured, Binary, Protobuf} {
		for _, secret := range []string{oldSecret, newSecret} {
			verifier, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			verified := make(chan error, 1)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter,
				r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				verified <- errors.Join(verifier.Verify(body, r.Header), checkEvent(r, body))
			}))
			defer server.Close()
			w := webhook(t, server.URL,
				func(o *WebhookOptions) { o.Encoder.Format = format })
			if got := w.Deliver(t.Context(), []*Event{eventOf(1, 1)}); got[0].Verdict != Done {
				t.Fatalf("%s: %+v", format, got)
			}
			if err := <-verified; err != nil {
				t.Errorf("%s: %v", format, err)
			}
		}
	}
}

func TestWebhook_Responses(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	defer close(stop)
	redirected := atomic.Bool{}
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		redirected.Store(true)
	}))
	defer target.Close()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   Verdict
		after  time.Duration
	}{
		"200": {func(http.ResponseWriter, *http.Request) {}, Done, 0},
		"500": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, Retry, 0},
		"400": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }, Retry, 0},
		"410": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) }, Gone, 0},
		"429 with a delay": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
		}, Unavailable, 7 * time.Second},
		"delay too long": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "99999999")
			w.WriteHeader(500)
		}, Retry, maxRetryAfter},
		"redirect to a private address": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target.URL, http.StatusFound)
		}, Retry, 0},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		}, Retry, 0},
		"endless body of a success": {endless, Done, 0},
		"endless headers":           {bigHeaders, Retry, 0},
		"connection closed": {func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, Retry, 0},
		"slow body of a failure": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, Retry, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
				r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // only then is a client that leaves noticed
				c.answer(w, r)
			}))
			defer server.Close()
			w := webhook(t, server.URL,
				func(o *WebhookOptions) { o.Timeout = 300 * time.Millisecond })
			got := w.Deliver(t.Context(), []*Event{eventOf(1, 1)})
			if got[0].Verdict != c.want || got[0].After != c.after {
				t.Errorf("%+v, want verdict %d after %v", got[0], c.want, c.after)
			}
		})
	}
	if redirected.Load() {
		t.Error("a redirect was followed")
	}
}

func endless(w http.ResponseWriter, _ *http.Request) {
	for {
		if _, err := w.Write(make([]byte, 4096)); err != nil {
			return
		}
	}
}

func bigHeaders(w http.ResponseWriter, _ *http.Request) {
	for i := range 200 {
		w.Header().Set(fmt.Sprint("X-", i), string(make([]byte, 0))+fmt.Sprintf("%01000d", i))
	}
}

func TestWebhook_UnreachableReceiver_NothingParked(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	otherName := "https://localhost:" + server.URL[len("https://127.0.0.1:"):]
	for name, c := range map[string]struct {
		url     string
		private bool
		roots   *x509.CertPool
		want    Verdict
	}{
		"trusted":             {server.URL, true, roots, Done},
		"unknown certificate": {server.URL, true, nil, Unavailable},
		"wrong TLS name":      {otherName, true, roots, Unavailable},
		"private address":     {server.URL, false, roots, Unavailable},
		"private by name":     {otherName, false, roots, Unavailable},
		"refused":             {closed.URL, true, nil, Unavailable},
		"no such host":        {"http://receiver.invalid", true, nil, Unavailable},
	} {
		w := webhook(t, c.url, func(o *WebhookOptions) {
			o.AllowPrivate, o.Roots = c.private, c.roots
		})
		if got := w.Deliver(t.Context(), []*Event{eventOf(1, 1)}); got[0].Verdict != c.want {
			t.Errorf("%s: %+v", name, got[0])
		}
	}
}

// TestWebhook_Concurrency_TransactionsInParallel: the events of a transaction go one after the
// other, and no more than the limit at once.
func TestWebhook_Concurrency_TransactionsInParallel(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	most, running := 0, 0
	ids := []string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		running++
		most = max(most, running)
		id := r.Header.Get("Webhook-Id")
		ids = append(ids, id)
		mu.Unlock()
		if id == eventOf(3, 2).Content.GetId() {
			w.WriteHeader(500)
		}
		mu.Lock()
		running--
		mu.Unlock()
	}))
	defer server.Close()
	var events []*Event
	for seq := range int64(4) {
		for tx := range byte(8) {
			events = append(events, eventOf(tx+1, seq+1))
		}
	}
	got := webhook(t, server.URL, nil).Deliver(t.Context(), events)
	failed := 0
	for _, r := range got {
		if r.Verdict == Retry {
			failed++
		}
	}
	if most > 4 || failed != 3 || len(ids) != 8*4-2 {
		t.Errorf("%d at once, %d failed, %d requests", most, failed, len(ids))
	}
	last := map[string]string{}
	for _, id := range ids {
		if tx := id[:36]; last[tx] >= id {
			t.Errorf("%s after %s", id, last[tx])
		} else {
			last[tx] = id
		}
	}
}

func TestParseSecret(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{oldSecret: true, "whsec_": false, "whsec_!": false,
		oldSecret[6:]: false, "whsec_MDEyMzQ1Njc4OWFi": false} {
		if _, err := ParseSecret(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Command receiver receives events of Fencepost over HTTP, verifies their signatures, and prints
// each event once.
//
//	go run ./examples/receivers/go --listen 127.0.0.1:8099 --secret-file FILE
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// maxBody bounds a delivery, in bytes. Events are a few kilobytes.
const maxBody = 1 << 20

// event is the part of a structured CloudEvent that this program uses.
type event struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data struct {
		RequestID string `json:"requestId"`
	} `json:"data"`
}

// receiver keeps the ids that it has seen. A real one stores id and effect in one transaction.
type receiver struct {
	verifier *standardwebhooks.Webhook
	out      io.Writer
	mu       sync.Mutex
	seen     map[string]bool
}

func newReceiver(secret string, out io.Writer) (*receiver, error) {
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, fmt.Errorf("read the secret: %w", err)
	}
	return &receiver{verifier: verifier, out: out, seen: map[string]bool{}}, nil
}

// ServeHTTP answers 2xx only for an event that it has processed.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxBody))
	if err != nil {
		http.Error(w, "body cannot be read", http.StatusBadRequest)
		return
	}
	if err := r.verifier.Verify(body, request.Header); err != nil {
		http.Error(w, "signature is invalid", http.StatusUnauthorized)
		return
	}
	var e event
	if err := json.Unmarshal(body, &e); err != nil || e.ID == "" {
		http.Error(w, "not a CloudEvent in JSON", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.seen[e.ID] {
		r.seen[e.ID] = true
		fmt.Fprintln(r.out, e.ID, e.Type, e.Data.RequestID)
	}
	w.WriteHeader(http.StatusNoContent)
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8099", "address to listen on")
	file := flag.String("secret-file", "", "file with the signing secret, whsec_...")
	flag.Parse()
	secret, err := os.ReadFile(*file)
	if err != nil {
		log.Fatalf("read the secret: %v; name its file with --secret-file", err)
	}
	r, err := newReceiver(strings.TrimSpace(string(secret)), os.Stdout)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: *listen, Handler: r, ReadTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

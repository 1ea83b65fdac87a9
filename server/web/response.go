package web

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"strings"
	"time"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/rpc"
)

// A response passes several buffers on its way: rows, messages, their bytes and their JSON. A
// client that reads slowly would keep all of them. So the response of a read is built first, a few
// long ones at a time, and then sent from one buffer. Its bytes count against the share of the
// caller until the client has read them.

// Slot is the room of a call.
type Slot interface {
	// Hold counts the bytes of a response until Release, or returns a status that refuses it.
	Hold(bytes int) error
	// Build waits until a long response may be built, and returns the end of the build. After wait
	// it returns a status that refuses the call.
	Build(ctx context.Context, wait time.Duration) (done func(), err error)
	Release()
}

// isRead reports whether a request has no effect, so that it may be refused after it ran.
func isRead(r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, pathPrefix) {
		return r.Method == http.MethodGet
	}
	return rpc.IsRead(r.URL.Path)
}

// respondBuilt builds the response of a read and sends it.
func (f *Gateway) respondBuilt(w http.ResponseWriter, r *http.Request, slot Slot,
	call func(http.ResponseWriter)) {
	built := &builtResponse{header: w.Header().Clone()}
	err := f.build(built, r, slot, call)
	if r.Context().Err() != nil {
		return // no client reads the response
	}
	if err == nil {
		err = slot.Hold(built.size)
	}
	if err != nil {
		f.refuseHTTP(w, r, err)
		return
	}
	built.send(w)
}

func (f *Gateway) build(b *builtResponse, r *http.Request, slot Slot,
	call func(http.ResponseWriter)) error {
	if methodOf(r) == pb.TxService_ListTxs_FullMethodName {
		done, err := slot.Build(r.Context(), f.Limits.ReadTimeout)
		if err != nil {
			return err
		}
		defer done()
	}
	call(b)
	return nil
}

// builtResponse is a complete response.
type builtResponse struct {
	header http.Header
	code   int
	body   [][]byte
	size   int // of the body, in bytes
}

// Header implements http.ResponseWriter.
func (b *builtResponse) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *builtResponse) WriteHeader(code int) {
	if b.code == 0 {
		b.code = code
	}
}

// Write implements http.ResponseWriter. Each part has its exact size.
func (b *builtResponse) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	b.body = append(b.body, bytes.Clone(p))
	b.size += len(p)
	return len(p), nil
}

// Flush implements http.Flusher: the response is sent once it is complete.
func (b *builtResponse) Flush() {}

// send writes the response.
func (b *builtResponse) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), b.header)
	w.WriteHeader(max(b.code, http.StatusOK))
	for i, part := range b.body {
		b.body[i] = nil
		if _, err := w.Write(part); err != nil {
			return // the client has gone
		}
	}
}

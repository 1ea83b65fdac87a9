package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/rpc"
	"github.com/fencepost/fencepost/server/status"
)

// errDecompressed rejects a body that exceeds the limit once decompressed.
var errDecompressed = asConnect(
	status.RequestTooLarge("the decompressed body exceeds the limit"))

// inflater limits the size of a decompressed body. The transcoder limits only the bytes on the
// wire, and decompresses all of them before any other check.
type inflater struct {
	gzip.Reader
	most int64 // bytes
	left int64
}

// Reset starts another body.
func (i *inflater) Reset(r io.Reader) error {
	i.left = i.most
	return gzipError(i.Reader.Reset(r))
}

// Read decompresses, up to the limit.
func (i *inflater) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if i.left -= int64(n); i.left < 0 {
		return 0, errDecompressed
	}
	return n, gzipError(err)
}

// gzipError rejects a body that is not complete gzip.
func gzipError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	bad := status.InvalidField("request",
		"is not gzip, or incomplete (%v); compress it again, or omit the Content-Encoding", err)
	return asConnect(status.From(bad, ""))
}

func newDeflater() connect.Compressor { return gzip.NewWriter(io.Discard) }

// setDeadlines limits the time of the body, and of the response unless it is a stream: a client
// that does not read it would keep its slot for the life of the connection. A connection keeps its
// deadlines, so each request sets them. net/http removes the deadline of the body once it has
// arrived, since the response may be a stream.
func (f *Gateway) setDeadlines(w http.ResponseWriter, r *http.Request) {
	now, c := clock.Real{}.Now(), http.NewResponseController(w) // deadlines of sockets
	var end time.Time                                           // none
	if !rpc.IsEndless(methodOf(r)) {
		end = now.Add(f.Limits.CallTimeout)
	}
	_ = c.SetWriteDeadline(end) // a broken connection fails on the next write
	if r.ContentLength != 0 {
		_ = c.SetReadDeadline(now.Add(f.Limits.ReadTimeout)) // and on the next read
	}
}

// bodyError rejects a request because of its body, before there is a call. It has its own HTTP
// status.
type bodyError struct {
	http   int
	status *grpcstatus.Status
}

func (b *bodyError) Error() string                  { return b.status.Message() }
func (b *bodyError) GRPCStatus() *grpcstatus.Status { return b.status }

func bodyTooLarge(most int64) error {
	return &bodyError{
		http.StatusRequestEntityTooLarge,
		status.RequestTooLarge(fmt.Sprintf("the body exceeds %d bytes", most)),
	}
}

func bodyTooLate(limit time.Duration) error {
	return &bodyError{http.StatusRequestTimeout, status.BodyLate(limit)}
}

func brokenBody(message string) error {
	return &bodyError{http.StatusBadRequest,
		status.From(status.InvalidField("request", "%s", message), "")}
}

// readBody reads the body of a request, of at most that many bytes. The transcoder would buffer it
// as well, but its errors for a large or late body have no reason.
func (f *Gateway) readBody(w http.ResponseWriter, r *http.Request,
	most int) (*http.Request, error) {
	if r.ContentLength > int64(most) {
		return r, bodyTooLarge(int64(most))
	}
	defer context.AfterFunc(f.Cutoff, func() {
		_ = http.NewResponseController(w).SetReadDeadline(clock.Real{}.Now())
	})()
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(most)))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return r, bodyTooLarge(long.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded) && f.Cutoff.Err() != nil:
		return r, status.ErrDraining
	case errors.Is(err, os.ErrDeadlineExceeded):
		return r, bodyTooLate(f.Limits.ReadTimeout)
	case err != nil && r.Context().Err() != nil:
		return r, context.Canceled // no client reads the response
	case err != nil:
		return r, brokenBody(
			"is incomplete, or contradicts its Content-Length or Transfer-Encoding; send all of it")
	case len(text) > 0 && r.Method == http.MethodGet:
		return r, brokenBody(
			"must not have a body with GET; use the path and the query instead")
	case len(text) == 0 && isJSON(r.Header.Get("Content-Type")) &&
		!strings.HasPrefix(r.URL.Path, pathPrefix):
		return r, brokenBody("is empty, but must be JSON; send {} for an empty message")
	}
	r = r.WithContext(r.Context())
	r.Body = io.NopCloser(&bufferedBody{*bytes.NewBuffer(text)})
	r.ContentLength, r.TransferEncoding = int64(len(text)), nil
	return r, checkBody(r, text, most)
}

// bufferedBody is a received body. It frees its memory once it is read.
type bufferedBody struct{ bytes.Buffer }

// Read reads the next bytes.
func (b *bufferedBody) Read(p []byte) (int, error) {
	n, err := b.Buffer.Read(p)
	if b.Len() == 0 {
		b.Buffer = bytes.Buffer{}
	}
	return n, err
}

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

// errUnpacked is said of a body that is small only while it is packed.
var errUnpacked = asConnect(status.RequestTooLarge("the body exceeds the limit once it is " +
	"unpacked"))

// inflater bounds what a packed body becomes. The transcoder bounds what comes over the wire alone,
// and unpacks all of it before anything else is looked at.
type inflater struct {
	gzip.Reader
	most int64 // bytes
	left int64
}

// Reset begins another body.
func (i *inflater) Reset(r io.Reader) error {
	i.left = i.most
	return asPacked(i.Reader.Reset(r))
}

// Read unpacks, up to the limit.
func (i *inflater) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if i.left -= int64(n); i.left < 0 {
		return 0, errUnpacked
	}
	return n, asPacked(err)
}

// asPacked says of a body that it is not packed as it says.
func asPacked(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return asConnect(
		status.From(
			status.InvalidField("request",
				"is not gzip, as its Content-Encoding says, or not all of it (%v); pack it anew, "+
					"or send it as it is",
				err),
			"",
		),
	)
}

func newDeflater() connect.Compressor { return gzip.NewWriter(io.Discard) }

// setDeadlines gives the body of a request the time that its head has, and the response, unless it
// is a stream, the time of a whole call: a client that does not read it would keep its slot for as
// long as the connection stands. A connection keeps its deadlines, so each request sets them.
// net/http drops the deadline of the body once it is there, since the response may be a stream.
func (f *Gateway) setDeadlines(w http.ResponseWriter, r *http.Request) {
	now, c := clock.Real{}.Now(), http.NewResponseController(w) // deadlines of sockets
	var end time.Time                                           // none
	if !rpc.IsEndless(methodOf(r)) {
		end = now.Add(f.Limits.CallTimeout)
	}
	_ = c.SetWriteDeadline(end) // a connection that broke shows when something is written
	if r.ContentLength != 0 {
		_ = c.SetReadDeadline(now.Add(f.Limits.ReadTimeout)) // and when something is read
	}
}

// bodyError refuses a request for its body, before there is a call. Over HTTP it has a code of its
// own.
type bodyError struct {
	http int
	told *grpcstatus.Status
}

func (b *bodyError) Error() string                  { return b.told.Message() }
func (b *bodyError) GRPCStatus() *grpcstatus.Status { return b.told }

func bodyTooLarge(most int64) error {
	return &bodyError{
		http.StatusRequestEntityTooLarge,
		status.RequestTooLarge(fmt.Sprintf("the body exceeds %d bytes", most)),
	}
}

func bodyTooLate(limit time.Duration) error {
	return &bodyError{http.StatusRequestTimeout, status.BodyLate(limit)}
}

func brokenBody(says string) error {
	return &bodyError{http.StatusBadRequest, status.From(status.InvalidField("request", "%s", says),
		"")}
}

// gather reads the body of a request, of most bytes. The transcoder would read it as a whole as
// well; but what it or the inner server make of one that is too large or too late has no reason.
func (f *Gateway) gather(w http.ResponseWriter, r *http.Request, most int) (*http.Request, error) {
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
		return r, context.Canceled // nobody reads the answer
	case err != nil:
		return r, brokenBody(
			"broke off, or is not as its Content-Length or Transfer-Encoding says; send it whole")
	case len(text) > 0 && r.Method == http.MethodGet:
		return r, brokenBody(
			"has a body, which none has that only asks; put what is asked for into the path and " +
				"the query")
	case len(text) == 0 && isJSON(r.Header.Get("Content-Type")) &&
		!strings.HasPrefix(r.URL.Path, pathPrefix):
		return r, brokenBody("is empty, which is no JSON; an empty message is {}")
	}
	r = r.WithContext(r.Context())
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(
		&gathered{*bytes.NewBuffer(text)}), int64(
		len(text),
	), nil
	return r, checkBody(r, text, most)
}

// gathered is a body that is there. What was read of it is not kept.
type gathered struct{ bytes.Buffer }

// Read reads on.
func (g *gathered) Read(p []byte) (int, error) {
	n, err := g.Buffer.Read(p)
	if g.Len() == 0 {
		g.Buffer = bytes.Buffer{}
	}
	return n, err
}

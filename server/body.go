package server

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencepost/fencepost/internal/clock"
)

// errUnpacked is said of a body that is small only while it is packed.
var errUnpacked = connect.NewError(connect.CodeResourceExhausted, errors.New("the body exceeds the limit once it is unpacked"))

// inflater bounds what a packed body becomes. The transcoder bounds what comes over the wire alone, and unpacks all of it before anything else is looked at.
type inflater struct {
	gzip.Reader
	most int64 // bytes
	left int64
}

// Reset begins another body.
func (i *inflater) Reset(r io.Reader) error {
	i.left = i.most
	return i.Reader.Reset(r)
}

// Read unpacks, up to the limit.
func (i *inflater) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if i.left -= int64(n); i.left < 0 {
		return 0, errUnpacked
	}
	return n, err
}

func newDeflater() connect.Compressor { return gzip.NewWriter(io.Discard) }

// timedBody has to be there within a time: a caller who sends it by and by holds all that has come. Once it is there the time
// is forgotten, which net/http sees to: the answer may be a stream.
type timedBody struct {
	io.ReadCloser
	limit time.Duration
	late  bool
}

// inTime gives the body of a request as long as its head has, and the answer, unless it is one without end, the time of a whole call: a caller who does not read it
// would keep its room for as long as the connection stands. That time is set for each request, as a connection keeps it.
func (f *front) inTime(w http.ResponseWriter, r *http.Request) *timedBody {
	t := &timedBody{ReadCloser: r.Body, limit: f.limits.PingAfter}
	var end time.Time // none
	if !endless(methodOf(r)) {
		end = clock.Real{}.Now().Add(f.limits.wholeCall())
	}
	_ = http.NewResponseController(w).SetWriteDeadline(end) // a connection that broke shows when it is written
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(clock.Real{}.Now().Add(t.limit)) // by the clock of sockets; a connection that broke shows when it is read
	}
	r.Body = t
	return t
}

// Read reads on.
func (t *timedBody) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.late = t.late || errors.Is(err, os.ErrDeadlineExceeded)
	return n, err
}

// status is what is told of a body that came too late; nil for any other.
func (t *timedBody) status() *status.Status {
	if !t.late {
		return nil
	}
	return status.Newf(codes.DeadlineExceeded, "request: its body was not there within %v; send less at a time, or over a faster line", t.limit)
}

package web

import (
	"net/http"
	"strconv"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/fencepost/fencepost/server/status"
)

// callInner makes a call of the inner server. An inner server that was stopped responds nothing,
// neither to new calls nor to those in progress, which the transcoder would report as an unknown
// error. Such a call is refused here as one of a stopping node.
func (f *Gateway) callInner(w http.ResponseWriter, r *http.Request) {
	tracked := &startedWriter{ResponseWriter: w}
	f.Inner.ServeHTTP(tracked, r)
	if tracked.started || r.Context().Err() != nil {
		return
	}
	s := status.From(f.Reject(r.Context(), status.ErrDraining), "")
	header := w.Header()
	header.Set("Content-Type", "application/grpc+proto")
	header.Set("Grpc-Status", strconv.Itoa(int(s.Code())))
	header.Set("Grpc-Message", s.Message())
	if details, err := proto.Marshal(s.Proto()); err == nil {
		header.Set("Grpc-Status-Details-Bin", connect.EncodeBinaryHeader(details))
	}
	w.WriteHeader(http.StatusOK)
}

// startedWriter notes whether a response was started.
type startedWriter struct {
	http.ResponseWriter
	started bool
}

// WriteHeader implements http.ResponseWriter.
func (s *startedWriter) WriteHeader(code int) {
	s.started = true
	s.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (s *startedWriter) Write(p []byte) (int, error) {
	s.started = true
	return s.ResponseWriter.Write(p)
}

// Flush implements http.Flusher, which the inner server requires.
func (s *startedWriter) Flush() {
	if flusher, ok := s.ResponseWriter.(http.Flusher); ok {
		s.started = true
		flusher.Flush()
	}
}

// Unwrap is for http.ResponseController.
func (s *startedWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

package web

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/status"
)

// WatchTx over HTTP is a stream of JSON: one object per line, or server-sent events for clients
// that accept them. It uses the same service and interceptor; only the encoding differs. The
// transcoder has no JSON streams.
//
// Server-sent events carry the resume token as their id, so that a browser resumes automatically
// with Last-Event-ID. A complete stream returns 204, which stops the browser.

// watched returns the request of a watch path; nil for another path.
func watched(u *url.URL) *pb.WatchTxRequest {
	parts := partsOf(u)
	if len(parts) == 0 || parts[len(parts)-1] != "events" {
		return nil
	}
	of := parts[:len(parts)-1]
	switch {
	case len(of) == 0:
		return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_All{All: &pb.AllTxs{}}}
	case len(of) != 2:
		return nil
	case of[0] == "submitters":
		return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: of[1]}}
	case of[0] == "pools":
		return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Pool{Pool: of[1]}}
	case of[0] != "tx":
		return nil
	case of[1] == "by-request":
		return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Request{Request: &pb.RequestKey{}}}
	case of[1] == "by-ids":
		return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Txs{Txs: &pb.TxIds{}}}
	}
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: of[1]}}
}

// watch responds with a stream.
func (f *Gateway) watch(w http.ResponseWriter, r *http.Request, ask *pb.WatchTxRequest) {
	if err := parameters(ask, r.URL.Query()); err != nil {
		refuse(w, http.StatusBadRequest, status.From(err, ""))
		return
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		ask.ResumeToken = last
	}
	stream := &jsonStream{
		ctx:    r.Context(),
		writer: w,
		ask:    ask,
		events: accepts(r, "text/event-stream"),
		limit:  f.Limits.CallTimeout,
	}
	stream.end(f.Watch(stream))
}

// parameters sets the fields of the request from the query. Names have either spelling of the
// contract.
func parameters(ask *pb.WatchTxRequest, query url.Values) error {
	for name, values := range query {
		value := values[0]
		var err error
		switch {
		case name == "labels":
			ask.Labels = values
		case name == "states":
			ask.States, err = statesOfNames(values)
		case ask.GetTxs() != nil && (name == "tx_ids" || name == "txIds" || name == "txs.tx_ids" ||
			name == "txs.txIds"):
			ask.GetTxs().TxIds = append(ask.GetTxs().TxIds, values...)
		case len(values) > 1:
			err = status.InvalidField(name, "is given %d times; give it once", len(values))
		case name == "resume_token" || name == "resumeToken":
			ask.ResumeToken = value
		case name == "until_final" || name == "untilFinal":
			ask.UntilFinal, err = yesNo("until_final", value)
		case name == "account_events" || name == "accountEvents":
			ask.AccountEvents, err = yesNo("account_events", value)
		case name == "heartbeat":
			ask.Heartbeat, err = heartbeat(value)
		case ask.GetRequest() != nil && (name == "submitter" || name == "request.submitter"):
			ask.GetRequest().Submitter = value
		case ask.GetRequest() != nil && (name == "pool" || name == "request.pool"):
			ask.GetRequest().Pool = value
		case ask.GetRequest() != nil && (name == "request_id" || name == "requestId" ||
			name == "request.request_id" || name == "request.requestId"):
			ask.GetRequest().RequestId = value
		default:
			err = noSuchParameter(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func yesNo(name, value string) (bool, error) {
	if value != "true" && value != "false" {
		return false, status.InvalidField(name, "must be true or false")
	}
	return value == "true", nil
}

func statesOfNames(names []string) (states []pb.TxState, err error) {
	for i, name := range names {
		state, known := pb.TxState_value[name]
		if !known {
			return nil, noSuchName(fmt.Sprintf("states[%d]", i),
				(&pb.WatchTxRequest{}).ProtoReflect().Descriptor().Fields().ByName("states"))
		}
		states = append(states, pb.TxState(state))
	}
	return states, nil
}

func heartbeat(text string) (*durationpb.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, status.InvalidField("heartbeat", "must be a duration, such as 15s")
	}
	return durationpb.New(d), nil
}

// accepts reports whether the Accept header allows a type.
func accepts(r *http.Request, want string) bool {
	for _, header := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(header, ",") {
			kind, parameters, err := mime.ParseMediaType(part)
			if weight, bad := strconv.ParseFloat(parameters["q"], 64); err == nil && kind == want &&
				(bad != nil || weight > 0) {
				return true
			}
		}
	}
	return false
}

// jsonStream is the server's side of a WatchTx stream over HTTP.
type jsonStream struct {
	ctx    context.Context
	writer http.ResponseWriter
	ask    *pb.WatchTxRequest
	read   bool // RecvMsg has returned the request
	events bool // server-sent events
	sent   bool
	limit  time.Duration // of one message, until the client has taken it
}

// Context returns the context of the request.
func (s *jsonStream) Context() context.Context { return s.ctx }

// SetHeader does nothing: WatchTx has no metadata.
func (s *jsonStream) SetHeader(metadata.MD) error { return nil }

// SendHeader does nothing.
func (s *jsonStream) SendHeader(metadata.MD) error { return nil }

// SetTrailer does nothing.
func (s *jsonStream) SetTrailer(metadata.MD) {}

// RecvMsg returns the request, once.
func (s *jsonStream) RecvMsg(m any) error {
	into, ok := m.(*pb.WatchTxRequest)
	if !ok || s.read {
		return io.EOF
	}
	s.read = true
	proto.Merge(into, s.ask)
	return nil
}

// SendMsg writes one message, and returns once it is sent: a slow client slows the stream down, and
// costs no memory.
func (s *jsonStream) SendMsg(m any) error {
	message, ok := m.(*pb.WatchTxResponse)
	if !ok {
		return fmt.Errorf("server: watch: a message of type %T", m)
	}
	return s.write(kindOf(message), message.GetResumeToken(), toJSON(message))
}

func kindOf(m *pb.WatchTxResponse) string {
	switch m.GetMessage().(type) {
	case *pb.WatchTxResponse_Event:
		return "event"
	case *pb.WatchTxResponse_Snapshot:
		return "snapshot"
	case *pb.WatchTxResponse_AccountEvent:
		return "account_event"
	default:
		return "heartbeat"
	}
}

func (s *jsonStream) write(kind, token string, text []byte) error {
	if !s.sent {
		s.sent = true
		s.writer.Header().Set("Content-Type", "application/x-ndjson")
		if s.events {
			s.writer.Header().Set("Content-Type", "text/event-stream")
		}
		s.writer.Header().Set("Cache-Control", "no-cache")
		s.writer.Header().Set("X-Accel-Buffering", "no") // otherwise proxies buffer
		s.writer.WriteHeader(http.StatusOK)
	}
	if s.events {
		id := ""
		if token != "" {
			id = "id: " + token + "\n"
		}
		text = fmt.Appendf(nil, "%sevent: %s\ndata: %s\n", id, kind, text)
	}
	c := http.NewResponseController(s.writer)
	// Over HTTP/2 a deadline also ends an idle stream. A connection that broke shows below.
	_ = c.SetWriteDeadline(clock.Real{}.Now().Add(s.limit))
	defer func() { _ = c.SetWriteDeadline(time.Time{}) }()
	if _, err := s.writer.Write(append(text, '\n')); err != nil {
		return grpcstatus.FromContextError(context.Canceled).Err()
	}
	return c.Flush()
}

// end writes the outcome: before the first message as a normal response, later as the last line,
// whose only field is the error.
func (s *jsonStream) end(err error) {
	outcome, _ := grpcstatus.FromError(err)
	switch {
	case err == nil && !s.sent:
		s.writer.WriteHeader(http.StatusNoContent)
	case err == nil:
	case !s.sent:
		refuse(s.writer, httpCodes[outcome.Code()], outcome)
	default:
		text := toJSON(outcome.Proto())
		if !s.events {
			text = fmt.Appendf(nil, `{"error":%s}`, text)
		}
		_ = s.write("error", "", text) // fails only if the client has gone
	}
}

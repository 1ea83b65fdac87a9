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
	"github.com/fencepost/fencepost/server/status"
)

// WatchTx over HTTP is a stream of JSON: an object a line, or server-sent events for whoever
// accepts those. It is the same service behind the same interceptor; only what goes over the wire
// differs. The transcoder has no such thing.
//
// Server-sent events carry the resume token as their id, so that a browser resumes by itself with
// Last-Event-ID. A stream that has nothing to tell any more answers 204, which ends that.

// watched is what a path names; nil for a path of something else.
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
	case of[0] != "tx":
		return nil
	case of[1] == "by-request":
		return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Request{Request: &pb.RequestKey{}}}
	case of[1] == "by-ids":
		return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Txs{Txs: &pb.TxIds{}}}
	}
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: of[1]}}
}

// watch answers with a stream.
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
	}
	stream.end(f.Watch(stream))
}

// parameters puts the query into the request. Names are those of the contract, in either spelling.
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
			if value != "true" && value != "false" {
				err = status.InvalidField("until_final", "must be true or false")
			}
			ask.UntilFinal = value == "true"
		case name == "heartbeat":
			ask.Heartbeat, err = heartbeat(value)
		case ask.GetRequest() != nil && (name == "submitter" || name == "request.submitter"):
			ask.GetRequest().Submitter = value
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

// accepts tells whether a type is named among those that the caller wants.
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

// jsonStream is the caller of WatchTx as gRPC's code sees it.
type jsonStream struct {
	ctx    context.Context
	writer http.ResponseWriter
	ask    *pb.WatchTxRequest
	asked  bool
	events bool // server-sent events
	sent   bool
}

// Context is the caller's.
func (s *jsonStream) Context() context.Context { return s.ctx }

// SetHeader does nothing: WatchTx has no metadata.
func (s *jsonStream) SetHeader(metadata.MD) error { return nil }

// SendHeader likewise.
func (s *jsonStream) SendHeader(metadata.MD) error { return nil }

// SetTrailer likewise.
func (s *jsonStream) SetTrailer(metadata.MD) {}

// RecvMsg gives the request, once.
func (s *jsonStream) RecvMsg(m any) error {
	into, ok := m.(*pb.WatchTxRequest)
	if !ok || s.asked {
		return io.EOF
	}
	s.asked = true
	proto.Merge(into, s.ask)
	return nil
}

// SendMsg writes one message, and does not return before it is on its way: a slow caller slows the
// stream down, and costs no memory.
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
		s.writer.Header().Set("X-Accel-Buffering", "no") // proxies would wait for more
		s.writer.WriteHeader(http.StatusOK)
	}
	if s.events {
		id := ""
		if token != "" {
			id = "id: " + token + "\n"
		}
		text = fmt.Appendf(nil, "%sevent: %s\ndata: %s\n", id, kind, text)
	}
	if _, err := s.writer.Write(append(text, '\n')); err != nil {
		return grpcstatus.FromContextError(context.Canceled).Err()
	}
	return http.NewResponseController(s.writer).Flush()
}

// end tells how it ended: before the first message as any answer, later as the last line, whose
// only field is the error.
func (s *jsonStream) end(err error) {
	told, _ := grpcstatus.FromError(err)
	switch {
	case err == nil && !s.sent:
		s.writer.WriteHeader(http.StatusNoContent)
	case err == nil:
	case !s.sent:
		refuse(s.writer, httpCodes[told.Code()], told)
	default:
		text := toJSON(told.Proto())
		if !s.events {
			text = fmt.Appendf(nil, `{"error":%s}`, text)
		}
		_ = s.write("error", "", text) // the caller has gone, or will see
	}
}

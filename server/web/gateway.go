// Package web serves every protocol but gRPC: JSON by the paths of the contract, Connect and
// gRPC-Web, over HTTP/1.1 and HTTP/2.
//
// A [Gateway] authenticates a request and takes a slot for it before it reads the body. Then a
// transcoder calls an inner grpc.Server with the same services and interceptors as native gRPC. The
// transcoder has no JSON streams, so the stream of WatchTx is written here (watch.go). Browsers may
// call from the allowed origins only (origins.go). JSON bodies are checked before protojson reads
// them (json.go), because it accepts hex as base64 and names no field in its errors.
//
// The package knows nothing of the server: it calls the functions in [Options].
package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/vanguard"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/console"
	"github.com/fencepost/fencepost/server/limit"
	"github.com/fencepost/fencepost/server/port"
	"github.com/fencepost/fencepost/server/rpc"
	"github.com/fencepost/fencepost/server/status"
)

// Limits bound a request. All must be positive.
type Limits struct {
	// LightBody and HeavyBody are the most bytes of a body, compressed or not. Heavy is for
	// BatchCreateTx.
	LightBody, HeavyBody int
	// ReadTimeout limits the time of the body; CallTimeout the time of the whole call.
	ReadTimeout, CallTimeout time.Duration
}

// Options configure a gateway. All fields but AllowedOrigins and Console are required.
type Options struct {
	Inner          *grpc.Server // serves the transcoded calls
	AllowedOrigins []string     // web sites whose pages may call; "*" is any
	// AllowHost reports whether a Host header names this node.
	AllowHost func(header string) bool
	// Console serves the web console, whose pages may call the node; nil: there is none.
	Console http.Handler
	Limits  Limits
	// Cutoff ends when a stopping node waits no longer for the bodies of requests.
	Cutoff context.Context
	// Serves reports whether a path is the full name of a gRPC method.
	Serves func(path string) bool
	// Authenticate returns the context of an authenticated call.
	Authenticate func(ctx context.Context, method string) (context.Context, error)
	// Caller returns the name of the authenticated caller; "" if callers have no names.
	Caller func(ctx context.Context) string
	// Enter takes a slot for a call.
	Enter func(ctx context.Context, method string) (Slot, error)
	// Reject logs a call that is rejected before it reaches the inner server, and returns its
	// status as an error.
	Reject func(ctx context.Context, err error) error
	// Watch serves a WatchTx stream.
	Watch func(stream grpc.ServerStream) error
}

// Gateway is the handler of all requests that are not gRPC.
type Gateway struct {
	Options
	// A transcoder decompresses a body before it knows the method, so each limit needs its own.
	light, heavy http.Handler

	strangers, busy *rejections
}

// pathPrefix starts all paths of the JSON API.
const pathPrefix = "/api/"

// New returns a gateway.
func New(o Options) (*Gateway, error) {
	f := &Gateway{
		Options: o, strangers: newRejections(maxStrangers), busy: newRejections(maxBusy),
	}
	for most, transcode := range map[int]*http.Handler{
		o.Limits.LightBody: &f.light, o.Limits.HeavyBody: &f.heavy,
	} {
		var err error
		if *transcode, err = f.newTranscoder(int64(most)); err != nil {
			return nil, fmt.Errorf("server: transcode the services: %w", err)
		}
	}
	return f, nil
}

// newTranscoder returns a transcoder for requests of at most that many bytes once decompressed.
// Responses may be longer.
func (f *Gateway) newTranscoder(most int64) (http.Handler, error) {
	var services []*vanguard.Service
	for name := range f.Inner.GetServiceInfo() {
		services = append(services, vanguard.NewService(name, http.HandlerFunc(f.callInner)))
	}
	return vanguard.NewTranscoder(
		services,
		vanguard.WithDefaultServiceOptions(
			vanguard.WithTargetCodecs(vanguard.CodecProto),
			vanguard.WithTargetProtocols(vanguard.ProtocolGRPC),
			vanguard.WithMaxMessageBufferBytes(uint32(f.Limits.HeavyBody)),
			vanguard.WithNoTargetCompression()),
		vanguard.WithCompression(vanguard.CompressionGzip, newDeflater,
			func() connect.Decompressor { return &inflater{most: most} }),
		vanguard.WithCodec(func(r vanguard.TypeResolver) vanguard.Codec { return NewJSONCodec(r) }),
		vanguard.WithUnknownHandler(http.HandlerFunc(f.unknown)),
	)
}

// NewJSONCodec returns the codec of JSON bodies. It writes every field, so that scripts need no
// defaults, and rejects unknown fields.
func NewJSONCodec(r vanguard.TypeResolver) vanguard.Codec {
	return requestCodec{&vanguard.JSONCodec{
		MarshalOptions: protojson.MarshalOptions{
			EmitDefaultValues: true,
			Resolver:          r,
		}, UnmarshalOptions: protojson.UnmarshalOptions{Resolver: r},
	}}
}

// requestCodec reports malformed bodies as errors of the request.
type requestCodec struct{ *vanguard.JSONCodec }

// Unmarshal reads a message.
func (c requestCodec) Unmarshal(text []byte, into proto.Message) error {
	if err := checkJSON(text, into.ProtoReflect().Descriptor()); err != nil {
		return asConnect(status.From(err, ""))
	}
	return asRequestError(c.JSONCodec.Unmarshal(text, into), into.ProtoReflect().Descriptor())
}

// UnmarshalField reads a field of a message.
func (c requestCodec) UnmarshalField(text []byte, into proto.Message,
	field protoreflect.FieldDescriptor) error {
	if err := checkJSONField(text, field); err != nil {
		return asConnect(status.From(err, ""))
	}
	return asRequestError(c.JSONCodec.UnmarshalField(text, into, field), field.Message())
}

var unknownJSON = regexp.MustCompile(`unknown field "([^"]*)"`)

// asRequestError describes an error of the JSON decoder for a message; nil: of a scalar.
func asRequestError(err error, of protoreflect.MessageDescriptor) error {
	if err == nil {
		return nil
	}
	bad := status.InvalidField("request",
		"must be a JSON object like %s: %s; see docs/openapi.yaml", sampleJSON(of), jsonFault(err))
	if name := unknownJSON.FindStringSubmatch(err.Error()); name != nil {
		bad = status.UnknownField(status.Violation{
			Field: name[1], Message: "this server knows no such field there; remove it, or " +
				"update the server",
		})
	}
	return asConnect(status.From(bad, ""))
}

// sampleJSON shows the form of a message, with its first field.
func sampleJSON(of protoreflect.MessageDescriptor) string {
	if of == nil || of.Fields().Len() == 0 {
		return "{}"
	}
	first, value := of.Fields().Get(0), `"..."`
	switch {
	case first.IsList():
		value = "[...]"
	case first.IsMap(), first.Message() != nil:
		value = "{...}"
	}
	return fmt.Sprintf("{%q: %s}", first.JSONName(), value)
}

// jsonFault describes an error of the JSON decoder, whose prefix is followed by one of two kinds of
// space.
func jsonFault(err error) string {
	text := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
	if strings.HasSuffix(text, io.ErrUnexpectedEOF.Error()) {
		return "it ends early"
	}
	return text
}

// asConnect converts a status to an error of the transcoder.
func asConnect(s *grpcstatus.Status) *connect.Error {
	converted := connect.NewError(connect.Code(s.Code()), errors.New(s.Message()))
	for _, detail := range s.Proto().GetDetails() {
		if d, err := connect.NewErrorDetail(detail); err == nil {
			converted.AddDetail(d)
		}
	}
	return converted
}

// toJSON writes a message on one line.
func toJSON(m proto.Message) []byte {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil { // a detail of a type that is not linked here
		return []byte(
			`{"code":13,"message":"call: the response has no JSON form","details":[]}`)
	}
	return text
}

// ConnContext adds the peer of an HTTP connection, with its TLS state, to its context, as gRPC
// does.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	from := &peer.Peer{Addr: conn.RemoteAddr()}
	if received, ok := conn.(*port.Conn); ok {
		from.AuthInfo = received.AuthInfo()
	}
	return peer.NewContext(limit.WithConn(ctx, conn), from)
}

// withTLS sets the TLS state of the request, where the inner server reads it.
func withTLS(r *http.Request) *http.Request {
	if from, ok := peer.FromContext(r.Context()); ok {
		if shown, isTLS := from.AuthInfo.(credentials.TLSInfo); isTLS {
			r = r.WithContext(r.Context())
			r.TLS = &shown.State
		}
	}
	return r
}

// ServeHTTP serves one request.
func (f *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = withTLS(r)
	f.setDeadlines(w, r)
	if !f.AllowHost(r.Host) {
		f.strangers.respond(w, r, "", func() { misdirected(w, r) })
		return
	}
	if f.Console != nil && console.Serves(r.URL.Path) {
		f.Console.ServeHTTP(w, r)
		return
	}
	if answer := f.checkOrigin(w, r); answer != nil {
		f.strangers.respond(w, r, "", answer)
		return
	}
	r, err := f.admitHTTP(r)
	if err != nil {
		f.strangers.respond(w, r, "", func() { f.refuseHTTP(w, r, err) })
		return
	}
	slot, err := f.Enter(r.Context(), methodOf(r))
	if err != nil {
		f.busy.respond(w, r, f.Caller(r.Context()), func() { f.refuseHTTP(w, r, err) })
		return
	}
	defer slot.Release()
	defer awaitRead(w, r)
	f.serve(w, r, slot)
}

// serve serves a request that has a slot.
func (f *Gateway) serve(w http.ResponseWriter, r *http.Request, slot Slot) {
	if strings.HasPrefix(r.URL.Path, pathPrefix) {
		if err := checkParameters(r.Method, r.URL); err != nil {
			refuse(w, http.StatusBadRequest, status.From(err, ""))
			return
		}
	}
	most, transcode := f.weigh(methodOf(r))
	r, err := f.readBody(w, r, most)
	if err != nil {
		f.refuseHTTP(w, r, err)
		return
	}
	if ask := watched(r.URL); ask != nil && r.Method == http.MethodGet {
		f.watch(w, r, ask)
		return
	}
	call := func(w http.ResponseWriter) {
		if !strings.HasPrefix(r.URL.Path, pathPrefix) {
			transcode.ServeHTTP(w, f.asConnectCall(r))
			return
		}
		rest := &restWriter{ResponseWriter: w, request: r.Method + " " + r.URL.Path}
		transcode.ServeHTTP(rest, asTranscoded(r))
		rest.end()
	}
	if isRead(r) {
		f.respondBuilt(w, r, slot, call)
		return
	}
	call(w)
}

// HealthBytes is the size limit of a health request over HTTP: its client is not authenticated, and
// the transcoder buffers the body.
const HealthBytes = 4 << 10

// methodOf returns the gRPC method of an HTTP request, as far as the limiter distinguishes methods.
func methodOf(r *http.Request) string {
	switch {
	case watched(r.URL) != nil && r.Method == http.MethodGet:
		return pb.TxService_WatchTx_FullMethodName
	case r.URL.Path == "/api/v1/tx" && r.Method == http.MethodGet:
		return pb.TxService_ListTxs_FullMethodName
	case r.URL.Path == "/api/v1/tx/batch":
		return pb.TxService_BatchCreateTx_FullMethodName
	}
	return r.URL.Path
}

// weigh returns the size limit of the body of a call, and its transcoder.
func (f *Gateway) weigh(method string) (most int, by http.Handler) {
	switch {
	case rpc.IsHealth(method):
		return HealthBytes, f.light
	case method == pb.TxService_BatchCreateTx_FullMethodName:
		return f.Limits.HeavyBody, f.heavy
	}
	return f.Limits.LightBody, f.light
}

// asConnectCall adds the header of Connect to a plain POST to a method, since some clients omit it;
// without it the transcoder does not find the method.
func (f *Gateway) asConnectCall(r *http.Request) *http.Request {
	if r.Method != http.MethodPost || r.Header.Get(connectHeader) != "" || !f.Serves(r.URL.Path) {
		return r
	}
	r = r.Clone(r.Context())
	if isJSON(r.Header.Get("Content-Type")) {
		r.Header.Set("Content-Type", "application/json")
	}
	switch r.Header.Get("Content-Type") {
	case "application/json", "application/proto":
		r.Header.Set(connectHeader, "1")
	}
	return r
}

const connectHeader = "Connect-Protocol-Version"

// admitHTTP refuses a stranger before anything is read of the body, which the transcoder reads as a
// whole before it makes a call of it. The request that it gives has the token where gRPC has it.
func (f *Gateway) admitHTTP(r *http.Request) (*http.Request, error) {
	ctx := metadata.NewIncomingContext(r.Context(),
		metadata.MD{"authorization": r.Header.Values("authorization")})
	ctx, err := f.Authenticate(ctx, r.URL.Path)
	return r.WithContext(ctx), err
}

// refuseHTTP rejects a request in its own protocol, before there is a call.
func (f *Gateway) refuseHTTP(w http.ResponseWriter, r *http.Request, err error) {
	closeUnreadBody(w, r)
	s, _ := grpcstatus.FromError(f.Reject(r.Context(), err))
	if writer := connect.NewErrorWriter(); writer.IsSupported(r) &&
		!strings.HasPrefix(r.URL.Path, pathPrefix) {
		_ = writer.Write(w, r, asConnect(s)) // fails only if the client has gone
		return
	}
	code := httpCodes[s.Code()]
	var body *bodyError
	if errors.As(err, &body) {
		code = body.http
	}
	refuse(w, code, s)
}

// unknown responds to a request that is neither a path of the JSON API nor a call of a method.
func (f *Gateway) unknown(w http.ResponseWriter, r *http.Request) {
	if f.Serves(r.URL.Path) {
		http.Error(
			w,
			fmt.Sprintf(
				"unsupported call of %s (%s, Content-Type %q); send a POST with Content-Type "+
					"application/json or application/proto (Connect 1), or application/grpc-web "+
					"(not grpc-web-text)",
				r.URL.Path,
				r.Method,
				r.Header.Get("Content-Type"),
			),
			http.StatusUnsupportedMediaType,
		)
		return
	}
	if rpc.IsFencepost(r.URL.Path) {
		f.refuseHTTP(w, r, status.UnknownMethod(r.URL.Path))
		return
	}
	http.Error(
		w,
		fmt.Sprintf(
			"unknown path %s %s; the JSON API is below /api/v1, see docs/openapi.yaml",
			r.Method, r.URL.Path),
		http.StatusNotFound,
	)
}

// createdHeader marks the response of a new transaction for restWriter.
const createdHeader = "Fencepost-Created"

// MarkCreated is the innermost interceptor of the inner server.
func MarkCreated(ctx context.Context, request any, _ *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	response, err := handler(ctx, request)
	if r, ok := response.(*pb.CreateTxResponse); ok && err == nil && r.GetCreated() {
		if err := grpc.SetHeader(ctx, metadata.Pairs(createdHeader, "true")); err != nil {
			return nil, fmt.Errorf("server: mark the response: %w", err)
		}
	}
	return response, err
}

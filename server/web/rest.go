package web

import (
	"bytes"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/contract"
	"github.com/fencepost/fencepost/server/status"
)

const pathByRequest = "/api/v1/tx/by-request"

// asTranscoded adapts a request to the transcoder, which treats the text after a colon as a part of
// the route, although account ids have colons, and unescapes a path twice.
func asTranscoded(r *http.Request) *http.Request {
	escaped := r.URL.EscapedPath()
	r = r.Clone(r.Context())
	r.Header.Del(connectHeader) // otherwise the transcoder expects a method name in the path
	if isJSON(r.Header.Get("Content-Type")) {
		r.Header.Set("Content-Type", "application/json")
	}
	if r.ContentLength == 0 && r.Method != http.MethodGet { // an empty message
		r.Header.Del("Content-Encoding")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), 2
	}
	if r.URL.Path == pathByRequest {
		r.URL.RawQuery = byRequest(r.URL.Query()).Encode()
	}
	r.URL.Path, r.URL.RawPath = strings.ReplaceAll(escaped, ":", "%3A"), ""
	return r
}

// isJSON reports whether a content type is JSON in UTF-8, in any spelling; the transcoder knows
// two.
func isJSON(contentType string) bool {
	kind, parameters, err := mime.ParseMediaType(contentType)
	charset := parameters["charset"]
	return err == nil && kind == "application/json" &&
		(charset == "" || strings.EqualFold(charset, "utf-8"))
}

// checkURL rejects a path or query that is not UTF-8, which no message can hold. It also rejects a
// malformed query, or one that repeats a parameter in either spelling: the transcoder would drop a
// part of it, and the meaning would change.
func checkURL(u *url.URL) error {
	if !utf8.ValidString(u.Path) {
		return status.InvalidField("path", "must be UTF-8 after unescaping")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return status.InvalidField("query",
			`cannot be read (%v); separate parameters by "&", and escape "%%" as "%%25" and `+
				`";" as "%%3B"`, err)
	}
	for name, values := range query {
		if !utf8.ValidString(name) || !utf8.ValidString(strings.Join(values, "")) {
			return status.InvalidField(strings.ToValidUTF8(name, "\uFFFD"),
				"must be UTF-8 after unescaping")
		}
	}
	if strings.HasPrefix(u.Path, pathByRequest) {
		query = byRequest(query)
	}
	return checkOnce(query)
}

// listParameters may be repeated, with or without the name of their message.
var listParameters = listParametersOf(contract.Requests()...)

// listParametersOf returns the names of the lists in requests and their messages.
func listParametersOf(all ...proto.Message) map[string]bool {
	names := map[string]bool{}
	var collect func(protoreflect.MessageDescriptor)
	collect = func(of protoreflect.MessageDescriptor) {
		for i := range of.Fields().Len() {
			switch field := of.Fields().Get(i); {
			case field.IsList():
				names[string(field.Name())] = true
			// times and masks are one parameter each
			case field.Message() != nil &&
				field.Message().ParentFile().Package() == of.ParentFile().Package():
				collect(field.Message())
			}
		}
	}
	for _, request := range all {
		collect(request.ProtoReflect().Descriptor())
	}
	return names
}

// checkOnce rejects a repeated parameter that is not a list.
func checkOnce(query url.Values) error {
	given := map[string]int{}
	for name, values := range query {
		given[snakeCase(name)] += len(values)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if given[name] > 1 && !listParameters[name[strings.LastIndexByte(name, '.')+1:]] {
			return status.InvalidField(name, "is given %d times; give it once", given[name])
		}
	}
	return nil
}

// snakeCase returns a name in the spelling of the contract.
func snakeCase(name string) string {
	return upperCase.ReplaceAllStringFunc(name,
		func(letter string) string { return "_" + strings.ToLower(letter) })
}

var upperCase = regexp.MustCompile(`[A-Z]`)

// byRequest renames the parameters of a lookup by request to the names of the contract.
func byRequest(query url.Values) url.Values {
	full, names := url.Values{}, map[string]string{
		"submitter":         "request.submitter",
		"pool":              "request.pool",
		"request_id":        "request.request_id",
		"requestId":         "request.request_id",
		"request.requestId": "request.request_id",
	}
	for name, values := range query {
		if long, ok := names[name]; ok {
			name = long
		}
		full[name] = append(full[name], values...)
	}
	return full
}

// restWriter adapts a JSON response to HTTP: status 202 for a new transaction, and Retry-After. It
// makes every error a google.rpc.Status with a reason, also errors of the transcoder.
type restWriter struct {
	http.ResponseWriter
	request string // method and path
	code    int
	line    bool         // the response needs a newline
	error   bytes.Buffer // written by end
}

// WriteHeader delays the header of an error until end.
func (w *restWriter) WriteHeader(code int) {
	if w.code != 0 {
		return
	}
	if created := w.Header().Get(createdHeader); created != "" {
		w.Header().Del(createdHeader)
		if code == http.StatusOK {
			code = http.StatusAccepted
		}
	}
	if w.code = code; code < http.StatusBadRequest {
		w.endLine()
		w.ResponseWriter.WriteHeader(code)
	}
}

// endLine counts a newline after the response, for terminals, unless it is compressed.
func (w *restWriter) endLine() {
	length, err := strconv.Atoi(w.Header().Get("Content-Length"))
	if w.line = err == nil && isJSON(w.Header().Get("Content-Type")) &&
		w.Header().Get("Content-Encoding") == ""; w.line {
		w.Header().Set("Content-Length", strconv.Itoa(length+1))
	}
}

// Write writes the body.
func (w *restWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.code < http.StatusBadRequest {
		return w.ResponseWriter.Write(p)
	}
	return w.error.Write(p)
}

// Flush sends the written bytes, unless they are an error.
func (w *restWriter) Flush() {
	if w.code != 0 && w.code < http.StatusBadRequest {
		// A broken connection fails on the next write.
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// Unwrap is for http.ResponseController.
func (w *restWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end completes the response, or writes the error if there was one.
func (w *restWriter) end() {
	if w.code < http.StatusBadRequest {
		if w.line {
			_, _ = w.ResponseWriter.Write([]byte{'\n'}) // fails only if the client has gone
		}
		return
	}
	var outcome statuspb.Status
	if protojson.Unmarshal(w.error.Bytes(), &outcome) != nil || outcome.GetCode() == 0 {
		outcome = statuspb.Status{
			Code:    int32(codeOf(w.code)),
			Message: string(bytes.TrimSpace(w.error.Bytes())),
		}
	}
	switch {
	// once unpacked
	case strings.HasPrefix(outcome.GetMessage(), status.RequestTooLargePrefix) &&
		status.ReasonOf(grpcstatus.FromProto(&outcome)) != "":
		w.code = http.StatusRequestEntityTooLarge
	case w.code == http.StatusUnsupportedMediaType:
		refuse(w.ResponseWriter, w.code, status.From(unsupportedType(outcome.GetMessage()), ""))
		return
	case w.code == http.StatusMethodNotAllowed:
		outcome.Message = w.notAllowed()
	case outcome.GetCode() == int32(codes.ResourceExhausted) &&
		status.ReasonOf(grpcstatus.FromProto(&outcome)) == "":
		refuse(w.ResponseWriter, http.StatusRequestEntityTooLarge,
			status.RequestTooLarge(outcome.GetMessage()))
		return
	}
	if name := badParameter.FindStringSubmatch(outcome.GetMessage()); name != nil &&
		outcome.GetCode() == int32(codes.InvalidArgument) &&
		status.ReasonOf(grpcstatus.FromProto(&outcome)) == "" {
		refuse(w.ResponseWriter, http.StatusBadRequest,
			status.From(noSuchValue(name[1], name[2]), ""))
		return
	}
	if name := unknownParameter.FindStringSubmatch(outcome.GetMessage()); name != nil &&
		outcome.GetCode() == int32(codes.Unknown) {
		refuse(w.ResponseWriter, http.StatusBadRequest, status.From(noSuchParameter(name[1]), ""))
		return
	}
	refuse(w.ResponseWriter, w.code, grpcstatus.FromProto(&outcome))
}

// notAllowed lists the methods of the path, which the transcoder returns in any order.
func (w *restWriter) notAllowed() string {
	methods := strings.FieldsFunc(w.Header().Get("Allow"),
		func(r rune) bool { return r == ',' || r == ' ' })
	slices.Sort(methods)
	w.Header().Set("Allow", strings.Join(methods, ", "))
	return status.Clip(w.request, status.MaxFieldBytes) + ": this path takes " +
		strings.Join(methods, " or ")
}

// unsupportedType rejects the content type or encoding of a body.
func unsupportedType(message string) error {
	field := "Content-Type"
	if !unsupported.MatchString(message) {
		field = "Content-Encoding"
	}
	return status.InvalidField(field,
		"%s; send Content-Type: application/json, in UTF-8, with no Content-Encoding or gzip",
		unsupported.ReplaceAllString(message, `"$1" is not supported`))
}

// unsupported matches the transcoder's error for an unknown content type.
var unsupported = regexp.MustCompile(`^"([^"]*?)\??" sub-format not supported`)

// unknownParameter matches the transcoder's error for an unknown parameter.
var unknownParameter = regexp.MustCompile(`^unknown field in field path "([^"]*)"`)

func noSuchParameter(name string) error {
	return status.UnknownField(
		status.Violation{Field: name, Message: "unknown parameter of this path; remove it"})
}

// badParameter matches the transcoder's error for an invalid value of a parameter.
var badParameter = regexp.MustCompile(
	`(?s)^invalid parameter "([^"]*)"(?: value for type "([^"]*)")?: `)

// noSuchValue describes the values of a parameter, as far as they are known.
func noSuchValue(name, kind string) error {
	for _, request := range contract.Requests() {
		field := request.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
		switch {
		case field == nil:
		case field.Enum() != nil:
			return noSuchName(name, field)
		case field.Message() != nil && wantedKnown[field.Message().Name()] != "":
			return status.InvalidField(name, "%s",
				strings.TrimSuffix(wantedKnown[field.Message().Name()], ", in quotes"))
		}
	}
	if kind == "" || kind == "message" {
		return status.InvalidField(name,
			"is not a value of this parameter; see docs/api.md")
	}
	return status.InvalidField(name, "must be a value of the type %s", kind)
}

// noSuchName lists the values of an enum.
func noSuchName(path string, field protoreflect.FieldDescriptor) error {
	again := ""
	if field.IsList() {
		again = "; repeat the parameter for each"
	}
	return status.InvalidField(path, "must be one of %s%s",
		strings.Join(namesOf(field.Enum()), ", "),
		again)
}

// namesOf returns the names of an enum without UNSPECIFIED.
func namesOf(of protoreflect.EnumDescriptor) (names []string) {
	for i := 1; i < of.Values().Len(); i++ {
		names = append(names, string(of.Values().Get(i).Name()))
	}
	return names
}

// codeOf returns the gRPC code of an HTTP status that no service set.
func codeOf(code int) codes.Code {
	switch code {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return codes.Unimplemented
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusRequestEntityTooLarge:
		return codes.ResourceExhausted
	default:
		return codes.InvalidArgument
	}
}

// refuse writes an error.
func refuse(w http.ResponseWriter, code int, s *grpcstatus.Status) {
	if s.Code() == codes.InvalidArgument && status.ReasonOf(s) == "" {
		s = status.WithReason(grpcstatus.New(codes.InvalidArgument, "request: "+s.Message()),
			pb.ErrorReason_ERROR_REASON_INVALID_FIELD)
	}
	if s.Code() == codes.Unimplemented && status.ReasonOf(s) == "" {
		s = status.WithReason(s, pb.ErrorReason_ERROR_REASON_UNKNOWN_METHOD)
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			w.Header().Set("Retry-After",
				strconv.Itoa(int(math.Ceil(info.GetRetryDelay().AsDuration().Seconds()))))
		}
	}
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", "application/json")
	// headers of the replaced response
	for _, name := range []string{"Content-Length", "Content-Encoding", "Trailer", "Grpc-Status",
		"Grpc-Message", "Grpc-Status-Details-Bin"} {
		w.Header().Del(name)
	}
	text := append(toJSON(s.Proto()), '\n')
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(code)
	_, _ = w.Write(text) // a client that has gone reads nothing
}

// HTTPStatus returns the HTTP status of a gRPC code in the JSON API.
func HTTPStatus(c codes.Code) int { return httpCodes[c] }

// httpCodes agree with the transcoder.
var httpCodes = map[codes.Code]int{
	codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400,
	codes.DeadlineExceeded: 504, codes.NotFound: 404, codes.AlreadyExists: 409,
	codes.PermissionDenied: 403, codes.ResourceExhausted: 429, codes.FailedPrecondition: 400,
	codes.Aborted: 409, codes.OutOfRange: 400, codes.Unimplemented: 501,
	codes.Internal: 500, codes.Unavailable: 503, codes.DataLoss: 500, codes.Unauthenticated: 401,
}

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

// asTranscoded writes a request as the transcoder reads it. It takes what follows a colon for a
// part of the route, and account ids have colons; and it unescapes a path that is not escaped any
// more.
func asTranscoded(r *http.Request) *http.Request {
	escaped := r.URL.EscapedPath()
	r = r.Clone(r.Context())
	r.Header.Del(connectHeader) // it would be looked for among the methods
	if isJSON(r.Header.Get("Content-Type")) {
		r.Header.Set("Content-Type", "application/json")
	}
	if r.ContentLength == 0 &&
		// nothing to say is no mistake: what is missing is told by its name
		r.Method != http.MethodGet {
		r.Header.Del("Content-Encoding")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), 2
	}
	if r.URL.Path == pathByRequest {
		r.URL.RawQuery = byRequest(r.URL.Query()).Encode()
	}
	r.URL.Path, r.URL.RawPath = strings.ReplaceAll(escaped, ":", "%3A"), ""
	return r
}

// isJSON tells the type of JSON in any of its spellings, of which the transcoder knows two. JSON
// has no other charset.
func isJSON(contentType string) bool {
	kind, parameters, err := mime.ParseMediaType(contentType)
	charset := parameters["charset"]
	return err == nil && kind == "application/json" &&
		(charset == "" || strings.EqualFold(charset, "utf-8"))
}

// checkURL refuses a path or a query that is not text, which no message can hold; a query of which
// a part would be dropped, since then another question would be answered; and one that names a
// parameter twice, in either spelling, of which one would be dropped as well.
func checkURL(u *url.URL) error {
	if !utf8.ValidString(u.Path) {
		return status.InvalidField("path", "must be UTF-8 once it is unescaped")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return status.InvalidField("query",
			`cannot be read (%v); separate parameters by "&", and escape what is in them, "%%" as "%%25" and ";" as "%%3B"`,
			err)
	}
	for name, values := range query {
		if !utf8.ValidString(name) || !utf8.ValidString(strings.Join(values, "")) {
			return status.InvalidField(strings.ToValidUTF8(name, "\uFFFD"),
				"must be UTF-8 once it is unescaped")
		}
	}
	if strings.HasPrefix(u.Path, pathByRequest) {
		query = byRequest(query)
	}
	return checkOnce(query)
}

// listParameters may be given more than once, be they named alone or with the field that they are
// in.
var listParameters = listParametersOf(contract.Requests()...)

// listParametersOf are the names of lists, of requests and of the messages in them.
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

// checkOnce refuses a parameter that is given twice, unless it is one of a list.
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

// snakeCase is a name as the contract spells it.
func snakeCase(name string) string {
	return upperCase.ReplaceAllStringFunc(name,
		func(letter string) string { return "_" + strings.ToLower(letter) })
}

var upperCase = regexp.MustCompile(`[A-Z]`)

// byRequest gives the parameters of a look-up by request the names that the contract has for them.
func byRequest(query url.Values) url.Values {
	full, names := url.Values{}, map[string]string{
		"submitter":         "request.submitter",
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

// restWriter gives an answer in JSON what HTTP has a place for: 202 for a transaction that is
// queued just now, and Retry-After. It sees to it that an error is a google.rpc.Status with a
// reason, also where the transcoder made it.
type restWriter struct {
	http.ResponseWriter
	asked string // method and path
	code  int
	line  bool         // the answer lacks its newline
	error bytes.Buffer // held back until the end
}

// WriteHeader holds an error back.
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

// endLine makes room for the newline that an answer ends with, so that those of a terminal do not
// run together. What is packed is left as it is.
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

// Flush sends what there is, but for an error.
func (w *restWriter) Flush() {
	if w.code != 0 && w.code < http.StatusBadRequest {
		_ = http.NewResponseController(
			w.ResponseWriter).Flush() // a connection that broke shows when something is written
	}
}

// Unwrap is for http.ResponseController.
func (w *restWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end ends an answer, or tells the error if there was one.
func (w *restWriter) end() {
	if w.code < http.StatusBadRequest {
		if w.line {
			_, _ = w.ResponseWriter.Write([]byte{'\n'}) // the caller has gone, or will see
		}
		return
	}
	var told statuspb.Status
	if protojson.Unmarshal(w.error.Bytes(), &told) != nil || told.GetCode() == 0 {
		told = statuspb.Status{
			Code:    int32(codeOf(w.code)),
			Message: string(bytes.TrimSpace(w.error.Bytes())),
		}
	}
	switch {
	// once unpacked
	case strings.HasPrefix(told.GetMessage(), status.RequestTooLargePrefix) &&
		status.ReasonOf(grpcstatus.FromProto(&told)) != "":
		w.code = http.StatusRequestEntityTooLarge
	case w.code == http.StatusUnsupportedMediaType:
		refuse(w.ResponseWriter, w.code, status.From(notSpoken(told.GetMessage()), ""))
		return
	case w.code == http.StatusMethodNotAllowed:
		told.Message = w.notAllowed()
	case told.GetCode() == int32(codes.ResourceExhausted) &&
		status.ReasonOf(grpcstatus.FromProto(&told)) == "":
		refuse(w.ResponseWriter, http.StatusRequestEntityTooLarge,
			status.RequestTooLarge(told.GetMessage()))
		return
	}
	if name := badParameter.FindStringSubmatch(told.GetMessage()); name != nil &&
		told.GetCode() == int32(codes.InvalidArgument) &&
		status.ReasonOf(grpcstatus.FromProto(&told)) == "" {
		refuse(w.ResponseWriter, http.StatusBadRequest,
			status.From(noSuchValue(name[1], name[2]), ""))
		return
	}
	if name := unknownParameter.FindStringSubmatch(told.GetMessage()); name != nil &&
		told.GetCode() == int32(codes.Unknown) {
		refuse(w.ResponseWriter, http.StatusBadRequest, status.From(noSuchParameter(name[1]), ""))
		return
	}
	refuse(w.ResponseWriter, w.code, grpcstatus.FromProto(&told))
}

// notAllowed names the methods that the path has, which the transcoder gives in any order.
func (w *restWriter) notAllowed() string {
	methods := strings.FieldsFunc(w.Header().Get("Allow"),
		func(r rune) bool { return r == ',' || r == ' ' })
	slices.Sort(methods)
	w.Header().Set("Allow", strings.Join(methods, ", "))
	return status.Clip(w.asked, status.MaxFieldBytes) + ": this path takes " +
		strings.Join(methods, " or ")
}

// notSpoken refuses a body for the form that it is in.
func notSpoken(says string) error {
	field := "Content-Type"
	if !unsupported.MatchString(says) {
		field = "Content-Encoding"
	}
	return status.InvalidField(field,
		"%s; send Content-Type: application/json, in UTF-8, and no Content-Encoding but gzip",
		unsupported.ReplaceAllString(says, `"$1" is not supported`))
}

// unsupported is what the transcoder says of a body in a form that it does not know.
var unsupported = regexp.MustCompile(`^"([^"]*?)\??" sub-format not supported`)

// unknownParameter is what the transcoder says of a parameter that it does not know.
var unknownParameter = regexp.MustCompile(`^unknown field in field path "([^"]*)"`)

func noSuchParameter(name string) error {
	return status.UnknownField(
		status.Violation{Field: name, Message: "this path knows no such parameter; remove it"})
}

// badParameter is what the transcoder says of a value that is none of its parameter.
var badParameter = regexp.MustCompile(
	`(?s)^invalid parameter "([^"]*)"(?: value for type "([^"]*)")?: `)

// noSuchValue says of a parameter what it may be, as far as that is known.
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
			"is no value of this parameter; docs/api.md says how it is written")
	}
	return status.InvalidField(name, "must be a value of the type %s", kind)
}

// noSuchName names those of an enum that can be asked for.
func noSuchName(path string, field protoreflect.FieldDescriptor) error {
	again := ""
	if field.IsList() {
		again = "; name each by itself"
	}
	return status.InvalidField(path, "must be one of %s%s",
		strings.Join(namesOf(field.Enum()), ", "),
		again)
}

// namesOf leaves out the first, which stands for none.
func namesOf(of protoreflect.EnumDescriptor) (names []string) {
	for i := 1; i < of.Values().Len(); i++ {
		names = append(names, string(of.Values().Get(i).Name()))
	}
	return names
}

// codeOf is the code of an answer that was not made by a service.
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
	// of an answer that is none
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

// httpCodes are the same as those of the transcoder.
var httpCodes = map[codes.Code]int{
	codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400,
	codes.DeadlineExceeded: 504, codes.NotFound: 404, codes.AlreadyExists: 409,
	codes.PermissionDenied: 403, codes.ResourceExhausted: 429, codes.FailedPrecondition: 400,
	codes.Aborted: 409, codes.OutOfRange: 400, codes.Unimplemented: 501,
	codes.Internal: 500, codes.Unavailable: 503, codes.DataLoss: 500, codes.Unauthenticated: 401,
}

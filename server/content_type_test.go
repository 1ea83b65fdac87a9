package server

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// A body that contradicts its headers is the client's error, on each protocol in its own format.
// The response has no gRPC headers.
func TestBody_NotAsDeclared_Rejected(t *testing.T) {
	t.Parallel()
	n := newHarness(t).serve()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, `{"submitter":"alice"}`)
	n.must(err)
	n.must(z.Close())
	for name, one := range map[string]struct{ body, encoding, message string }{
		"plain text as gzip": {`{"submitter":"alice"}`, "gzip", "is not gzip"},
		"truncated gzip":     {packed.String()[:packed.Len()-5], "gzip", "is not gzip"},
		"data after gzip":    {packed.String() + "abc", "gzip", "is not gzip"},
		"wrong checksum": {packed.String()[:packed.Len()-8] + "12345678", "gzip",
			"is not gzip"},
		"not JSON":  {"x", "", "must be a JSON object"},
		"not UTF-8": {"\xff", "", "must be UTF-8"},
		"UTF-16":    {"\xff\xfe{\x00}\x00", "", "must be UTF-8"},
	} {
		a := n.http("POST", "/api/v1/tx", one.body, "Content-Encoding", one.encoding)
		s := a.wantError(t, http.StatusBadRequest, codes.InvalidArgument, "INVALID_FIELD")
		if !strings.Contains(s.Message(), one.message) || a.header.Get("Grpc-Status") != "" ||
			a.header.Get("Grpc-Message") != "" {
			t.Errorf("%s: %q, with the head %v", name, s.Message(), a.header)
		}
		if a := n.http("POST", pb.TxService_CreateTx_FullMethodName, one.body, "Content-Encoding",
			one.encoding); a.code != http.StatusBadRequest ||
			!a.hasReason("INVALID_FIELD") {
			t.Errorf("%s over Connect: %d %s", name, a.code, a.body)
		}
	}
	if a := n.http("POST", pb.TxService_CreateTx_FullMethodName, "", "Content-Type",
		"application/json"); a.code != http.StatusBadRequest ||
		!a.hasReason("INVALID_FIELD") {
		t.Errorf("nothing over Connect: %d %s", a.code, a.body)
	}
	for _, path := range []string{"/api/v1/tx/by-request?submitter=alice&request_id=a",
		"/api/v1/events", "/api/v1/submitters/alice/events"} {
		n.http("GET", path, "hello").wantError(t, http.StatusBadRequest, codes.InvalidArgument,
			"INVALID_FIELD")
	}
}

// The client waits for the response, so it must get one.
func TestBody_BrokenChunk_Rejected(t *testing.T) {
	t.Parallel()
	n := newHarness(t).serve()
	for path, want := range map[string]string{
		"/api/v1/tx":                         `"code":3`,
		pb.TxService_CreateTx_FullMethodName: `"code":"invalid_argument"`,
	} {
		conn, err := net.Dial("tcp", n.conn.Target())
		n.must(err)
		defer conn.Close()
		n.must(conn.SetDeadline(time.Now().Add(testTimeout)))
		_, err = fmt.Fprintf(conn,
			"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
				"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
			path)
		n.must(err)
		answer, _ := io.ReadAll(conn) // may end with a reset
		if text := strings.ReplaceAll(string(answer), " ", ""); !strings.HasPrefix(text,
			"HTTP/1.1400") ||
			!strings.Contains(text, want) {
			t.Errorf("%s returns %s", path, answer)
		}
	}
}

func TestBody_Missing_EmptyMessage(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	tx := n.create("alice", "r")
	n.http("POST", "/api/v1/tx/"+tx.GetTxId()+"/cancel", "").want(t, http.StatusOK, "outcome",
		"CANCEL_OUTCOME_CANCELLED")
	n.http("POST", "/api/v1/tx/"+tx.GetTxId()+"/cancel", "", "Content-Encoding", "gzip").want(t,
		http.StatusOK, "outcome", "CANCEL_OUTCOME_CANCELLED")
	s := n.http("POST", "/api/v1/tx", "").wantError(t, http.StatusBadRequest, codes.InvalidArgument,
		"INVALID_FIELD")
	if !strings.Contains(s.Message(), "payload: is missing") {
		t.Errorf("message %q", s.Message())
	}
}

// A dropped parameter would change the meaning of the query.
func TestQuery_Malformed_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	n.create("alice", "r")
	for _, path := range []string{"/api/v1/tx", "/api/v1/events", "/api/v1/submitters",
		"/api/v1/submitters/alice/events", "/api/v1/tx/by-request"} {
		for query, message := range map[string]string{
			"submitter=%zz":              "query: cannot be read",
			"submitter=bob;page_size=1":  "query: cannot be read",
			"a=b&%":                      "query: cannot be read",
			"page_size=1&page_size=2":    "page_size: is given 2 times",
			"page_token=a&pageToken=b":   "page_token: is given 2 times",
			"resumeToken=&resume_token=": "resume_token: is given 2 times",
		} {
			s := n.http("GET", path+"?"+query, "").wantError(t, http.StatusBadRequest,
				codes.InvalidArgument, "INVALID_FIELD")
			if !strings.HasPrefix(s.Message(), message) {
				t.Errorf("%s?%s: message %q", path, query, s.Message())
			}
		}
	}
	n.http("GET", "/api/v1/tx?submitter=alice&submitter=bob", "").wantError(t,
		http.StatusBadRequest, codes.InvalidArgument, "INVALID_FIELD")
	repeated := "/api/v1/tx?states=TX_STATE_QUEUED&states=TX_STATE_STUCK&labels=a%3Db&labels=c%3Dd"
	n.http("GET", repeated, "").want(t, http.StatusOK)
}

// The path identifies the method for every protocol, so the error is about the protocol.
func TestPath_UnsupportedProtocol_ErrorNamesFormats(t *testing.T) {
	t.Parallel()
	n := newHarness(t).serve()
	create := pb.TxService_CreateTx_FullMethodName
	for name, a := range map[string]httpResponse{
		"gRPC-Web text": n.http("POST", create, "AAAAAAA=", "Content-Type",
			"application/grpc-web-text"), "no type": n.http("POST", create, ""),
		"PUT":       n.http("PUT", create, "{}"),
		"Connect 9": n.http("POST", create, "{}", "Connect-Protocol-Version", "9"),
	} {
		if a.code != http.StatusUnsupportedMediaType ||
			!strings.Contains(string(a.body), "application/grpc-web") {
			t.Errorf("%s: %d %s", name, a.code, a.body)
		}
	}
	for _, path := range []string{"/fencepost.v1.TxService/Nothing",
		"/fencepost.v1.Nothing/CreateTx", "/fencepost.v1.TxService"} {
		if a := n.http("POST", path, "{}"); a.code != http.StatusNotImplemented ||
			!strings.Contains(string(a.body), "UNKNOWN_METHOD") ||
			!strings.Contains(a.field(t, "message"), fmt.Sprintf("method %q: ", path)) {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
	for _, name := range []string{"/fencepost.v1.TxService/Nothing", "/fencepost.v1.TxService/" +
		strings.Repeat("é", 5000), "/fencepost.v1.TxService/\xff\xfe"} {
		s := wantStatus(t, n.conn.Invoke(n.ctx, name, &pb.GetTxRequest{}, &pb.GetTxResponse{}),
			codes.Unimplemented, "UNKNOWN_METHOD")
		message := s.Message()
		if !strings.HasPrefix(message, `method "/fencepost.v1.TxService/`) ||
			len(message) > 400 || !utf8.ValidString(message) {
			t.Errorf("a method of %d bytes returns %q", len(name), message)
		}
	}
	if a := n.http("POST", "/", "{}"); a.code != http.StatusNotFound {
		t.Errorf("/: %d %s", a.code, a.body)
	}
	n.http("POST", healthpb.Health_Check_FullMethodName, "{}").want(t, http.StatusOK, "status",
		"SERVING")
}

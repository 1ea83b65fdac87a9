package server

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

var connectDetail = regexp.MustCompile(`"value":\s*"([^"]*)"`)

// hasReason reports whether a Connect error has a reason among its details.
func (a httpResponse) hasReason(reason string) bool {
	for _, m := range connectDetail.FindAllSubmatch(a.body, -1) {
		if detail, err := base64.RawStdEncoding.DecodeString(string(m[1])); err == nil &&
			strings.Contains(string(detail), reason) {
			return true
		}
	}
	return false
}

// An undecodable message is the client's error, on every protocol.
func TestDecode_MalformedMessage_Rejected(t *testing.T) {
	t.Parallel()
	n := newHarness(t).serve()
	for name, raw := range map[string]string{
		"truncated": "\x0a\x7f", "not UTF-8": "\x0a\x01\xff",
		"no field": "\x00", "the mark itself": "\x00\x00",
	} {
		request := &emptypb.Empty{}
		request.ProtoReflect().SetUnknown([]byte(raw))
		s := wantStatus(t,
			n.conn.Invoke(n.ctx, pb.TxService_CreateTx_FullMethodName, request, &emptypb.Empty{}),
			codes.InvalidArgument, "INVALID_FIELD")
		wantFault(t, s, "request", "")
		stream, err := n.conn.NewStream(n.ctx, &pb.TxService_ServiceDesc.Streams[0],
			pb.TxService_WatchTx_FullMethodName)
		n.must(err)
		n.must(stream.SendMsg(request))
		n.must(stream.CloseSend())
		wantStatus(t, stream.RecvMsg(&emptypb.Empty{}), codes.InvalidArgument, "INVALID_FIELD")
		a := n.http("POST", pb.TxService_CreateTx_FullMethodName, raw, "Content-Type",
			"application/proto", "Connect-Protocol-Version", "1")
		if a.code != http.StatusBadRequest || !a.hasReason("INVALID_FIELD") {
			t.Errorf("%s over Connect: %d %s", name, a.code, a.body)
		}
	}
	if a := n.http("POST", pb.TxService_CreateTx_FullMethodName, "{", "Connect-Protocol-Version",
		"1"); a.code != http.StatusBadRequest ||
		!a.hasReason("INVALID_FIELD") {
		t.Errorf("half an object over Connect returns %d %s", a.code, a.body)
	}
}

// spaces is a body of spaces with an unknown length.
type spaces struct{ left int }

func (e *spaces) Read(p []byte) (int, error) {
	if e.left -= len(p); e.left < 0 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// The reason does not depend on a Content-Length header.
func TestBody_TooLarge_Rejected(t *testing.T) {
	t.Parallel()
	n := newHarness(t).serve()
	light, heavy := n.server.limits.lightBody(), n.server.limits.bodyBytes()
	for path, limit := range map[string]int{
		"/api/v1/tx/batch": heavy, pb.TxService_BatchCreateTx_FullMethodName: heavy,
		"/api/v1/tx": light, pb.TxService_CreateTx_FullMethodName: light,
		"/api/v1/submitters": light,
	} {
		for _, sized := range []bool{true, false} {
			r := n.request("POST", path, "{", "Connect-Protocol-Version", "1")
			r.Body, r.ContentLength = io.NopCloser(&spaces{2 * limit}), -1
			if sized {
				r.Body, r.ContentLength = io.NopCloser(
					strings.NewReader(strings.Repeat(" ", limit+1))), int64(
					limit+1,
				)
			}
			response, err := http.DefaultClient.Do(r)
			n.must(err)
			body, err := io.ReadAll(response.Body)
			n.must(err)
			response.Body.Close()
			a := httpResponse{response.StatusCode, response.Header, body}
			if strings.HasPrefix(path, "/api/") {
				a.wantError(t, http.StatusRequestEntityTooLarge, codes.InvalidArgument,
					"PAYLOAD_TOO_LARGE")
			} else if a.code != http.StatusBadRequest || !a.hasReason("PAYLOAD_TOO_LARGE") {
				t.Errorf("%s (with length: %v): %d %s", path, sized, a.code, a.body)
			}
		}
	}
}

// A call counts against the limits by its method, so only a batch may be as large as a batch,
// compressed or not.
func TestBody_LargeOutsideBatch_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	limit := n.server.limits.lightBody()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	one := `{"submitter":"alice","requestId":"r","payload":{"to":"` + recipient + `"}}`
	_, err := io.WriteString(z, strings.Repeat(" ", limit)+one)
	h.must(err)
	h.must(z.Close())
	n.http("POST", "/api/v1/tx", packed.String(), "Content-Encoding", "gzip").wantError(t,
		http.StatusRequestEntityTooLarge, codes.InvalidArgument, "PAYLOAD_TOO_LARGE")
	if a := n.http("POST", pb.TxService_CreateTx_FullMethodName, packed.String(),
		"Content-Encoding", "gzip"); !a.hasReason(
		"PAYLOAD_TOO_LARGE") {
		t.Errorf("a compressed call that is too large returns %d %s", a.code, a.body)
	}
	n.http("POST", "/api/v1/tx/batch", strings.Repeat(" ", limit)+`{"requests":[`+one+`]}`).want(t,
		http.StatusOK)
	// longer than the base64 of the largest payload
	most := strings.Repeat("AQID", n.server.limits.PayloadBytes/2)
	n.http("POST", "/api/v1/tx", withData("r2", most)).
		wantError(t, http.StatusBadRequest, codes.InvalidArgument, "PAYLOAD_TOO_LARGE")
	fits := base64.StdEncoding.EncodeToString(make([]byte, n.server.limits.PayloadBytes))
	n.http("POST", "/api/v1/tx", withData("r3", fits)).want(t, http.StatusAccepted)
}

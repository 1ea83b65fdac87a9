package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// Decompression stops at the limit. Not parallel: it measures the allocations of the process.
func TestCompressedBody_ExpandsBeyondLimit_Rejected(t *testing.T) {
	h := newHarness(t)
	n := h.serve()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	const mebibytes = 200
	for range mebibytes {
		_, err := z.Write(make([]byte, 1<<20))
		h.must(err)
	}
	h.must(z.Close())
	for path, kind := range map[string]string{"/api/v1/tx": "application/json",
		pb.TxService_CreateTx_FullMethodName: "application/proto"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := n.http("POST", path, packed.String(), "Content-Type", kind, "Content-Encoding", "gzip",
			"Connect-Protocol-Version", "1")
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > mebibytes<<20/2 ||
			a.code < http.StatusBadRequest {
			t.Errorf("%s: a body of %d bytes costs %d MiB and returns %d %s", path,
				packed.Len(), used>>20, a.code, a.body)
		}
		if !strings.HasPrefix(path, "/api/") && !a.hasReason("PAYLOAD_TOO_LARGE") {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
		if strings.HasPrefix(path, "/api/") {
			a.wantError(t, http.StatusRequestEntityTooLarge, codes.InvalidArgument,
				"PAYLOAD_TOO_LARGE")
		}
	}
}

// upload starts a request whose body never ends.
func (n *node) upload(path, kind string) net.Conn {
	n.t.Helper()
	conn, err := net.Dial("tcp", n.conn.Target())
	n.must(err)
	n.t.Cleanup(func() { conn.Close() })
	n.must(conn.SetDeadline(time.Now().Add(testTimeout)))
	if !strings.HasPrefix(path, "/api/") {
		kind += "\r\nConnect-Protocol-Version: 1"
	}
	_, err = fmt.Fprintf(conn,
		"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n"+
			"Content-Length: 1000\r\n\r\n{", path, kind)
	n.must(err)
	return conn
}

// readResponse reads a response and waits until the node closes the connection.
func (n *node) readResponse(conn net.Conn) httpResponse {
	n.t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	n.must(err)
	body, err := io.ReadAll(r.Body)
	n.must(err)
	_, err = io.Copy(io.Discard, conn)
	n.must(err)
	return httpResponse{r.StatusCode, r.Header, body}
}

var uploads = map[string]string{
	"/api/v1/tx":                         "application/json",
	pb.TxService_CreateTx_FullMethodName: "application/json",
	pb.TxService_WatchTx_FullMethodName:  "application/connect+json",
}

func TestUpload_Slow_TimesOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(limits(func(l *Limits) { l.PingAfter = 100 * time.Millisecond }))
	for path, kind := range uploads {
		if a := n.readResponse(n.upload(path, kind)); path == "/api/v1/tx" {
			a.wantError(t, http.StatusRequestTimeout, codes.DeadlineExceeded, "BODY_LATE")
		} else if !a.hasReason("BODY_LATE") {
			t.Errorf("%s: a late body returns %d %s", path, a.code, a.body)
		}
	}
}

// The upload timeout ends with the request body.
func TestStream_LongerThanUploadTimeout_Continues(t *testing.T) {
	t.Parallel()
	const upload = 100 * time.Millisecond
	h := newHarness(t)
	h.register("alice")
	n := h.serve(limits(func(l *Limits) { l.PingAfter = upload }))
	native, web := n.connectWatch(), n.connectWatch(connect.WithGRPCWeb())
	plain := n.stream("/api/v1/events")
	frame := "\x00\x00\x00\x00\x0a" + `{"all":{}}`
	sized := n.streamOf(
		n.request("POST", pb.TxService_WatchTx_FullMethodName, frame, "Content-Type",
			"application/connect+json"),
	)
	begun := time.Now()
	h.eventually("some time", func() bool { return time.Since(begun) > 3*upload })
	id := n.create("alice", "late").GetTxId()
	for text := []byte{}; !bytes.Contains(text, []byte(id)); {
		next := make([]byte, 1024)
		read, err := sized.body.Read(next)
		h.must(err)
		text = append(text, next[:read]...)
	}
	for !native.Receive() || native.Msg().GetEvent() == nil {
		h.must(native.Err())
	}
	for plain.message().GetEvent() == nil {
	}
	for !web.Receive() || web.Msg().GetEvent() == nil {
		h.must(web.Err())
	}
}

func TestUpload_Unauthenticated_RejectedBeforeBody(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(func(o *Options) { o.Tokens = []string{"one-0123456789abcdef"} },
		limits(func(l *Limits) { l.PingAfter = 5 * testTimeout }))
	for path, kind := range uploads {
		conn := n.upload(path, kind)
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		h.must(err)
		body, err := io.ReadAll(r.Body)
		h.must(err)
		if !strings.Contains(strings.ToLower(string(body)), "unauthenticated") {
			t.Errorf("%s: an unauthenticated client receives %d %s", path, r.StatusCode, body)
		}
	}
}

func TestConnection_Silent_Closed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(limits(func(l *Limits) { l.PingAfter = 50 * time.Millisecond }))
	conn, err := net.Dial("tcp", n.conn.Target())
	h.must(err)
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(testTimeout))
	if read, err := io.ReadAll(conn); err != nil || len(read) != 0 {
		t.Errorf("a silent connection receives %q and ends with %v", read, err)
	}
}

// Headers are read before the caller is authenticated, so every protocol limits them.
func TestHeaders_TooLarge_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	for size, fits := range map[int]bool{headerBytes / 2: true, 2 * headerBytes: false} {
		long := strings.Repeat("x", size)
		_, err := n.subs.ListSubmitters(metadata.AppendToOutgoingContext(h.ctx, "long", long),
			&pb.ListSubmittersRequest{})
		if (err == nil) != fits {
			t.Errorf("over gRPC, headers of %d bytes return %v", size, err)
		}
		r, err := http.DefaultClient.Do(n.request("GET", "/api/v1/submitters", "", "Long", long))
		if err == nil { // otherwise the node closed the connection early
			r.Body.Close()
		}
		if answered := err == nil && r.StatusCode == http.StatusOK; answered != fits {
			t.Errorf("over HTTP, headers of %d bytes are accepted: %v", size, answered)
		}
	}
}

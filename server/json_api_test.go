package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// httpResponse is a response with its body.
type httpResponse struct {
	code   int
	header http.Header
	body   []byte
}

// http calls a path of a node; body may be empty.
func (n *node) http(method, path, body string, header ...string) httpResponse {
	n.t.Helper()
	r := n.request(method, path, body, header...)
	response, err := http.DefaultClient.Do(r)
	n.must(err)
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	n.must(err)
	return httpResponse{response.StatusCode, response.Header, all}
}

func (n *node) request(method, path, body string, header ...string) *http.Request {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.ctx, method, "http://"+n.conn.Target()+path,
		strings.NewReader(body))
	n.must(err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// field returns a field of a JSON object by its path.
func (a httpResponse) field(t testing.TB, path string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(a.body, &value); err != nil {
		t.Fatalf("%d %s: %v", a.code, a.body, err)
	}
	for _, name := range strings.Split(path, ".") {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return fmt.Sprint(value)
}

func (a httpResponse) want(t testing.TB, code int, fields ...string) {
	t.Helper()
	if a.code != code {
		t.Errorf("answer %d %s, want %d", a.code, a.body, code)
		return
	}
	for i := 0; i < len(fields); i += 2 {
		if got := a.field(t, fields[i]); got != fields[i+1] {
			t.Errorf("%s is %q in %s, want %q", fields[i], got, a.body, fields[i+1])
		}
	}
}

// wantError checks that a response is a google.rpc.Status, and returns it.
func (a httpResponse) wantError(t testing.TB, code int, of codes.Code,
	reason string) *grpcstatus.Status {
	t.Helper()
	var received statuspb.Status
	if err := protojson.Unmarshal(a.body, &received); err != nil || a.code != code ||
		a.header.Get("Content-Type") != "application/json" {
		t.Fatalf("answer %d %s (%v), want %d", a.code, a.body, err, code)
	}
	return wantStatus(t, grpcstatus.ErrorProto(&received), of, reason)
}

// Covers Connect calls without the Connect-Protocol-Version header.
func TestContentType_JSONSpellings_Accepted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	body := `{"submitter":"alice","requestId":"r","payload":{"to":"` + recipient + `"}}`
	n.create("alice", "before")
	for _, kind := range []string{"application/json", "application/json;charset=UTF-8",
		"Application/JSON; charset=\"utf-8\"", "application/json ;charset=utf-8",
		"application/json; v=1"} {
		if a := n.http("POST", "/api/v1/tx", body, "Content-Type", kind); a.code != 202 &&
			a.code != 200 {
			t.Errorf("%s: %d %s", kind, a.code, a.body)
		}
		n.http("POST", pb.TxService_CreateTx_FullMethodName, body, "Content-Type", kind).want(t,
			200, "tx.requestId", "r")
	}
	for _, kind := range []string{"application/json; charset=latin1", "text/plain",
		"application/x-www-form-urlencoded"} {
		a := n.http("POST", "/api/v1/tx", body, "Content-Type", kind)
		if s := a.wantError(t, 415, codes.InvalidArgument, "INVALID_FIELD"); !strings.Contains(
			s.Message(), "send Content-Type: application/json") ||
			strings.Contains(s.Message(), "?") {
			t.Errorf("%s: %v", kind, s)
		} else {
			wantFault(t, s, "Content-Type", "is not supported; send")
		}
	}
	a := n.http("POST", "/api/v1/tx", body, "Content-Encoding", "br")
	wantFault(t, a.wantError(t, 415, codes.InvalidArgument, "INVALID_FIELD"), "Content-Encoding",
		"not supported; send")
}

func TestJSON_TransactionLifecycle(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	create := `{"submitter":"alice","requestId":"r 1","payload":{"to":"` + recipient + `",` +
		`"value":"7","data":"AQI=","gasLimit":"50000"},"labels":{"a":"b"}}`
	created := n.http("POST", "/api/v1/tx", create)
	created.want(t, http.StatusAccepted, "created", "true", "tx.state", "TX_STATE_QUEUED",
		"tx.payload.gasLimit", "50000", "tx.labels.a", "b", "tx.retrySafe", "false")
	if created.header.Get("Fencepost-Created") != "" {
		t.Error("an internal header is returned")
	}
	id := created.field(t, "tx.txId")
	n.http("POST", "/api/v1/tx", strings.ReplaceAll(create, "requestId", "request_id")).want(t,
		http.StatusOK, "created", "false", "tx.txId", id)
	n.http("GET", "/api/v1/tx/"+id, "").want(t, http.StatusOK, "tx.requestId", "r 1", "tx.operator",
		"<nil>")
	n.http("GET", "/api/v1/tx/"+id+"?view=TX_VIEW_OPERATOR", "").want(t, http.StatusOK,
		"tx.operator.attempts", "[]")
	for _, query := range []string{"submitter=alice&request_id=r+1",
		"submitter=alice&requestId=r%201", "request.submitter=alice&request.request_id=r%201"} {
		n.http("GET", "/api/v1/tx/by-request?"+query, "").want(t, http.StatusOK, "tx.txId", id)
	}
	list := n.http("GET",
		"/api/v1/tx?submitter=alice&labels=a%3Db&states=TX_STATE_QUEUED&page_size=5&"+
			"created_from=2020-01-01T00:00:00Z",
		"")
	if list.want(t, http.StatusOK); !bytes.Contains(list.body, []byte(id)) {
		t.Errorf("listed %s", list.body)
	}
	batch := n.http("POST", "/api/v1/tx/batch", `{"requests":[`+create+`,{"submitter":"nobody"}]}`)
	if batch.want(t, http.StatusOK); !bytes.Contains(batch.body, []byte(id)) ||
		!bytes.Contains(batch.body, []byte("INVALID_FIELD")) {
		t.Errorf("batch %s", batch.body)
	}
	n.http("POST", "/api/v1/tx/"+id+"/cancel", "{}").want(t, http.StatusOK, "outcome",
		"CANCEL_OUTCOME_CANCELLED", "tx.retrySafe", "true")
	n.http("POST", "/api/v1/tx/"+id+"/cancel", "").want(t, http.StatusOK, "outcome",
		"CANCEL_OUTCOME_CANCELLED")
}

// An account id is a single path segment, escaped or not.
func TestJSON_SubmitterOperations(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	register := `{"name":"bob","chainId":"31337","address":"` + recipient + `","signer":"local"}`
	n.http("POST", "/api/v1/submitters", register).want(t, http.StatusOK, "created", "true")
	for _, name := range []string{"bob", "eip155:31337:" + recipient, "eip155%3A31337%3A" +
		recipient} {
		n.http("GET", "/api/v1/submitters/"+name, "").want(t, http.StatusOK, "submitter.name",
			"bob", "submitter.queued", "0")
		n.http("GET", "/api/v1/submitters/"+name+"/commands", "").want(t, http.StatusOK,
			"nextPageToken", "")
	}
	h.register("worldevents") // a name with the suffix of a watch path
	n.http("GET", "/api/v1/submitters/worldevents", "").want(t, http.StatusOK, "submitter.name",
		"worldevents")
	n.http("GET", "/api/v1/submitters?page_size=2", "").want(t, http.StatusOK, "nextPageToken", "")
	o := h.own(1)
	ctx, stop := context.WithCancel(h.ctx)
	worked := make(chan struct{})
	go func() { defer close(worked); o.work(ctx) }()
	n.http("PATCH", "/api/v1/submitters/bob", `{"maxFee":"7","updateMask":"maxFee"}`).want(t,
		http.StatusOK, "submitter.maxFee", "7")
	// a request that follows the remedy must be accepted
	for _, mask := range []string{"maxfee", "max_fee"} {
		a := n.http("PATCH", "/api/v1/submitters/bob", `{"updateMask":"`+mask+`"}`)
		s := a.wantError(t, http.StatusBadRequest, codes.InvalidArgument, "INVALID_FIELD")
		if message := s.Message(); !strings.Contains(message, "onFailure,maxFee") &&
			!strings.Contains(message, "docs/openapi.yaml") {
			t.Errorf("a mask of %s returns %q", mask, message)
		}
	}
	n.http("POST", "/api/v1/submitters/bob/pause", `{"reason":"audit"}`).want(t, http.StatusOK,
		"submitter.status", "SUBMITTER_STATUS_PAUSED")
	n.http("POST", "/api/v1/submitters/eip155:31337:"+recipient+"/resume", `{}`).want(t,
		http.StatusOK, "submitter.status", "SUBMITTER_STATUS_ACTIVE")
	stop()
	<-worked
}

// Content-Length includes the newline. Connect and compressed responses are unchanged.
func TestJSON_Response_EndsWithNewline(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	body := `{"submitter":"alice","requestId":"r","payload":{"to":"` + recipient + `"}}`
	for _, c := range []struct {
		method, path, body string
		ends               bool
	}{
		{"POST", "/api/v1/tx", body, true},
		{"GET", "/api/v1/tx/by-request?submitter=alice&request_id=r", "", true},
		{"GET", "/api/v1/submitters", "", true},
		{"GET", "/api/v1/tx/17", "", true}, {"POST", pb.TxService_CreateTx_FullMethodName, body,
			false},
	} {
		a := n.http(c.method, c.path, c.body, "Accept-Encoding", "identity")
		if lines := bytes.Count(a.body, []byte{'\n'}); bytes.HasSuffix(a.body,
			[]byte("}\n")) != c.ends ||
			c.ends != (lines == 1) {
			t.Errorf("%s %s: %d %q", c.method, c.path, a.code, a.body)
		}
		if length := a.header.Get("Content-Length"); length != strconv.Itoa(len(a.body)) {
			t.Errorf("%s %s: Content-Length is %q, and there are %d bytes", c.method, c.path,
				length, len(a.body))
		}
	}
	packed := n.http("GET", "/api/v1/submitters", "", "Accept-Encoding", "gzip")
	if packed.header.Get("Content-Encoding") == "gzip" {
		r, err := gzip.NewReader(bytes.NewReader(packed.body))
		n.must(err)
		packed.body, err = io.ReadAll(r)
		n.must(err)
	}
	packed.want(t, 200, "nextPageToken", "")
}

// Every error is a google.rpc.Status with a reason, whichever layer detects it.
func TestJSON_Errors_StatusWithReason(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	h.own(h.register("paused")).pause()
	n := h.serve()
	n.create("alice", "used")
	post := func(body string) httpResponse { return n.http("POST", "/api/v1/tx", body) }
	good := `"payload":{"to":"` + recipient + `"}`
	post(`{"submitter":"alice","requestId":"r",`+good+`,"nonce":"1"}`).wantError(t, 400,
		codes.InvalidArgument, "UNKNOWN_FIELD")
	post(`{"submitter":"alice"`).wantError(t, 400, codes.InvalidArgument, "INVALID_FIELD")
	post(`{"submitter":"alice","requestId":7,`+good+`}`).wantError(t, 400, codes.InvalidArgument,
		"INVALID_FIELD")
	post(`{"submitter":"alice","requestId":"","payload":{}}`).wantError(t, 400,
		codes.InvalidArgument, "INVALID_FIELD")
	post(`{"submitter":"alice","requestId":"used",`+good+`}`).wantError(t, 409, codes.AlreadyExists,
		"IDEMPOTENCY_KEY_REUSED")
	post(`{"submitter":"paused","requestId":"r",`+good+`}`).wantError(t, 400,
		codes.FailedPrecondition, "SUBMITTER_PAUSED")
	post(
		`{"submitter":"alice","requestId":"r","payload":{"data":"`+strings.Repeat("AAAA",
			50_000)+`"}}`,
	).wantError(t, 400, codes.InvalidArgument, "PAYLOAD_TOO_LARGE")
	n.http("GET", "/api/v1/tx/17", "").wantError(t, 400, codes.InvalidArgument, "INVALID_FIELD")
	n.http("GET", "/api/v1/tx/00000000-0000-4000-8000-000000000000", "").wantError(t, 404,
		codes.NotFound, "TX_NOT_FOUND")
	n.http("GET", "/api/v1/tx?page_size=x", "").wantError(t, 400, codes.InvalidArgument,
		"INVALID_FIELD")
	n.http("GET", "/api/v1/tx?nothing=x", "").wantError(t, 400, codes.InvalidArgument,
		"UNKNOWN_FIELD")
	n.http("GET", "/api/v1/tx/by-request?submitter=nobody&request_id=r", "").wantError(t, 404,
		codes.NotFound, "SUBMITTER_NOT_FOUND")
	n.http("GET", "/api/v1/nothing", "").wantError(t, 404, codes.Unimplemented, "UNKNOWN_METHOD")
	n.http("DELETE", "/api/v1/tx", "").wantError(t, 405, codes.Unimplemented, "UNKNOWN_METHOD")
	n.http("POST", "/api/v1/tx", "a=b", "Content-Type",
		"application/x-www-form-urlencoded").wantError(t, 415,
		codes.InvalidArgument, "INVALID_FIELD")
	post(`{"requestId":"`+strings.Repeat("a", 10<<20)+`"}`).wantError(t, 413, codes.InvalidArgument,
		"PAYLOAD_TOO_LARGE")
	for _, path := range []string{"tx?submitter=%ff", "tx?%ff=a", "submitters/%ff",
		"submitters/%ff/events", "events?resume_token=%ff",
		"tx/by-request?submitter=alice&requestId=used&request_id=other",
		"tx/by-request/events?submitter=alice&requestId=used&request.request_id=other"} {
		n.http("GET", "/api/v1/"+path, "").wantError(t, 400, codes.InvalidArgument, "INVALID_FIELD")
	}
	down := h.serve(func(o *Options) { o.Store = downStore{h.store} })
	a := down.http("POST", "/api/v1/tx/batch",
		`{"requests":[{"submitter":"alice","requestId":"r",`+good+`}]}`)
	a.wantError(t, 503, codes.Unavailable, "STORE_UNAVAILABLE")
	if a.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
	if rows := h.count("managed_tx"); rows != 1 {
		t.Errorf("%d transactions, want 1", rows)
	}
}

// lines reads the lines of a stream, without the field names of server-sent events.
type lines struct {
	t       testing.TB
	body    io.ReadCloser
	scanner *bufio.Scanner
	code    int
	kind    string
}

func (n *node) stream(path string, header ...string) *lines {
	n.t.Helper()
	return n.streamOf(n.request("GET", path, "", header...))
}

func (n *node) streamOf(request *http.Request) *lines {
	n.t.Helper()
	r, err := http.DefaultClient.Do(request)
	n.must(err)
	n.t.Cleanup(func() { r.Body.Close() })
	return &lines{
		t:       n.t,
		body:    r.Body,
		scanner: bufio.NewScanner(r.Body),
		code:    r.StatusCode,
		kind:    r.Header.Get("Content-Type"),
	}
}

func (l *lines) next() (line string, more bool) {
	more = l.scanner.Scan()
	return l.scanner.Text(), more
}

func (l *lines) message() *pb.WatchTxResponse {
	l.t.Helper()
	line, more := l.next()
	m := &pb.WatchTxResponse{}
	if err := protojson.Unmarshal([]byte(line), m); err != nil || !more {
		l.t.Fatalf("line %q: %v", line, err)
	}
	return m
}

func TestWatch_Lines(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	id := n.create("alice", "r1").GetTxId()
	for path, snapshots := range map[string]bool{
		"/api/v1/tx/" + id + "/events?until_final=true&heartbeat=20s":                false,
		"/api/v1/tx/by-request/events?submitter=alice&request_id=r1&untilFinal=true": false,
		"/api/v1/submitters/alice/events":                                            true,
		"/api/v1/events":                                                             true,
	} {
		l := n.stream(path)
		if l.code != 200 || l.kind != "application/x-ndjson" {
			t.Fatalf("%s: %d %s", path, l.code, l.kind)
		}
		first := l.message() // before anything more has happened
		if got := first.GetEvent().GetSeq() == 1 || first.GetSnapshot().GetTxId() == id; !got ||
			(first.GetSnapshot() != nil) != snapshots {
			t.Errorf("%s starts with %v", path, first)
		}
		l.body.Close()
	}
	l := n.stream("/api/v1/tx/" + id + "/events?until_final=true")
	token := ""
	for seq := uint64(1); seq <= 5; seq++ {
		m := l.message()
		if m.GetEvent().GetSeq() != seq {
			t.Fatalf("event %d is %v", seq, m)
		}
		switch seq {
		case 1:
			o.finalize(txID(t, id))
		case 3:
			token = m.GetResumeToken()
		}
	}
	if line, more := l.next(); more {
		t.Errorf("after the final event: %q", line)
	}
	labelled := n.stream("/api/v1/submitters/alice/events?labels=a%3Db&labels=c%3Dd")
	if m := labelled.message(); m.GetHeartbeat() == nil {
		t.Errorf("a watch of labels that nothing has starts with %v", m)
	}
	stating := n.stream(
		"/api/v1/tx/" + id +
			"/events?until_final=true&states=TX_STATE_QUEUED&states=TX_STATE_ALLOCATED")
	for seq := range uint64(2) {
		if m := stating.message(); m.GetEvent().GetSeq() != seq+1 {
			t.Errorf("a watch of states returns %v", m)
		}
	}
	if line, more := stating.next(); more {
		t.Errorf("a watch of states continues with %q", line)
	}
	none := n.stream("/api/v1/tx/" + id + "/events?until_final=true&states=TX_STATE_STUCK")
	if none.code != http.StatusNoContent {
		t.Errorf("a watch without matching events returns %d", none.code)
	}
	resumed := n.stream("/api/v1/tx/" + id + "/events?until_final=true&resume_token=" + token)
	if m := resumed.message(); m.GetEvent().GetSeq() != 4 {
		t.Errorf("resumed with %v", m)
	}
}

func TestWatch_ServerSentEvents(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	id := n.create("alice", "r1").GetTxId()
	o.finalize(txID(t, id))
	path := "/api/v1/tx/" + id + "/events?until_final=true"
	last, seen := "", 0
	for l := n.stream(path, "Accept", "text/html;q=0.5, text/event-stream"); ; {
		if l.kind != "text/event-stream" {
			t.Fatal(l.kind)
		}
		line, more := l.next()
		if !more {
			break
		}
		if token, found := strings.CutPrefix(line, "id: "); found {
			last = token
		}
		if data, found := strings.CutPrefix(line, "data: "); found {
			m := &pb.WatchTxResponse{}
			h.must(protojson.Unmarshal([]byte(data), m))
			if seen++; m.GetEvent().GetSeq() != uint64(seen) || m.GetResumeToken() != last {
				t.Errorf("event %d is %v after the id %q", seen, m, last)
			}
		} else if line != "" && line != "event: event" && !strings.HasPrefix(line, "id: ") {
			t.Errorf("line %q", line)
		}
	}
	if seen != 5 {
		t.Errorf("%d events, want 5", seen)
	}
	refused := n.stream(path, "Accept", "application/json, text/event-stream;q=0")
	if refused.kind != "application/x-ndjson" {
		t.Errorf("a client that rejects server-sent events receives %s", refused.kind)
	}
	again := n.stream(path, "Accept", "text/event-stream", "Last-Event-ID", last)
	if again.code != http.StatusNoContent {
		t.Errorf("resumed after the last event: %d, so browsers reconnect forever", again.code)
	}
}

func TestWatch_InvalidRequest_StatusWithReason(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	id := n.create("alice", "r1").GetTxId()
	for path, want := range map[string]struct {
		code   int
		of     codes.Code
		reason string
	}{
		"/api/v1/tx/17/events": {400, codes.InvalidArgument, "INVALID_FIELD"},
		"/api/v1/tx/00000000-0000-4000-8000-000000000000/events": {404, codes.NotFound,
			"TX_NOT_FOUND"},
		"/api/v1/submitters/nobody/events": {404, codes.NotFound,
			"SUBMITTER_NOT_FOUND"},
		"/api/v1/tx/by-request/events?submitter=alice": {400, codes.InvalidArgument,
			"INVALID_FIELD"},
		"/api/v1/tx/" + id + "/events?until_final=maybe": {400, codes.InvalidArgument,
			"INVALID_FIELD"},
		"/api/v1/tx/" + id + "/events?heartbeat=soon": {400, codes.InvalidArgument,
			"INVALID_FIELD"},
		"/api/v1/tx/" + id + "/events?heartbeat=1ms": {400, codes.InvalidArgument,
			"INVALID_FIELD"},
		"/api/v1/tx/" + id + "/events?submitter=alice": {400, codes.InvalidArgument,
			"UNKNOWN_FIELD"},
		"/api/v1/tx/" + id + "/events?resume_token=a&resume_token=b": {400, codes.InvalidArgument,
			"INVALID_FIELD"},
		"/api/v1/events?resume_token=what": {400, codes.InvalidArgument,
			"INVALID_FIELD"},
		"/api/v1/events?states=STUCK": {400, codes.InvalidArgument,
			"INVALID_FIELD"},
		"/api/v1/events?until_final=true": {400, codes.InvalidArgument,
			"INVALID_FIELD"},
	} {
		for _, accept := range []string{"", "text/event-stream"} {
			n.http("GET", path, "", "Accept", accept).wantError(t, want.code, want.of, want.reason)
		}
	}
}

func TestDrain_EveryProtocol_StreamsEndWithReason(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	log := &buffer{}
	n := h.serve(func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	})
	path := "/api/v1/events"
	n.create("alice", "r1")
	plain, events := n.stream(path), n.stream(path, "Accept", "text/event-stream")
	web := n.connectWatch(connect.WithGRPCWeb())
	native := n.watch(&pb.WatchTxRequest{Target: &pb.WatchTxRequest_All{All: &pb.AllTxs{}}})
	_, err := native.Recv()
	h.must(err)
	plain.message()
	for range 3 {
		events.next()
	}
	if !web.Receive() {
		t.Fatal(web.Err())
	}
	n.stop()
	last := ""
	for line, more := plain.next(); more; line, more = plain.next() {
		last = line
	}
	if !strings.HasPrefix(last, `{"error":{"code":14,`) || !strings.Contains(last, "DRAINING") {
		t.Errorf("the last line is %q", last)
	}
	rest := []string{}
	for line, more := events.next(); more; line, more = events.next() {
		rest = append(rest, line)
	}
	if all := strings.Join(rest, "\n"); !strings.Contains(all,
		"event: error\ndata: {\"code\":14,") {
		t.Errorf("the last event is %q", all)
	}
	for web.Receive() {
	}
	if connect.CodeOf(web.Err()) != connect.CodeUnavailable {
		t.Errorf("gRPC-Web ends with %v", web.Err())
	}
	for err == nil {
		_, err = native.Recv()
	}
	wantStatus(t, err, codes.Unavailable, "DRAINING")
	h.eventually("the log of the stop",
		func() bool { return strings.Contains(log.String(), "calls=4") })
	if strings.Contains(log.String(), "call refused") {
		t.Errorf("each stream has a line: %s", log)
	}
}

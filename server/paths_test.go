package server

import (
	"bytes"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// A path is split into segments before it is unescaped.
func TestWatchPath_Escaped_Unescaped(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	id := n.create("alice", "r").GetTxId()
	_, err := n.txs.CancelTx(h.ctx, &pb.CancelTxRequest{TxId: id})
	h.must(err)
	a := n.http("GET", "/api/v1/t%78/"+id+"/%65vents?until_final=true", "")
	if a.code != http.StatusOK || bytes.Count(a.body, []byte(`"event":`)) != 2 {
		t.Errorf("an escaped letter: %d %s", a.code, a.body)
	}
	n.http("GET", "/api/v1/submitters/alice%2Fbob/events", "").wantError(t, http.StatusNotFound,
		codes.NotFound, "SUBMITTER_NOT_FOUND")
	n.http("GET", "/api/v1/submitters/alice%2Fevents", "").wantError(t, http.StatusNotFound,
		codes.NotFound, "SUBMITTER_NOT_FOUND")
	n.http("GET", "/api/v1/tx/"+id+"%2Fx/events", "").wantError(t, http.StatusBadRequest,
		codes.InvalidArgument, "INVALID_FIELD")
	n.http("GET", "/api/v1/tx%2F"+id+"/events", "").wantError(t, http.StatusNotFound,
		codes.Unimplemented, "UNKNOWN_METHOD")
}

func TestQuery_InvalidTime_SameErrorAsInBody(t *testing.T) {
	t.Parallel()
	n := newHarness(t).serve()
	for _, value := range []string{"", "2026-11-28", "1795910400"} {
		s := n.http("GET", "/api/v1/tx?created_from="+value, "").wantError(t, http.StatusBadRequest,
			codes.InvalidArgument, "INVALID_FIELD")
		wantFault(t, s, "created_from", "must be a time like 2026-01-02T15:04:05Z")
	}
}

// The transcoder would prefer the query, and apply the call to another account.
func TestQuery_ConflictsWithPathOrBody_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	h.register("bob")
	n := h.serve()
	a, b := n.create("alice", "r").GetTxId(), n.create("bob", "r").GetTxId()
	for _, path := range []string{
		"/api/v1/tx/" + a + "?tx_id=" + b, "/api/v1/tx/" + a + "?txId=" + b, "/api/v1/tx/" + a +
			"?request.submitter=bob&request.request_id=r", "/api/v1/t%78/" + a + "?tx_id=" + b,
		"/api/v1/tx/by-request?submitter=alice&request_id=r&tx_id=" + b,
		"/api/v1/submitters/alice?submitter=bob",
		"/api/v1/submitters/alice/commands?submitter=bob",
		"/api/v1/tx/" + a + "/events?tx_id=" + b, "/api/v1/submitters/alice/events?submitter=bob",
	} {
		n.http("GET", path, "").wantError(t, http.StatusBadRequest, codes.InvalidArgument,
			"UNKNOWN_FIELD")
	}
	for path, body := range map[string]string{
		"/api/v1/tx/" + a + "/cancel?tx_id=" + b:       "{}",
		"/api/v1/submitters/alice/pause?submitter=bob": "{}", "/api/v1/tx/" + a +
			"/cancel?reason=x": "",
		"/api/v1/tx?payload.value=7": `{"submitter":"alice","requestId":"r2",` +
			`"payload":{"to":"` + recipient + `"}}`,
	} {
		n.http("POST", path, body).wantError(t, http.StatusBadRequest, codes.InvalidArgument,
			"INVALID_FIELD")
	}
	n.http("PATCH", "/api/v1/submitters/alice?submitter=bob", `{"updateMask":"maxFee"}`).wantError(
		t, http.StatusBadRequest, codes.InvalidArgument, "INVALID_FIELD")
	for _, id := range []string{a, b} {
		n.http("GET", "/api/v1/tx/"+id+"?view=TX_VIEW_OPERATOR", "").want(t, http.StatusOK,
			"tx.state", "TX_STATE_QUEUED")
	}
	if rows := h.count("managed_tx"); rows != 2 {
		t.Errorf("%d transactions, want 2", rows)
	}
}

package server

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// For queries see TestQuery_ConflictsWithPathOrBody_Rejected.
func TestBody_ConflictsWithPath_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	h.register("bob")
	n := h.serve()
	a, b := n.create("alice", "r").GetTxId(), n.create("bob", "r").GetTxId()
	cancel := "/api/v1/tx/" + a + "/cancel"
	for query, body := range map[string]string{
		"":          `{"txId":"` + b + `"}`,
		"?":         `{"tx_id":"` + b + `","reason":"r"}`,
		"?reason=r": `{"reason":"another"}`,
	} {
		n.http("POST", cancel+query, body).wantError(t, http.StatusBadRequest,
			codes.InvalidArgument, "INVALID_FIELD")
	}
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, `{"txId":"`+b+`"}`)
	n.must(err)
	n.must(z.Close())
	s := n.http("POST", cancel, packed.String(), "Content-Encoding", "gzip").wantError(t,
		http.StatusBadRequest, codes.InvalidArgument, "INVALID_FIELD")
	wantFault(t, s, "tx_id", `is "`+a+`" in the path and "`+b+`" in the body`)
	s = n.http("PATCH", "/api/v1/submitters/eip155:31337:0xa",
		`{"submitter":"bob","update_mask":"max_fee"}`).wantError(t, http.StatusBadRequest,
		codes.InvalidArgument, "INVALID_FIELD")
	wantFault(t, s, "submitter", `is "eip155:31337:0xa" in the path and "bob" in the body`)
	for _, id := range []string{a, b} {
		n.http("GET", "/api/v1/tx/"+id, "").want(t, http.StatusOK, "tx.state", "TX_STATE_QUEUED")
	}
	n.http("POST", cancel, `{"txId":"`+a+`"}`).want(t, http.StatusOK, "outcome",
		"CANCEL_OUTCOME_CANCELLED", "tx.txId", a)
	n.http("POST", "/api/v1/tx/"+b+"/cancel", `{"txId":"","reason":null}`).want(t, http.StatusOK,
		"tx.txId", b)
}

// A known path with the wrong method returns the allowed methods.
func TestPath_Unknown_QueryIgnored(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	id := n.create("alice", "r").GetTxId()
	for _, query := range []string{"?tx_id=" + id,
		"?request.submitter=alice&request.request_id=r"} {
		n.http("GET", "/api/v1/tx/by-ids"+query, "").wantError(t, http.StatusBadRequest,
			codes.InvalidArgument, "UNKNOWN_FIELD")
	}
	for _, method := range []string{"DELETE", "PUT", "OPTIONS"} {
		s := n.http(method, "/api/v1/tx/"+id+"?view=TX_VIEW_OPERATOR", "").wantError(t,
			http.StatusMethodNotAllowed, codes.Unimplemented, "UNKNOWN_METHOD")
		if !strings.Contains(s.Message(), "this path takes GET") {
			t.Errorf("%s: message %q", method, s.Message())
		}
	}
}

package server

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/txn"
)

// A transaction is found by the hash of any of its attempts, by those who may see it. For others it
// is as unknown as a hash of no transaction.
func TestGetTx_ByHash(t *testing.T) {
	t.Parallel()
	const mine, other = "mine-0123456789abcdef", "other-0123456789abcdef"
	h := newHarness(t)
	o := h.own(h.register("alice"))
	h.register("bob")
	n := h.serve(func(o *Options) {
		o.Callers = []auth.Caller{
			{Name: "shop", Tokens: []string{mine}, Submitters: []string{"alice"}},
			{Name: "bank", Tokens: []string{other}, Submitters: []string{"bob"}},
		}
	})
	created, err := n.txs.CreateTx(role{token: mine}.in(h.ctx),
		&pb.CreateTxRequest{Submitter: "alice", RequestId: "r", Payload: payload()})
	h.must(err)
	id := txID(t, created.GetTx().GetTxId())
	o.allocate(id)
	o.submit(id)
	o.replace(id, txn.Bump)
	attempts, err := h.store.Attempts(h.ctx, id)
	h.must(err)
	if len(attempts) != 2 {
		t.Fatal(attempts)
	}
	unknown := txn.Hash{1}.Hex()
	as := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	for _, a := range attempts {
		path := "/api/v1/tx/by-hash/" + a.Hash.Hex()
		n.http("GET", path+"?view=TX_VIEW_OPERATOR", "", as(mine)...).want(t, http.StatusOK,
			"tx.txId", id.String())
		n.http("GET", path, "", as(other)...).wantError(t, http.StatusNotFound, codes.NotFound,
			"TX_NOT_FOUND")
		for _, twice := range []string{"tx_id=" + id.String(), "hash=" + unknown,
			"request.submitter=bob"} {
			n.http("GET", path+"?"+twice, "", as(mine)...).wantError(t, http.StatusBadRequest,
				codes.InvalidArgument, "UNKNOWN_FIELD")
		}
	}
	n.http("GET", "/api/v1/tx/"+id.String()+"?hash="+unknown, "", as(mine)...).wantError(t,
		http.StatusBadRequest, codes.InvalidArgument, "UNKNOWN_FIELD")
	n.http("GET", "/api/v1/tx/by-request?submitter=alice&request_id=r&hash="+unknown, "",
		as(mine)...).wantError(t, http.StatusBadRequest, codes.InvalidArgument, "UNKNOWN_FIELD")
	n.http("GET", "/api/v1/tx/by-hash/"+unknown, "", as(mine)...).wantError(t,
		http.StatusNotFound, codes.NotFound, "TX_NOT_FOUND")
	n.http("GET", "/api/v1/tx/by-hash/0x12", "", as(mine)...).wantError(t, http.StatusBadRequest,
		codes.InvalidArgument, "INVALID_FIELD")
	refusal := n.http("GET", "/api/v1/tx/"+attempts[0].Hash.Hex(), "", as(mine)...)
	refusal.wantError(t, http.StatusBadRequest, codes.InvalidArgument, "INVALID_FIELD")
	if !strings.Contains(string(refusal.body), "/tx/by-hash/") {
		t.Errorf("no pointer to the path for hashes in %s", refusal.body)
	}
	got, err := n.txs.GetTx(role{token: mine}.in(h.ctx),
		&pb.GetTxRequest{Key: &pb.GetTxRequest_Hash{Hash: attempts[0].Hash.Hex()}})
	h.must(err)
	if got.GetTx().GetTxId() != id.String() {
		t.Errorf("%v", got)
	}
}

package server

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/txn"
)

// A submitter may be named by name, by account id or by transaction.
func TestRights_ManySubmitters_EachAllowed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const many = 10_050
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprintf("s%05d", i)
	}
	const columns = "(name, chain_id, address, signer, mode, max_in_flight, start_from)"
	_, err := h.db.Pool.Exec(h.ctx, "WITH made AS (INSERT INTO submitter "+columns+
		" SELECT n, 31337, substr(sha256(n::BYTEA), 1, 20), 'local', 'STRICT', 1, '0' FROM "+
		"unnest($1::TEXT[]) n RETURNING submitter_id) INSERT INTO submitter_lease (submitter_id) "+
		"SELECT * FROM made", names)
	h.must(err)
	n := h.serve(func(o *Options) {
		o.Callers = []auth.Caller{
			{
				Name:       "many",
				Tokens:     []string{roles[2].token},
				Submitters: append([]string{"absent"}, names...),
			},
		}
	})
	last := h.register("z") // of no caller
	ctx := roles[2].in(h.ctx)
	for _, name := range []string{names[many-1], names[0]} {
		r, err := n.txs.CreateTx(ctx, createFor(name))
		h.must(err)
		if _, err := n.txs.GetTx(ctx,
			&pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: r.GetTx().GetTxId()}}); err != nil {
			t.Errorf("the transaction of %s: %v", name, err)
		}
	}
	other, err := txn.NewTxID(time.Now(), last)
	h.must(err)
	_, err = n.txs.GetTx(ctx, &pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: other.String()}})
	wantStatus(t, err, codes.PermissionDenied, "PERMISSION_DENIED")
}

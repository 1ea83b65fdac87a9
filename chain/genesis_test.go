package chain

import (
	"context"
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/fencepost/fencepost/txn"
)

// TestBatch_OtherChainOnConnection_Rejected swaps the chain behind a verified connection, as a
// proxy can. Another endpoint responds instead, if there is one.
func TestBatch_OtherChainOnConnection_Rejected(t *testing.T) {
	t.Parallel()
	hashes := []txn.Hash{{1}, {2}}
	for name, read := range map[string]func(context.Context, *harness) error{
		"account": func(ctx context.Context, r *harness) error {
			_, err := r.Account(ctx, txn.Address{1}, 2)
			return err
		},
		"receipts": func(ctx context.Context, r *harness) error {
			return r.Receipts(ctx, hashes)[1].Err
		},
		"pool": func(ctx context.Context, r *harness) error {
			_, err := r.Pooled(ctx, txn.Address{1}, 7, hashes)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, other := newNode(t), newNode(t)
			alone, both := dial(t, nil, n.url()), dial(t, nil, n.url(), other.url())
			for _, r := range []*harness{alone, both} {
				if err := r.Verify(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := read(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			n.set(func(n *fakeNode) { n.genesis = common.HexToHash("0xbad") })
			if err := read(t.Context(), alone); !errors.Is(err, ErrWrongGenesis) ||
				!errors.Is(err, txn.ErrUnavailable) {
				t.Errorf("one endpoint: %v", err)
			}
			if err := read(t.Context(), both); err != nil {
				t.Errorf("two endpoints: %v", err)
			}
		})
	}
}

package chaintest

import (
	"testing"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/fencepost/fencepost/txn"
)

// always returns the same sender.
type always struct {
	types.Signer
	from txn.Address
}

func (a always) Sender(*types.Transaction) (txn.Address, error) { return a.from, nil }

// Options.Senders determines the sender in the pool, in blocks and in Received.
func TestOptions_Senders_Used(t *testing.T) {
	t.Parallel()
	c := fresh(
		Options{
			Senders: always{
				types.LatestSignerForChainID(fresh(Options{}).signer.ChainID()),
				Address(1),
			},
		},
	)
	c.mustSend(t, c.signed(t, 0, 0, 2, shop), txn.Accepted)
	c.Mine(1)
	got, in := c.Received(), c.Included()
	if len(got) != 1 || got[0].Sender != Address(1) || len(in) != 1 || in[0].Sender != Address(1) {
		t.Errorf("received %+v, included %+v, want the sender %s", got, in, Address(1))
	}
}

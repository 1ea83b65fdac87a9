package node_test

import (
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/fencepost/fencepost/node"
	"github.com/fencepost/fencepost/txn"
)

// cancelUnderpriced cancels a transaction that reached its fee cap, and leaves any other to an
// operator.
type cancelUnderpriced struct{}

func (cancelUnderpriced) Decide(_ context.Context, c txn.StuckCase) (txn.StuckAction, error) {
	if c.Tx.Reason == txn.ReasonFeeCapReached {
		return txn.StuckCancel, nil
	}
	return txn.StuckWait, nil
}

// A node as "fencepost serve" runs it, with a policy of its own.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	n, err := node.New(ctx, node.Source{File: "fencepost.yaml", Environ: os.Environ()},
		node.WithStuckPolicy(cancelUnderpriced{}))
	if err != nil {
		log.Print("start: ", err)
		return
	}
	if err := n.Run(ctx); err != nil {
		log.Print("run: ", err)
	}
}

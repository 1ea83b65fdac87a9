package main

import (
	"context"

	"github.com/spf13/cobra"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

func (p *program) txSpeedUpCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	c := &cobra.Command{
		Use: "speed-up TX_ID", Short: "Offer more for a transaction that is in flight and in no block", Args: arguments("TX_ID"),
		Long: `Offer more for a transaction that is in flight and in no block: another signed form of the same nonce, of which at most one is included. It offers what the
market asks, and at least chains.*.gas_bump.multiplier times what a node took last. Returns once the owner of the account has recorded it; it is handed over
next. Each command is one more raise; the limits of chain, account and transaction hold for all of them.`,
		Example: `  fencepost tx speed-up 01a21fca-9bb7-8000-8000-058ead4b4abd --reason "customer waits"`,
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.txs.SpeedUpTx, &pb.SpeedUpTxRequest{TxId: args[0], Reason: d.reason, Operator: d.by(p)})
			if err != nil {
				return err
			}
			full, err := call(ctx, c, c.txs.GetTx, &pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: args[0]}, View: pb.TxView_TX_VIEW_OPERATOR})
			if err != nil {
				return err
			}
			return p.print(wire{full.GetTx()}, line("transaction %s is replaced by %s", args[0], attemptOf(full.GetTx(), answer.GetTx().GetTxHash())))
		}),
	}
	d.addOptional(c, "why; kept with the command")
	return c
}

// attemptOf tells of the attempt that has a hash; the hash alone if there is none.
func attemptOf(tx *pb.Tx, hash string) string {
	for _, a := range tx.GetOperator().GetAttempts() {
		if a.GetTxHash() == hash {
			return attemptName(a) + ": " + shownAttempt(a)
		}
	}
	return hash
}

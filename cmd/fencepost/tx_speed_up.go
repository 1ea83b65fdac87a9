package main

import (
	"context"
	"fmt"

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
			return p.speedUp(ctx, c,
				&pb.SpeedUpTxRequest{TxId: args[0], Reason: d.reason, Operator: d.by(p)})
		}),
	}
	d.addOptional(c, "why; kept with the command")
	return c
}

// speedUp tells of the form that was recorded: by the time of the answer it may be in a block, or not be the newest any more.
func (p *program) speedUp(ctx context.Context, c *client, ask *pb.SpeedUpTxRequest) error {
	look := &pb.GetTxRequest{
		Key:  &pb.GetTxRequest_TxId{TxId: ask.GetTxId()},
		View: pb.TxView_TX_VIEW_OPERATOR,
	}
	before, err := call(ctx, c, c.txs.GetTx, look)
	if err != nil {
		return err
	}
	if _, err := call(ctx, c, c.txs.SpeedUpTx, ask); err != nil {
		return err
	}
	after, err := call(ctx, c, c.txs.GetTx, look)
	if err != nil {
		return err
	}
	return p.print(wire{after.GetTx()}, line("%s", spedUp(before.GetTx(), after.GetTx())))
}

// spedUp tells what was recorded and what comes next.
func spedUp(before, after *pb.Tx) string {
	recorded, had := "another form", len(before.GetOperator().GetAttempts())
	if all := after.GetOperator().GetAttempts(); len(all) > had {
		recorded = attemptName(all[had]) + " (" + shownAttempt(all[had]) + ")"
	}
	return fmt.Sprintf(
		"transaction %s: %s is recorded for nonce %d; it is handed over next, and at most one of the forms is included. \"fencepost tx watch %s\" tells which",
		after.GetTxId(), recorded, after.GetOperator().GetNonce(), after.GetTxId())
}

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
		Use:   "speed-up TX_ID",
		Short: "Replace a pending transaction with higher fees",
		Args:  arguments("TX_ID"),
		Long: `Replace a transaction that is in flight and not in a block with one of higher fees
at the same nonce; at most one of them is included. The fees are the market's, and at least
chains.*.gas_bump.multiplier times the fees last accepted by a node. The fee limits of chain,
account and transaction apply.

The command returns once the replacement is recorded; it is broadcast next. Each call is another
replacement.`,
		Example: `  fencepost tx speed-up 01a21fca-9bb7-8000-8000-058ead4b4abd --reason ` +
			`"customer waits"`,
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			return p.speedUp(ctx, c,
				&pb.SpeedUpTxRequest{TxId: args[0], Reason: d.reason, Operator: d.by(p)})
		}),
	}
	d.addOptional(c, "reason, recorded with the command")
	return c
}

// speedUp reports the replacement that was recorded. It may be in a block, or replaced itself, by
// then.
func (p *program) speedUp(ctx context.Context, c *client, ask *pb.SpeedUpTxRequest) error {
	get := &pb.GetTxRequest{
		Key:  &pb.GetTxRequest_TxId{TxId: ask.GetTxId()},
		View: pb.TxView_TX_VIEW_OPERATOR,
	}
	before, err := call(ctx, c, c.txs.GetTx, get)
	if err != nil {
		return err
	}
	if _, err := call(ctx, c, c.txs.SpeedUpTx, ask); err != nil {
		return err
	}
	after, err := call(ctx, c, c.txs.GetTx, get)
	if err != nil {
		return err
	}
	return p.print(wire{after.GetTx()}, line("%s", spedUp(before.GetTx(), after.GetTx())))
}

// spedUp reports the replacement and the next step.
func spedUp(before, after *pb.Tx) string {
	recorded, had := "a replacement", len(before.GetOperator().GetAttempts())
	if all := after.GetOperator().GetAttempts(); len(all) > had {
		recorded = attemptName(all[had]) + " (" + shownAttempt(all[had]) + ")"
	}
	return fmt.Sprintf(
		"transaction %s: %s is recorded for nonce %d and broadcast next; follow with "+
			"\"fencepost tx watch %s\"",
		after.GetTxId(), recorded, after.GetOperator().GetNonce(), after.GetTxId())
}

package main

import (
	"context"

	"github.com/spf13/cobra"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

func (p *program) txApproveCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	c := &cobra.Command{
		Use:   "approve TX_ID",
		Short: "Approve a transaction that awaits it",
		Args:  arguments("TX_ID"),
		Long: `Approve a transaction that is AWAITING_APPROVAL, because it exceeds the limit
callers.policy.approve_above of its caller. It then joins the queue of its account and is sent.

Requires a caller with the right approve or the role operator, and another one than the caller that
created the transaction. Check recipient and amount first, with "fencepost tx get TX_ID".`,
		Example: `  fencepost tx approve 01a21fca-9bb7-8000-8000-058ead4b4abd --reason ` +
			`"invoice 4711"`,
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.txs.ApproveTx,
				&pb.ApproveTxRequest{TxId: args[0], Reason: d.reason, Operator: d.by(p)})
			if err != nil {
				return err
			}
			return p.print(wire{answer.GetTx()}, line(
				"transaction %s is approved; follow with \"fencepost tx watch %s\"",
				answer.GetTx().GetTxId(), answer.GetTx().GetTxId()))
		}),
	}
	d.addOptional(c, "reason, recorded with the command")
	return c
}

func (p *program) txDenyCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	c := &cobra.Command{
		Use:   "deny TX_ID",
		Short: "Deny a transaction that awaits an approval",
		Args:  arguments("TX_ID"),
		Long: `Deny a transaction that is AWAITING_APPROVAL. It ends as FAILED with the reason
APPROVAL_DENIED and is never executed. This cannot be undone.

Requires the same rights as "fencepost tx approve". The caller that created the transaction can
cancel it with "fencepost tx cancel".`,
		Example: `  fencepost tx deny 01a21fca-9bb7-8000-8000-058ead4b4abd --reason ` +
			`"wrong recipient"`,
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.txs.DenyTx,
				&pb.DenyTxRequest{TxId: args[0], Reason: d.reason, Operator: d.by(p)})
			if err != nil {
				return err
			}
			return p.print(wire{answer.GetTx()}, line(
				"transaction %s is denied and will never be executed",
				answer.GetTx().GetTxId()))
		}),
	}
	d.addOptional(c, "reason, recorded with the command")
	return c
}

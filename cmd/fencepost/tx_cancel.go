package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

func (p *program) txCancelCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	c := &cobra.Command{
		Use:   "cancel TX_ID",
		Short: "Cancel a transaction, if it is not included yet",
		Args:  arguments("TX_ID"),
		Long: `Cancel a transaction, if it is not included yet. The effect depends on its state:

  queued                   it is cancelled immediately and never executed
  queued before a restore  it is cancelled, but may have executed after the backup; it ends as
                           UNKNOWN (RESTORED_UNKNOWN): check the chain
  in flight, not in a      a cancel transaction is signed for the same nonce; the one that is
  block                    included first wins
  the same, PROTECTED      nothing is signed until the protection ends; the transaction may be
                           included meanwhile
  in a block               the cancel has no effect, unless a reorg removes the block
  final                    nothing changes

"fencepost tx watch" shows the outcome: CANCELLED; CONFIRMED with the reason CANCEL_LOST; or FAILED
with the reason REVERTED. Do not submit the same intent again before that. A cancel cannot be
undone.`,
		Example: `  fencepost tx cancel 01a21fca-9bb7-8000-8000-058ead4b4abd --reason "wrong ` +
			`amount"`,
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.txs.CancelTx,
				&pb.CancelTxRequest{TxId: args[0], Reason: d.reason, Operator: d.by(p)})
			if err != nil {
				return err
			}
			if p.json {
				return p.print(wire{answer}, nil)
			}
			outcome, err := c.cancelled(ctx, answer)
			if err != nil {
				return err
			}
			return line("transaction %s %s", args[0], outcome)(p.out)
		}),
	}
	d.addOptional(c, "reason, recorded with the command")
	return c
}

// cancelled reports the effect of a cancel and the next step.
func (c *client) cancelled(ctx context.Context, answer *pb.CancelTxResponse) (string, error) {
	id := answer.GetTx().GetTxId()
	switch answer.GetOutcome() {
	case pb.CancelOutcome_CANCEL_OUTCOME_CANCELLED:
		if answer.GetTx().GetExecuted() != pb.Executed_EXECUTED_NO {
			return "is cancelled and no longer sent: " + plain(
				answer.GetTx().GetLastError()), nil
		}
		return "is cancelled and will never be executed", nil
	case pb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FINAL:
		return "was already final, nothing changed: it is " + shownState(
			answer.GetTx().GetState(), answer.GetTx().GetSubState()), nil
	}
	full, err := call(ctx, c, c.txs.GetTx,
		&pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: id}, View: pb.TxView_TX_VIEW_OPERATOR})
	if err != nil {
		return "", fmt.Errorf(
			"the cancel of transaction %s is recorded, but its state is unknown: %w", id, err)
	}
	account, err := call(ctx, c, c.subs.GetSubmitter,
		&pb.GetSubmitterRequest{Submitter: full.GetTx().GetSubmitter()})
	if err != nil {
		return "", fmt.Errorf(
			"the cancel of transaction %s is recorded, but its state is unknown: %w", id, err)
	}
	return cancelling(full.GetTx(), account.GetSubmitter()) + unpaid(
		full.GetTx()) + fmt.Sprintf("; follow with \"fencepost tx watch %s\"", id), nil
}

// cancelling reports the expected outcome of a recorded cancel. Cases that need no signature come
// before those that forbid one.
func cancelling(tx *pb.Tx, account *pb.Submitter) string {
	state, protection := shownState(tx.GetState(), tx.GetSubState()), account.GetProtection()
	last := &pb.Attempt{}
	for _, a := range tx.GetOperator().GetAttempts() {
		last = a
		if in := tx.GetReceipt(); in != nil && in.GetTxHash() == a.GetTxHash() &&
			a.GetKind() == string(txn.Cancel) {
			return fmt.Sprintf(
				"was cancelled in block %d; it is CANCELLED once that block is final",
				in.GetBlockNumber())
		}
	}
	switch {
	case tx.GetFinalTime() != nil:
		return "is final now: it is " + state
	case tx.GetReceipt() != nil:
		return fmt.Sprintf(
			"is already in block %d: the cancel is recorded, but has no effect unless a reorg "+
				"removes the block",
			tx.GetReceipt().GetBlockNumber())
	case tx.GetState() == pb.TxState_TX_STATE_QUEUED:
		return "was requeued: the cancel is recorded and applied once the chain shows that no " +
			"earlier attempt was executed"
	case tx.GetReason() == txn.ReasonNonceElsewhere:
		return fmt.Sprintf(
			"lost its nonce to another transaction: the cancel is recorded; end it with "+
				"\"fencepost tx resolve %s --fail --reason TEXT\"",
			tx.GetTxId())
	case tx.GetReason() == txn.ReasonReorgedFinal:
		return "was final before a reorg and is rebroadcast unchanged: the cancel is recorded, " +
			"but no cancel transaction is signed"
	case last.GetKind() == string(txn.Cancel):
		return fmt.Sprintf(
			"is being cancelled by attempt %d, at the same nonce; the one that is included first "+
				"wins",
			last.GetAttemptNo())
	case protection != nil:
		until := "until an operator ends the protection"
		if (&txn.Protected{Reason: protection.GetReason()}).EndsAutomatically() {
			until = "until the reorged transactions are final again"
		}
		return fmt.Sprintf(
			"may still be included: the cancel is recorded, but the account is under protection "+
				"%d (%s) and nothing is signed %s (\"fencepost submitter show %s\")",
			protection.GetProtectionId(), protection.GetReason(), until, account.GetName())
	}
	return fmt.Sprintf(
		"is in flight (%s): the cancel is recorded; a cancel transaction is sent at the same "+
			"nonce, and the one that is included first wins",
		state)
}

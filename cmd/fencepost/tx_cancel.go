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
		Use: "cancel TX_ID", Short: "Ask for a transaction not to be executed", Args: arguments("TX_ID"),
		Long: `Ask for a transaction not to be executed. What that does depends on where it is:

  - queued, and never had a nonce: it is cancelled at once and never runs
  - queued before the ledger was restored from a backup: the same, but it may have run after the backup, so it ends as UNKNOWN (RESTORED_UNKNOWN): look on chain
  - in flight, and in no block: the owner of the account signs a transaction that does nothing for the same nonce, and whichever is included first wins
  - the same while the account is under PROTECT: nothing is signed for it, so the cancel waits until that ends, and the transaction may be included meanwhile
  - in a block: the cancel comes too late, and counts only if a reorg takes that block away
  - final: nothing is done

"fencepost tx watch" tells how it ends: CANCELLED, or when the cancel lost CONFIRMED with the reason CANCEL_LOST, or FAILED with the reason REVERTED. Until then
do not send the same intent anew. A cancel cannot be taken back.`,
		Example: `  fencepost tx cancel 01a21fca-9bb7-8000-8000-058ead4b4abd --reason "wrong amount"`,
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.txs.CancelTx,
				&pb.CancelTxRequest{TxId: args[0], Reason: d.reason, Operator: d.by(p)})
			if err != nil {
				return err
			}
			if p.json {
				return p.print(wire{answer}, nil)
			}
			said, err := c.cancelled(ctx, answer)
			if err != nil {
				return err
			}
			return line("transaction %s %s", args[0], said)(p.out)
		}),
	}
	d.addOptional(c, "why; kept with the command")
	return c
}

// cancelled tells what a cancel did, and what comes next.
func (c *client) cancelled(ctx context.Context, answer *pb.CancelTxResponse) (string, error) {
	id := answer.GetTx().GetTxId()
	switch answer.GetOutcome() {
	case pb.CancelOutcome_CANCEL_OUTCOME_CANCELLED:
		if answer.GetTx().GetExecuted() != pb.Executed_EXECUTED_NO {
			return "is cancelled and is not sent any more: " + plain(
				answer.GetTx().GetLastError()), nil
		}
		return "is cancelled and will never be executed", nil
	case pb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FINAL:
		return "was final before, so nothing was done: it is " + shownState(
			answer.GetTx().GetState(), answer.GetTx().GetSubState()), nil
	}
	full, err := call(ctx, c, c.txs.GetTx,
		&pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: id}, View: pb.TxView_TX_VIEW_OPERATOR})
	if err != nil {
		return "", fmt.Errorf(
			"the cancel of transaction %s is recorded, but not where it stands: %w", id, err)
	}
	account, err := call(ctx, c, c.subs.GetSubmitter,
		&pb.GetSubmitterRequest{Submitter: full.GetTx().GetSubmitter()})
	if err != nil {
		return "", fmt.Errorf(
			"the cancel of transaction %s is recorded, but not where it stands: %w", id, err)
	}
	return cancelling(full.GetTx(), account.GetSubmitter()) + unpaid(
		full.GetTx()) + fmt.Sprintf("; \"fencepost tx watch %s\" tells how it ends", id), nil
}

// cancelling tells what becomes of a cancel that is recorded. What nothing is signed for comes before what forbids to sign.
func cancelling(tx *pb.Tx, account *pb.Submitter) string {
	state, protection := shownState(tx.GetState(), tx.GetSubState()), account.GetProtection()
	last := &pb.Attempt{}
	for _, a := range tx.GetOperator().GetAttempts() {
		last = a
		if in := tx.GetReceipt(); in != nil && in.GetTxHash() == a.GetTxHash() &&
			a.GetKind() == string(txn.Cancel) {
			return fmt.Sprintf(
				"has been cancelled in block %d, and is CANCELLED once that is final",
				in.GetBlockNumber())
		}
	}
	switch {
	case tx.GetFinalTime() != nil:
		return "is final meanwhile: it is " + state
	case tx.GetReceipt() != nil:
		return fmt.Sprintf(
			"is in block %d already: the cancel is recorded, and lost unless a reorg takes that block away",
			tx.GetReceipt().GetBlockNumber())
	case tx.GetState() == pb.TxState_TX_STATE_QUEUED:
		return "had a nonce before it went back into the queue: the cancel is recorded, and its owner ends it once the chain shows that nothing ran of what was signed for it"
	case tx.GetReason() == txn.ReasonNonceElsewhere:
		return fmt.Sprintf(
			"has lost its nonce to somebody else, so there is nothing to race: the cancel is recorded; end it with \"fencepost tx resolve %s --fail --reason TEXT\"",
			tx.GetTxId())
	case tx.GetReason() == txn.ReasonReorgedFinal:
		return "was final before a reorg, and is handed over as it was: the cancel is recorded, and nothing is signed for it"
	case last.GetKind() == string(txn.Cancel):
		return fmt.Sprintf(
			"is being cancelled: attempt %d does nothing and is handed over under the same nonce, and whichever is included first wins",
			last.GetAttemptNo())
	case protection != nil:
		until := "until somebody ends that"
		if (&txn.Protected{Reason: protection.GetReason()}).EndsAutomatically() {
			until = "until that ends, which it does by itself once all that was final before is final again"
		}
		return fmt.Sprintf(
			"may still be included: the cancel is recorded, but its account is under protection %d (%s), and nothing is signed for it %s (\"fencepost submitter show %s\")",
			protection.GetProtectionId(), protection.GetReason(), until, account.GetName())
	}
	return fmt.Sprintf(
		"has a nonce already (it is %s), so the chain decides: the cancel is recorded, one that does nothing is sent next under the same nonce, and whichever is included first wins",
		state)
}

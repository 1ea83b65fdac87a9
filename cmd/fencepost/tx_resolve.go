package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

func (p *program) txResolveCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	var fail, requeue, retry, bump, cancel, unproven bool
	var version uint64
	c := &cobra.Command{
		Use:   "resolve TX_ID --retry|--bump|--cancel|--fail|--requeue --reason TEXT",
		Short: "Decide on a STUCK transaction",
		Args:  arguments("TX_ID"),
		Long: `Decide on a STUCK transaction. Fencepost tracks and rebroadcasts it in any case.

--bump and --cancel do the same as "fencepost tx speed-up" and "fencepost tx cancel", but only if
the transaction is still STUCK and of the version you checked.

--retry resets the broadcast counter and broadcasts now. Use it when the cause is fixed. If the
transaction is being cancelled, --retry broadcasts the original once more; use it if no node
accepts the cancel transaction and the original may run. The cancel stays in force and is
rebroadcast every chains.*.resubmit.interval; the one that is included first wins. --retry is
refused, without effect, if no node accepts the original.

--fail and --requeue are for a nonce that was used elsewhere. Both are refused, without effect,
while the transaction could still be included, which is until the other use of the nonce is
chains.*.finality.audit_depth blocks deep, and while no endpoint can show the consumer of the
nonce; repeat the command later. --fail ends the transaction as not executed, also if it is not
STUCK (after a restore: as UNKNOWN, see RESTORED_UNKNOWN). --requeue returns it to its place in the
queue, to be sent at another nonce. Its earlier attempts are still tracked: if a deep reorg
includes one, the account is put under PROTECT.

--unproven, with --fail or --requeue, skips the proof of the consumer of the nonce, for a use that
no endpoint can show any more. First verify with a block explorer that the use is audit_depth
blocks deep and was not this transaction.`,
		Example: "  fencepost tx resolve 01a21fca-9bb7-8000-8000-058ead4b4abd --retry" +
			" --reason \"endpoint is back\"\n" +
			"  fencepost tx resolve 01a21fca-9bb7-8000-8000-058ead4b4abd --requeue" +
			" --reason \"manual transfer took its nonce\"",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		err := oneOf(cmd, choice{"--retry", retry}, choice{"--bump", bump},
			choice{"--cancel", cancel}, choice{"--fail", fail}, choice{"--requeue", requeue})
		if err != nil {
			return err
		}
		if err := d.check(cmd); err != nil {
			return err
		}
		if unproven && !fail && !requeue {
			return misused(cmd, "--unproven needs --fail or --requeue")
		}
		decision := pb.StuckDecision_STUCK_DECISION_FAIL
		switch {
		case retry:
			decision = pb.StuckDecision_STUCK_DECISION_RETRY
		case bump:
			decision = pb.StuckDecision_STUCK_DECISION_BUMP
		case cancel:
			decision = pb.StuckDecision_STUCK_DECISION_CANCEL
		case requeue && unproven:
			decision = pb.StuckDecision_STUCK_DECISION_REQUEUE_UNPROVEN
		case requeue:
			decision = pb.StuckDecision_STUCK_DECISION_REQUEUE
		case unproven:
			decision = pb.StuckDecision_STUCK_DECISION_FAIL_UNPROVEN
		}
		ask := &pb.ResolveStuckRequest{
			TxId:          args[0],
			Decision:      decision,
			Reason:        d.reason,
			Operator:      d.by(p),
			ExpectVersion: version,
		}
		return p.calling(f,
			func(ctx context.Context, c *client, _ []string) error {
				return p.resolve(ctx, c,
					ask)
			})(
			cmd,
			args,
		)
	}
	c.Flags().BoolVar(&retry, "retry", false,
		"reset its broadcast counter; if it is being cancelled, broadcast the original once more")
	c.Flags().BoolVar(&bump, "bump", false, "replace it with higher fees")
	c.Flags().BoolVar(&cancel, "cancel", false,
		"replace it with a cancel transaction")
	c.Flags().BoolVar(&fail, "fail", false, "end it as not executed")
	c.Flags().BoolVar(&requeue, "requeue", false, "return it to the queue")
	c.Flags().Uint64Var(&version, "expect-version", 0,
		"version you decided on; refused if it changed (default: the current version)")
	c.Flags().BoolVar(&unproven, "unproven", false,
		"although no endpoint can show the consumer of the nonce")
	d.add(c, "reason, recorded with the command")
	return c
}

// resolve prints the transaction, then requests the decision on that version.
func (p *program) resolve(ctx context.Context, c *client, ask *pb.ResolveStuckRequest) error {
	before, err := call(
		ctx,
		c,
		c.txs.GetTx,
		&pb.GetTxRequest{
			Key:  &pb.GetTxRequest_TxId{TxId: ask.GetTxId()},
			View: pb.TxView_TX_VIEW_OPERATOR,
		},
	)
	if err != nil {
		return err
	}
	if tx := before.GetTx(); !p.json {
		shownNow := []field{
			{"state", shownState(tx.GetState(), tx.GetSubState())},
			{"version", number(tx.GetVersion())},
			{"reason", tx.GetReason()},
			{"last_error", plain(tx.GetLastError())},
		}
		if err := fields(append(shownNow, operatorFields(tx.GetOperator())...))(p.out); err != nil {
			return err
		}
	}
	// One that is not STUCK was decided before. Repeating a decision names no version and returns
	// the result.
	if ask.GetExpectVersion() == 0 && before.GetTx().GetState() == pb.TxState_TX_STATE_STUCK {
		ask.ExpectVersion = before.GetTx().GetVersion()
	}
	answer, err := call(ctx, c, c.subs.ResolveStuck, ask)
	if err != nil {
		return err
	}
	return p.print(wire{answer.GetTx()},
		line("transaction %s %s", ask.GetTxId(), resolved(answer.GetTx(), ask.GetDecision())))
}

func resolved(tx *pb.Tx, decision pb.StuckDecision) string {
	state := shownState(tx.GetState(), tx.GetSubState())
	switch decision {
	case pb.StuckDecision_STUCK_DECISION_FAIL, pb.StuckDecision_STUCK_DECISION_FAIL_UNPROVEN:
		// It was executed after all.
		if tx.GetExecuted() != pb.Executed_EXECUTED_NO {
			return fmt.Sprintf("is %s: %s", state, plain(tx.GetLastError()))
		}
		return fmt.Sprintf("is %s and will never be executed", state)
	case pb.StuckDecision_STUCK_DECISION_RETRY:
		text := fmt.Sprintf("is rebroadcast with a reset broadcast counter; it is %s now", state)
		if recorded := plain(tx.GetLastError()); recorded != "" { // such as a race with its cancel
			text += ": " + recorded
		}
		return text
	case pb.StuckDecision_STUCK_DECISION_BUMP:
		return fmt.Sprintf(
			"has a replacement with higher fees, broadcast next; it is %s now", state,
		)
	case pb.StuckDecision_STUCK_DECISION_CANCEL:
		return fmt.Sprintf("is being cancelled; the attempt that is included first wins; it is "+
			"%s now",
			state)
	}
	return fmt.Sprintf("was requeued, to be sent at another nonce; it is %s now", state)
}

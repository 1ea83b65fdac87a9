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
		Use: "resolve TX_ID --retry|--bump|--cancel|--fail|--requeue --reason TEXT", Short: "Decide on a STUCK transaction", Args: arguments("TX_ID"),
		Long: `Decide on a STUCK transaction. It is followed and handed over in any case; --bump and --cancel do what
"fencepost tx speed-up" and "fencepost tx cancel" do, and are refused when it is not STUCK, or not as you looked at it, any more.

--retry counts its hand-overs anew, beginning at once: for when what held it up is mended. Of a transaction that is being cancelled, by request or deadline or since
a node said that it can never pass, it hands over the original itself once more: for when no node takes the cancel, and it may as well run. That does not take the
cancel back, which is handed over again after chains.*.resubmit.interval and from then on: whichever of the two is in a block first wins. It is refused when no node
takes the original, and then nothing changes. To have the cancel tried again there is nothing to do: that goes on by itself.

--fail and --requeue are for when its nonce was used by somebody else. The owner of the account looks at the chain first and refuses while the transaction could still
be included, which is until the other use of the nonce is chains.*.finality.audit_depth blocks deep, and while no endpoint can show who used the nonce; then nothing
changes: ask again. --fail ends it, also when it is not STUCK: it did not run and never will (after a restore of the ledger: nobody can tell, see RESTORED_UNKNOWN). --requeue puts it back at its place in the queue, to be sent under another nonce: use it when it
shall run all the same. What was signed for it is looked for all the same; if a reorg goes deeper and lets it run, its account is put under PROTECT, and you are told.

--unproven goes with either when the use of the nonce is so old that no endpoint shows it any more, or none keeps state as old as audit_depth: find out from a block
explorer that it is as deep as that, and that it was not this transaction.`,
		Example: `  fencepost tx resolve 01a21fca-9bb7-8000-8000-058ead4b4abd --retry --reason "the endpoint is back"` + "\n" +
			`  fencepost tx resolve 01a21fca-9bb7-8000-8000-058ead4b4abd --requeue --reason "somebody sent by hand; it shall run all the same"`,
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
			return misused(cmd, "--unproven goes with --fail or --requeue")
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
			func(ctx context.Context, c *client, _ []string) error { return p.resolve(ctx, c, ask) })(
			cmd,
			args,
		)
	}
	c.Flags().BoolVar(&retry, "retry", false,
		"count its hand-overs anew; of what is being cancelled, hand the original over once more")
	c.Flags().BoolVar(&bump, "bump", false, "sign another form of the same nonce that offers more")
	c.Flags().BoolVar(&cancel, "cancel", false,
		"have it not run: a form that does nothing is sent under the same nonce")
	c.Flags().BoolVar(&fail, "fail", false, "end it: it will never run")
	c.Flags().BoolVar(&requeue, "requeue", false, "put it back into the queue")
	c.Flags().Uint64Var(&version, "expect-version", 0,
		"version of the transaction that you looked at; refused when it is another now (default: the one that is shown first)")
	c.Flags().BoolVar(&unproven, "unproven", false,
		"although no endpoint can show any more who used the nonce")
	d.add(c, "why; kept with the command")
	return c
}

// resolve shows what is decided on, before it asks for it; what has changed since is not decided on.
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
	// What is not STUCK was decided on before, or there is nothing to decide: whoever repeats a decision names no version, and gets what became of it.
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
		if tx.GetExecuted() != pb.Executed_EXECUTED_NO { // it had run all the same, and the decision found that, or the chain has shown it since
			return fmt.Sprintf("is %s: %s", state, plain(tx.GetLastError()))
		}
		return fmt.Sprintf("is %s: it did not run and never will", state)
	case pb.StuckDecision_STUCK_DECISION_RETRY:
		text := fmt.Sprintf("is on its way again, with its hand-overs counted anew; it is %s now",
			state)
		if said := plain(tx.GetLastError()); said != "" { // as of an original that races its cancel
			text += ": " + said
		}
		return text
	case pb.StuckDecision_STUCK_DECISION_BUMP:
		return fmt.Sprintf(
			"has another form that offers more, which is handed over next; it is %s now", state)
	case pb.StuckDecision_STUCK_DECISION_CANCEL:
		return fmt.Sprintf(
			"shall not run any more: the cancel is recorded, and the chain decides what is included; it is %s now",
			state)
	}
	return fmt.Sprintf("went back into the queue, to be sent under another nonce; it is %s now",
		state)
}

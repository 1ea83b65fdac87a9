package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

func (p *program) submitterShowCommand(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Show the owner, nonces, queue and protection of a submitter",
		Args:    arguments("NAME"),
		Example: "  fencepost submitter show alice",
		Long: `Show a submitter: the node that owns it, its nonces, the transaction that blocks
the queue and, if it is protected, the evidence and the commands to decide with.`,
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.subs.GetSubmitter,
				&pb.GetSubmitterRequest{Submitter: args[0]})
			if err != nil {
				return err
			}
			lost, err := p.txWithLostNonce(ctx, c, answer.GetSubmitter())
			if err != nil {
				return err
			}
			return p.print(wire{answer.GetSubmitter()},
				shownSubmitter(answer.GetSubmitter(), lost, p.clock.Now()))
		}),
	}
}

// txWithLostNonce reads the transaction that awaits a decision because its nonce was used
// elsewhere; nil if there is none, or the output has no next steps.
func (p *program) txWithLostNonce(ctx context.Context, c *client, s *pb.Submitter) (*pb.Tx, error) {
	b := s.GetBlocking()
	if p.json || b.GetState() != pb.TxState_TX_STATE_STUCK ||
		b.GetReason() != txn.ReasonNonceElsewhere {
		return nil, nil
	}
	answer, err := call(
		ctx,
		c,
		c.txs.GetTx,
		&pb.GetTxRequest{
			Key:  &pb.GetTxRequest_TxId{TxId: b.GetTxId()},
			View: pb.TxView_TX_VIEW_OPERATOR,
		},
	)
	return answer.GetTx(), err
}

// shownSubmitter writes the fields of a submitter and the next steps, if any.
func shownSubmitter(s *pb.Submitter, lost *pb.Tx, now time.Time) func(io.Writer) error {
	return func(w io.Writer) error {
		if err := fields(submitterFields(s, now))(w); err != nil {
			return err
		}
		if heading, steps := nextSteps(s, lost); len(steps) > 0 {
			return line("\n%s\n  %s", heading, strings.Join(steps, "\n  "))(w)
		}
		return nil
	}
}

// nextSteps are the commands for an account that awaits, or allows, a decision; none otherwise.
// lost is the transaction that lost its nonce, if any.
func nextSteps(s *pb.Submitter, lost *pb.Tx) (heading string, steps []string) {
	b := s.GetBlocking()
	switch reason := s.GetProtection().GetReason(); {
	case s.GetPause().GetOnFailure() && s.GetProtection() == nil &&
		len(ran(s, "")) == 0 && b.GetState() != pb.TxState_TX_STATE_STUCK:
		return "Paused because a transaction reverted (on_failure). Check the revert and the " +
				"queue, then resume:",
			[]string{
				"fencepost tx list --submitter " + s.GetName() + " --state QUEUED   # will be sent",
				fmt.Sprintf("fencepost submitter resume %s --pause %d", s.GetName(),
					s.GetPause().GetPauseId()),
			}
	case reason == txn.ReasonReorgedFinal:
		return "No nonce is allocated until the reorged transactions are final again, which ends " +
			"the protection automatically, or until you decide:", exits(s, lost)
	case s.GetProtection() != nil:
		return strings.TrimPrefix(
			protectedWhy[reason]+"\nNo nonce is allocated until you decide:", "\n"), exits(s, lost)
	case len(ran(s, "")) > 0:
		return "It was given up but executed; its receipt finalizes it automatically:", ran(s, "")
	case unfundedTx(s) != nil:
		return funding(s, unfundedTx(s))
	case b.GetState() != pb.TxState_TX_STATE_STUCK:
		return "", nil
	case b.GetReason() == txn.ReasonNonceElsewhere:
		return fmt.Sprintf(
			"Nonce %d was used elsewhere. Decide:",
			b.GetNonce(),
		), first(s, lost)
	case b.GetReason() == txn.ReasonReorgedFinal:
		return fmt.Sprintf(
				"The transaction at nonce %d was final and left the chain in a reorg. The same "+
					"bytes are rebroadcast until it is final again:",
				b.GetNonce(),
			),
			[]string{
				"fencepost tx watch " + b.GetTxId(),
			}
	}
	return fmt.Sprintf(
			"The transaction at nonce %d is STUCK. It is still tracked and rebroadcast. Options:",
			b.GetNonce(),
		), []string{
			"fencepost tx speed-up " + b.GetTxId() + "   # replace it with higher fees",
			"fencepost tx cancel " + b.GetTxId() + "   # replace it with a cancel transaction",
			resolveLine(b) + " --retry   # reset its broadcast counter; if it is being cancelled," +
				" broadcast the original once more",
		}
}

// protectedWhy explains each reason of a protection, and what to check before deciding. A
// protection because of a reorg ends automatically.
var protectedWhy = map[string]string{
	txn.ReasonNonceElsewhere: "The account's key was used elsewhere; see the evidence. Find and " +
		"stop the other user: only Fencepost may use the key.",
	txn.ReasonChainBehind: "The chain lacks blocks that the ledger refers to. Check the " +
		"endpoints. If the chain lost blocks, wait until the transactions in flight are included " +
		"again.",
	txn.ProtectByOperator: "An operator protected it; the evidence is their reason.",
	txn.ProtectByAudit: "The audit found a ledger law broken; see the evidence. Run \"fencepost" +
		" audit\", and do not resume before the cause is known.",
	txn.ProtectRestored: "The ledger was restored and lacks the commits after the backup. " +
		"Compare the account with the chain first: see Restore in docs/operations.md.",
	txn.ProtectExecutedAfterRequeue: "A requeued transaction was executed after all; see the " +
		"evidence. " + ranWhy,
	txn.ProtectExecutedAfterFinal: "A transaction that had ended as not executed was executed " +
		"after all; see the evidence, and inform its client. " + ranWhy,
}

// ranWhy explains a transaction that was executed after it had been given up.
const ranWhy = "Its receipt finalizes it automatically. Either a reorg went deeper than " +
	"finality.audit_depth, or a decision with --unproven was wrong."

// ran are commands to watch the transactions that were executed after they had been given up. then
// is appended to the comment.
func ran(s *pb.Submitter, then string) (all []string) {
	for _, w := range []*pb.Waiting{s.GetBlocking(), s.GetQueueHead()} {
		if w.GetReason() == txn.ProtectExecutedAfterRequeue ||
			w.GetReason() == txn.ProtectExecutedAfterFinal {
			all = append(all,
				"fencepost tx watch "+w.GetTxId()+"   # was executed after all"+then)
		}
	}
	return all
}

func resolveLine(b *pb.Waiting) string {
	return fmt.Sprintf("fencepost tx resolve %s --expect-version %d --reason \"...\"", b.GetTxId(),
		b.GetVersion())
}

// exits are the commands that end a protection, each with a shell comment, after those that must
// come first.
func exits(s *pb.Submitter, lost *pb.Tx) []string {
	command := fmt.Sprintf("fencepost submitter exit-protect %s --protection %d --reason \"...\"",
		s.GetName(), s.GetProtection().GetProtectionId())
	keep, also := "", ""
	if uncompared(s) {
		keep = " --keep-queue"
		also = "; queued transactions have not run on chain and will be sent"
	}
	next := command + " --resume" + keep + "   # continue at nonce " + shownNonce(s) + also
	forward := command + " --align-forward" + keep + "   # continue at the account's settled " +
		"nonce on chain; skipped nonces are recorded as gaps" + also
	ways := []string{next, forward}
	if on := onChain(s); on > s.GetNextNonce() {
		ways = []string{
			forward,
			next + fmt.Sprintf(
				"; refused while the next nonce on chain is higher, where it was %d",
				on),
		}
	}
	return append(
		append(ran(s, "; need not finish first"), first(s, lost)...),
		ways...)
}

// uncompared reports whether ending the protection requires a statement that the queue was compared
// with the chain, after a restore.
func uncompared(s *pb.Submitter) bool {
	return s.GetProtection() != nil && s.GetQueueHead().GetRestored() ||
		s.GetProtection().GetReason() == txn.ProtectRestored && s.GetQueued() > 0
}

// onChain is the account's next nonce on chain when its protection began; 0: unknown.
func onChain(s *pb.Submitter) uint64 {
	if s.GetProtection().GetReason() != txn.ReasonNonceElsewhere {
		return 0
	}
	return s.GetProtection().GetChainNonce()
}

// first are the commands that must come before a decision.
func first(s *pb.Submitter, lost *pb.Tx) (all []string) {
	if b := s.GetBlocking(); b.GetState() == pb.TxState_TX_STATE_STUCK &&
		b.GetReason() == txn.ReasonNonceElsewhere {
		fail := fmt.Sprintf("%s --fail   # first: end the STUCK transaction at nonce %d",
			resolveLine(b), b.GetNonce())
		requeue := resolveLine(b) + " --requeue"
		switch {
		case givenUp(lost): // it must not be requeued
			all = append(all, fail+"; it is being cancelled. Add --unproven if no endpoint can "+
				"show the consumer of its nonce")
		case b.GetRestored(): // it may itself have used the nonce
			all = append(all, fail, requeue+" --unproven   # or give it another nonce, if "+
				"the consumer of its nonce is not the same payload signed after the backup")
		default:
			all = append(all, fail, requeue+"   # or give it another nonce. Add --unproven to "+
				"either if no endpoint can show the consumer of its nonce")
		}
	}
	if uncompared(s) {
		all = append(
			all,
			fmt.Sprintf(
				"fencepost tx list --submitter %s --state QUEUED   # first: cancel those that ran "+
					"after the backup",
				s.GetName()),
			"fencepost tx cancel TX_ID",
		)
	}
	return all
}

// givenUp reports whether a cancel was requested, or the newest attempt is one.
func givenUp(tx *pb.Tx) bool {
	attempts := tx.GetOperator().GetAttempts()
	return tx.GetCancelRequested() ||
		len(attempts) > 0 && attempts[len(attempts)-1].GetKind() == string(txn.Cancel)
}

// shownQueued is the number of queued transactions, or its lower bound.
func shownQueued(s *pb.Submitter) string {
	if s.GetQueuedIsAtLeast() {
		return fmt.Sprintf("at least %d", s.GetQueued())
	}
	return strconv.FormatInt(s.GetQueued(), 10)
}

func submitterFields(s *pb.Submitter, now time.Time) []field {
	all := []field{
		{
			"name",
			s.GetName(),
		}, {"account", s.GetAccountId()}, {"signer", s.GetSigner()},
		{"mode", shownMode(s)},
		{
			"status",
			shownStatus(s),
		}, {"on_failure", shownFailurePolicy(s)}, {"max_fee", wei(s.GetMaxFee())},
		{
			"start_from",
			s.GetStartFrom(),
		}, {"next_nonce", shownNonce(s)}, {"init_nonce", shownInit(s)},
		{"queued", shownQueued(s)}, {"in_flight", strconv.FormatInt(s.GetInFlight(), 10)},
	}
	if s.GetLedger() != "" {
		all = append(all, field{"ledger", s.GetLedger()})
	}
	all = append(all, leaseFields(s.GetLease(), now)...)
	if p := s.GetPause(); p != nil {
		all = append(all, field{"pause", strconv.FormatInt(p.GetPauseId(), 10)},
			field{"paused", shownTime(p.GetTime())},
			field{"paused_by", shownPauser(p)}, field{"paused_why", shown(plain(p.GetReason()))})
	}
	if pr := s.GetProtection(); pr != nil {
		all = append(all, field{"protection", strconv.FormatInt(pr.GetProtectionId(), 10)},
			field{"protected", shownTime(pr.GetTime())}, field{"reason", pr.GetReason()},
			field{"evidence", shownEvidence(pr)})
	}
	all = append(all, waitingFields("blocking", s.GetBlocking())...)
	all = append(all, waitingFields("queue_head", s.GetQueueHead())...)
	for _, g := range s.GetGaps() {
		all = append(all, field{"gap", shownGap(g)})
	}
	return append(all, field{"created", shownTime(s.GetCreateTime())})
}

// shownEvidence is the evidence; where Fencepost wrote it, decisions are named by their flags.
func shownEvidence(pr *pb.Protection) string {
	if pr.GetReason() == txn.ProtectRestored {
		return inFlags(plain(pr.GetEvidence()))
	}
	return plain(pr.GetEvidence())
}

// shownPauser is the operator that paused a submitter.
func shownPauser(p *pb.Pause) string {
	if p.GetOnFailure() {
		return p.GetOperator() + " (on_failure)"
	}
	return shown(plain(p.GetOperator()))
}

// leaseFields show the lease. Its age is by the local clock.
func leaseFields(l *pb.LeaseInfo, now time.Time) []field {
	all := []field{
		{"owner", shown(l.GetOwnerNode())},
		{"fencing_token", number(uint64(l.GetFencingToken()))},
	}
	if l.GetOwnerNode() != "" {
		since := l.GetAcquireTime()
		all = append(
			all,
			field{
				"owner_since",
				fmt.Sprintf("%s (%v)", shownTime(since),
					max(now.Sub(since.AsTime()), 0).Round(time.Second)),
			},
			field{"lease_until", shownTime(l.GetExpireTime())},
		)
	}
	return all
}

func waitingFields(name string, w *pb.Waiting) []field {
	if w == nil {
		return nil
	}
	text := w.GetTxId() + " " + shownState(w.GetState(), w.GetSubState())
	if w.Nonce != nil {
		text += fmt.Sprintf(", nonce %d", w.GetNonce())
	}
	text += ", accepted " + shownTime(w.GetCreateTime())
	if w.GetReason() != "" {
		text += "; " + w.GetReason()
	}
	if w.GetMessage() != "" {
		text += ": " + plain(w.GetMessage())
	}
	return []field{{name, text}}
}

func shownGap(g *pb.NonceGap) string {
	text := fmt.Sprint(g.GetFirstNonce())
	if g.GetLastNonce() != g.GetFirstNonce() {
		text += fmt.Sprintf(" to %d", g.GetLastNonce())
	}
	if g.GetTxId() != "" {
		text += ", given up by " + g.GetTxId()
	}
	return text + ", " + shownTime(g.GetTime()) + ": " + shown(plain(g.GetReason()))
}

func shownInit(s *pb.Submitter) string {
	if s.InitNonce == nil {
		return ""
	}
	return strconv.FormatUint(s.GetInitNonce(), 10)
}

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
		Use: "show NAME", Short: "Show owner, nonce, queue and protection of a submitter", Args: arguments("NAME"), Example: "  fencepost submitter show alice",
		Long: `Show which node works for a submitter and since when, where its nonces stand, what holds up those behind it, and, when it is protected, the evidence and
the commands to decide with.`,
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.subs.GetSubmitter,
				&pb.GetSubmitterRequest{Submitter: args[0]})
			if err != nil {
				return err
			}
			lost, err := p.lostItsNonce(ctx, c, answer.GetSubmitter())
			if err != nil {
				return err
			}
			return p.print(wire{answer.GetSubmitter()},
				shownSubmitter(answer.GetSubmitter(), lost, p.clock.Now()))
		}),
	}
}

// lostItsNonce is the transaction that waits for a decision because somebody else has used its nonce; nil if none does, or nobody is told how to decide.
func (p *program) lostItsNonce(ctx context.Context, c *client, s *pb.Submitter) (*pb.Tx, error) {
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

// shownSubmitter writes the fields of a submitter and, if an operator has to decide on it, how.
func shownSubmitter(s *pb.Submitter, lost *pb.Tx, now time.Time) func(io.Writer) error {
	return func(w io.Writer) error {
		if err := fields(submitterFields(s, now))(w); err != nil {
			return err
		}
		if heading, ways := waysOut(s, lost); len(ways) > 0 {
			return line("\n%s\n  %s", heading, strings.Join(ways, "\n  "))(w)
		}
		return nil
	}
}

// waysOut are the command lines for an account that waits for a decision, or may; none for one that does not. lost is what has lost its nonce, if something has.
func waysOut(s *pb.Submitter, lost *pb.Tx) (heading string, ways []string) {
	b := s.GetBlocking()
	switch reason := s.GetProtection().GetReason(); {
	case s.GetPause().GetOnFailure() && s.GetProtection() == nil && len(ran(s, "")) == 0 && b.GetState() != pb.TxState_TX_STATE_STUCK:
		return "A transaction reverted, and its policy paused the account for that. Look at what reverted, and at what is queued behind it; then:",
			[]string{
				"fencepost tx list --submitter " + s.GetName() + " --state QUEUED   # what will be sent",
				"fencepost submitter resume " + s.GetName(),
			}
	case reason == txn.ReasonReorgedFinal:
		return "No nonce is taken until all that was final before is final again, which ends this by itself, or until you decide:", exits(
			s, lost)
	case s.GetProtection() != nil:
		return strings.TrimPrefix(
			protectedWhy[reason]+"\nNo nonce is taken until you decide:",
			"\n",
		), exits(s, lost)
	case len(ran(s, "")) > 0:
		return "It ran although it had been given up, and ends by itself, by that receipt:", ran(s,
			"")
	case lacksMoney(s) != nil:
		return funding(s, lacksMoney(s))
	case b.GetState() != pb.TxState_TX_STATE_STUCK:
		return "", nil
	case b.GetReason() == txn.ReasonNonceElsewhere:
		return fmt.Sprintf(
			"Nonce %d was used by somebody else. Decide:",
			b.GetNonce(),
		), first(s, lost)
	case b.GetReason() == txn.ReasonReorgedFinal:
		return fmt.Sprintf(
				"What has nonce %d was final, and left the chain. The form that was final is handed over again until it is final once more:",
				b.GetNonce(),
			),
			[]string{
				"fencepost tx watch " + b.GetTxId(),
			}
	}
	return fmt.Sprintf(
			"What has nonce %d is STUCK; it is followed and handed over, and you can:",
			b.GetNonce(),
		), []string{
			"fencepost tx speed-up " + b.GetTxId() + "   # offer more",
			"fencepost tx cancel " + b.GetTxId() + "   # send one that does nothing in its place",
			resolveLine(
				b) + " --retry   # count its hand-overs anew; if it is being cancelled, hand the original over once more",
		}
}

// protectedWhy says for each reason of a protection what it means, and what to look at before the decision. That of a reorg ends by itself.
var protectedWhy = map[string]string{
	txn.ReasonNonceElsewhere:        "Somebody else has used the account's key, as the evidence says. Find out who, and stop them: Fencepost's key must be used by nobody else.",
	txn.ReasonChainBehind:           "The chain lacks what the ledger has in blocks. Check the endpoints; if the chain lost blocks, wait until what was in flight is included again.",
	txn.ProtectByOperator:           "Somebody stopped it by hand; the evidence is the reason that they gave.",
	txn.ProtectByAudit:              "The audit found a law of the ledger broken, as the evidence says. Run \"fencepost audit\", and do not go on before that is understood.",
	txn.ProtectRestored:             "The ledger was restored, and what came after the backup is not in it. Compare the account with the chain first: see Restore in docs/operations.md.",
	txn.ProtectExecutedAfterRequeue: "A transaction that was given back to the queue ran all the same, as the evidence says. " + ranWhy,
	txn.ProtectExecutedAfterFinal:   "A transaction that had ended as never run ran all the same, as the evidence says: whoever acted on that must know. " + ranWhy,
}

// ranWhy is what there is to do about a transaction that ran although it had been given up.
const ranWhy = `It ends by itself, by
that receipt. Either a reorg went deeper than finality.audit_depth, or somebody said --unproven and was wrong: find out which.`

// ran are the transactions that say so of themselves, each to be watched; then is what the comment says after that.
func ran(s *pb.Submitter, then string) (all []string) {
	for _, w := range []*pb.Waiting{s.GetBlocking(), s.GetQueueHead()} {
		if w.GetReason() == txn.ProtectExecutedAfterRequeue || w.GetReason() == txn.ProtectExecutedAfterFinal {
			all = append(all,
				"fencepost tx watch "+w.GetTxId()+"   # what ran, and how it ends"+then)
		}
	}
	return all
}

func resolveLine(b *pb.Waiting) string {
	return fmt.Sprintf("fencepost tx resolve %s --expect-version %d --reason \"...\"", b.GetTxId(),
		b.GetVersion())
}

// exits are the command lines that end a protection, each as it is to be typed, with what it does in a comment of the shell; before them those that have to come
// first.
func exits(s *pb.Submitter, lost *pb.Tx) []string {
	command := fmt.Sprintf("fencepost submitter exit-protect %s --protection %d --reason \"...\"",
		s.GetName(), s.GetProtection().GetProtectionId())
	keep, says := "", ""
	if uncompared(s) {
		keep, says = " --keep-queue", "; what is still queued was compared with the chain, has not run, and will be sent"
	}
	next := command + " --resume" + keep + "   # go on at nonce " + shownNonce(s) + says
	forward := command + " --align-forward" + keep + "   # go on at the account's settled nonce on chain; those between are recorded as gaps" + says
	ways := []string{next, forward}
	if on := onChain(s); on > s.GetNextNonce() {
		ways = []string{
			forward,
			next + fmt.Sprintf(
				"; refused while the account's next nonce is above that on chain, where it was %d",
				on),
		}
	}
	return append(
		append(ran(s, "; what follows need not wait for that"), first(s, lost)...),
		ways...)
}

// uncompared tells whether a protection ends only once somebody says that what is queued was compared with the chain: it comes from a restore.
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

// first are the command lines for what stands in the way of a decision.
func first(s *pb.Submitter, lost *pb.Tx) (all []string) {
	if b := s.GetBlocking(); b.GetState() == pb.TxState_TX_STATE_STUCK &&
		b.GetReason() == txn.ReasonNonceElsewhere {
		fail := fmt.Sprintf("%s --fail   # first: what holds nonce %d is STUCK; this ends it",
			resolveLine(b), b.GetNonce())
		switch {
		case givenUp(lost): // it is not given back to the queue
			all = append(all,
				fail+", as it shall not run any more. --unproven goes with it, when no endpoint can show who used its nonce")
		case b.GetRestored(): // who used its nonce may be itself
			all = append(
				all,
				fail,
				resolveLine(
					b)+" --requeue --unproven   # or this gives it another nonce, if you have seen that what used its own is not the same, signed after the backup",
			)
		default:
			all = append(
				all,
				fail,
				resolveLine(
					b)+" --requeue   # or this gives it another nonce. --unproven goes with either, when no endpoint can show who used its own",
			)
		}
	}
	if uncompared(s) {
		all = append(
			all,
			fmt.Sprintf(
				"fencepost tx list --submitter %s --state QUEUED   # first: any of these may have run after the backup; cancel those that did",
				s.GetName()),
			"fencepost tx cancel TX_ID",
		)
	}
	return all
}

// givenUp tells whether a transaction shall not run any more: somebody has asked for its cancel, or its newest form is one.
func givenUp(tx *pb.Tx) bool {
	attempts := tx.GetOperator().GetAttempts()
	return tx.GetCancelRequested() ||
		len(attempts) > 0 && attempts[len(attempts)-1].GetKind() == string(txn.Cancel)
}

// shownQueued tells how much waits for a nonce, and that it is more when not all of it was counted.
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
		}, {"account", s.GetAccountId()}, {"signer", s.GetSigner()}, {"mode", strings.TrimPrefix(s.GetMode().String(), "SUBMITTER_MODE_")},
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
	all = append(all, leaseFields(s.GetLease(), now)...)
	if p := s.GetPause(); p != nil {
		all = append(all, field{"paused", shownTime(p.GetTime())},
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

// shownEvidence names decisions by their flags, where it is the program that wrote it.
func shownEvidence(pr *pb.Protection) string {
	if pr.GetReason() == txn.ProtectRestored {
		return inFlags(plain(pr.GetEvidence()))
	}
	return plain(pr.GetEvidence())
}

// shownPauser is who paused a submitter.
func shownPauser(p *pb.Pause) string {
	if p.GetOnFailure() {
		return p.GetOperator() + " (on_failure)"
	}
	return shown(plain(p.GetOperator()))
}

// leaseFields tell how long a node has had the lease by the clock here, which is good enough for a person.
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
		)
	}
	return append(all, field{"lease_until", shownTime(l.GetExpireTime())})
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

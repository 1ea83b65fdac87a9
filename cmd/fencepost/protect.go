package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// decisionFlags are recorded with every decision of an operator.
type decisionFlags struct{ reason, operator string }

func (d *decisionFlags) add(c *cobra.Command, reason string) {
	d.addOptional(c, reason+" (required)")
}

func (d *decisionFlags) addOptional(c *cobra.Command, reason string) {
	c.Flags().StringVar(&d.reason, "reason", "", reason)
	c.Flags().StringVar(&d.operator, "operator", "",
		"name recorded with the decision (default: the local user)")
}

// by is the operator to record.
func (d *decisionFlags) by(p *program) string {
	if d.operator == "" {
		return p.user
	}
	return d.operator
}

// check refuses a decision without a reason.
func (d *decisionFlags) check(c *cobra.Command) error {
	visible := func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }
	switch {
	case d.reason == "":
		return misused(c, "--reason is missing; give a reason, which is recorded")
	case !strings.ContainsFunc(d.reason, visible):
		return misused(c, "--reason is blank; give a reason, which is recorded")
	}
	return nil
}

// choice is one of several mutually exclusive flags.
type choice struct {
	flag  string
	given bool
}

// oneOf requires exactly one of the flags.
func oneOf(c *cobra.Command, choices ...choice) error {
	given, names := 0, []string{}
	for _, one := range choices {
		names = append(names, one.flag)
		if one.given {
			given++
		}
	}
	if given == 1 {
		return nil
	}
	last := len(names) - 1
	return misused(
		c, "give exactly one of %s and %s", strings.Join(names[:last], ", "), names[last],
	)
}

func (p *program) submitterProtectCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	c := &cobra.Command{
		Use:   "protect NAME --reason TEXT",
		Short: "Put an account under PROTECT",
		Args:  arguments("NAME"),
		Long: `Put an account under PROTECT. No nonce is allocated, nothing new is signed and new
transactions are rejected until an operator decides. Transactions in flight are still tracked.

Use it if the key may be in use elsewhere. For a planned break, use "fencepost submitter pause".

The command returns once the owner of the account has applied it. End the protection with
"fencepost submitter exit-protect". A protection with the reason REQUEUED_AND_RAN or ENDED_AND_RAN
keeps that reason; under it, a cancel transaction may still be signed for the nonce in question.`,
		Example: `  fencepost submitter protect alice --reason "key may have leaked"`,
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := d.check(cmd); err != nil {
			return err
		}
		return p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(
				ctx,
				c,
				c.subs.ProtectSubmitter,
				&pb.ProtectSubmitterRequest{
					Submitter: args[0],
					Reason:    d.reason,
					Operator:  d.by(p),
				},
			)
			if err != nil {
				return err
			}
			s := answer.GetSubmitter()
			return p.print(
				wire{s},
				line(
					"submitter %s is %s: protection %d, %s; to end it, see \"fencepost submitter "+
						"show %s\"",
					args[0], shownStatus(s), s.GetProtection().GetProtectionId(),
					s.GetProtection().GetReason(), args[0]),
			)
		})(cmd, args)
	}
	d.add(c, "reason, recorded as the evidence of the protection")
	return c
}

// exitFlags are a decision on a protection.
type exitFlags struct {
	decisionFlags
	protection          int64
	resume, align, keep bool
}

func (e *exitFlags) request(c *cobra.Command, p *program,
	name string) (*pb.ExitProtectRequest, error) {
	switch {
	case e.protection < 1 && c.Flags().Changed("protection"):
		return nil, misused(c,
			"--protection %d: must be at least 1; see \"fencepost submitter show %s\"",
			e.protection, name)
	case e.protection < 1:
		return nil, misused(c,
			"--protection is missing; \"fencepost submitter show %s\" shows the number and the "+
				"evidence",
			name)
	}
	if err := oneOf(
		c, choice{"--resume", e.resume}, choice{"--align-forward", e.align},
	); err != nil {
		return nil, err
	}
	if err := e.check(c); err != nil {
		return nil, err
	}
	decision := pb.ProtectionDecision_PROTECTION_DECISION_RESUME
	switch {
	case e.resume && e.keep:
		decision = pb.ProtectionDecision_PROTECTION_DECISION_RESUME_KEEP_QUEUE
	case e.keep:
		decision = pb.ProtectionDecision_PROTECTION_DECISION_ALIGN_FORWARD_KEEP_QUEUE
	case e.align:
		decision = pb.ProtectionDecision_PROTECTION_DECISION_ALIGN_FORWARD
	}
	return &pb.ExitProtectRequest{
		Submitter:    name,
		ProtectionId: e.protection,
		Decision:     decision,
		Reason:       e.reason,
		Operator:     e.by(p),
	}, nil
}

func (p *program) submitterExitProtectCommand(f *clientFlags) *cobra.Command {
	var e exitFlags
	c := &cobra.Command{
		Use: "exit-protect NAME --protection N --resume|--align-forward [--keep-queue]" +
			" --reason TEXT",
		Short: "End a protection by a decision",
		Args:  arguments("NAME"),
		Long: `End a protection by a decision. The owner of the account checks the decision
against the chain first. If the chain contradicts it, the decision is refused and nothing changes.

--resume continues at the next nonce of the ledger. --align-forward continues at the account's
settled nonce on chain and records the skipped nonces as gaps; use it if they were used outside
Fencepost. It is refused while a transaction holds a nonce and is not in a block: resolve that
transaction first ("fencepost tx resolve").

After a restore, both are refused while transactions from the backup are queued, because they may
have run after the backup. Compare them with the chain, cancel those that ran, and add
--keep-queue for the rest. This also applies to later protections while such transactions are
queued.`,
		Example: "  fencepost submitter exit-protect alice --protection 1 --resume" +
			" --reason \"endpoint lagged\"\n" +
			"  fencepost submitter exit-protect alice --protection 2 --align-forward" +
			" --reason \"manual transfer; key is back in the vault\"\n" +
			"  fencepost submitter exit-protect alice --protection 3 --resume --keep-queue" +
			" --reason \"restored; compared with the chain\"",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ask, err := e.request(cmd, p, args[0])
		if err != nil {
			return err
		}
		return p.calling(f,
			func(ctx context.Context, c *client, _ []string) error {
				return p.exitProtect(ctx, c,
					ask)
			})(
			cmd,
			args,
		)
	}
	c.Flags().Int64Var(&e.protection, "protection", 0,
		"number of the protection to end (required)")
	c.Flags().BoolVar(&e.resume, "resume", false, "continue at the next nonce of the ledger")
	c.Flags().BoolVar(&e.align, "align-forward", false,
		"continue at the account's settled nonce on chain")
	c.Flags().BoolVar(&e.keep, "keep-queue", false,
		"after a restore: keep queued transactions, which have not run on chain")
	e.add(c, "reason, recorded with the command and the gaps")
	return c
}

// exitProtect prints the protection, then requests the decision.
func (p *program) exitProtect(ctx context.Context, c *client, ask *pb.ExitProtectRequest) error {
	before, err := call(ctx, c, c.subs.GetSubmitter,
		&pb.GetSubmitterRequest{Submitter: ask.GetSubmitter()})
	if err != nil {
		return err
	}
	if pr := before.GetSubmitter().GetProtection(); pr.GetProtectionId() == ask.GetProtectionId() &&
		!p.json {
		if err := fields([]field{
			{"protection", strconv.FormatInt(pr.GetProtectionId(), 10)},
			{"since", shownTime(pr.GetTime())},
			{"reason", pr.GetReason()},
			{"evidence", plain(pr.GetEvidence())},
		})(p.out); err != nil {
			return err
		}
	}
	answer, err := call(ctx, c, c.subs.ExitProtect, ask)
	if err != nil {
		return err
	}
	if p.json {
		return p.print(wire{answer.GetSubmitter()}, nil)
	}
	after, err := call(ctx, c, c.subs.GetSubmitter,
		&pb.GetSubmitterRequest{Submitter: ask.GetSubmitter()}) // includes the gaps
	if err != nil {
		return fmt.Errorf("protection %d of submitter %s ended, but its state is unknown: %w",
			ask.GetProtectionId(), ask.GetSubmitter(), err)
	}
	return line("%s", exited(before.GetSubmitter(), after.GetSubmitter(), ask))(p.out)
}

// exited reports the effect of a decision and the next step. The next nonce is the one recorded
// with the decision; the account may have moved on since.
func exited(before, after *pb.Submitter, ask *pb.ExitProtectRequest) string {
	decision := strings.TrimPrefix(ask.GetDecision().String(), "PROTECTION_DECISION_")
	text := fmt.Sprintf(
		"protection %d of submitter %s was already ended by %s; nothing changed; see "+
			"\"fencepost submitter log %s\"",
		ask.GetProtectionId(), after.GetName(), decision, after.GetName())
	if before.GetProtection().GetProtectionId() == ask.GetProtectionId() {
		text = fmt.Sprintf("protection %d of submitter %s ended by %s (operator %s); next nonce %s",
			ask.GetProtectionId(), after.GetName(), decision, shown(ask.GetOperator()),
			nextAfterExit(before, after, ask))
	}
	switch pr := after.GetProtection(); {
	case pr != nil:
		return text + fmt.Sprintf(
			"; protection %d (%s) is in force now; see \"fencepost submitter show %s\"",
			pr.GetProtectionId(), pr.GetReason(), after.GetName())
	case after.GetStatus() == pb.SubmitterStatus_SUBMITTER_STATUS_PAUSED:
		return text + fmt.Sprintf(
			"; still PAUSED; continue with \"fencepost submitter resume %s\"",
			after.GetName())
	}
	text += "; " + atWork(after)
	if after.GetQueued()+after.GetInFlight() > 0 {
		text += fmt.Sprintf("; follow with \"fencepost tx watch --submitter %s\"",
			after.GetName())
	}
	return text
}

// atWork reports the queued and in-flight transactions. Both, because a queued transaction may be
// in flight by now.
func atWork(s *pb.Submitter) string {
	return fmt.Sprintf("%s queued, %d in flight", shownQueued(s), s.GetInFlight())
}

// nextAfterExit is the next nonce when a protection ended: after the gap recorded at the cursor, if
// any. The cursor does not move under protection.
func nextAfterExit(before, after *pb.Submitter, ask *pb.ExitProtectRequest) string {
	switch ask.GetDecision() {
	case pb.ProtectionDecision_PROTECTION_DECISION_RESUME,
		pb.ProtectionDecision_PROTECTION_DECISION_RESUME_KEEP_QUEUE:
		return shownNonce(before)
	}
	for _, g := range after.GetGaps() {
		if g.GetTxId() == "" && g.GetFirstNonce() == before.GetNextNonce() {
			return fmt.Sprintf("%d (was %s), %s recorded as a gap", g.GetLastNonce()+1,
				shownNonce(before), gapNonces(g))
		}
	}
	if len(after.GetGaps()) == mostGaps { // the newest gaps are not returned
		return shownNonce(after) + " by now"
	}
	return shownNonce(before)
}

// mostGaps is how many gaps GetSubmitter returns.
const mostGaps = 100

func gapNonces(g *pb.NonceGap) string {
	if g.GetFirstNonce() == g.GetLastNonce() {
		return fmt.Sprintf("nonce %d", g.GetFirstNonce())
	}
	return fmt.Sprintf("nonces %d to %d", g.GetFirstNonce(), g.GetLastNonce())
}

func (p *program) submitterLogCommand(f *clientFlags) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "log [NAME]",
		Short: "List the commands and decisions on a submitter, or on all",
		Args:  optionalName,
		Long: `List the commands and decisions on a submitter, or on all that you may see, newest
first: the command, the operator, the reason and the result. Automatic decisions are listed with
the operator "fencepost": a pause after a revert (--on-failure pause), the start of each protection
with its number and evidence, and the end of a protection that ended automatically. The log is
never truncated.`,
		Example: "  fencepost submitter log alice",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 1 {
			return misused(cmd, "--limit must be at least 1")
		}
		return p.calling(f, func(ctx context.Context, c *client, args []string) error {
			return p.listCommands(ctx, c, strings.Join(args, ""), limit)
		})(cmd, args)
	}
	c.Flags().IntVar(&limit, "limit", 100, "maximum number of commands")
	return c
}

// optionalName accepts a name or nothing.
func optionalName(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return arguments("NAME")(c, args)
}

// shownCommand names a command and the protection it refers to.
func shownCommand(k *pb.Command) string {
	text := strings.TrimSpace(k.GetKind() + " " + k.GetAction())
	if k.GetProtectionId() > 0 {
		text += fmt.Sprintf(" (protection %d)", k.GetProtectionId())
	}
	return text
}

func (p *program) listCommands(ctx context.Context, c *client, submitter string, limit int) error {
	all := &pb.ListCommandsResponse{}
	for len(all.GetCommands()) == 0 || all.GetNextPageToken() != "" &&
		len(all.GetCommands()) < limit {
		ask := &pb.ListCommandsRequest{
			Submitter: submitter,
			PageSize:  int32(min(limit-len(all.GetCommands()), maxPage)),
			PageToken: all.GetNextPageToken(),
		}
		page, err := call(ctx, c, c.subs.ListCommands, ask)
		if err != nil {
			return err
		}
		all.Commands, all.NextPageToken = append(
			all.Commands,
			page.GetCommands()...), page.GetNextPageToken()
		if len(page.GetCommands()) == 0 {
			break
		}
	}
	if all.GetNextPageToken() != "" && !p.json {
		p.note("more than %d commands; raise --limit", limit)
	}
	head := []string{"ID", "ASKED", "COMMAND", "OPERATOR", "CALLER", "TX_ID", "REASON", "DECIDED",
		"RESULT"}
	rows := make([][]string, len(all.GetCommands()))
	for i, k := range all.GetCommands() {
		rows[i] = commandRow(k)
		if submitter == "" {
			rows[i] = slices.Insert(rows[i], 1, k.GetSubmitter())
		}
	}
	if submitter == "" {
		head = slices.Insert(head, 1, "SUBMITTER")
	}
	return p.print(wire{all}, table(head, rows))
}

// commandRow is a line of the log. The last column, the result, is never truncated.
func commandRow(k *pb.Command) []string {
	return []string{
		strconv.FormatInt(k.GetCommandId(), 10),
		shownTime(k.GetCreateTime()),
		shownCommand(k),
		cell(k.GetOperator()),
		shown(k.GetCaller()),
		shown(k.GetTxId()),
		cell(k.GetReason()),
		shownTime(k.GetApplyTime()),
		shown(plain(k.GetResult())),
	}
}

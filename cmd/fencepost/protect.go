package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// decisionFlags are what every decision of an operator is recorded with.
type decisionFlags struct{ reason, operator string }

func (d *decisionFlags) add(c *cobra.Command, reason string) {
	d.addOptional(c, reason+" (required)")
}

func (d *decisionFlags) addOptional(c *cobra.Command, reason string) {
	c.Flags().StringVar(&d.reason, "reason", "", reason)
	c.Flags().StringVar(&d.operator, "operator", "",
		"who decides (default: the user of this machine)")
}

// by is who decides.
func (d *decisionFlags) by(p *program) string {
	if d.operator == "" {
		return p.user
	}
	return d.operator
}

// check refuses a decision without a reason.
func (d *decisionFlags) check(c *cobra.Command) error {
	switch says := func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }; {
	case d.reason == "":
		return misused(c, "--reason is missing; it is kept for whoever asks later")
	case !strings.ContainsFunc(d.reason, says):
		return misused(c, "--reason is blank; it is kept for whoever asks later, so say why")
	}
	return nil
}

// choice is a flag of which one must be given.
type choice struct {
	flag  string
	given bool
}

// oneOf demands exactly one of some flags.
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
	return misused(c, "give one of %s and %s", strings.Join(names[:last], ", "), names[last])
}

func (p *program) submitterProtectCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	c := &cobra.Command{
		Use: "protect NAME --reason TEXT", Short: "Stop an account by hand until somebody decides on it", Args: arguments("NAME"),
		Long: `Stop an account by hand until somebody decides on it: no nonce is taken, nothing new is signed and no new transaction is accepted. What is in flight is
followed to its end. Returns once the owner of the account has applied it. "fencepost submitter exit-protect" ends it. An account that is protected because something
ran that was given up (REQUEUED_AND_RAN, ENDED_AND_RAN) keeps that reason, under which one thing is signed: a form that does nothing, for the nonce which that holds.

Use it when you suspect that the key is used elsewhere. For a planned break, "fencepost submitter pause" is enough.`,
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
					"submitter %s is %s: protection %d, %s; \"fencepost submitter show %s\" tells how to end it",
					args[0], shownStatus(s), s.GetProtection().GetProtectionId(),
					s.GetProtection().GetReason(), args[0]),
			)
		})(cmd, args)
	}
	d.add(c, "why; kept as the evidence of the protection")
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
			"--protection %d is out of range: protections are numbered from 1; \"fencepost submitter show %s\" tells the number and the evidence",
			e.protection, name)
	case e.protection < 1:
		return nil, misused(c,
			"--protection is missing; \"fencepost submitter show %s\" tells its number and its evidence",
			name)
	}
	if err := oneOf(c, choice{"--resume", e.resume}, choice{"--align-forward", e.align}); err != nil {
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
		Use: "exit-protect NAME --protection N --resume|--align-forward [--keep-queue] --reason TEXT", Short: "Decide on a protection and go on", Args: arguments("NAME"),
		Long: `Decide on a protection and go on. The owner of the account looks at the chain first and refuses what the chain does not bear out; then nothing changes.

--resume goes on where the ledger stands. --align-forward goes on at the account's settled nonce on chain and records those between as gaps: for when somebody
else has used them. It is refused while a transaction holds a nonce and is in no block: "fencepost tx resolve" decides on that first.

After a restore both are refused while transactions are queued, which may have run after the backup: compare those with the chain, cancel what ran, and say
--keep-queue for the others. So both are of each later protection, while some of those are still queued.`,
		Example: `  fencepost submitter exit-protect alice --protection 1 --resume --reason "the endpoint lagged"` + "\n" +
			`  fencepost submitter exit-protect alice --protection 2 --align-forward --reason "one transfer by hand; the key is in the vault again"` + "\n" +
			`  fencepost submitter exit-protect alice --protection 3 --resume --keep-queue --reason "restored; compared with the chain, and cancelled what ran"`,
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ask, err := e.request(cmd, p, args[0])
		if err != nil {
			return err
		}
		return p.calling(f,
			func(ctx context.Context, c *client, _ []string) error { return p.exitProtect(ctx, c, ask) })(
			cmd,
			args,
		)
	}
	c.Flags().Int64Var(&e.protection, "protection", 0,
		"number of the protection whose evidence you looked at (required)")
	c.Flags().BoolVar(&e.resume, "resume", false, "go on where the ledger stands")
	c.Flags().BoolVar(&e.align, "align-forward", false,
		"go on at the account's settled nonce on chain")
	c.Flags().BoolVar(&e.keep, "keep-queue", false,
		"with either, after a restore: what is still queued was compared with the chain, and has not run")
	e.add(c, "why; kept with the command and the gaps")
	return c
}

// exitProtect shows what is decided on, before it asks for it.
func (p *program) exitProtect(ctx context.Context, c *client, ask *pb.ExitProtectRequest) error {
	before, err := call(ctx, c, c.subs.GetSubmitter,
		&pb.GetSubmitterRequest{Submitter: ask.GetSubmitter()})
	if err != nil {
		return err
	}
	if pr := before.GetSubmitter().GetProtection(); pr.GetProtectionId() == ask.GetProtectionId() &&
		!p.json {
		if err := fields([]field{
			{"protection", strconv.FormatInt(pr.GetProtectionId(), 10)}, {"since", shownTime(pr.GetTime())}, {"reason", pr.GetReason()}, {"evidence", plain(pr.GetEvidence())},
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
		&pb.GetSubmitterRequest{Submitter: ask.GetSubmitter()}) // it has the gaps as well
	if err != nil {
		return fmt.Errorf("protection %d of submitter %s is ended, but not how it stands now: %w",
			ask.GetProtectionId(), ask.GetSubmitter(), err)
	}
	return line("%s", exited(before.GetSubmitter(), after.GetSubmitter(), ask))(p.out)
}

// exited tells what a decision has done, and what comes next. Where the account goes on was recorded with the decision: by now it may be further.
func exited(before, after *pb.Submitter, ask *pb.ExitProtectRequest) string {
	decision := strings.TrimPrefix(ask.GetDecision().String(), "PROTECTION_DECISION_")
	text := fmt.Sprintf(
		"protection %d of submitter %s was ended by this decision (%s) before, so nothing was done now; \"fencepost submitter log %s\" tells when and by whom",
		ask.GetProtectionId(), after.GetName(), decision, after.GetName())
	if before.GetProtection().GetProtectionId() == ask.GetProtectionId() {
		text = fmt.Sprintf(
			"protection %d of submitter %s is ended: %s is recorded, by %s, and the next nonce to be taken is %s",
			ask.GetProtectionId(), after.GetName(), decision, shown(ask.GetOperator()),
			goesOn(before, after, ask))
	}
	switch pr := after.GetProtection(); {
	case pr != nil:
		return text + fmt.Sprintf(
			"; but protection %d (%s) is in force now: look at it with \"fencepost submitter show %s\"",
			pr.GetProtectionId(), pr.GetReason(), after.GetName())
	case after.GetStatus() == pb.SubmitterStatus_SUBMITTER_STATUS_PAUSED:
		return text + fmt.Sprintf(
			"; it is PAUSED, so it goes on once \"fencepost submitter resume %s\" is run",
			after.GetName())
	}
	text += "; " + atWork(after)
	if after.GetQueued()+after.GetInFlight() > 0 {
		text += fmt.Sprintf(": \"fencepost tx watch --submitter %s\" tells how that goes on",
			after.GetName())
	}
	return text
}

// atWork tells what an account has to do. What was queued a moment ago may be in flight by now, so one is never told without the other.
func atWork(s *pb.Submitter) string {
	are := func(n int64, many, where string) string {
		switch n {
		case 0:
			return "nothing is " + where
		case 1:
			return "1 is " + where
		}
		return many + " are " + where
	}
	return are(s.GetQueued(), shownQueued(s), "queued") + ", " + are(s.GetInFlight(),
		strconv.FormatInt(s.GetInFlight(), 10), "in flight")
}

// goesOn is the nonce at which a protection was left: behind the gap that was recorded at the cursor, if there is one. Under protection the cursor stands still.
func goesOn(before, after *pb.Submitter, ask *pb.ExitProtectRequest) string {
	switch ask.GetDecision() {
	case pb.ProtectionDecision_PROTECTION_DECISION_RESUME,
		pb.ProtectionDecision_PROTECTION_DECISION_RESUME_KEEP_QUEUE:
		return shownNonce(before)
	}
	for _, g := range after.GetGaps() {
		if g.GetTxId() == "" && g.GetFirstNonce() == before.GetNextNonce() {
			return fmt.Sprintf("%d (was %s); %s recorded as a gap", g.GetLastNonce()+1,
				shownNonce(before), thoseOf(g))
		}
	}
	if len(after.GetGaps()) == mostGaps { // the newest are not told
		return shownNonce(after) + " by now"
	}
	return shownNonce(before)
}

// mostGaps is how many GetSubmitter tells.
const mostGaps = 100

func thoseOf(g *pb.NonceGap) string {
	if g.GetFirstNonce() == g.GetLastNonce() {
		return fmt.Sprintf("nonce %d is", g.GetFirstNonce())
	}
	return fmt.Sprintf("nonces %d to %d are", g.GetFirstNonce(), g.GetLastNonce())
}

func (p *program) submitterLogCommand(f *clientFlags) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: "log NAME", Short: "List what was asked of the owner of a submitter, by whom, and what became of it", Args: arguments("NAME"),
		Long: `List what was asked of the owner of a submitter, by whom, and what became of it; newest first. With it stands what the owner did by itself (OPERATOR "fencepost"): a
pause because a transaction reverted (--on-failure pause), each protection with its number and its evidence, and the end of one that ended by itself. Nothing is ever
removed from it.`,
		Example: "  fencepost submitter log alice",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 1 {
			return misused(cmd, "--limit must be at least 1")
		}
		return p.calling(f, func(ctx context.Context, c *client, args []string) error {
			return p.listCommands(ctx, c, args[0], limit)
		})(cmd, args)
	}
	c.Flags().IntVar(&limit, "limit", 100, "most commands")
	return c
}

// shownCommand names what was asked for or done, and the protection that it is about.
func shownCommand(k *pb.Command) string {
	text := strings.TrimSpace(k.GetKind() + " " + k.GetAction())
	if k.GetProtectionId() > 0 {
		text += fmt.Sprintf(" (protection %d)", k.GetProtectionId())
	}
	return text
}

func (p *program) listCommands(ctx context.Context, c *client, submitter string, limit int) error {
	all := &pb.ListCommandsResponse{}
	for len(all.GetCommands()) == 0 || all.GetNextPageToken() != "" && len(all.GetCommands()) < limit {
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
		fmt.Fprintf(p.err, "fencepost: there are more than %d; raise --limit to see them\n", limit)
	}
	rows := make([][]string, len(all.GetCommands()))
	for i, k := range all.GetCommands() {
		rows[i] = commandRow(k)
	}
	return p.print(
		wire{all},
		table(
			[]string{"ID", "ASKED", "COMMAND", "OPERATOR", "TX_ID", "REASON", "DECIDED", "RESULT"},
			rows),
	)
}

// commandRow is a line of the log. Its last column may be long: it says why.
func commandRow(k *pb.Command) []string {
	return []string{
		strconv.FormatInt(k.GetCommandId(),
			10), shownTime(k.GetCreateTime()), shownCommand(k), cell(k.GetOperator()),
		shown(
			k.GetTxId()), cell(k.GetReason()), shownTime(k.GetApplyTime()), shown(plain(k.GetResult())),
	}
}

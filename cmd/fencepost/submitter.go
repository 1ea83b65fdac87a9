package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

func (p *program) submitterCommand() *cobra.Command {
	f := &clientFlags{}
	c := p.group("submitter", "Register and manage the accounts that Fencepost sends from",
		p.submitterAddCommand(f), p.submitterListCommand(f), p.submitterShowCommand(f),
		p.submitterUpdateCommand(f), p.submitterPauseCommand(f), p.submitterResumeCommand(f),
		p.submitterProtectCommand(f), p.submitterExitProtectCommand(f), p.submitterLogCommand(f),
		callsNone(p.submitterMoveCommand()), callsNone(p.submitterVoidTopUpCommand()))
	f.add(c)
	return c
}

func (p *program) submitterAddCommand(f *clientFlags) *cobra.Command {
	var o policyFlags
	ask := &pb.RegisterSubmitterRequest{Mode: pb.SubmitterMode_SUBMITTER_MODE_STRICT}
	c := &cobra.Command{
		Use:     "add NAME --chain-id ID --address ADDRESS --signer NAME",
		Short:   "Register an account to send from",
		Args:    arguments("NAME"),
		Aliases: []string{"register"},
		Long: `Register an account to send from. The command is idempotent. --start-from may be
changed until the account has started; it defaults to 0 on each call. With --on-failure or
--max-fee-gwei, the command returns once the owner of the account has applied them.`,
		Example: "  fencepost submitter add alice --chain-id 31337" +
			" --address 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed --signer local\n" +
			"  fencepost submitter add hot --chain-id 1" +
			" --address 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed --signer local --start-from " +
			"chain --mode pipelined",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ask.Name = args[0]
		policies, err := o.request(cmd, ask.GetName())
		if err != nil {
			return err
		}
		if policies != nil {
			policies.Operator = p.user
		}
		if err := o.register(cmd, ask); err != nil {
			return err
		}
		if err := complete(cmd, ask); err != nil {
			return err
		}
		return p.calling(f,
			func(ctx context.Context, c *client, _ []string) error {
				return p.addSubmitter(ctx, c,
					ask, policies)
			})(
			cmd,
			args,
		)
	}
	o.add(c)
	o.modeFlags.add(c)
	c.Flags().Uint64Var(&ask.ChainId, "chain-id", 0, "chain id (required)")
	c.Flags().StringVar(&ask.Address, "address", "", "address of the account (required)")
	c.Flags().StringVar(&ask.Ledger, "ledger", "", ledgerUsage)
	c.Flags().StringVar(&ask.Signer, "signer", "",
		"signer that holds the key, as named in the node configuration (required)")
	c.Flags().StringVar(&ask.StartFrom, "start-from", "0",
		"first nonce: 0, \"chain\" (the account's next nonce on chain), or a number that must "+
			"match")
	return c
}

// complete rejects an account that is named in part.
func complete(c *cobra.Command, ask *pb.RegisterSubmitterRequest) error {
	switch {
	case ask.GetChainId() == 0:
		return misused(c,
			"--chain-id is missing; give the id of a chain in the node configuration")
	case ask.GetAddress() == "":
		return misused(
			c, "--address is missing; \"fencepost key list\" lists the addresses of a key store",
		)
	case ask.GetSigner() == "":
		return misused(c,
			"--signer is missing; give the name of a signer in the node configuration")
	}
	if _, err := txn.ParseAddress(ask.GetAddress()); err != nil {
		return misused(c, "--address: %v", err)
	}
	return nil
}

// addSubmitter registers an account, then sets its policies, if given.
func (p *program) addSubmitter(ctx context.Context, c *client, ask *pb.RegisterSubmitterRequest,
	policies *pb.UpdateSubmitterRequest) error {
	answer, err := call(ctx, c, c.subs.RegisterSubmitter, ask)
	if err != nil {
		return err
	}
	set := ""
	if policies != nil {
		if err := updateAdded(ctx, c, answer, policies); err != nil {
			return err
		}
		set = "; " + shownPolicies(answer.GetSubmitter())
	}
	verb := "is registered"
	if !answer.GetCreated() {
		verb = "was already registered"
	}
	s := answer.GetSubmitter()
	if s.GetLedger() != "" {
		verb += " in ledger " + s.GetLedger()
	}
	return p.print(
		wire{answer},
		line("submitter %s %s: account %s, signer %s, starts from %s%s", ask.GetName(), verb,
			s.GetAccountId(), s.GetSigner(), s.GetStartFrom(), set),
	)
}

func (p *program) submitterListCommand(f *clientFlags) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:     "list",
		Short:   "List submitters by name",
		Args:    arguments(),
		Example: "  fencepost submitter list",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 1 {
			return misused(cmd, "--limit must be at least 1")
		}
		return p.calling(f,
			func(ctx context.Context, c *client, _ []string) error {
				return p.listSubmitters(ctx, c,
					limit)
			})(
			cmd,
			args,
		)
	}
	c.Flags().IntVar(&limit, "limit", 1000, "maximum number of submitters")
	return c
}

func (p *program) listSubmitters(ctx context.Context, c *client, limit int) error {
	all := &pb.ListSubmittersResponse{}
	for len(all.GetSubmitters()) == 0 || all.GetNextPageToken() != "" &&
		len(all.GetSubmitters()) < limit {
		ask := &pb.ListSubmittersRequest{
			PageSize:  int32(min(limit-len(all.GetSubmitters()), maxPage)),
			PageToken: all.GetNextPageToken(),
		}
		page, err := call(ctx, c, c.subs.ListSubmitters, ask)
		if err != nil {
			return err
		}
		all.Submitters, all.NextPageToken = append(
			all.Submitters,
			page.GetSubmitters()...), page.GetNextPageToken()
		if len(page.GetSubmitters()) == 0 {
			break
		}
	}
	if all.GetNextPageToken() != "" && !p.json {
		p.note("more than %d submitters; raise --limit", limit)
	}
	return p.print(wire{all}, table(submitterRows(all.GetSubmitters())))
}

// submitterRows are the rows of a list. Only a node with several ledgers names them.
func submitterRows(all []*pb.Submitter) (heads []string, rows [][]string) {
	heads = []string{"NAME", "ACCOUNT", "STATUS", "OWNER", "NEXT_NONCE", "QUEUED", "IN_FLIGHT"}
	several := slices.ContainsFunc(all, func(s *pb.Submitter) bool { return s.GetLedger() != "" })
	if several {
		heads = append(heads, "LEDGER")
	}
	for _, s := range all {
		row := []string{
			s.GetName(),
			s.GetAccountId(),
			shownStatus(s),
			shown(s.GetLease().GetOwnerNode()),
			shownNonce(s),
			shownQueued(s),
			strconv.FormatInt(s.GetInFlight(), 10),
		}
		if several {
			row = append(row, s.GetLedger())
		}
		rows = append(rows, row)
	}
	return heads, rows
}

func (p *program) submitterPauseCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	c := &cobra.Command{
		Use:   "pause NAME",
		Short: "Stop allocating nonces and accepting transactions",
		Args:  arguments("NAME"),
		Long: `Stop allocating nonces and accepting transactions. New requests are rejected
(SUBMITTER_PAUSED); repeats of accepted requests still succeed. Queued transactions wait.
Transactions in flight are tracked, bumped and cancelled as before.

The command returns once the owner of the account has applied it. "fencepost submitter resume" ends
the pause.`,
		Example: `  fencepost submitter pause alice --reason "moving funds"`,
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.subs.PauseSubmitter,
				&pb.PauseSubmitterRequest{Submitter: args[0], Reason: d.reason, Operator: d.by(p)})
			if err != nil {
				return err
			}
			s := answer.GetSubmitter()
			if was := s.GetPause().GetReason(); d.reason != "" && was != d.reason {
				p.note("already paused; the earlier reason is kept: %s", shown(was))
			}
			return p.print(
				wire{s},
				line(
					"submitter %s is %s (%s); resume with \"fencepost submitter resume %s\"",
					args[0], shownStatus(s), atWork(s), args[0]),
			)
		}),
	}
	d.addOptional(c, "reason, recorded with the command")
	return c
}

func (p *program) submitterResumeCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	var pause int64
	c := &cobra.Command{
		Use:   "resume NAME",
		Short: "End a pause",
		Args:  arguments("NAME"),
		Long: `End a pause. The command returns once the owner of the account has applied it. It
does not end a protection. With --pause it ends no other pause than the one that you reviewed;
"fencepost submitter show" prints its number.`,
		Example: "  fencepost submitter resume alice\n" +
			"  fencepost submitter resume alice --pause 4711 --reason \"revert explained\"",
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.subs.ResumeSubmitter,
				&pb.ResumeSubmitterRequest{Submitter: args[0], Reason: d.reason, Operator: d.by(p),
					PauseId: pause})
			if err != nil {
				return err
			}
			return p.print(
				wire{answer.GetSubmitter()},
				line("submitter %s is %s; %s", args[0], shownStatus(answer.GetSubmitter()),
					atWork(answer.GetSubmitter())),
			)
		}),
	}
	d.addOptional(c, "reason, recorded with the command")
	c.Flags().Int64Var(&pause, "pause", 0, "number of the pause to end; 0: any")
	return c
}

func shownStatus(s *pb.Submitter) string {
	status := strings.TrimPrefix(s.GetStatus().String(), "SUBMITTER_STATUS_")
	if s.GetProtection() != nil {
		status += ", PROTECTED"
	}
	return status
}

func shownNonce(s *pb.Submitter) string {
	if s.NextNonce == nil {
		return "-"
	}
	return strconv.FormatUint(s.GetNextNonce(), 10)
}

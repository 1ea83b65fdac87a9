package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// policyFlags are the policies of a submitter that can be changed.
type policyFlags struct {
	onFailure, maxFee string
	modeFlags
}

// modeFlags are the number of nonces in flight.
type modeFlags struct {
	mode  string
	limit int32
}

func (o *modeFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&o.mode, "mode", "",
		"strict (one nonce in flight), pipelined (up to --max-in-flight), or external (your "+
			"programs sign: see \"fencepost nonce\")")
	c.Flags().Int32Var(&o.limit, "max-in-flight", 0,
		"limit of mode pipelined or external, 1 to 1024 (default 16, external 64)")
}

// wire returns the mode; UNSPECIFIED if it was not given.
func (o *modeFlags) wire(c *cobra.Command) (pb.SubmitterMode, error) {
	if !c.Flags().Changed("mode") {
		return pb.SubmitterMode_SUBMITTER_MODE_UNSPECIFIED, nil
	}
	mode, ok := pb.SubmitterMode_value["SUBMITTER_MODE_"+strings.ToUpper(o.mode)]
	if !ok || mode == 0 {
		return 0, misused(c, "--mode %q: must be strict, pipelined or external", o.mode)
	}
	return pb.SubmitterMode(mode), nil
}

// register sets the mode of a new submitter.
func (o *modeFlags) register(c *cobra.Command, ask *pb.RegisterSubmitterRequest) error {
	mode, err := o.wire(c)
	if err != nil {
		return err
	}
	if ask.MaxInFlight = o.limit; mode != pb.SubmitterMode_SUBMITTER_MODE_UNSPECIFIED {
		ask.Mode = mode
	}
	return nil
}

// update adds the mode to an update.
func (o *modeFlags) update(c *cobra.Command, ask *pb.UpdateSubmitterRequest) error {
	mode, err := o.wire(c)
	if err != nil {
		return err
	}
	if mode != pb.SubmitterMode_SUBMITTER_MODE_UNSPECIFIED {
		ask.Mode, ask.UpdateMask.Paths = mode, append(ask.UpdateMask.Paths, "mode")
	}
	if c.Flags().Changed("max-in-flight") {
		ask.MaxInFlight = o.limit
		ask.UpdateMask.Paths = append(ask.UpdateMask.Paths, "max_in_flight")
	}
	return nil
}

func (o *policyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&o.onFailure, "on-failure", "",
		"after a revert: continue with the next transaction, or pause the account")
	c.Flags().StringVar(&o.maxFee, "max-fee-gwei", "",
		"maximum fee per gas for every transaction of the account, in gwei; 0: only the chain's "+
			"limit")
}

// request has the policies that were given; nil if there are none.
func (o *policyFlags) request(c *cobra.Command, name string) (*pb.UpdateSubmitterRequest, error) {
	ask := &pb.UpdateSubmitterRequest{Submitter: name, UpdateMask: &fieldmaskpb.FieldMask{}}
	if c.Flags().Changed("on-failure") {
		policy, ok := pb.FailurePolicy_value["FAILURE_POLICY_"+strings.ToUpper(o.onFailure)]
		if !ok || policy == 0 {
			return nil, misused(c, "--on-failure %q: must be continue or pause", o.onFailure)
		}
		ask.OnFailure, ask.UpdateMask.Paths = pb.FailurePolicy(policy), append(ask.UpdateMask.Paths,
			"on_failure")
	}
	if c.Flags().Changed("max-fee-gwei") {
		wei, err := parseGwei(o.maxFee)
		if err != nil {
			return nil, misused(c, "--max-fee-gwei %v", err)
		}
		if wei != "0" {
			ask.MaxFee = wei
		}
		ask.UpdateMask.Paths = append(ask.UpdateMask.Paths, "max_fee")
	}
	if len(ask.UpdateMask.Paths) == 0 {
		return nil, nil
	}
	return ask, nil
}

func (p *program) submitterUpdateCommand(f *clientFlags) *cobra.Command {
	var o policyFlags
	var d decisionFlags
	c := &cobra.Command{
		Use: "update NAME [--on-failure continue|pause] [--max-fee-gwei AMOUNT] " +
			"[--mode strict|pipelined|external] [--max-in-flight N]",
		Short: "Change the policies of a submitter",
		Args:  arguments("NAME"),
		Long: `Change policies of a submitter; policies that are not given stay. The command
returns once the owner of the account has applied them. A higher limit of nonces in flight
applies at once, a lower one as nonces are released.`,
		Example: "  fencepost submitter update alice --on-failure pause\n" +
			"  fencepost submitter update alice --max-fee-gwei 80\n" +
			"  fencepost submitter update alice --mode pipelined --max-in-flight 32",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ask, err := o.request(cmd, args[0])
		if err != nil {
			return err
		}
		if ask == nil {
			ask = &pb.UpdateSubmitterRequest{
				Submitter: args[0], UpdateMask: &fieldmaskpb.FieldMask{}}
		}
		if err := o.update(cmd, ask); err != nil {
			return err
		}
		if len(ask.UpdateMask.Paths) == 0 {
			return misused(cmd, "nothing to change; give --on-failure, --max-fee-gwei, --mode or "+
				"--max-in-flight")
		}
		ask.Reason, ask.Operator = d.reason, d.by(p)
		return p.calling(f, func(ctx context.Context, c *client, _ []string) error {
			answer, err := call(ctx, c, c.subs.UpdateSubmitter, ask)
			if err != nil {
				return err
			}
			return p.print(wire{answer.GetSubmitter()},
				line("submitter %s: %s", args[0], shownPolicies(answer.GetSubmitter())))
		})(cmd, args)
	}
	o.add(c)
	o.modeFlags.add(c)
	d.addOptional(c, "reason, recorded with the command")
	return c
}

// updateAdded sets the policies of a submitter that the same command registered.
func updateAdded(ctx context.Context, c *client, answer *pb.RegisterSubmitterResponse,
	ask *pb.UpdateSubmitterRequest) error {
	updated, err := call(ctx, c, c.subs.UpdateSubmitter, ask)
	if err != nil {
		return fmt.Errorf("submitter %s is registered, but its policies are not applied yet: %w",
			ask.GetSubmitter(), err)
	}
	answer.Submitter = updated.GetSubmitter()
	return nil
}

func shownFailurePolicy(s *pb.Submitter) string {
	return strings.TrimPrefix(s.GetOnFailure().String(), "FAILURE_POLICY_")
}

func shownPolicies(s *pb.Submitter) string {
	limit := "no fee limit"
	if s.GetMaxFee() != "" {
		limit = "max fee " + wei(s.GetMaxFee()) + " per gas"
	}
	return "on failure " + shownFailurePolicy(s) + ", " + limit + ", mode " + shownMode(s)
}

func shownMode(s *pb.Submitter) string {
	mode := strings.TrimPrefix(s.GetMode().String(), "SUBMITTER_MODE_")
	if s.GetMode() == pb.SubmitterMode_SUBMITTER_MODE_STRICT {
		return mode
	}
	return fmt.Sprintf("%s (up to %d in flight)", mode, s.GetMaxInFlight())
}

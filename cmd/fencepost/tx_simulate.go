package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

func (p *program) txSimulateCommand(f *clientFlags) *cobra.Command {
	var t createFlags
	c := &cobra.Command{
		Use:   "simulate --submitter NAME --to ADDRESS",
		Short: "Simulate a transaction and print its cost",
		Args:  arguments(),
		Long: `Simulate a transaction on the newest block, as its owner would before it takes a
nonce, and print gas, fees and the highest cost. Nothing is queued. Exits with 1 unless it can
be sent now, also if the policy of the caller denies it, or requires an approval first.`,
		Example: "  fencepost tx simulate --submitter alice" +
			" --to 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed --value 0.1ether",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ask, err := t.request(cmd, p.clock.Now())
		if err != nil {
			return err
		}
		return p.calling(f, func(ctx context.Context, c *client, _ []string) error {
			return p.simulate(ctx, c, &pb.SimulateTxRequest{
				Submitter: ask.GetSubmitter(), Payload: ask.GetPayload(), Terms: ask.GetTerms(),
				Pool: ask.GetPool(), StickyKey: ask.GetStickyKey(),
			})
		})(cmd, args)
	}
	t.addPayload(c)
	t.termsFlags.add(c)
	return c
}

func (p *program) simulate(ctx context.Context, c *client, ask *pb.SimulateTxRequest) error {
	got, err := call(ctx, c, c.txs.SimulateTx, ask)
	if err != nil {
		return err
	}
	if txn.Class(got.GetOutcomeClass()) != txn.Accepted {
		if p.json {
			err = p.print(wire{got}, nil)
		}
		return errors.Join(err, refusedSimulation(got))
	}
	err = p.print(wire{got}, fields([]field{
		{"submitter", got.GetSubmitter()},
		{"gas limit", strconv.FormatUint(got.GetGasLimit(), 10)},
		{"fee cap", wei(got.GetFeeCap())},
		{"tip", wei(got.GetTip())},
		{"rollup fee", wei(got.GetL1Fee())},
		{"highest cost", wei(got.GetMaxCost())},
		{"denied by", got.GetDeniedBy()},
		{"needs approval", yes(got.GetNeedsApproval())},
	}))
	switch rule := got.GetDeniedBy(); {
	case rule != "":
		err = errors.Join(err, deniedSimulation(rule))
	case got.GetNeedsApproval():
		err = errors.Join(err, errNeedsApproval)
	}
	return err
}

func refusedSimulation(got *pb.SimulateTxResponse) error {
	if missing := got.GetMissingFunds(); missing != "" {
		return fmt.Errorf("the transaction cannot be sent now: %s: %s (missing: %s)",
			got.GetOutcomeClass(), got.GetMessage(), wei(missing))
	}
	return fmt.Errorf("the transaction cannot be sent now: %s: %s", got.GetOutcomeClass(),
		got.GetMessage())
}

var errNeedsApproval = errors.New("the transaction would await an approval (approve_above): " +
	"create it, then have another caller approve it with \"fencepost tx approve\"")

func deniedSimulation(rule string) error {
	return fmt.Errorf("the policy of the caller denies the transaction now: rule %s (with dry_run "+
		"it is only reported); change the transaction, or ask for another policy", rule)
}

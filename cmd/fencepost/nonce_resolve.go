package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

func (p *program) nonceShowCommand(f *clientFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "show RESERVATION_ID|SUBMITTER [NONCE]",
		Short: "Show a nonce, by its reservation or by its account and number",
		Args:  cobra.ArbitraryArgs,
		Long: `Show a nonce, by its reservation or by its account and number. If it needs an
operator, the commands for each decision are printed too. A reservation that has ended is shown as
it was when another one took its nonce.`,
		Example: "  fencepost nonce show 01a21fca-9bb7-8000-8000-058ead4b4abd\n" +
			"  fencepost nonce show hot 17",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ask, err := nonceIn(cmd, args)
		if err != nil {
			return err
		}
		return p.calling(f, func(ctx context.Context, c *client, _ []string) error {
			answer, err := call(ctx, c, c.nonces.GetNonce, ask)
			if err != nil {
				return err
			}
			return p.print(wire{answer.GetNonce()}, shownReserved(answer.GetNonce()))
		})(cmd, args)
	}
	return c
}

// nonceIn is the nonce that arguments name.
func nonceIn(c *cobra.Command, args []string) (*pb.GetNonceRequest, error) {
	switch len(args) {
	case 0:
		return nil, misused(c, "RESERVATION_ID is missing; give it, or SUBMITTER and NONCE")
	case 1:
		if _, err := txn.ParseTxID(args[0]); err != nil {
			return nil, misused(c, "RESERVATION_ID %q is not a reservation id; "+
				"give one, or SUBMITTER and NONCE", args[0])
		}
		return &pb.GetNonceRequest{ReservationId: args[0]}, nil
	case 2:
		nonce, err := parseNonce(c, args[1])
		return &pb.GetNonceRequest{Submitter: args[0], Nonce: nonce}, err
	}
	return nil, misused(c, "%s given; give RESERVATION_ID, or SUBMITTER and NONCE",
		count(len(args), "argument"))
}

func parseNonce(c *cobra.Command, text string) (uint64, error) {
	nonce, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, misused(c, "NONCE %q is not a whole number below 2^64", text)
	}
	return nonce, nil
}

func nonceFields(n *pb.Nonce) []field {
	return []field{
		{"submitter", n.GetSubmitter()},
		{"account", fmt.Sprintf("eip155:%d:%s", n.GetChainId(), n.GetAddress())},
		{"nonce", strconv.FormatUint(n.GetNonce(), 10)},
		{"state", shownNonceState(n)},
		{"since", shownTime(n.GetStateTime())},
		{"reason", n.GetReason()},
		{"message", plain(n.GetMessage())},
		{"needs_operator", yes(n.GetNeedsOperator())},
		{"reservation", n.GetReservationId()},
		{"holder", n.GetHolder()},
		{"reserved", shownTime(n.GetReserveTime())},
		{"expires", shownTime(n.GetExpireTime())},
		{"tx_hashes", strings.Join(n.GetTxHashes(), " ")},
		{"tx_id", n.GetTxId()},
	}
}

// shownReserved writes the fields of a nonce, and the commands of a decision on it, if it needs
// one.
func shownReserved(n *pb.Nonce) func(io.Writer) error {
	return func(w io.Writer) error {
		if err := fields(nonceFields(n))(w); err != nil || !n.GetNeedsOperator() {
			return err
		}
		return line("\nFind out whether its holder signed a transaction, then decide:\n  %s",
			strings.Join(nonceDecisions(n), "\n  "))(w)
	}
}

// nonceDecisions are the commands that decide on a PENDING nonce, without those that would be
// refused.
func nonceDecisions(n *pb.Nonce) (all []string) {
	if n.GetTxId() != "" {
		return []string{"fencepost tx watch " + n.GetTxId() + "   # its transaction decides"}
	}
	command := fmt.Sprintf("fencepost nonce resolve %s %d --reservation %s --reason \"...\"",
		n.GetSubmitter(), n.GetNonce(), n.GetReservationId())
	if len(n.GetTxHashes()) == 0 {
		all = append(all, command+" --never-signed   # it certainly did not, and never will")
	}
	return append(all, command+" --fill   # use the nonce for a cancel transaction; if a "+
		"transaction of the holder exists, the chain includes one of the two")
}

func (p *program) nonceResolveCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	var never, fill bool
	ask := &pb.ResolveNonceRequest{}
	c := &cobra.Command{
		Use:   "resolve SUBMITTER NONCE --never-signed|--fill --reason TEXT",
		Short: "Decide on a PENDING nonce",
		Args:  arguments("SUBMITTER", "NONCE"),
		Long: `Decide on a PENDING nonce whose holder does not report. Find out first whether it
signed: its logs, its signer's logs, and the account in a block explorer.

--never-signed gives the nonce to the next reservation. It is for a holder that certainly never
signed for it, and never will. It is refused if a hash or signed bytes are recorded. If the holder
did sign, two transactions compete for the nonce, and the account is put under PROTECT.

--fill has Fencepost use the nonce for a cancel transaction, if it has the key. It is safe in any
case: if a transaction of the holder exists as well, the chain includes one of the two.`,
		Example: "  fencepost nonce resolve hot 17 --fill --reason \"host of holder is lost\"\n" +
			"  fencepost nonce resolve hot 17 --never-signed" +
			" --reason \"signer log of 11:20 has no entry\"",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := oneOf(cmd, choice{"--never-signed", never}, choice{"--fill", fill}); err != nil {
			return err
		}
		if err := d.check(cmd); err != nil {
			return err
		}
		nonce, err := parseNonce(cmd, args[1])
		if err != nil {
			return err
		}
		if held := ask.GetReservationId(); held != "" {
			if _, err := txn.ParseTxID(held); err != nil {
				return misused(cmd, "--reservation %q is not a reservation id; "+
					"\"fencepost nonce show\" prints it", held)
			}
		}
		ask.Submitter, ask.Nonce = args[0], nonce
		ask.Decision = pb.NonceDecision_NONCE_DECISION_NEVER_SIGNED
		if fill {
			ask.Decision = pb.NonceDecision_NONCE_DECISION_FILL
		}
		ask.Reason, ask.Operator = d.reason, d.by(p)
		return p.calling(f, func(ctx context.Context, c *client, _ []string) error {
			return p.resolveNonce(ctx, c, ask)
		})(cmd, args)
	}
	c.Flags().BoolVar(&never, "never-signed", false,
		"its holder never signed a transaction for it, and never will")
	c.Flags().BoolVar(&fill, "fill", false, "use the nonce for a cancel transaction")
	c.Flags().StringVar(&ask.ReservationId, "reservation", "",
		"reservation you decided on; refused if it changed (default: the current one)")
	d.add(c, "evidence, recorded with the decision")
	return c
}

// resolveNonce prints the nonce, then requests the decision on its reservation.
func (p *program) resolveNonce(ctx context.Context, c *client, ask *pb.ResolveNonceRequest) error {
	before, err := call(ctx, c, c.nonces.GetNonce,
		&pb.GetNonceRequest{Submitter: ask.GetSubmitter(), Nonce: ask.GetNonce()})
	if err != nil {
		return err
	}
	if !p.json {
		if err := fields(nonceFields(before.GetNonce()))(p.out); err != nil {
			return err
		}
	}
	if ask.GetReservationId() == "" {
		ask.ReservationId = before.GetNonce().GetReservationId()
	}
	answer, err := call(ctx, c, c.nonces.ResolveNonce, ask)
	if err != nil {
		return err
	}
	n := answer.GetNonce()
	what := "the next reservation takes it"
	if ask.GetDecision() == pb.NonceDecision_NONCE_DECISION_FILL {
		what = fmt.Sprintf("a cancel transaction fills it; follow it with "+
			"\"fencepost tx watch %s\"", n.GetTxId())
	}
	return p.print(wire{n}, line("nonce %d of %s is %s (operator %s); %s", n.GetNonce(),
		n.GetSubmitter(), shownNonceState(n), ask.GetOperator(), what))
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

func (p *program) nonceCommand() *cobra.Command {
	f := &clientFlags{}
	c := p.group("nonce", "Reserve nonces of accounts in mode external, and decide on them",
		p.nonceAllocateCommand(f), p.nonceExtendCommand(f), p.nonceSubmitCommand(f),
		p.nonceRecordCommand(f), p.nonceReleaseCommand(f), p.nonceQuarantineCommand(f),
		p.nonceListCommand(f), p.nonceShowCommand(f), p.nonceResolveCommand(f))
	f.add(c)
	return c
}

func (p *program) nonceAllocateCommand(f *clientFlags) *cobra.Command {
	ask := &pb.AllocateNonceRequest{}
	var ttl time.Duration
	c := &cobra.Command{
		Use:   "allocate SUBMITTER",
		Short: "Reserve a nonce, for a transaction that you sign",
		Args:  arguments("SUBMITTER"),
		Long: `Reserve the lowest RECYCLABLE nonce of an account in mode external, or its next one.
Repeating the command with the same --request-id returns the same reservation.

Sign for the nonce, then run "fencepost nonce submit", or send the transaction yourself and run
"fencepost nonce record". If you are certain that you sign nothing, run "fencepost nonce release".
A reservation that expires makes the nonce PENDING: it is not reserved again without evidence.`,
		Example: "  fencepost nonce allocate hot --request-id order-4711 --ttl 10m",
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			ask.Submitter, ask.Ttl = args[0], duration(ttl)
			if ask.RequestId == "" {
				ask.RequestId = uuid.NewString()
			}
			ask.Holder = cmp.Or(ask.GetHolder(), p.user)
			answer, err := call(ctx, c, c.nonces.AllocateNonce, ask)
			if isUnsure(err) {
				return fmt.Errorf("%w; a nonce may be reserved; repeat the command with "+
					"--request-id %s (it cannot reserve twice)", err, ask.GetRequestId())
			}
			if err != nil {
				return err
			}
			n := answer.GetNonce()
			state := shownNonceState(n)
			if n.GetExpireTime() != nil {
				state += " until " + shownTime(n.GetExpireTime())
			}
			return p.print(wire{answer}, line("nonce %d of %s is %s; reservation %s; request_id %s",
				n.GetNonce(), n.GetSubmitter(), state, n.GetReservationId(), ask.GetRequestId()))
		}),
	}
	c.Flags().StringVar(&ask.RequestId, "request-id", "",
		"idempotency key of the reservation (default: a new UUID)")
	c.Flags().StringVar(&ask.Holder, "holder", "",
		"name of the process that holds the reservation, for operators (default: the local user)")
	addTTL(c, &ttl)
	return c
}

func addTTL(c *cobra.Command, ttl *time.Duration) {
	c.Flags().DurationVar(ttl, "ttl", 0,
		"time until the reservation expires; 0: nonce_api.default_ttl")
}

func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// reservationCommand is a command that changes the nonce of a reservation and prints it.
func (p *program) reservationCommand(f *clientFlags, base cobra.Command,
	do func(ctx context.Context, c *client, args []string) (*pb.Nonce, error)) *cobra.Command {
	c := &base
	c.RunE = p.calling(f, func(ctx context.Context, c *client, args []string) error {
		n, err := do(ctx, c, args)
		if err != nil {
			return err
		}
		return p.print(wire{n}, line("nonce %d of %s is %s (%s)", n.GetNonce(), n.GetSubmitter(),
			shownNonceState(n), n.GetReason()))
	})
	return c
}

func (p *program) nonceExtendCommand(f *clientFlags) *cobra.Command {
	var ttl time.Duration
	c := p.reservationCommand(f, cobra.Command{
		Use:     "extend RESERVATION_ID",
		Short:   "Let a reservation last longer",
		Args:    arguments("RESERVATION_ID"),
		Long:    `Let a reservation that has not expired last for --ttl from now.`,
		Example: "  fencepost nonce extend 01a21fca-9bb7-8000-8000-058ead4b4abd --ttl 10m",
	}, func(ctx context.Context, c *client, args []string) (*pb.Nonce, error) {
		answer, err := call(ctx, c, c.nonces.ExtendReservation,
			&pb.ExtendReservationRequest{ReservationId: args[0], Ttl: duration(ttl)})
		return answer.GetNonce(), err
	})
	addTTL(c, &ttl)
	return c
}

func (p *program) nonceRecordCommand(f *clientFlags) *cobra.Command {
	return p.reservationCommand(f, cobra.Command{
		Use:   "record RESERVATION_ID HASH",
		Short: "Record the hash of a transaction that you signed",
		Args:  arguments("RESERVATION_ID", "HASH"),
		Long: `Record the hash of a transaction that you signed for a reserved nonce, before or
after you sent it. It is accepted at any time, also after the reservation expired. The nonce is
PENDING until the chain has passed it.`,
		Example: "  fencepost nonce record 01a21fca-9bb7-8000-8000-058ead4b4abd" +
			" 0x8a1b1d6e5f0c9b7a6d5e4f3c2b1a09f8e7d6c5b4a39281706f5e4d3c2b1a0f9e",
	}, func(ctx context.Context, c *client, args []string) (*pb.Nonce, error) {
		hash, is := hashIn(args[1])
		if !is || !wellFormed(hash) {
			return nil, misused(c.command, "HASH %q is not \"0x\" and 64 hex digits", args[1])
		}
		answer, err := call(ctx, c, c.nonces.RecordNonceHash,
			&pb.RecordNonceHashRequest{ReservationId: args[0], TxHash: hash})
		return answer.GetNonce(), err
	})
}

func (p *program) nonceReleaseCommand(f *clientFlags) *cobra.Command {
	var reason string
	var never bool
	c := p.reservationCommand(f, cobra.Command{
		Use:   "release RESERVATION_ID --never-signed",
		Short: "Give a nonce back for which nothing was signed",
		Args:  arguments("RESERVATION_ID"),
		Long: `Give a nonce back, for the next reservation. --never-signed states that no
transaction was signed for it and none will be. If that is not certain, use "fencepost nonce
quarantine": a nonce that is given back and then used puts the account under PROTECT.`,
		Example: "  fencepost nonce release 01a21fca-9bb7-8000-8000-058ead4b4abd --never-signed",
	}, func(ctx context.Context, c *client, args []string) (*pb.Nonce, error) {
		if !never {
			return nil, misused(c.command, "--never-signed is missing; give it if you are certain "+
				"that nothing was signed, or use \"fencepost nonce quarantine\"")
		}
		answer, err := call(ctx, c, c.nonces.ReleaseNonce, &pb.ReleaseNonceRequest{
			ReservationId: args[0], NeverSigned: never, Reason: reason})
		return answer.GetNonce(), err
	})
	c.Flags().BoolVar(&never, "never-signed", false,
		"no transaction was signed for the nonce, and none will be (required)")
	c.Flags().StringVar(&reason, "reason", "", "reason to record")
	return c
}

func (p *program) nonceQuarantineCommand(f *clientFlags) *cobra.Command {
	var reason string
	c := p.reservationCommand(f, cobra.Command{
		Use:   "quarantine RESERVATION_ID",
		Short: "End a reservation whose nonce may have been used",
		Args:  arguments("RESERVATION_ID"),
		Long: `End a reservation whose nonce may have been used. The nonce is PENDING until the
chain has passed it, its holder releases it, or an operator decides (fencepost nonce resolve).`,
		Example: "  fencepost nonce quarantine 01a21fca-9bb7-8000-8000-058ead4b4abd" +
			` --reason "signer timed out"`,
	}, func(ctx context.Context, c *client, args []string) (*pb.Nonce, error) {
		answer, err := call(ctx, c, c.nonces.QuarantineNonce,
			&pb.QuarantineNonceRequest{ReservationId: args[0], Reason: reason})
		return answer.GetNonce(), err
	})
	c.Flags().StringVar(&reason, "reason", "", "reason to record")
	return c
}

func (p *program) nonceSubmitCommand(f *clientFlags) *cobra.Command {
	var raw string
	var wait bool
	c := &cobra.Command{
		Use:   "submit RESERVATION_ID --raw-tx HEX",
		Short: "Have Fencepost send and track a transaction that you signed",
		Args:  arguments("RESERVATION_ID"),
		Long: `Have Fencepost send a transaction that you signed for a reserved nonce, and track it
to finality like any other ("fencepost tx watch"). Its bytes are recorded before they are sent.
Another transaction for the same nonce, with the same payload or none, replaces the first.

--wait returns when it is final, and exits with 1 unless it was executed successfully.`,
		Example: "  fencepost nonce submit 01a21fca-9bb7-8000-8000-058ead4b4abd" +
			" --raw-tx 0x02f86b... --wait",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		bytes, err := parseData(raw)
		switch {
		case raw == "":
			return misused(cmd, "--raw-tx is missing; give the signed transaction as "+
				"eth_sendRawTransaction takes it")
		case err != nil:
			return misused(cmd, "--raw-tx %v", err)
		}
		return p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.nonces.SubmitSigned,
				&pb.SubmitSignedRequest{ReservationId: args[0], RawTx: bytes})
			if isUnsure(err) {
				return fmt.Errorf("%w; it may have been recorded; repeat the command unchanged "+
					"(it cannot send another transaction)", err)
			}
			if err != nil {
				return err
			}
			tx := answer.GetTx()
			if wait {
				return p.waitFor(ctx, c, tx.GetTxId())
			}
			return p.print(wire{answer}, line("transaction %s of %s is %s at nonce %d; follow it "+
				"with \"fencepost tx watch %s\"", tx.GetTxId(), tx.GetSubmitter(),
				shownState(tx.GetState(), tx.GetSubState()), answer.GetNonce().GetNonce(),
				tx.GetTxId()))
		})(cmd, args)
	}
	c.Flags().StringVar(&raw, "raw-tx", "",
		"signed transaction of type 0, 1 or 2, as 0x and hex digits (required)")
	c.Flags().BoolVar(&wait, "wait", false, "return when the transaction is final")
	return c
}

func shownNonceState(n *pb.Nonce) string {
	return strings.TrimPrefix(n.GetState().String(), "NONCE_STATE_")
}

func (p *program) nonceListCommand(f *clientFlags) *cobra.Command {
	ask := &pb.ListNoncesRequest{}
	var states []string
	var limit int
	c := &cobra.Command{
		Use:   "list SUBMITTER",
		Short: "List nonces, highest first",
		Args:  arguments("SUBMITTER"),
		Long: `List the nonces that were reserved of an account, highest first. --needs-operator
shows those that await a decision: "fencepost nonce show" prints the commands for it. HOLDER is the
name of the client process that has reserved the nonce, as it named itself.`,
		Example: "  fencepost nonce list hot --state PENDING --state RECYCLABLE\n" +
			"  fencepost nonce list hot --needs-operator",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if ask.States, err = parseNonceStates(states); err != nil {
			return err
		}
		if limit < 1 {
			return misused(cmd, "--limit must be at least 1")
		}
		return p.calling(f, func(ctx context.Context, c *client, args []string) error {
			ask.Submitter = args[0]
			return p.listNonces(ctx, c, ask, limit)
		})(cmd, args)
	}
	c.Flags().StringSliceVar(&states, "state", nil,
		"only this state: "+strings.Join(nonceStateNames(), ", ")+"; repeatable")
	c.Flags().BoolVar(&ask.NeedsOperator, "needs-operator", false,
		"only nonces that need an operator's decision")
	c.Flags().IntVar(&limit, "limit", 100, "maximum number of nonces")
	return c
}

func parseNonceStates(names []string) (states []pb.NonceState, err error) {
	for _, name := range names {
		state, ok := pb.NonceState_value["NONCE_STATE_"+strings.ToUpper(name)]
		if !ok || state == 0 {
			return nil, usageError{fmt.Sprintf("unknown state %q; the states are %s", name,
				strings.Join(nonceStateNames(), ", "))}
		}
		states = append(states, pb.NonceState(state))
	}
	return states, nil
}

func nonceStateNames() (names []string) {
	for number := 1; number < len(pb.NonceState_name); number++ {
		names = append(names, shownNonceState(&pb.Nonce{State: pb.NonceState(number)}))
	}
	return names
}

func (p *program) listNonces(ctx context.Context, c *client, ask *pb.ListNoncesRequest,
	limit int) error {
	all := &pb.ListNoncesResponse{}
	for len(all.GetNonces()) == 0 || all.GetNextPageToken() != "" && len(all.GetNonces()) < limit {
		ask.PageSize = int32(min(limit-len(all.GetNonces()), maxPage))
		ask.PageToken = all.GetNextPageToken()
		page, err := call(ctx, c, c.nonces.ListNonces, ask)
		if err != nil {
			return err
		}
		all.Nonces = append(all.GetNonces(), page.GetNonces()...)
		all.NextPageToken = page.GetNextPageToken()
		if len(page.GetNonces()) == 0 {
			break
		}
	}
	if all.GetNextPageToken() != "" && !p.json {
		p.note("more than %d nonces; raise --limit", limit)
	}
	rows := make([][]string, len(all.GetNonces()))
	for i, n := range all.GetNonces() {
		state := shownNonceState(n)
		if n.GetNeedsOperator() {
			state += ", NEEDS_OPERATOR"
		}
		rows[i] = []string{strconv.FormatUint(n.GetNonce(), 10), state, shown(n.GetReason()),
			shownTime(n.GetStateTime()), shown(n.GetHolder()), n.GetReservationId(),
			shown(n.GetTxId()), cell(n.GetMessage())}
	}
	return p.print(wire{all}, table([]string{"NONCE", "STATE", "REASON", "SINCE", "HOLDER",
		"RESERVATION", "TX_ID", "MESSAGE"}, rows))
}

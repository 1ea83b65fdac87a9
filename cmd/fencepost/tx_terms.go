package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// termsFlags say how and until when it is sent.
type termsFlags struct {
	speed, maxFee, notAfter string
	cancelLate              bool
}

func (t *termsFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&t.speed, "speed", "",
		"how soon it shall be included: slow, standard or fast (default: standard)")
	c.Flags().StringVar(&t.maxFee, "max-fee-gwei", "",
		"the most that is offered for each unit of gas in all, in gwei (default: the limits of chain and account alone)")
	c.Flags().StringVar(
		&t.notAfter,
		"not-after",
		"",
		"no nonce is taken later: a time like 2026-01-02T15:04:05Z, or a duration from now like 10m. With --request-id give a time, since the "+
			"same command later must ask for the same",
	)
	c.Flags().BoolVar(&t.cancelLate, "cancel-late", false,
		"with --not-after: cancel also what has a nonce by then, and is in no block")
}

// terms are those of the flags; nil if they demand nothing.
func (t *termsFlags) terms(c *cobra.Command, now time.Time) (*pb.Terms, error) {
	if *t == (termsFlags{}) {
		return nil, nil
	}
	out := &pb.Terms{CancelLate: t.cancelLate}
	if t.speed != "" {
		speed, ok := pb.TxSpeed_value["TX_SPEED_"+strings.ToUpper(t.speed)]
		if !ok || speed == 0 {
			return nil, misused(c, "--speed %q is not one of slow, standard and fast", t.speed)
		}
		out.Speed = pb.TxSpeed(speed)
	}
	if t.maxFee != "" {
		wei, err := parseGwei(t.maxFee)
		if err != nil {
			return nil, misused(c, "--max-fee-gwei %v", err)
		}
		out.MaxFee = wei
	}
	if t.cancelLate && t.notAfter == "" {
		return nil, misused(c, "--cancel-late goes with --not-after; give both")
	}
	if t.notAfter == "" {
		return out, nil
	}
	at, err := parseDeadline(t.notAfter, now)
	if err != nil {
		return nil, misused(c, "--not-after %v", err)
	}
	out.NotAfter = timestamppb.New(at)
	return out, nil
}

// parseGwei turns gwei into wei.
func parseGwei(text string) (string, error) {
	wei, err := parseAmount(text + "gwei")
	if err != nil {
		return "", fmt.Errorf(
			"%q is not an amount in gwei with up to 9 decimals; give a number such as 30 or 0.5",
			text)
	}
	return wei, nil
}

// parseDeadline reads a time, or a duration from now. A time that is past is for the node to judge: the request may be a repeat.
func parseDeadline(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return time.Time{}, fmt.Errorf(
			"%q is neither a time nor a duration; give one like 2026-01-02T15:04:05Z or 10m", text)
	}
	if d <= 0 {
		return time.Time{}, fmt.Errorf("%q is not later than now; give a duration like 10m", text)
	}
	return now.Add(d).UTC().Truncate(time.Millisecond), nil
}

// shownDeadline is exact, so that the same request can be made again; empty if there is none.
func shownDeadline(t *pb.Terms) string {
	if t.GetNotAfter() == nil {
		return ""
	}
	return t.GetNotAfter().AsTime().UTC().Format(time.RFC3339Nano)
}

func termsFields(t *pb.Terms) []field {
	if t == nil {
		return nil
	}
	all := []field{
		{"max_fee", wei(t.GetMaxFee())},
		{"not_after", shownDeadline(t)},
		{"cancel_late", yes(t.GetCancelLate())},
	}
	if t.GetSpeed() != pb.TxSpeed_TX_SPEED_STANDARD {
		all = append(
			[]field{{"speed", strings.TrimPrefix(t.GetSpeed().String(), "TX_SPEED_")}},
			all...)
	}
	return all
}

// wei is a limit in both units, as it is kept and as it is typed; nothing if it is not set.
func wei(amount string) string {
	if amount == "" {
		return ""
	}
	return amount + " wei (" + gwei(amount) + ")"
}

// gwei is an amount of wei as limits are typed.
func gwei(amount string) string {
	padded := strings.Repeat("0", max(0, 10-len(amount))) + amount
	whole, fraction := padded[:len(padded)-9], strings.TrimRight(padded[len(padded)-9:], "0")
	if fraction != "" {
		whole += "." + fraction
	}
	return whole + " gwei"
}

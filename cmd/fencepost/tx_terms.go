package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// termsFlags are the terms of a transaction.
type termsFlags struct {
	speed, maxFee, notAfter string
	cancelLate              bool
}

func (t *termsFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&t.speed, "speed", "",
		"inclusion speed: slow, standard or fast (default: standard)")
	c.Flags().StringVar(&t.maxFee, "max-fee-gwei", "",
		"maximum fee per gas, in gwei (default: the limits of chain and account)")
	c.Flags().StringVar(
		&t.notAfter,
		"not-after",
		"",
		"latest time to allocate a nonce: a time like 2026-01-02T15:04:05Z, or a duration like "+
			"10m. With --request-id give a time, so that a repeat is the same request",
	)
	c.Flags().BoolVar(&t.cancelLate, "cancel-late", false,
		"with --not-after: then also cancel the transaction if it is not in a block")
}

// terms are the terms that the flags request; nil if there are none.
func (t *termsFlags) terms(c *cobra.Command, now time.Time) (*pb.Terms, error) {
	if *t == (termsFlags{}) {
		return nil, nil
	}
	out := &pb.Terms{CancelLate: t.cancelLate}
	if t.speed != "" {
		speed, ok := pb.TxSpeed_value["TX_SPEED_"+strings.ToUpper(t.speed)]
		if !ok || speed == 0 {
			return nil, misused(c, "--speed %q: must be slow, standard or fast", t.speed)
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
		return nil, misused(c, "--cancel-late needs --not-after; give both")
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

// parseDeadline reads a time, or a duration from now. A time in the past is left to the node: the
// request may be a repeat.
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
		return time.Time{}, fmt.Errorf("%q is not in the future; give a duration like 10m", text)
	}
	return now.Add(d).UTC().Truncate(time.Millisecond), nil
}

// shownDeadline is exact, so that the request can be repeated; empty if there is none.
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

// wei formats a limit in wei and gwei; empty if it is not set.
func wei(amount string) string {
	if amount == "" {
		return ""
	}
	return amount + " wei (" + gwei(amount) + ")"
}

// gwei formats an amount of wei in gwei.
func gwei(amount string) string {
	padded := strings.Repeat("0", max(0, 10-len(amount))) + amount
	whole, fraction := padded[:len(padded)-9], strings.TrimRight(padded[len(padded)-9:], "0")
	if fraction != "" {
		whole += "." + fraction
	}
	return whole + " gwei"
}

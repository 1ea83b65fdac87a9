package main

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

func (p *program) sinkCommand() *cobra.Command {
	f := &clientFlags{}
	c := p.group("sink", "Manage the delivery of events to other systems",
		p.sinkListCommand(f), p.sinkShowCommand(f), p.sinkPauseCommand(f), p.sinkResumeCommand(f),
		p.sinkRetryCommand(f), p.sinkSkipCommand(f), p.sinkReplayCommand(f))
	f.add(c)
	return c
}

// shownSinkStatus is a status without its prefix.
func shownSinkStatus(s *pb.Sink) string {
	return strings.TrimPrefix(s.GetStatus().String(), "SINK_STATUS_")
}

func (p *program) sinkListCommand(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List sinks by name",
		Args:    arguments(),
		Example: "  fencepost sink list",
		RunE: p.calling(f, func(ctx context.Context, c *client, _ []string) error {
			answer, err := call(ctx, c, c.sinks.ListSinks, &pb.ListSinksRequest{})
			if err != nil {
				return err
			}
			return p.print(wire{answer}, table(sinkHeading, sinkRows(answer.GetSinks())))
		}),
	}
}

var sinkHeading = []string{"NAME", "STATUS", "OWNER", "DELIVERED", "PARKED", "DEAD", "NEWEST EVENT",
	"REASON"}

func sinkRows(sinks []*pb.Sink) [][]string {
	rows := make([][]string, len(sinks))
	for i, s := range sinks {
		newest := ""
		if s.GetEventTime() != nil {
			newest = s.GetEventTime().AsTime().UTC().Format(time.RFC3339)
		}
		name := s.GetName()
		if s.GetLedger() != "" {
			name += " in " + s.GetLedger()
		}
		rows[i] = []string{name, shownSinkStatus(s), shown(s.GetOwnerNode()),
			strconv.FormatInt(s.GetDelivered(), 10), strconv.FormatInt(s.GetParked(), 10),
			strconv.FormatInt(s.GetDead(), 10), shown(newest), cell(s.GetReason())}
	}
	return rows
}

func (p *program) sinkShowCommand(f *clientFlags) *cobra.Command {
	var limit int
	var dead bool
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a sink and the transactions whose events it could not deliver",
		Args:  arguments("NAME"),
		Long: `Show a sink and the transactions whose events it could not deliver. Each waits with
its first undelivered event; later events of the same transaction follow in order. A dead
transaction is not retried any more.`,
		Example: "  fencepost sink show billing --dead",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 1 || limit > maxPage {
			return misused(cmd, "--limit must be 1 to %d", maxPage)
		}
		return p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.sinks.ListSinks, &pb.ListSinksRequest{Sink: args[0]})
			if err != nil {
				return err
			}
			page, err := call(ctx, c, c.sinks.ListUndelivered,
				&pb.ListUndeliveredRequest{Sink: args[0], DeadOnly: dead, PageSize: int32(limit)})
			if err != nil {
				return err
			}
			if p.json {
				return p.print([]any{wire{answer.GetSinks()[0]}, wire{page}}, nil)
			}
			if err := table(sinkHeading, sinkRows(answer.GetSinks()))(p.out); err != nil {
				return err
			}
			if len(page.GetUndelivered()) == 0 {
				return nil
			}
			if err := line("")(p.out); err != nil {
				return err
			}
			return table([]string{"TX_ID", "SEQ", "LAST", "ATTEMPTS", "RETRY", "REASON"},
				undeliveredRows(page.GetUndelivered()))(p.out)
		})(cmd, args)
	}
	c.Flags().IntVar(&limit, "limit", 100, "maximum number of transactions")
	c.Flags().BoolVar(&dead, "dead", false, "only transactions that are not retried any more")
	return c
}

func undeliveredRows(undelivered []*pb.Undelivered) [][]string {
	rows := make([][]string, len(undelivered))
	for i, u := range undelivered {
		retry := "dead"
		if !u.GetDead() {
			retry = u.GetRetryTime().AsTime().UTC().Format(time.RFC3339)
		}
		rows[i] = []string{u.GetTxId(), strconv.FormatUint(u.GetSeq(), 10),
			strconv.FormatUint(u.GetLastSeq(), 10), strconv.Itoa(int(u.GetAttempts())), retry,
			cell(u.GetReason())}
	}
	return rows
}

func (p *program) sinkPauseCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	c := &cobra.Command{
		Use:     "pause NAME",
		Short:   "Stop deliveries; events are kept",
		Args:    arguments("NAME"),
		Example: `  fencepost sink pause billing --reason "maintenance"`,
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.sinks.PauseSink,
				&pb.PauseSinkRequest{Sink: args[0], Reason: d.reason, Operator: d.by(p)})
			if err != nil {
				return err
			}
			return p.print(wire{answer.GetSink()}, line("sink %s is paused", args[0]))
		}),
	}
	d.addOptional(c, "reason to record")
	return c
}

func (p *program) sinkResumeCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	c := &cobra.Command{
		Use:     "resume NAME",
		Short:   "Continue deliveries after a pause, or after the receiver disabled the sink",
		Args:    arguments("NAME"),
		Example: "  fencepost sink resume billing",
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.sinks.ResumeSink,
				&pb.ResumeSinkRequest{Sink: args[0], Reason: d.reason, Operator: d.by(p)})
			if err != nil {
				return err
			}
			return p.print(wire{answer.GetSink()}, line("sink %s is active", args[0]))
		}),
	}
	d.addOptional(c, "reason to record")
	return c
}

func (p *program) sinkRetryCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	var tx string
	c := &cobra.Command{
		Use:   "retry NAME",
		Short: "Retry one transaction now, or all that are dead",
		Args:  arguments("NAME"),
		Example: "  fencepost sink retry billing\n" +
			"  fencepost sink retry billing --tx 01a2b3c4-0000-7000-8000-000000000001",
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.sinks.RetryUndelivered,
				&pb.RetryUndeliveredRequest{Sink: args[0], TxId: tx, Reason: d.reason,
					Operator: d.by(p)})
			if err != nil {
				return err
			}
			return p.print(wire{answer},
				line("%s retried", count(int(answer.GetRetried()), "transaction")))
		}),
	}
	d.addOptional(c, "reason to record")
	c.Flags().StringVar(&tx, "tx", "", "tx_id of the transaction (default: all dead ones)")
	return c
}

func (p *program) sinkSkipCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	var seq uint64
	c := &cobra.Command{
		Use:   "skip NAME TX_ID",
		Short: "Give up the first undelivered event of a transaction",
		Args:  arguments("NAME", "TX_ID"),
		Long: `Give up the first undelivered event of a transaction: the receiver never gets it. The
events after it are delivered. --seq names the event, as "fencepost sink show" lists it, so that a
repeated command skips nothing more.`,
		Example: "  fencepost sink skip billing 01a2b3c4-0000-7000-8000-000000000001 --seq 3",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if seq == 0 {
			return misused(cmd, "--seq is missing; \"fencepost sink show\" lists it")
		}
		return p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.sinks.SkipUndelivered,
				&pb.SkipUndeliveredRequest{Sink: args[0], TxId: args[1], Seq: seq,
					Reason: d.reason, Operator: d.by(p)})
			if err != nil {
				return err
			}
			return p.print(wire{answer}, line("event %d of transaction %s is skipped", seq,
				args[1]))
		})(cmd, args)
	}
	d.addOptional(c, "reason to record")
	c.Flags().Uint64Var(&seq, "seq", 0, "number of the event (required)")
	return c
}

// resumeToken matches every resume token, also of another version of the node, and no time.
var resumeToken = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*\.[A-Za-z0-9_-]+$`)

func (p *program) sinkReplayCommand(f *clientFlags) *cobra.Command {
	var d decisionFlags
	var from, ledger string
	c := &cobra.Command{
		Use:   "replay NAME --from TIME|TOKEN",
		Short: "Deliver again from a time or a resume token",
		Args:  arguments("NAME"),
		Long: `Deliver again from a time or a resume token. Receivers get events that they have
already, with the same ids. A time such as 2026-01-02T15:04:05Z also replays up to a minute of
earlier events. A resume token is one of a watch of all transactions, or of "sink list --json".`,
		Example: "  fencepost sink replay billing --from 2026-01-02T15:04:05Z",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if from == "" {
			return misused(cmd, "--from is missing; give a time or a resume token")
		}
		ask := &pb.ReplaySinkRequest{Sink: args[0], Reason: d.reason, Operator: d.by(p),
			Ledger: ledger}
		at, err := time.Parse(time.RFC3339, from)
		switch {
		case err == nil:
			ask.From = &pb.ReplaySinkRequest_Time{Time: timestamppb.New(at)}
		case !resumeToken.MatchString(from):
			return misused(cmd, "--from %q is neither a time nor a resume token; give a time like "+
				"2026-01-02T15:04:05Z, or a token of \"fencepost sink list --json\"", from)
		default:
			ask.From = &pb.ReplaySinkRequest_ResumeToken{ResumeToken: from}
		}
		return p.calling(f, func(ctx context.Context, c *client, _ []string) error {
			answer, err := call(ctx, c, c.sinks.ReplaySink, ask)
			if err != nil {
				return err
			}
			return p.print(wire{answer.GetSink()}, line("sink %s delivers again from %s", args[0],
				from))
		})(cmd, args)
	}
	d.addOptional(c, "reason to record")
	c.Flags().StringVar(&ledger, "ledger", "", "name of the ledger, if the node serves several; "+
		"required with a token (default: each)")
	c.Flags().StringVar(&from, "from", "",
		"time like 2026-01-02T15:04:05Z, or resume token (required)")
	return c
}

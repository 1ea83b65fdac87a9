package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
)

// overview is the output of the status command. Nodes and chains are for operators.
type overview struct {
	status *pb.GetStatusResponse
	nodes  *pb.ListNodesResponse  // nil: no right
	chains *pb.ListChainsResponse // nil: no right
}

func (p *program) statusCommand() *cobra.Command {
	f := &clientFlags{}
	var watch bool
	var every time.Duration
	c := &cobra.Command{
		Use:   "status",
		Short: "Show accounts, transactions, nodes and chains on one screen",
		Args:  arguments(),
		Long: `Show on one screen all that needs a decision, how much is queued and in flight, the
live nodes, and the chains as the called node sees them. Callers without the rights of an
operator see only the totals of their accounts.

--watch repeats it until interrupted; with --json each screen is one line.`,
		Example: "  fencepost status\n  fencepost status --watch --every 5s",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if every < 100*time.Millisecond {
			return misused(cmd, "--every %s: must be at least 100ms", every)
		}
		return p.calling(f, func(ctx context.Context, c *client, _ []string) error {
			if !watch {
				o, err := c.overview(ctx)
				if err != nil {
					return err
				}
				return p.print(o, o.print)
			}
			return p.watchStatus(ctx, c, every)
		})(cmd, args)
	}
	f.add(c)
	c.Flags().BoolVar(&watch, "watch", false, "repeat until interrupted")
	c.Flags().DurationVar(&every, "every", 2*time.Second, "time between two screens of --watch")
	return c
}

// watchStatus repeats the screen. A node that does not respond is shown, and tried again.
func (p *program) watchStatus(ctx context.Context, c *client, every time.Duration) error {
	for first := true; ; first = false {
		o, err := c.overview(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (first || status.Code(err) != codes.Unavailable):
			return err
		case err != nil:
			p.note("%v", err)
		case p.json:
			if err := json.NewEncoder(p.out).Encode(o); err != nil {
				return fmt.Errorf("print the result: %w", err)
			}
		default:
			if err := p.screen(o.print); err != nil {
				return err
			}
		}
		if clock.Sleep(ctx, p.clock, every) != nil {
			return nil
		}
	}
}

// screen replaces the text on the terminal at once, so that it does not flicker.
func (p *program) screen(human func(io.Writer) error) error {
	var b bytes.Buffer
	b.WriteString("\x1b[H\x1b[2J") // cursor to the top, clear
	if err := human(&b); err != nil {
		return err
	}
	if _, err := p.out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

func (c *client) overview(ctx context.Context) (o overview, err error) {
	if o.status, err = call(ctx, c, c.status.GetStatus, &pb.GetStatusRequest{}); err != nil {
		return o, err
	}
	nodes, err := call(ctx, c, c.status.ListNodes, &pb.ListNodesRequest{})
	if status.Code(err) == codes.PermissionDenied {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	o.nodes = nodes
	o.chains, err = call(ctx, c, c.status.ListChains, &pb.ListChainsRequest{})
	return o, err
}

// MarshalJSON joins the responses in one object.
func (o overview) MarshalJSON() ([]byte, error) {
	all := map[string]wire{"status": {o.status}}
	if o.nodes != nil {
		all["nodes"] = wire{o.nodes}
	}
	if o.chains != nil {
		all["chains"] = wire{o.chains}
	}
	return json.Marshal(all)
}

func (o overview) print(w io.Writer) error {
	t := o.status.GetTotals()
	err := fields([]field{
		{"accounts", fmt.Sprintf("%d, %d owned", t.GetSubmitters(), t.GetOwned())},
		{"queued", atLeast(t.GetQueued(), t.GetQueuedIsAtLeast()) +
			o.oldest(t.GetOldestQueueTime())},
		{"in flight", strconv.FormatInt(t.GetInFlight(), 10)},
		{"node", o.status.GetNodeId() + " " + o.status.GetVersion()},
		{"time", shownTime(o.status.GetTime())},
	})(w)
	if err != nil {
		return err
	}
	if err := line("\n%s", o.needed())(w); err != nil {
		return err
	}
	if o.nodes == nil {
		return nil
	}
	return o.printNodes(w)
}

// oldest is appended to a number of transactions that wait, the oldest since a time.
func (o overview) oldest(since *timestamppb.Timestamp) string {
	if since == nil {
		return ""
	}
	waits := o.status.GetTime().AsTime().Sub(since.AsTime())
	return ", oldest waits " + waits.Round(time.Second).String()
}

// atLeast is a number that may have been counted up to a limit only.
func atLeast(n int64, more bool) string {
	if more {
		return "more than " + strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10)
}

// needed lists everything that waits for a decision, with the command that shows it.
func (o overview) needed() string {
	t := o.status.GetTotals()
	var all []string
	for _, n := range []struct {
		count      int64
		what, show string
	}{
		{t.GetProtected(), "protected", "fencepost submitter list"},
		{t.GetStuck(), "stuck", "fencepost tx list --state STUCK"},
		{t.GetUnfunded(), "unfunded", "fencepost submitter list"},
		{t.GetPaused(), "paused", "fencepost submitter list"},
		{t.GetAwaitingApproval(), "awaiting approval" + o.oldest(t.GetOldestApprovalTime()),
			"fencepost tx list --awaiting-approval --wide"},
		{t.GetUndecidedNonces(), "nonces of clients", "fencepost nonce list SUBMITTER " +
			"--needs-operator"},
	} {
		if n.count > 0 {
			all = append(all, fmt.Sprintf("  %d %s   # %s", n.count, n.what, n.show))
		}
	}
	if len(all) == 0 {
		return "Nothing needs a decision."
	}
	return "Needs a decision:\n" + strings.Join(all, "\n")
}

func (o overview) printNodes(w io.Writer) error {
	nodes := [][]string{}
	if len(o.nodes.GetNodes()) == 0 {
		nodes = [][]string{{"none with a heartbeat", "", "", ""}}
	}
	for _, n := range o.nodes.GetNodes() {
		accepting := "yes"
		if !n.GetAccepting() {
			accepting = "no"
		}
		nodes = append(nodes, []string{n.GetNodeId(), strconv.FormatInt(n.GetLeases(), 10),
			accepting, shownTime(n.GetStartTime())})
	}
	chains := [][]string{}
	for _, c := range o.chains.GetChains() {
		for _, e := range c.GetEndpoints() {
			state := "up"
			if !e.GetHealthy() {
				state = cmp.Or(e.GetOutcomeClass(), "down")
			}
			chains = append(chains, []string{c.GetName(), strconv.FormatUint(c.GetChainId(), 10),
				e.GetName(), state, strconv.FormatUint(e.GetHead(), 10), cell(e.GetReason())})
		}
	}
	for _, print := range []func(io.Writer) error{
		line(""), table([]string{"NODE", "ACCOUNTS", "ACCEPTS", "STARTED"}, nodes),
		line(""), table([]string{"CHAIN", "ID", "ENDPOINT", "STATE", "HEAD", "REASON"}, chains),
	} {
		if err := print(w); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// poolFlags name a pool in place of a submitter.
type poolFlags struct{ pool, stickyKey string }

func (f *poolFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.pool, "pool", "",
		"pool, in place of --submitter: the ledger chooses one of its accounts")
	c.Flags().StringVar(&f.stickyKey, "sticky-key", "",
		"with --pool: the same account for the same key, while it accepts transactions")
}

// account rejects a request that does not name a submitter or a pool.
func (f *poolFlags) account(c *cobra.Command, submitter string) error {
	switch {
	case submitter == "" && f.pool == "":
		return misused(c, "--submitter is missing; give it, or --pool")
	case submitter != "" && f.pool != "":
		return misused(c, "--submitter and --pool exclude each other; give one of them")
	case f.pool == "" && f.stickyKey != "":
		return misused(c, "--sticky-key needs --pool")
	}
	return nil
}

func (p *program) poolCommand() *cobra.Command {
	f := &clientFlags{}
	c := p.group("pool", "Manage pools of accounts that share transactions",
		p.poolCreateCommand(f), p.poolListCommand(f), p.poolShowCommand(f),
		p.poolMemberCommand(f, "add", "Add an account to a pool, or make it active again",
			`Add an account of the pool's chain. It gets new transactions at once, on all nodes. An
account that is draining is made active again. The command is idempotent.`, addMember),
		p.poolMemberCommand(f, "drain", "Give an account no new transactions of the pool",
			`Give an account no new transactions of the pool. Those that it has are sent. Once
QUEUED and IN_FLIGHT of "fencepost pool show" are 0, its work is done.`, drainMember),
		p.poolMemberCommand(f, "remove", "Remove an account from a pool",
			`Give an account no new transactions of the pool, and list it no longer. Those that it
has are sent, and repeated requests still return them.`, removeMember))
	f.add(c)
	return c
}

func (p *program) poolCreateCommand(f *clientFlags) *cobra.Command {
	ask := &pb.CreatePoolRequest{}
	c := &cobra.Command{
		Use:     "create POOL --chain-id ID",
		Short:   "Create an empty pool",
		Args:    arguments("POOL"),
		Long:    `Create an empty pool for accounts of one chain. The command is idempotent.`,
		Example: "  fencepost pool create payouts --chain-id 31337",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if ask.Pool = args[0]; ask.GetChainId() == 0 {
			return misused(cmd,
				"--chain-id is missing; give the id of a chain in the node configuration")
		}
		return p.calling(f, func(ctx context.Context, c *client, _ []string) error {
			answer, err := call(ctx, c, c.pools.CreatePool, ask)
			if err != nil {
				return err
			}
			verb := "is created"
			if !answer.GetCreated() {
				verb = "was already created"
			}
			return p.print(wire{answer}, line("pool %s %s: chain %d, %d members", args[0], verb,
				answer.GetPool().GetChainId(), len(answer.GetPool().GetMembers())))
		})(cmd, args)
	}
	c.Flags().StringVar(&ask.Ledger, "ledger", "", ledgerUsage)
	c.Flags().Uint64Var(&ask.ChainId, "chain-id", 0, "chain id (required)")
	return c
}

func (p *program) poolListCommand(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List pools by name",
		Args:    arguments(),
		Example: "  fencepost pool list",
		RunE: p.calling(f, func(ctx context.Context, c *client, _ []string) error {
			all := &pb.ListPoolsResponse{}
			ask := &pb.ListPoolsRequest{PageSize: maxPage}
			for {
				page, err := call(ctx, c, c.pools.ListPools, ask)
				if err != nil {
					return err
				}
				all.Pools = append(all.GetPools(), page.GetPools()...)
				if ask.PageToken = page.GetNextPageToken(); ask.GetPageToken() == "" {
					break
				}
			}
			rows := make([][]string, len(all.GetPools()))
			for i, pool := range all.GetPools() {
				accepting, queued := 0, int64(0)
				for _, m := range pool.GetMembers() {
					if queued += m.GetQueued(); m.GetAccepting() {
						accepting++
					}
				}
				rows[i] = []string{pool.GetName(), strconv.FormatUint(pool.GetChainId(), 10),
					strconv.Itoa(len(pool.GetMembers())), strconv.Itoa(accepting),
					strconv.FormatInt(queued, 10)}
			}
			return p.print(wire{all},
				table([]string{"NAME", "CHAIN", "MEMBERS", "ACCEPTING", "QUEUED"}, rows))
		}),
	}
}

func (p *program) poolShowCommand(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "show POOL",
		Short:   "Show the accounts of a pool",
		Args:    arguments("POOL"),
		Example: "  fencepost pool show payouts",
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			answer, err := call(ctx, c, c.pools.GetPool, &pb.GetPoolRequest{Pool: args[0]})
			if err != nil {
				return err
			}
			return p.print(wire{answer.GetPool()},
				table(memberHeading, memberRows(answer.GetPool())))
		}),
	}
}

var memberHeading = []string{"SUBMITTER", "STATUS", "ACCEPTING", "QUEUED", "IN_FLIGHT", "SINCE"}

func memberRows(pool *pb.Pool) [][]string {
	rows := make([][]string, len(pool.GetMembers()))
	for i, m := range pool.GetMembers() {
		status := []string{strings.TrimPrefix(m.GetStatus().String(), "POOL_MEMBER_STATUS_")}
		if m.GetPaused() {
			status = append(status, "PAUSED")
		}
		if m.GetProtected() {
			status = append(status, "PROTECTED")
		}
		if m.GetUnfunded() {
			status = append(status, "UNFUNDED")
		}
		rows[i] = []string{m.GetSubmitter(), strings.Join(status, ", "),
			strconv.FormatBool(m.GetAccepting()), strconv.FormatInt(m.GetQueued(), 10),
			strconv.FormatInt(m.GetInFlight(), 10),
			m.GetStatusTime().AsTime().UTC().Format(time.RFC3339)}
	}
	return rows
}

// memberCall is a call that changes the status of a member.
type memberCall func(ctx context.Context, c *client, pool, name string,
	d decisionFlags) (*pb.Pool, error)

func (p *program) poolMemberCommand(f *clientFlags, verb, short, long string,
	do memberCall) *cobra.Command {
	var d decisionFlags
	c := &cobra.Command{
		Use:     verb + " POOL SUBMITTER",
		Short:   short,
		Args:    arguments("POOL", "SUBMITTER"),
		Long:    long,
		Example: "  fencepost pool " + verb + " payouts alice",
		RunE: p.calling(f, func(ctx context.Context, c *client, args []string) error {
			pool, err := do(ctx, c, args[0], args[1], decisionFlags{d.reason, d.by(p)})
			if err != nil {
				return err
			}
			return p.print(wire{pool}, table(memberHeading, memberRows(pool)))
		}),
	}
	d.addOptional(c, "reason, recorded with the command")
	return c
}

func addMember(ctx context.Context, c *client, pool, name string,
	d decisionFlags) (*pb.Pool, error) {
	answer, err := call(ctx, c, c.pools.AddPoolMember, &pb.AddPoolMemberRequest{
		Pool: pool, Submitter: name, Reason: d.reason, Operator: d.operator})
	return answer.GetPool(), err
}

func drainMember(ctx context.Context, c *client, pool, name string,
	d decisionFlags) (*pb.Pool, error) {
	answer, err := call(ctx, c, c.pools.DrainPoolMember, &pb.DrainPoolMemberRequest{
		Pool: pool, Submitter: name, Reason: d.reason, Operator: d.operator})
	return answer.GetPool(), err
}

func removeMember(ctx context.Context, c *client, pool, name string,
	d decisionFlags) (*pb.Pool, error) {
	answer, err := call(ctx, c, c.pools.RemovePoolMember, &pb.RemovePoolMemberRequest{
		Pool: pool, Submitter: name, Reason: d.reason, Operator: d.operator})
	return answer.GetPool(), err
}

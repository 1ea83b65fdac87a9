package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/fencepost/fencepost/bench/internal/wire"
	"github.com/fencepost/fencepost/cmd/load"
	"github.com/fencepost/fencepost/server/auth"
)

const (
	policyCallers = 64
	// Many short turns, so that other load on the machine affects both callers equally.
	policyTurns = 25
)

// spender is a caller that creates transactions.
type spender struct {
	name  string
	conns []*grpc.ClientConn
	work  work // in its turns
	count float64
}

// policyCost measures CreateTx by a caller with a policy, and by one without, in turns.
func policyCost(ctx context.Context, b *bench) (err error) {
	s, err := newService(ctx, b, serviceOptions{submitters: 64, period: time.Minute,
		policies: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	free, limited := &spender{name: "free"}, &spender{name: "limited"}
	for who, token := range map[*spender]string{free: wire.FreeToken, limited: wire.LimitedToken} {
		if who.conns, err = s.nodes[0].connsOf(token); err != nil {
			return err
		}
		defer closeAll(who.conns)
		if _, err := s.spend(ctx, who, "warm", b.size.spell); err != nil {
			return err
		}
		who.count, who.work = 0, work{}
	}
	turns := policyTurns
	if b.size.countOnly {
		turns = 2
	}
	for turn := range turns {
		order := []*spender{free, limited}
		if turn%2 == 1 {
			order = []*spender{limited, free}
		}
		rates := map[*spender]float64{}
		for _, who := range order {
			prefix := fmt.Sprintf("turn-%d", turn)
			if rates[who], err = s.spend(ctx, who, prefix, b.size.spell/5); err != nil {
				return err
			}
			b.add("policy."+who.name+".rate", "txs/s", rates[who])
		}
		b.add("policy.share", "limited/free", rates[limited]/rates[free])
	}
	for _, who := range []*spender{free, limited} {
		name := "policy." + who.name + "."
		b.add(name+"inserts", "1/tx", who.work.by["InsertTxs"]/who.count)
		b.add(name+"time", "us/tx", who.work.spent["InsertTxs"]/who.count)
	}
	b.add("policy.limited.further", "1/tx", (limited.work.by["OpenUsage"]+
		limited.work.by["Usage"])/limited.count)
	return nil
}

// spend creates transactions for a while, and returns their rate.
func (s *service) spend(ctx context.Context, who *spender, prefix string,
	d time.Duration) (rate float64, err error) {
	before, err := s.ledger.measure(ctx)
	if err != nil {
		return 0, err
	}
	done, err := load.Create(ctx, who.conns, load.Plan{
		Submitters: s.submitters, Callers: policyCallers, Duration: d, Payload: transfer(),
		Prefix: who.name + "-" + prefix,
	})
	if err != nil {
		return 0, err
	}
	after, err := s.ledger.measure(ctx)
	if err != nil {
		return 0, err
	}
	turn := after.since(before)
	if who.work.by == nil {
		who.work = turn
	} else {
		for name, calls := range turn.by {
			who.work.by[name] += calls
			who.work.spent[name] += turn.spent[name]
		}
	}
	who.count += float64(done.Count)
	return done.Rate(), nil
}

// connsOf makes connections whose calls carry a token.
func (n *node) connsOf(token string) (conns []*grpc.ClientConn, err error) {
	show := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx = metadata.AppendToOutgoingContext(ctx, auth.AuthorizationHeader, "Bearer "+token)
		return invoke(ctx, method, request, reply, conn, opts...)
	}
	for range connections {
		conn, err := grpc.NewClient(n.ready.GRPC, grpc.WithUnaryInterceptor(show),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			closeAll(conns)
			return nil, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

func closeAll(conns []*grpc.ClientConn) {
	for _, conn := range conns {
		_ = conn.Close()
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fencepost/fencepost/cmd/load"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

const (
	nonceSubmitters = 50
	nonceCallers    = 64
)

// nonces compares AllocateNonce with CreateTx, by as many callers for as many accounts. An
// allocation waits until the owner has committed it; a created transaction is only queued.
func nonces(ctx context.Context, b *bench) error {
	created, err := onNonceService(ctx, b, 0, func(s *service) (load.Accepted, error) {
		return load.Create(ctx, s.nodes[0].conns, load.Plan{
			Submitters: s.submitters, Callers: nonceCallers, Duration: b.size.spell,
			Payload: transfer(), Prefix: "create",
		})
	})
	if err != nil {
		return err
	}
	allocated, err := onNonceService(ctx, b, txn.MaxInFlight,
		func(s *service) (load.Accepted, error) { return allocate(ctx, s, b.size.spell) })
	if err != nil {
		return err
	}
	b.add("nonces.create.rate", "txs/s", created.Rate())
	b.add("nonces.allocate.rate", "nonces/s", allocated.Rate())
	b.add("nonces.allocate.p50", "ms", millis(allocated.Latency.At(0.5)))
	b.add("nonces.allocate.p99", "ms", millis(allocated.Latency.At(0.99)))
	return nil
}

func onNonceService(ctx context.Context, b *bench, reservations int,
	run func(*service) (load.Accepted, error)) (done load.Accepted, err error) {
	s, err := newService(ctx, b, serviceOptions{
		submitters: nonceSubmitters, period: time.Second, reservations: reservations,
	})
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return run(s)
}

// allocate reserves nonces for a while.
func allocate(ctx context.Context, s *service, duration time.Duration) (load.Accepted, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	all := make([]load.Latencies, nonceCallers)
	began := time.Now()
	for i := range nonceCallers {
		conns := s.nodes[0].conns
		client := pb.NewNonceServiceClient(conns[i%len(conns)])
		wg.Go(func() {
			for time.Since(began) < duration {
				n, start := int(next.Add(1)), time.Now()
				if _, err := client.AllocateNonce(ctx, &pb.AllocateNonceRequest{
					Submitter: s.submitters[n%len(s.submitters)],
					RequestId: fmt.Sprint("nonce-", n), Ttl: durationpb.New(time.Hour),
				}); err != nil {
					cancel(fmt.Errorf("AllocateNonce: %w", err))
					return
				}
				all[i] = append(all[i], time.Since(start))
			}
		})
	}
	wg.Wait()
	done := load.Accepted{Elapsed: time.Since(began)}
	for _, latencies := range all {
		done.Latency = append(done.Latency, latencies...)
	}
	done.Count = len(done.Latency)
	return done, context.Cause(ctx)
}

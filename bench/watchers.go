package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencepost/fencepost/bench/load"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

const (
	watchedSubmitters = 1000
	watchRate         = 100 // transactions in a second, of five events each
)

// watchers measures how late so many watchers are, each of one submitter, at five hundred events in a second; and what one more of them costs in memory.
func watchers(ctx context.Context, b *bench, count int) (err error) {
	s, err := newService(ctx, b, serviceOptions{submitters: watchedSubmitters, period: 250 * time.Millisecond})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	idle, err := s.nodes[0].measure(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &crowd{}
	var wg, begun sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	for i := range count {
		target := load.Of(s.submitters[i%len(s.submitters)])
		if count == 1 {
			target = load.All()
		}
		begun.Add(1)
		ready := sync.OnceFunc(begun.Done)
		wg.Go(func() {
			defer ready()
			if err := load.Watch(ctx, s.nodes[0].conns[i%connections], target, ready, c.saw); err != nil {
				cancel(err)
			}
		})
	}
	begun.Wait()
	full, err := s.nodes[0].measure(ctx)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	if err := s.pace(ctx, b.size.steady, watchRate); err != nil {
		return err
	}
	name := fmt.Sprintf("watch.%d.", count)
	delays := c.take()
	b.add(name+"events", "1/s", load.Rate(len(delays), b.size.steady))
	b.add(name+"p50", "ms", millis(delays.At(0.5)))
	b.add(name+"p99", "ms", millis(delays.At(0.99)))
	if count > 1 {
		b.add(name+"memory", "KB/watcher", (full.rss-idle.rss)/1024/float64(count))
	}
	return nil
}

type crowd struct {
	mu     sync.Mutex
	delays load.Latencies
}

func (c *crowd) saw(e load.Seen) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delays = append(c.delays, e.Delay())
}

func (c *crowd) take() load.Latencies {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.delays
}

// pace creates transactions at a rate, whatever becomes of them, spread over all submitters.
func (s *service) pace(ctx context.Context, d time.Duration, rate int) error {
	client := pb.NewTxServiceClient(s.nodes[0].conns[0])
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var (
		wg   sync.WaitGroup
		errs = make(chan error, 1)
		end  = time.After(d)
	)
	defer wg.Wait()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-end:
			return nil
		case err := <-errs:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wg.Go(func() {
			_, err := client.CreateTx(ctx, &pb.CreateTxRequest{
				Submitter: s.submitters[n%len(s.submitters)], RequestId: fmt.Sprintf("paced-%d", n), Payload: transfer(),
			})
			if err != nil {
				select {
				case errs <- err:
				default: // one is enough
				}
			}
		})
	}
}

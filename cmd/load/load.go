// Package load puts a running service under load through its public API and measures it.
package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// Plan describes the load.
type Plan struct {
	Submitters []string      // in turn
	Callers    int           // calls at the same time, each caller one after the other
	Batch      int           // transactions in a call of BatchCreateTx; 0: one, by CreateTx
	Count      int           // transactions, in whole batches; 0: as many as Duration allows
	Duration   time.Duration // 0: until Count is reached
	Payload    *pb.Payload   // of each transaction
	Prefix     string        // of the request ids, one of its own for each run
	Created    func(*pb.Tx)  // called for each, concurrently; may be nil
}

// Accepted is the result of a plan.
type Accepted struct {
	Count   int
	Elapsed time.Duration
	Latency Latencies // of a call
}

// Rate is how many were accepted in a second.
func (a Accepted) Rate() float64 { return Rate(a.Count, a.Elapsed) }

// Rate is count for each second of elapsed.
func Rate(count int, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return float64(count) / elapsed.Seconds()
}

// ErrPlan is the error of an empty plan.
var ErrPlan = errors.New("a plan needs submitters, callers, and a count or a duration")

// Create carries out a plan on the given connections, which the callers share evenly. The first
// call that fails ends it.
func Create(ctx context.Context, conns []*grpc.ClientConn, p Plan) (Accepted, error) {
	if len(conns) == 0 || len(p.Submitters) == 0 || p.Callers < 1 ||
		p.Count <= 0 && p.Duration <= 0 {
		return Accepted{}, ErrPlan
	}
	if p.Count <= 0 {
		p.Count = int(^uint(0) >> 1)
	}
	size := max(1, p.Batch)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		next  atomic.Int64
		wg    sync.WaitGroup
		all   = make([]Latencies, p.Callers)
		began = time.Now()
	)
	for i := range p.Callers {
		c := newCaller(pb.NewTxServiceClient(conns[i%len(conns)]), p)
		wg.Go(func() {
			for {
				n := int(next.Add(int64(size))) - size
				if n >= p.Count || p.Duration > 0 && time.Since(began) >= p.Duration {
					return
				}
				start := time.Now()
				if err := c.create(ctx, n); err != nil {
					cancel(err)
					return
				}
				all[i] = append(all[i], time.Since(start))
			}
		})
	}
	wg.Wait()
	done := Accepted{Elapsed: time.Since(began), Latency: slices.Concat(all...)}
	done.Count = size * len(done.Latency)
	if ctx.Err() != nil {
		return done, fmt.Errorf("create transactions: %w", context.Cause(ctx))
	}
	return done, nil
}

// caller asks for one thing after the other. Its requests are made once and used again: callers are
// elsewhere in life, while these take their share of the processors that the service has here.
type caller struct {
	client pb.TxServiceClient
	plan   Plan
	one    *pb.CreateTxRequest      // where there are no batches
	batch  *pb.BatchCreateTxRequest // else
}

func newCaller(client pb.TxServiceClient, p Plan) *caller {
	c := &caller{
		client: client,
		plan:   p,
		one:    &pb.CreateTxRequest{Payload: p.Payload},
		batch:  &pb.BatchCreateTxRequest{},
	}
	for range p.Batch {
		c.batch.Requests = append(c.batch.Requests, &pb.CreateTxRequest{Payload: p.Payload})
	}
	return c
}

// create creates the n-th transaction of the plan, and the rest of a batch.
func (c *caller) create(ctx context.Context, n int) error {
	if c.plan.Batch > 0 {
		return c.createBatch(ctx, n)
	}
	c.name(c.one, n)
	answer, err := c.client.CreateTx(ctx, c.one)
	if err == nil && c.plan.Created != nil {
		c.plan.Created(answer.GetTx())
	}
	return err
}

func (c *caller) createBatch(ctx context.Context, n int) error {
	for i, r := range c.batch.GetRequests() {
		c.name(r, n+i)
	}
	answer, err := c.client.BatchCreateTx(ctx, c.batch)
	if err != nil {
		return err
	}
	for _, result := range answer.GetResults() {
		if result.GetTx() == nil {
			return status.ErrorProto(result.GetError())
		}
		if c.plan.Created != nil {
			c.plan.Created(result.GetTx())
		}
	}
	return nil
}

// name makes a request the n-th of the plan.
func (c *caller) name(r *pb.CreateTxRequest, n int) {
	r.Submitter, r.RequestId = c.plan.Submitters[n%len(c.plan.Submitters)], c.plan.Prefix+"-"+
		strconv.Itoa(
			n)
}

// Latencies are durations of the same thing.
type Latencies []time.Duration

// At is the duration below which this part of them lies: At(0.99) is the 99th percentile; 0 of
// none.
func (l Latencies) At(part float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.Clone(l)
	slices.Sort(sorted)
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

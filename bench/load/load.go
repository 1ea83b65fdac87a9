// Package load puts a running service under load through its API, as callers would, and says how it did. It knows nothing of what is behind the API.
package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// Plan says what is created.
type Plan struct {
	Submitters []string      // in turn
	Callers    int           // calls at the same time, each caller one after the other
	Batch      int           // transactions in a call of BatchCreateTx; 0: one, by CreateTx
	Count      int           // transactions, in whole batches; 0: as many as Duration allows
	Duration   time.Duration // 0: until Count is reached
	Payload    *pb.Payload   // of each transaction
	Prefix     string        // of the request ids, one of its own for each run
	Created    func(*pb.Tx)  // is told of each, by many callers at once; nil: nobody
}

// Accepted is what came of a plan.
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

// ErrPlan says that a plan has nothing to do.
var ErrPlan = errors.New("a plan needs submitters, callers, and a count or a duration")

// Create carries out a plan on the given connections, which the callers share evenly. The first call that fails ends it.
func Create(ctx context.Context, conns []*grpc.ClientConn, p Plan) (Accepted, error) {
	if len(conns) == 0 || len(p.Submitters) == 0 || p.Callers < 1 || p.Count <= 0 && p.Duration <= 0 {
		return Accepted{}, ErrPlan
	}
	if p.Count <= 0 {
		p.Count = int(^uint(0) >> 1)
	}
	create, size := createOne, 1
	if p.Batch > 0 {
		create, size = createBatch, p.Batch
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		next  atomic.Int64
		wg    sync.WaitGroup
		all   = make([]Latencies, p.Callers)
		began = time.Now()
	)
	for i := range p.Callers {
		client := pb.NewTxServiceClient(conns[i%len(conns)])
		wg.Go(func() {
			for {
				n := int(next.Add(int64(size))) - size
				if n >= p.Count || p.Duration > 0 && time.Since(began) >= p.Duration {
					return
				}
				start := time.Now()
				if err := create(ctx, client, p, n); err != nil {
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

// request is the n-th of a plan.
func (p Plan) request(n int) *pb.CreateTxRequest {
	return &pb.CreateTxRequest{Submitter: p.Submitters[n%len(p.Submitters)], RequestId: fmt.Sprintf("%s-%d", p.Prefix, n), Payload: p.Payload}
}

func createOne(ctx context.Context, client pb.TxServiceClient, p Plan, n int) error {
	answer, err := client.CreateTx(ctx, p.request(n))
	if err == nil && p.Created != nil {
		p.Created(answer.GetTx())
	}
	return err
}

func createBatch(ctx context.Context, client pb.TxServiceClient, p Plan, n int) error {
	batch := &pb.BatchCreateTxRequest{}
	for i := range p.Batch {
		batch.Requests = append(batch.Requests, p.request(n+i))
	}
	answer, err := client.BatchCreateTx(ctx, batch)
	if err != nil {
		return err
	}
	for _, result := range answer.GetResults() {
		if result.GetTx() == nil {
			return status.ErrorProto(result.GetError())
		}
		if p.Created != nil {
			p.Created(result.GetTx())
		}
	}
	return nil
}

// Latencies are durations of the same thing.
type Latencies []time.Duration

// At is the duration below which this part of them lies: At(0.99) is the 99th percentile; 0 of none.
func (l Latencies) At(part float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.Clone(l)
	slices.Sort(sorted)
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

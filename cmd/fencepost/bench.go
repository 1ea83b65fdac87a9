package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/fencepost/fencepost/bench/load"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
)

// benchFlags say what is sent, and how much of it.
type benchFlags struct {
	submitters []string
	to, value  string
	gas        uint64
	callers    int
	count      int
	wait       time.Duration
}

// benchReport is what came of it. The names of its fields are part of the command's contract.
type benchReport struct {
	Accepted  int         `json:"accepted"`
	PerSecond float64     `json:"accepted_per_second"`
	Call      benchTimes  `json:"call"`     // of CreateTx
	Steps     []benchStep `json:"steps"`    // from acceptance on
	Delivery  benchTimes  `json:"delivery"` // from an event's statement to this watcher
}

// benchStep is how far the transactions came.
type benchStep struct {
	Event string     `json:"event"`
	Count int        `json:"count"`
	Times benchTimes `json:"times"`
}

// benchTimes are percentiles in milliseconds.
type benchTimes struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

func timesOf(l load.Latencies) benchTimes {
	return benchTimes{l.At(0.5).Seconds() * 1e3, l.At(0.99).Seconds() * 1e3}
}

func (p *program) benchCommand() *cobra.Command {
	var f benchFlags
	var flags clientFlags
	c := &cobra.Command{
		Use: "bench", Short: "Measure a running service with transactions of its own", Args: arguments(),
		Long: `Create transactions on a running service as fast as it takes them, watch what becomes of them, and print rates and times.

It sends real transactions from the accounts named, which cost real fees: use a chain and accounts for testing. To compare Fencepost with the limits of a machine,
run make bench in a checkout of its source.`,
		Example: "  fencepost bench --submitter alice --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --count 200 --callers 16",
	}
	c.Flags().StringArrayVar(&f.submitters, "submitter", nil, "account that sends, by name or account id; repeat it for several, which take turns")
	c.Flags().StringVar(&f.to, "to", "", "recipient of every transaction")
	c.Flags().StringVar(&f.value, "value", "0", "amount in wei")
	c.Flags().Uint64Var(&f.gas, "gas-limit", 21_000, "gas limit; 0 has Fencepost estimate each")
	c.Flags().IntVar(&f.callers, "callers", 16, "calls at the same time")
	c.Flags().IntVar(&f.count, "count", 100, "transactions")
	c.Flags().DurationVar(&f.wait, "wait", time.Minute, "how long to wait for the last of them to be in a block")
	flags.add(c)
	c.RunE = p.calling(&flags, func(ctx context.Context, node *client, _ []string) error {
		if len(f.submitters) == 0 || f.to == "" || f.callers < 1 || f.count < 1 {
			return misused(c, "--submitter and --to are needed, and --callers and --count of at least 1")
		}
		report, err := p.bench(ctx, node, f)
		if err != nil {
			return err
		}
		return p.print(report, report.table())
	})
	return c
}

// bench creates, and watches until all are in a block or the wait is over.
func (p *program) bench(ctx context.Context, node *client, f benchFlags) (*benchReport, error) {
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	b := &benchRun{accepted: map[string]time.Time{}, early: map[string][]load.Seen{}, since: map[pb.TxEventKind]load.Latencies{}, all: make(chan struct{}), count: f.count}
	var watchers, begun sync.WaitGroup
	defer watchers.Wait()
	defer stop(nil)
	for _, submitter := range f.submitters {
		begun.Add(1)
		ready := sync.OnceFunc(begun.Done)
		watchers.Go(func() {
			defer ready()
			if err := load.Watch(watching, node.conn, load.Of(submitter), ready, b.saw); err != nil {
				stop(node.explain(errors.Unwrap(err)))
			}
		})
	}
	begun.Wait()
	done, err := load.Create(watching, []*grpc.ClientConn{node.conn}, load.Plan{
		Submitters: f.submitters, Callers: f.callers, Count: f.count, Prefix: "bench-" + uuid.NewString(), Created: b.created,
		Payload: &pb.Payload{To: f.to, Value: f.value, GasLimit: f.gas},
	})
	if err != nil {
		return nil, node.explain(errors.Unwrap(err))
	}
	if err := p.awaitBlocks(watching, b, f.wait); err != nil {
		return nil, err
	}
	return b.report(done), nil
}

// awaitBlocks waits until everything is in a block; that it takes longer is no failure, but what is to be seen.
func (p *program) awaitBlocks(ctx context.Context, b *benchRun, atMost time.Duration) error {
	limit, cancel := context.WithCancel(ctx)
	defer cancel()
	late := make(chan error, 1)
	go func() { late <- clock.Sleep(limit, p.clock, atMost) }()
	select {
	case <-b.all:
		return nil
	case <-late:
		return context.Cause(ctx)
	}
}

// benchRun gathers what callers and watchers see.
type benchRun struct {
	mu       sync.Mutex
	accepted map[string]time.Time
	early    map[string][]load.Seen // of transactions whose call is not answered yet
	since    map[pb.TxEventKind]load.Latencies
	delay    load.Latencies
	count    int
	all      chan struct{}
}

func (b *benchRun) created(tx *pb.Tx) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accepted[tx.GetTxId()] = tx.GetCreateTime().AsTime()
	early := b.early[tx.GetTxId()]
	delete(b.early, tx.GetTxId())
	for _, e := range early {
		b.note(e)
	}
}

func (b *benchRun) saw(e load.Seen) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(e)
}

// maxEarly bounds the transactions whose events wait for their call; those of other callers wait in vain.
const maxEarly = 4096

func (b *benchRun) note(e load.Seen) {
	at, known := b.accepted[e.GetTxId()]
	if !known {
		if len(b.early) < maxEarly {
			b.early[e.GetTxId()] = append(b.early[e.GetTxId()], e)
		}
		return
	}
	kind := e.GetKind()
	b.since[kind] = append(b.since[kind], e.GetTime().AsTime().Sub(at))
	b.delay = append(b.delay, e.Delay())
	if kind == pb.TxEventKind_TX_EVENT_KIND_INCLUDED && len(b.since[kind]) == b.count {
		close(b.all)
	}
}

func (b *benchRun) report(done load.Accepted) *benchReport {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &benchReport{Accepted: done.Count, PerSecond: done.Rate(), Call: timesOf(done.Latency), Delivery: timesOf(b.delay)}
	for _, kind := range []pb.TxEventKind{
		pb.TxEventKind_TX_EVENT_KIND_ALLOCATED, pb.TxEventKind_TX_EVENT_KIND_SUBMITTED, pb.TxEventKind_TX_EVENT_KIND_INCLUDED, pb.TxEventKind_TX_EVENT_KIND_CONFIRMED,
	} {
		r.Steps = append(r.Steps, benchStep{strings.TrimPrefix(kind.String(), "TX_EVENT_KIND_"), len(b.since[kind]), timesOf(b.since[kind])})
	}
	return r
}

func (r *benchReport) table() func(io.Writer) error {
	ms := func(v float64) string { return fmt.Sprintf("%.1f ms", v) }
	rows := [][]string{{"CreateTx", fmt.Sprintf("%d (%.0f/s)", r.Accepted, r.PerSecond), ms(r.Call.P50), ms(r.Call.P99)}}
	for _, s := range r.Steps {
		rows = append(rows, []string{"accepted to " + s.Event, fmt.Sprint(s.Count), ms(s.Times.P50), ms(s.Times.P99)})
	}
	return table([]string{"WHAT", "COUNT", "P50", "P99"}, append(rows, []string{"event to watcher", "", ms(r.Delivery.P50), ms(r.Delivery.P99)}))
}

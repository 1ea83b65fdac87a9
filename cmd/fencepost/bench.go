package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/fencepost/fencepost/cmd/load"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
)

// benchFlags describe the load.
type benchFlags struct {
	submitters []string
	to, value  string
	gas        uint64
	callers    int
	count      int
	wait       time.Duration
}

// benchReport is the result. The JSON field names are stable.
type benchReport struct {
	Accepted  int         `json:"accepted"`
	PerSecond float64     `json:"accepted_per_second"`
	Call      benchTimes  `json:"call"`     // of CreateTx
	Steps     []benchStep `json:"steps"`    // from acceptance on
	Delivery  benchTimes  `json:"delivery"` // from the commit of an event to this watcher
	NoBlock   int         `json:"in_no_block"`
	NotFinal  int         `json:"not_final"` // in a block
}

// benchStep counts the transactions that reached a step.
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
		Use:   "bench",
		Short: "Measure a running service with real transactions",
		Args:  arguments(),
		Long: `Create transactions on a running service as fast as it accepts them, watch until
all are final, and print rates and latencies.

The transactions are real and cost real fees: use a test chain and test accounts.

An account has one nonce in flight and sends about one transaction per block; most of the measured
time is waiting in its queue. Use several accounts to send in parallel, or --count 1 to measure
without a queue. --wait must be long enough: 100 transactions on one account take 100 blocks and
the confirmations of the last. Transactions that are not in a block by then stay queued and are
sent later; the command reports them and fails.

To measure the limits of a machine, run "make bench" in a source checkout.`,
		Example: "  fencepost bench --submitter alice" +
			" --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --count 100 --callers 16\n" +
			"  fencepost bench --submitter alice --submitter bob" +
			" --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --count 500 --wait 15m",
	}
	c.Flags().StringArrayVar(&f.submitters, "submitter", nil,
		"sending account, by name or account id; repeatable, round-robin (required)")
	c.Flags().StringVar(&f.to, "to", "", "recipient of every transaction (required)")
	c.Flags().StringVar(&f.value, "value", "0",
		"amount in wei, or with a unit (wei, gwei or ether), like 0.1ether")
	c.Flags().Uint64Var(&f.gas, "gas-limit", 21_000, "gas limit; 0: estimate each")
	c.Flags().IntVar(&f.callers, "callers", 16, "concurrent calls")
	c.Flags().IntVar(&f.count, "count", 100, "number of transactions")
	c.Flags().DurationVar(&f.wait, "wait", 5*time.Minute,
		"limit for the last transaction to be final, once all are accepted")
	flags.add(c)
	c.RunE = p.calling(&flags, func(ctx context.Context, node *client, _ []string) error {
		if len(f.submitters) == 0 || f.to == "" || f.callers < 1 || f.count < 1 {
			return misused(c,
				"--submitter and --to are required; --callers and --count must be at least 1")
		}
		if f.wait < 0 {
			return misused(c, "--wait must not be negative; give a duration like 5m")
		}
		var err error
		if f.value, err = parseAmount(f.value); err != nil {
			return misused(c, "--value %v", err)
		}
		report, left, err := p.bench(ctx, node, f)
		if err != nil {
			return err
		}
		return errors.Join(p.print(report, report.table(len(f.submitters))), p.judge(f, left))
	})
	return c
}

// bench creates the transactions and watches until all are final or the wait is over.
func (p *program) bench(ctx context.Context, node *client,
	f benchFlags) (*benchReport, benchLeft, error) {
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	b := newBenchRun(f.count)
	var watchers, begun sync.WaitGroup
	defer watchers.Wait()
	defer stop(nil)
	for _, submitter := range f.submitters {
		begun.Add(1)
		ready := sync.OnceFunc(begun.Done)
		watchers.Go(func() {
			defer ready()
			if err := load.Watch(
				watching, node.conn, load.Of(submitter), ready, b.saw,
			); err != nil {
				stop(node.explain(errors.Unwrap(err)))
			}
		})
	}
	begun.Wait()
	watchers.Go(func() { p.reportProgress(watching, b) })
	done, err := load.Create(watching, []*grpc.ClientConn{node.conn}, load.Plan{
		Submitters: f.submitters, Callers: f.callers, Count: f.count,
		Prefix: "bench-" + uuid.NewString(), Created: b.created,
		Payload: &pb.Payload{To: f.to, Value: f.value, GasLimit: f.gas},
	})
	if err != nil {
		p.reportLeft(b)
		return nil, benchLeft{}, node.explain(errors.Unwrap(err))
	}
	if err := p.awaitFinal(watching, b, f.wait); err != nil {
		p.reportLeft(b)
		return nil, benchLeft{}, err
	}
	left := b.left()
	return b.report(done, left), left, nil
}

// benchProgress is the interval of progress reports.
const benchProgress = 5 * time.Second

// reportProgress prints the progress on standard error until ctx ends.
func (p *program) reportProgress(ctx context.Context, b *benchRun) {
	began := p.clock.Now()
	for clock.Sleep(ctx, p.clock, benchProgress) == nil {
		left := b.left()
		p.note("after %s: %d of %d accepted, %d pending, %d included, %d final",
			p.clock.Now().Sub(began).Round(time.Second), left.accepted, b.count, left.noBlock,
			left.notFinal, left.accepted-left.noBlock-left.notFinal)
	}
}

// reportLeft reports the transactions that an aborted run leaves behind; they are still sent.
func (p *program) reportLeft(b *benchRun) {
	if left := b.left(); left.noBlock > 0 {
		p.note("stopped after %d of %d were accepted, %d of them not in a block; %s",
			left.accepted, b.count, left.noBlock, left.stay())
	}
}

// judge reports transactions that are not final, and fails if the times do not cover all
// transactions.
func (p *program) judge(f benchFlags, left benchLeft) error {
	if left.notFinal > 0 {
		p.note(
			"%d of %d are in a block but were not final after %s; CONFIRMED omits them; raise "+
				"--wait",
			left.notFinal, f.count, f.wait)
	}
	var failures []string
	if left.noBlock > 0 {
		failures = append(
			failures,
			fmt.Sprintf(
				"%d of %d were not in a block after %s; %s; raise --wait or lower --count",
				left.noBlock, f.count, f.wait, left.stay()),
		)
	}
	if left.failed > 0 {
		failures = append(
			failures,
			fmt.Sprintf(
				"%d of %d ended FAILED or CANCELLED; see \"fencepost tx list --submitter %s"+
					" --state FAILED_FINAL --state CANCELLED\"",
				left.failed, f.count, left.name()),
		)
	}
	if len(failures) == 0 {
		return nil
	}
	return errors.New(strings.Join(failures, "; "))
}

// awaitFinal waits until all are final, or atMost; judge reports the rest.
func (p *program) awaitFinal(ctx context.Context, b *benchRun, atMost time.Duration) error {
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

// benchTx is a transaction of the run.
type benchTx struct {
	submitter string
	at        time.Time
	seen      map[pb.TxEventKind]bool
}

func (t *benchTx) final() bool {
	return t.seen[pb.TxEventKind_TX_EVENT_KIND_CONFIRMED] || t.failed()
}

func (t *benchTx) failed() bool {
	return t.seen[pb.TxEventKind_TX_EVENT_KIND_FAILED] ||
		t.seen[pb.TxEventKind_TX_EVENT_KIND_CANCELLED]
}

// benchRun collects the results of callers and watchers.
type benchRun struct {
	mu       sync.Mutex
	accepted map[string]*benchTx
	early    map[string][]load.Seen // of transactions whose call has not returned yet
	since    map[pb.TxEventKind]load.Latencies
	delay    load.Latencies
	final    int
	count    int
	all      chan struct{}
}

func newBenchRun(count int) *benchRun {
	return &benchRun{
		accepted: map[string]*benchTx{},
		early:    map[string][]load.Seen{},
		since:    map[pb.TxEventKind]load.Latencies{},
		all:      make(chan struct{}),
		count:    count,
	}
}

func (b *benchRun) created(tx *pb.Tx) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accepted[tx.GetTxId()] = &benchTx{
		submitter: tx.GetSubmitter(),
		at:        tx.GetCreateTime().AsTime(),
		seen:      map[pb.TxEventKind]bool{},
	}
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

// maxEarly limits the transactions with events before their call returned; some belong to others.
const maxEarly = 4096

func (b *benchRun) note(e load.Seen) {
	tx, known := b.accepted[e.GetTxId()]
	if !known {
		if len(b.early) < maxEarly {
			b.early[e.GetTxId()] = append(b.early[e.GetTxId()], e)
		}
		return
	}
	b.delay = append(b.delay, e.Delay())
	kind, was := e.GetKind(), tx.final()
	if tx.seen[kind] { // after a reorg; counted once
		return
	}
	tx.seen[kind] = true
	b.since[kind] = append(b.since[kind], e.GetTime().AsTime().Sub(tx.at))
	if tx.final() && !was {
		b.final++
		if b.final == b.count {
			close(b.all)
		}
	}
}

// benchLeft counts the transactions of a run by progress.
type benchLeft struct {
	accepted, noBlock, notFinal, failed int
	submitters                          map[string]bool // of those not in a block, or failed
}

func (b *benchRun) left() benchLeft {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := benchLeft{accepted: len(b.accepted), submitters: map[string]bool{}}
	for _, tx := range b.accepted {
		switch {
		case tx.failed():
			left.failed++
		case tx.final():
			continue
		case tx.seen[pb.TxEventKind_TX_EVENT_KIND_INCLUDED]:
			left.notFinal++
			continue
		default:
			left.noBlock++
		}
		left.submitters[tx.submitter] = true
	}
	return left
}

func (l benchLeft) names() string {
	return strings.Join(
		slices.Sorted(maps.Keys(l.submitters)), ", ",
	)
}

// stay describes the transactions that are not in a block, and the options.
func (l benchLeft) stay() string {
	return fmt.Sprintf(
		"they stay queued on %s and are sent later; list them with \"fencepost tx list "+
			"--submitter %s --state QUEUED\" and cancel with \"fencepost tx cancel TX_ID\"",
		l.names(), l.name())
}

// name is the only submitter, or a placeholder.
func (l benchLeft) name() string {
	if len(l.submitters) == 1 {
		return l.names()
	}
	return "NAME"
}

func (b *benchRun) report(done load.Accepted, left benchLeft) *benchReport {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &benchReport{
		Accepted:  done.Count,
		PerSecond: done.Rate(),
		Call:      timesOf(done.Latency),
		Delivery:  timesOf(b.delay),
		NoBlock:   left.noBlock,
		NotFinal:  left.notFinal,
	}
	for _, kind := range []pb.TxEventKind{
		pb.TxEventKind_TX_EVENT_KIND_ALLOCATED, pb.TxEventKind_TX_EVENT_KIND_SUBMITTED,
		pb.TxEventKind_TX_EVENT_KIND_INCLUDED, pb.TxEventKind_TX_EVENT_KIND_CONFIRMED,
		pb.TxEventKind_TX_EVENT_KIND_FAILED, pb.TxEventKind_TX_EVENT_KIND_CANCELLED,
	} {
		if n := len(b.since[kind]); n == 0 && kind > pb.TxEventKind_TX_EVENT_KIND_CONFIRMED {
			continue // FAILED and CANCELLED only if there are any
		}
		r.Steps = append(
			r.Steps,
			benchStep{
				strings.TrimPrefix(kind.String(), "TX_EVENT_KIND_"),
				len(b.since[kind]),
				timesOf(b.since[kind]),
			},
		)
	}
	return r
}

func (r *benchReport) table(submitters int) func(io.Writer) error {
	ms := func(v float64) string { return fmt.Sprintf("%.1f ms", v) }
	rows := [][]string{
		{
			"CreateTx",
			fmt.Sprintf("%d (%.0f/s)", r.Accepted, r.PerSecond),
			ms(r.Call.P50),
			ms(r.Call.P99),
		},
	}
	for _, s := range r.Steps {
		row := []string{
			"accepted to " + s.Event,
			fmt.Sprint(s.Count),
			ms(s.Times.P50),
			ms(s.Times.P99),
		}
		if s.Count == 0 {
			row[2], row[3] = "-", "-" // not 0.0 ms
		}
		rows = append(rows, row)
	}
	rows = append(rows, []string{"event to watcher", "", ms(r.Delivery.P50), ms(r.Delivery.P99)})
	return func(w io.Writer) error {
		err := table([]string{"STEP", "COUNT", "P50", "P99"}, rows)(w)
		if r.Accepted <= submitters {
			return err
		}
		return errors.Join(
			err,
			line(
				"times from \"accepted\" include the wait in the queue of the account; use "+
					"--count 1 for none")(
				w,
			),
		)
	}
}

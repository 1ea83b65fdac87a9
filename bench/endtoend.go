package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/fencepost/fencepost/cmd/load"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// endToEnd is a service that is kept busy from CreateTx to the last event.
type endToEnd struct {
	submitters int
	inFlight   int // limit of pipelined submitters; 0: strict
	period     time.Duration
	byHash     bool
	embedded   bool
	simulated  bool // as with default settings: drafts are simulated with any gas limit
	// blocks are always full, so the cost of a transaction is the cost on a machine that keeps up
	lockstep  bool
	signDelay time.Duration // of each signature, as of a remote signer
}

func (e endToEnd) name() string {
	accounts := strconv.Itoa(e.submitters)
	if e.inFlight > 0 {
		accounts = fmt.Sprintf("%dx%d", e.submitters, e.inFlight)
	}
	name := fmt.Sprintf("%s.%dms", accounts, e.period.Milliseconds())
	switch {
	case e.lockstep:
		name = accounts + ".lockstep"
	case e.embedded:
		name += ".embedded"
	}
	if e.byHash {
		name += ".byhash"
	}
	if e.simulated {
		name += ".default"
	}
	if e.signDelay > 0 {
		name += fmt.Sprintf(".sign%dms", e.signDelay.Milliseconds())
	}
	return name
}

const (
	endCallers = 64
	// window is how many transactions of a submitter are not in a block yet, at any time: one in
	// flight, and one that waits for its turn. Of a pipelined one, so many times its limit.
	window = 2
	// signAtOnce is max_in_flight of a slow signer: well above the signatures per second times the
	// seconds of one, so that it does not limit the rate.
	signAtOnce = 1024
)

// atOnce is the number of transactions of a submitter that a block can have.
func (e endToEnd) atOnce() int { return max(e.inFlight, 1) }

// run keeps the window of each submitter full, as seen by a watcher, and counts over a while in
// steady state.
func (e endToEnd) run(ctx context.Context, b *bench) (err error) {
	s, err := newService(
		ctx,
		b,
		serviceOptions{
			submitters: e.submitters,
			period:     e.period,
			signDelay:  e.signDelay,
			byHash:     e.byHash,
			simulated:  e.simulated,
			embedded:   e.embedded,
			lockstep:   e.lockstep,
			inFlight:   e.inFlight,
		},
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	f := newFlow(s)
	f.atOnce = e.atOnce()
	f.jobs = make(chan string, (window+1)*f.atOnce*e.submitters)
	if e.lockstep {
		return e.wholeLives(ctx, b, s, f)
	}
	stop, err := f.start(ctx)
	if err != nil {
		return err
	}
	if err := f.warmUp(ctx, e); err != nil {
		return errors.Join(err, stop())
	}
	before, err := e.begin(ctx, s)
	if err != nil {
		return errors.Join(err, stop())
	}
	f.reset()
	e.hold(ctx, b, s)
	seen := f.reset()
	after, err := s.measure(ctx)
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	if seen.count[pb.TxEventKind_TX_EVENT_KIND_INCLUDED] == 0 {
		return errors.New("nothing came into a block")
	}
	e.report(b, seen, before, after)
	return nil
}

// wholeLives counts from before the first transaction is created until after the last one is final,
// so that each has had all of its life. The owners are there before: each submitter has sent
// something already.
func (e endToEnd) wholeLives(ctx context.Context, b *bench, s *service, f *flow) error {
	f.left = 0
	stop, err := f.start(ctx)
	if err != nil {
		return err
	}
	if err := f.waitForFinal(ctx, window*f.atOnce*e.submitters); err != nil {
		return errors.Join(err, stop())
	}
	before, err := e.begin(ctx, s)
	if err != nil {
		return errors.Join(err, stop())
	}
	f.reset()
	f.more((b.size.lives - window) * f.atOnce * e.submitters)
	err = f.waitForFinal(ctx, (window+b.size.lives)*f.atOnce*e.submitters)
	after, measured := s.measure(ctx)
	seen := f.reset()
	if err = errors.Join(err, measured, stop()); err != nil {
		return err
	}
	e.report(b, seen, before, after)
	return nil
}

// begin measures before the counted part, during which PostgreSQL does no work of its own.
func (e endToEnd) begin(ctx context.Context, s *service) (state, error) {
	if err := s.ledger.pauseAutovacuum(ctx); err != nil {
		return state{}, err
	}
	return s.measure(ctx)
}

// hold lets it run, and takes profiles of it where they are wanted.
func (e endToEnd) hold(ctx context.Context, b *bench, s *service) {
	until := time.Now().Add(b.size.steady)
	if b.flags.profiles != "" {
		e.saveProfiles(ctx, b, s)
	}
	select {
	case <-time.After(time.Until(until)):
	case <-ctx.Done():
	}
}

// saveProfiles profiles the node and, at the same time, this program: callers, watcher and chain.
func (e endToEnd) saveProfiles(ctx context.Context, b *bench, s *service) {
	base := filepath.Join(b.flags.profiles, "end-"+e.name())
	own, err := profileSelf(base + ".load.cpu.pb.gz")
	if err != nil {
		b.progress("no profile: %v", err)
	}
	seconds := max(1, int(b.size.steady.Seconds())-1)
	for _, p := range []struct{ query, kind string }{
		{fmt.Sprintf("profile?seconds=%d", seconds), "cpu"}, {"block", "block"}, {"mutex", "mutex"},
		{"heap", "heap"}, {"allocs", "allocs"},
	} {
		if err := s.nodes[0].saveProfile(ctx, p.query, base+"."+p.kind+".pb.gz"); err != nil {
			b.progress("no profile: %v", err)
		}
	}
	if err := own(); err != nil {
		b.progress("no profile: %v", err)
	}
}

func (e endToEnd) report(b *bench, seen seen, before, after state) {
	name, took := "end."+e.name()+".", after.at.Sub(before.at)
	included := float64(seen.count[pb.TxEventKind_TX_EVENT_KIND_INCLUDED])
	b.add(name+"rate", "txs/s", included/took.Seconds())
	if blocks := float64(after.blocks - before.blocks); blocks > 0 && !e.lockstep {
		b.add(name+"ofchain", "ratio", included/blocks/float64(e.submitters*e.atOnce()))
	}
	if e.inFlight == 0 && !e.lockstep {
		b.add(name+"interval", "ms", millis(took)*float64(e.submitters)/included)
	}
	for kind, word := range map[pb.TxEventKind]string{
		pb.TxEventKind_TX_EVENT_KIND_SUBMITTED: "tracking",
		pb.TxEventKind_TX_EVENT_KIND_CONFIRMED: "confirmed",
	} {
		b.add(name+word+".p50", "ms", millis(seen.since[kind].At(0.5)))
		b.add(name+word+".p99", "ms", millis(seen.since[kind].At(0.99)))
	}
	w := after.work.since(before.work)
	b.add(name+"commits", "1/tx", w.commits/included)
	b.add(name+"statements", "1/tx", w.statements/included)
	b.add(name+"wal", "bytes/tx", w.walBytes/included)
	if !e.embedded {
		a := after.asked.since(before.asked)
		b.add(name+"rpc", "calls/tx", a.calls/included)
		b.add(name+"http", "requests/tx", a.requests/included)
		b.progress("  a transaction takes calls: %s", shares(a.by, included))
		b.progress("  statements: %s", shares(w.by, included))
		b.progress("  microseconds in them: %s", shares(w.spent, included))
		b.progress("  updates of rows: %s", shares(w.updates, included))
	}
	b.add(name+"cpu.node", "us/tx", micros(after.node.cpu-before.node.cpu)/included)
	b.add(name+"cpu.postgres", "us/tx", micros(after.postgres-before.postgres)/included)
	b.add(name+"cpu.load", "us/tx", micros(after.own-before.own)/included)
	b.add(name+"allocations", "1/tx", (after.node.Mallocs-before.node.Mallocs)/included)
	b.add(name+"allocated", "bytes/tx", (after.node.Bytes-before.node.Bytes)/included)
	b.add(name+"memory", "MB", after.node.rss/(1<<20))
}

// seen counts the events of a watcher over a while.
type seen struct {
	count map[pb.TxEventKind]int
	since map[pb.TxEventKind]load.Latencies // from the acceptance of the transaction
	delay load.Latencies                    // from the event's statement to the watcher
}

// flow creates transactions as others come into blocks.
type flow struct {
	s        *service
	jobs     chan string
	payloads map[string]*pb.Payload // by submitter; never changed
	atOnce   int                    // transactions of a submitter that a block can have

	mu       sync.Mutex
	seen     seen
	accepted map[string]time.Time
	final    int
	started  map[string]bool // submitters of which a transaction is final
	left     int             // transactions that are still created; below 0: no end
}

func newFlow(s *service) *flow {
	f := &flow{
		s: s, jobs: make(chan string, (window+1)*len(s.submitters)),
		payloads: map[string]*pb.Payload{}, accepted: map[string]time.Time{},
		started: map[string]bool{}, left: -1, atOnce: 1,
	}
	for i, name := range s.submitters {
		f.payloads[name] = transferOf(i)
	}
	f.reset()
	return f
}

// reset returns the counts since the last reset.
func (f *flow) reset() seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.seen
	f.seen = seen{count: map[pb.TxEventKind]int{}, since: map[pb.TxEventKind]load.Latencies{}}
	return was
}

// start begins to watch and to create; stop ends both.
func (f *flow) start(ctx context.Context) (stop func() error, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	begun := make(chan struct{})
	n := f.s.nodes[len(f.s.nodes)-1]
	wg.Go(func() {
		if err := load.Watch(
			ctx, n.conns[0], load.All(), func() { close(begun) }, f.saw,
		); err != nil {
			cancel(err)
		}
	})
	select {
	case <-begun:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for i := range endCallers {
		client := pb.NewTxServiceClient(n.conns[i%len(n.conns)])
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case name := <-f.jobs:
					_, err := client.CreateTx(
						ctx,
						&pb.CreateTxRequest{
							Submitter: name,
							RequestId: fmt.Sprintf("flow-%d-%d", i, n),
							Payload:   f.payloads[name],
						},
					)
					if err != nil {
						cancel(err)
					}
				}
			}
		})
	}
	f.fill()
	return func() error {
		failed := context.Cause(ctx)
		cancel(nil)
		wg.Wait()
		return failed
	}, nil
}

// fill creates as many transactions as are under way at a time.
func (f *flow) fill() {
	for range window * f.atOnce {
		for _, name := range f.s.submitters {
			f.jobs <- name
		}
	}
}

// more starts again, with left further transactions created as others are included.
func (f *flow) more(left int) {
	f.mu.Lock()
	f.left = left
	f.mu.Unlock()
	f.fill()
}

// saw takes an event down, and has the next transaction created when one is in a block.
func (f *flow) saw(e load.Seen) {
	f.mu.Lock()
	at := e.GetTime().AsTime()
	switch e.GetKind() {
	case pb.TxEventKind_TX_EVENT_KIND_QUEUED:
		f.accepted[e.GetTxId()] = at
	case pb.TxEventKind_TX_EVENT_KIND_FAILED, pb.TxEventKind_TX_EVENT_KIND_CONFIRMED:
		f.final++
		f.started[e.GetSubmitter()] = true
	}
	f.seen.count[e.GetKind()]++
	f.seen.delay = append(f.seen.delay, e.Delay())
	if began, known := f.accepted[e.GetTxId()]; known {
		f.seen.since[e.GetKind()] = append(f.seen.since[e.GetKind()], at.Sub(began))
	}
	if e.GetKind() == pb.TxEventKind_TX_EVENT_KIND_CONFIRMED {
		delete(f.accepted, e.GetTxId())
	}
	more := e.GetKind() == pb.TxEventKind_TX_EVENT_KIND_INCLUDED && f.left != 0
	if more {
		f.left--
	}
	f.mu.Unlock()
	if more {
		f.jobs <- e.GetSubmitter()
	}
}

// warmUp waits until transactions of all submitters are in every stage of their life cycle, and the
// owners have finished their start-up work.
func (f *flow) warmUp(ctx context.Context, e endToEnd) error {
	return f.wait(ctx, "submitters have a transaction that is final", e.submitters,
		func() int { return len(f.started) })
}

const (
	finalLimit = 3 * time.Minute
	finalPoll  = 20 * time.Millisecond
)

func (f *flow) waitForFinal(ctx context.Context, count int) error {
	return f.wait(ctx, "transactions are final", count, func() int { return f.final })
}

func (f *flow) wait(ctx context.Context, what string, want int, have func() int) error {
	deadline := time.Now().Add(finalLimit)
	for {
		f.mu.Lock()
		now := have()
		f.mu.Unlock()
		if now >= want {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s only %d of %d %s", finalLimit, now, want, what)
		}
		select {
		case <-time.After(finalPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fencepost/fencepost/cmd/load"
)

var acceptCallers = []int{1, 16, 64}

// accept measures CreateTx and BatchCreateTx. The engine is at work beside it, at the pace of slow
// blocks, so that queues grow as they do when more comes than the chain takes.
func accept(ctx context.Context, b *bench) (err error) {
	s, err := newService(ctx, b, serviceOptions{submitters: 64, period: time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, callers := range acceptCallers {
		plan := load.Plan{
			Submitters: s.submitters,
			Callers:    callers,
			Duration:   b.size.spell / 5,
			Payload:    transfer(),
			Prefix:     fmt.Sprintf("warm-%d", callers),
		}
		if _, err := load.Create(ctx, s.nodes[0].conns, plan); err != nil {
			return err
		}
		before, err := s.measure(ctx)
		if err != nil {
			return err
		}
		plan.Prefix, plan.Duration = fmt.Sprintf("accept-%d", callers), b.size.spell
		done, err := load.Create(ctx, s.nodes[0].conns, plan)
		if err != nil {
			return err
		}
		after, err := s.measure(ctx)
		if err != nil {
			return err
		}
		name, each := fmt.Sprintf("accept.%d.", callers), float64(done.Count)
		b.add(name+"rate", "txs/s", done.Rate())
		b.add(name+"p50", "ms", millis(done.Latency.At(0.5)))
		b.add(name+"p99", "ms", millis(done.Latency.At(0.99)))
		d := after.work.since(before.work)
		b.add(name+"statements", "1/tx", d.by["InsertTxs"]/each)
		b.add(name+"cpu.node", "us/tx", micros(after.node.cpu-before.node.cpu)/each)
		b.add(name+"allocations", "1/tx", (after.node.Mallocs-before.node.Mallocs)/each)
		if callers == 64 {
			b.add(name+"wal", "bytes/tx", d.walBytes/each)
		}
	}
	return nil
}

// acceptBatches measures BatchCreateTx at as many callers as the raw batches have connections,
// beside the same engine.
func acceptBatches(ctx context.Context, b *bench) (err error) {
	s, err := newService(ctx, b, serviceOptions{submitters: 64, period: time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	plan := load.Plan{
		Submitters: s.submitters,
		Callers:    1,
		Batch:      batchSize,
		Duration:   b.size.spell / 5,
		Payload:    transfer(),
		Prefix:     "warm",
	}
	if _, err := load.Create(ctx, s.nodes[0].conns, plan); err != nil {
		return err
	}
	best := 0.0
	for _, callers := range batchCallers {
		before, err := s.measure(ctx)
		if err != nil {
			return err
		}
		plan.Callers = callers
		plan.Duration = b.size.spell
		plan.Prefix = fmt.Sprintf("batch-%d",
			callers)
		profiled := b.profile(ctx, s.nodes[0], fmt.Sprintf("accept-batch-%d", callers),
			b.size.spell)
		done, err := load.Create(ctx, s.nodes[0].conns, plan)
		if err := errors.Join(err, profiled()); err != nil {
			return err
		}
		after, err := s.measure(ctx)
		if err != nil {
			return err
		}
		name, each := fmt.Sprintf("accept.batch.%d.", callers), float64(done.Count)
		best = max(best, done.Rate())
		b.add(name+"rate", "txs/s", done.Rate())
		b.add(name+"p50", "ms", millis(done.Latency.At(0.5)))
		b.add(name+"p99", "ms", millis(done.Latency.At(0.99)))
		b.add(name+"statements", "1/tx", after.work.since(before.work).by["InsertTxs"]/each)
		b.add(name+"cpu.node", "us/tx", micros(after.node.cpu-before.node.cpu)/each)
		b.add(name+"cpu.postgres", "us/tx", micros(after.postgres-before.postgres)/each)
		b.add(name+"cpu.load", "us/tx", micros(after.own-before.own)/each)
		b.add(name+"allocations", "1/tx", (after.node.Mallocs-before.node.Mallocs)/each)
	}
	b.add("accept.batch.rate", "txs/s", best)
	return nil
}

// profile starts a profile of a node, if profiles are requested, and returns a function that waits
// for it.
func (b *bench) profile(ctx context.Context, n *node, name string,
	d time.Duration) (taken func() error) {
	if b.flags.profiles == "" {
		return func() error { return nil }
	}
	end := make(chan error, 1)
	go func() {
		query := fmt.Sprintf("profile?seconds=%d", max(1, int(d.Seconds())))
		end <- n.saveProfile(ctx, query, filepath.Join(b.flags.profiles, name+".cpu.pb.gz"))
	}()
	return func() error { return <-end }
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }
func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/cmd/load"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
)

// A run ends when all are final, and counts each of them in each step.
func TestBench(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	l.work()
	var report benchReport
	l.unmarshal(
		l.good("bench", "--submitter", "alice", "--to", recipient, "--count", "7", "--callers", "3",
			"--json"),
		&report,
	)
	if report.Accepted != 7 || report.PerSecond <= 0 || report.Call.P99 < report.Call.P50 ||
		len(report.Steps) != 4 ||
		report.NoBlock != 0 ||
		report.NotFinal != 0 {
		t.Errorf("%+v", report)
	}
	for _, s := range report.Steps {
		if s.Count != 7 {
			t.Errorf("%s has %d of 7", s.Event, s.Count)
		}
	}
	const queueing = "the wait in the queue"
	if out := l.good(
		"bench", "--submitter", "alice", "--to", recipient, "--count", "2",
	); !strings.Contains(
		out, queueing) {
		t.Errorf("no note on the queue:\n%s", out)
	}
	if out := l.good(
		"bench", "--submitter", "alice", "--to", recipient, "--count", "1",
	); strings.Contains(
		out, queueing) {
		t.Errorf("a note on the queue of one:\n%s", out)
	}
	l.bad(exitFailed, "SUBMITTER_NOT_FOUND", "bench", "--submitter", "nobody", "--to", recipient,
		"--wait", "50ms")
	l.bad(exitUsage, "--submitter and --to are required", "bench", "--count", "7")
}

// Without an owner the transactions stay queued: the command reports their number and submitter,
// and fails.
func TestBench_NotFinished(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	line := []string{
		"bench",
		"--submitter",
		"alice",
		"--to",
		recipient,
		"--count",
		"7",
		"--wait",
		"50ms",
	}
	out, errs, code := l.start(line...).end()
	l.rows(out, `STEP .*`, `CreateTx +7 \(.*`, `accepted to ALLOCATED +0 +- +-`,
		`accepted to SUBMITTED +0 +- +-`, `accepted to INCLUDED +0 +- +-`,
		`accepted to CONFIRMED +0 +- +-`, `event to watcher +\S+ ms .*`, `times from .*`)
	if code != exitFailed || !strings.HasPrefix(errs, "fencepost: 7 of 7 were not in a block") ||
		!strings.Contains(errs, `"fencepost tx list --submitter alice --state QUEUED"`) {
		t.Errorf("gave %d: %s", code, errs)
	}
	out, errs, code = l.start(append(line, "--json")...).end()
	var report benchReport
	l.unmarshal(out, &report)
	if code != exitFailed || report.NoBlock != 7 ||
		!strings.Contains(errs, "7 of 7 were not in a block") {
		t.Errorf("gave %d, %+v: %s", code, report, errs)
	}
}

// TestBench_Verdict: transactions that are not final are reported, failed ones fail the run, and a
// reorg counts nothing twice.
func TestBench_Verdict(t *testing.T) {
	t.Parallel()
	const (
		included, reorged = pb.TxEventKind_TX_EVENT_KIND_INCLUDED,
			pb.TxEventKind_TX_EVENT_KIND_REORGED
		confirmed, cancelled = pb.TxEventKind_TX_EVENT_KIND_CONFIRMED,
			pb.TxEventKind_TX_EVENT_KIND_CANCELLED
	)
	for name, c := range map[string]struct {
		came         [2][]pb.TxEventKind // of each of two
		note, failed string
		all          bool
	}{
		"both final": {
			came: [2][]pb.TxEventKind{{included, confirmed}, {included, confirmed}}, all: true,
		},
		"one not final": {
			came: [2][]pb.TxEventKind{{included, confirmed}, {included}},
			note: "1 of 2 are in a block but were not final after 1m0s",
		},
		"one again": {
			came:   [2][]pb.TxEventKind{{included, reorged, included, confirmed}, {}},
			failed: "1 of 2 were not in a block after 1m0s; they stay queued on s1 and",
		},
		"neither": {
			failed: "2 of 2 were not in a block after 1m0s; they stay queued on s0, s1 and",
		},
		"one cancelled": {
			came:   [2][]pb.TxEventKind{{included, confirmed}, {cancelled}},
			failed: "1 of 2 ended FAILED or CANCELLED",
			all:    true,
		},
	} {
		b, inBlock := newBenchRun(2), 0
		for i, kinds := range c.came {
			id := fmt.Sprint("x", i)
			if slices.Contains(kinds, included) {
				inBlock++
			}
			for n, kind := range kinds {
				if n == 1 { // the first came before the answer
					b.created(&pb.Tx{TxId: id, Submitter: fmt.Sprint("s", i)})
				}
				b.saw(load.Seen{TxEvent: &pb.TxEvent{TxId: id, Kind: kind}})
			}
			if len(kinds) < 2 {
				b.created(&pb.Tx{TxId: id, Submitter: fmt.Sprint("s", i)})
			}
		}
		var errs output
		p := &program{err: &errs}
		err := p.judge(benchFlags{count: 2, wait: time.Minute}, b.left())
		if (err == nil) != (c.failed == "") ||
			err != nil && !strings.HasPrefix(err.Error(), c.failed) ||
			(errs.String() == "") != (c.note == "") ||
			!strings.Contains(errs.String(), c.note) {
			t.Errorf("%s: %v, noted %q", name, err, errs.String())
		}
		ended := false
		select {
		case <-b.all:
			ended = true
		default:
		}
		if ended != c.all || len(b.since[included]) != inBlock {
			t.Errorf("%s: ended %v, %d in a block, want %v, %d", name, ended,
				len(b.since[included]), c.all, inBlock)
		}
	}
}

func TestBench_ReportsProgress(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	fake := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	var out, errs output
	p := &program{
		in:      strings.NewReader(""),
		out:     &out,
		err:     &errs,
		clock:   fake,
		environ: []string{serverVariable + "=" + l.addr},
	}
	code := make(chan int, 1)
	go func() {
		code <- p.run(
			l.ctx, []string{"bench", "--submitter", "alice", "--to", recipient, "--count", "3"},
		)
	}()
	l.eventually("the report", func() bool {
		fake.Advance(benchProgress / 5)
		return strings.Contains(errs.String(),
			"s: 3 of 3 accepted, 3 pending, 0 included, 0 final\n")
	})
	l.eventually("giving up", func() bool {
		fake.Advance(benchProgress)
		return len(code) > 0
	})
	if !strings.Contains(errs.String(), "3 of 3 were not in a block after 5m0s") {
		t.Error(errs.String())
	}
}

// An interrupted run reports the transactions it leaves behind.
func TestBench_Interrupted(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	ctx, interrupt := context.WithCancel(l.ctx)
	defer interrupt()
	fake := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	var out, errs output
	p := &program{
		in:      strings.NewReader(""),
		out:     &out,
		err:     &errs,
		clock:   fake,
		environ: []string{serverVariable + "=" + l.addr},
	}
	code := make(chan int, 1)
	go func() {
		code <- p.run(
			ctx, []string{"bench", "--submitter", "alice", "--to", recipient, "--count", "3"},
		)
	}()
	l.eventually("accepting three", func() bool {
		fake.Advance(benchProgress / 5)
		return strings.Contains(errs.String(), "s: 3 of 3 accepted, 3 pending")
	})
	interrupt()
	const want = "stopped after 3 of 3 were accepted, 3 of them not in a block; they stay queued " +
		"on alice"
	if got := <-code; got == 0 || !strings.Contains(errs.String(), want) {
		t.Errorf("gave %d: %s", got, errs.String())
	}
}

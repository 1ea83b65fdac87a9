package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/cmd/load"
)

// A watcher's delay starts at the commit: PostgreSQL records the time at which it writes the commit
// record (track_commit_timestamp), before it waits for the disk, so the delay includes that wait.
// The statement that writes the event runs before the commit. When a block moves many transactions,
// one statement writes all their events, and the delay from the event's own time includes that
// statement. Both are shown.

// arrival is an event as a watcher got it.
type arrival struct {
	event       eventKey
	written, at time.Time
}

type eventKey struct {
	tx  string
	seq uint64
}

func arrivalOf(e load.Seen) arrival {
	return arrival{eventKey{e.GetTxId(), e.GetSeq()}, e.GetTime().AsTime(), e.At}
}

// commits are when the events of the ledger were committed.
func (l *ledger) commits(ctx context.Context) (map[eventKey]time.Time, error) {
	rows, err := l.conn.Query(ctx,
		"SELECT tx_id::TEXT, seq, pg_xact_commit_timestamp(xid::XID) FROM tx_event -- "+
			"pg_stat_statements: not counted")
	if err != nil {
		return nil, fmt.Errorf("read when events were committed: %w", err)
	}
	all := map[eventKey]time.Time{}
	var one eventKey
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&one.tx, &one.seq, &at}, func() error {
		all[one] = at
		return nil
	})
	return all, err
}

// addDelays adds the delays of events, and reports the parts of the longest one.
func (w watch) addDelays(ctx context.Context, b *bench, s *service, came []arrival) error {
	commits, err := s.ledger.commits(ctx)
	if err != nil {
		return err
	}
	var sinceCommit, sinceWritten load.Latencies
	var latest arrival
	for _, a := range came {
		if committed, known := commits[a.event]; known {
			sinceCommit = append(sinceCommit, a.at.Sub(committed))
		}
		sinceWritten = append(sinceWritten, a.at.Sub(a.written))
		if a.at.Sub(a.written) > latest.at.Sub(latest.written) {
			latest = a
		}
	}
	name := w.name() + "."
	for _, part := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"max", 1}} {
		b.add(name+part.name, "ms", millis(sinceCommit.At(part.at)))
	}
	b.add(name+"written.p50", "ms", millis(sinceWritten.At(0.5)))
	b.add(name+"written.p99", "ms", millis(sinceWritten.At(0.99)))
	if len(came) > 0 {
		committed := commits[latest.event]
		b.progress("  the latest event was written at %s, committed %s later, and came %s "+
			"after that",
			latest.written.Format("15:04:05.000"),
			committed.Sub(latest.written).Round(time.Millisecond),
			latest.at.Sub(committed).Round(time.Millisecond))
	}
	return nil
}

// probe looks meanwhile how long the machine itself makes one wait: for the disk, and for the
// processor, which the measuring process needs too.
type probe struct {
	end  chan struct{}
	done sync.WaitGroup

	disk, wake load.Latencies
	stalls     []span // of the disk
	fault      error
}

// span is a time.
type span struct{ began, ended time.Time }

func (s span) took() time.Duration { return s.ended.Sub(s.began) }

// beyond returns how long a span took outside of others, which do not overlap.
func (s span) beyond(others []span) time.Duration {
	took := s.took()
	for _, o := range others {
		if o.began.Before(s.began) {
			o.began = s.began
		}
		if o.ended.After(s.ended) {
			o.ended = s.ended
		}
		took -= max(0, o.took())
	}
	return took
}

const (
	diskProbe = 50 * time.Millisecond
	// stallProbe is the time between writes if stalls are measured: a commit waits for one that
	// begins at any moment.
	stallProbe = 5 * time.Millisecond
	wakeProbe  = 5 * time.Millisecond
	// diskStall is from when on a write counts as a stall of the disk.
	diskStall = 20 * time.Millisecond
)

// startProbe begins to look, at the disk of dir after each pause.
func startProbe(dir string, pause time.Duration) *probe {
	p := &probe{end: make(chan struct{})}
	p.done.Go(func() { p.fault = p.sync(filepath.Join(dir, "probe"), pause) })
	p.done.Go(p.sleep)
	return p
}

// sync writes a page again and again, as a commit does.
func (p *probe) sync(path string, pause time.Duration) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close(); _ = os.Remove(path) }()
	page := make([]byte, 8<<10)
	for {
		began := time.Now()
		if _, err := f.WriteAt(page, 0); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		wrote := span{began, time.Now()}
		p.disk = append(p.disk, wrote.took())
		if wrote.took() >= diskStall {
			p.stalls = append(p.stalls, wrote)
		}
		select {
		case <-time.After(pause):
		case <-p.end:
			return nil
		}
	}
}

// sleep sees how much later it is woken than it wanted to be.
func (p *probe) sleep() {
	for {
		due := time.Now().Add(wakeProbe)
		select {
		case <-time.After(wakeProbe):
			p.wake = append(p.wake, time.Since(due))
		case <-p.end:
			return
		}
	}
}

// probed runs a function with a probe, and adds the result of the probe if the function succeeds.
func (b *bench) probed(name string, do func() error) error {
	_, err := b.probedEach(diskProbe, name, do)
	return err
}

// probedStalls is probed, and returns when the disk stalled.
func (b *bench) probedStalls(name string, do func() error) ([]span, error) {
	return b.probedEach(stallProbe, name, do)
}

func (b *bench) probedEach(pause time.Duration, name string, do func() error) ([]span, error) {
	p := startProbe(b.db.dir, pause)
	err := do()
	close(p.end)
	p.done.Wait()
	if err == nil {
		p.add(b, name)
	}
	return p.stalls, err
}

// add adds the result of a probe that has ended.
func (p *probe) add(b *bench, name string) {
	if p.fault != nil {
		b.progress("  cannot probe the disk: %v", p.fault)
	}
	b.add(name+"machine.disk.p99", "ms", millis(p.disk.At(0.99)))
	b.add(name+"machine.disk.max", "ms", millis(p.disk.At(1)))
	b.add(name+"machine.wake.p99", "ms", millis(p.wake.At(0.99)))
	b.add(name+"machine.wake.max", "ms", millis(p.wake.At(1)))
}

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// progress counts how far the calls of this run are.
type progress struct {
	calls int
	start time.Time
	live  bool // a terminal, on which a line can be written over
	shown time.Duration

	mu   sync.Mutex
	ours map[string]bool
	// newest event by tx_id, ours or not: an event may come before the answer to CreateTx
	states map[string]*fencepostv1.TxEvent
}

func newProgress(calls int) *progress {
	return &progress{
		calls: calls, start: time.Now(), live: term.IsTerminal(int(os.Stdout.Fd())),
		ours: map[string]bool{}, states: map[string]*fencepostv1.TxEvent{},
	}
}

func (p *progress) accept(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ours[id] = true
}

// until shows progress until all calls are final.
func (p *progress) until(ctx context.Context, events <-chan *fencepostv1.TxEvent,
	failed <-chan error) (map[string]int, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case err := <-failed:
			return nil, err
		case e := <-events:
			p.mu.Lock()
			p.states[e.GetTxId()] = e
			p.mu.Unlock()
		case <-tick.C:
		}
		if done, counts := p.show(); done {
			return counts, nil
		}
	}
}

// show prints the progress and reports whether all calls are final, and the confirmed calls of each
// account.
func (p *progress) show() (bool, map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sent, included, final int
	confirmed := map[string]int{}
	for id := range p.ours {
		switch e := p.states[id]; e.GetState() {
		case fencepostv1.TxState_TX_STATE_TRACKING:
			sent++
			if e.GetSubState() == fencepostv1.TxSubState_TX_SUB_STATE_INCLUDED {
				included++
			}
		case fencepostv1.TxState_TX_STATE_CONFIRMED:
			final++
			confirmed[e.GetSubmitter()]++
		case fencepostv1.TxState_TX_STATE_FAILED_FINAL, fencepostv1.TxState_TX_STATE_CANCELLED:
			final++
		}
	}
	line := fmt.Sprintf("[%s] %d/%d accepted, %d sent, %d in a block, %d final, %s",
		bar(final, p.calls), len(p.ours), p.calls, sent+final, included+final, final,
		time.Since(p.start).Round(time.Second))
	done := final == p.calls
	p.print(line, done)
	return done, confirmed
}

func (p *progress) print(line string, done bool) {
	switch {
	case p.live && done:
		fmt.Printf("\r\x1b[K%s\n", line)
	case p.live:
		fmt.Printf("\r\x1b[K%s", line)
	case done || p.everyTenSeconds():
		fmt.Println(line)
	}
}

// everyTenSeconds is for output that is not a terminal.
func (p *progress) everyTenSeconds() bool {
	due := time.Since(p.start).Truncate(10 * time.Second)
	if due <= p.shown {
		return false
	}
	p.shown = due
	return true
}

func bar(done, all int) string {
	const width = 24
	full := done * width / all
	return strings.Repeat("#", full) + strings.Repeat(".", width-full)
}

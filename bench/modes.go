package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/cmd/load"
	"github.com/fencepost/fencepost/engine"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

const (
	modesSubmitters = 100
	modesNodes      = 3
	modesRounds     = 5
)

// modes compares lease.mode basic and worker-queue: nodes acquire accounts that had no owner, all
// of them again in each round. It reports how long a transaction waits for its nonce, and how many
// acquisitions failed because another node was first.
func modes(ctx context.Context, b *bench) error {
	for _, mode := range []engine.Mode{engine.Basic, engine.WorkerQueue} {
		if err := oneMode(ctx, b, mode); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
	}
	return nil
}

func oneMode(ctx context.Context, b *bench, mode engine.Mode) (err error) {
	s, err := newService(ctx, b, serviceOptions{
		submitters: modesSubmitters, period: 250 * time.Millisecond, lease: b.size.lease,
		mode: mode, idleAfter: time.Millisecond,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for len(s.nodes) < modesNodes {
		if err := s.addNode(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	w := &waits{queued: map[string]time.Time{}, final: make(chan struct{}, modesSubmitters)}
	begun := make(chan struct{})
	watched := make(chan error, 1)
	go func() {
		watched <- load.Watch(ctx, s.nodes[0].conns[0], load.All(), func() { close(begun) }, w.saw)
	}()
	select {
	case <-begun:
	case err := <-watched:
		return errors.Join(err, ctx.Err())
	}
	for round := range modesRounds {
		n := s.nodes[round%modesNodes]
		if _, err := load.Create(ctx, n.conns, load.Plan{
			Submitters: s.submitters, Callers: 16, Count: modesSubmitters, Payload: transfer(),
			Prefix: fmt.Sprintf("modes-%d", round),
		}); err != nil {
			return err
		}
		for range modesSubmitters {
			select {
			case <-w.final:
			case <-ctx.Done():
				return errors.New("not every transaction became final")
			}
		}
	}
	failed := 0.0
	for _, n := range s.nodes {
		one, err := n.count(ctx, "fencepost_lease_acquire_total", `result="not_owner"`)
		if err != nil {
			return err
		}
		failed += one
	}
	w.report(b, "modes."+string(mode))
	b.add("modes."+string(mode)+".failed", "", failed/modesRounds/modesSubmitters)
	return nil
}

// waits are the times from acceptance to the nonce.
type waits struct {
	mu     sync.Mutex
	queued map[string]time.Time // by tx id
	took   load.Latencies
	final  chan struct{}
}

func (w *waits) saw(e load.Seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := e.GetTime().AsTime()
	switch e.GetKind() {
	case pb.TxEventKind_TX_EVENT_KIND_QUEUED:
		w.queued[e.GetTxId()] = at
	case pb.TxEventKind_TX_EVENT_KIND_ALLOCATED:
		w.took = append(w.took, at.Sub(w.queued[e.GetTxId()]))
	case pb.TxEventKind_TX_EVENT_KIND_CONFIRMED:
		w.final <- struct{}{}
	}
}

func (w *waits) report(b *bench, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.add(name+".p50", "ms", millis(w.took.At(0.5)))
	b.add(name+".p99", "ms", millis(w.took.At(0.99)))
}

// count returns the sum of a metric's series with this label.
func (n *node) count(ctx context.Context, metric, label string) (sum float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+n.ready.Debug+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		series, value, _ := strings.Cut(lines.Text(), "} ")
		if !strings.HasPrefix(series, metric+"{") || !strings.Contains(series, label) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", metric, err)
		}
		sum += number
	}
	return sum, nil
}

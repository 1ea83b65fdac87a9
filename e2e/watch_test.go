package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// watcher keeps one WatchTx stream of everything open, resuming with its last token whenever it
// breaks.
type watcher struct {
	mu   sync.Mutex
	seqs map[string][]uint64 // by tx_id, in the order of arrival
}

func (n *node) watchAll(t *testing.T) *watcher {
	t.Helper()
	return watchAll(t, func() *node { return n })
}

// watchAll watches on whichever node is chosen each time that a stream breaks.
func watchAll(t *testing.T, choose func() *node) *watcher {
	t.Helper()
	w := &watcher{seqs: map[string][]uint64{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	ready := make(chan struct{}, 1)
	go func() {
		defer close(done)
		token := ""
		for ctx.Err() == nil {
			token = w.follow(ctx, choose(), token, ready)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	<-ready
	return w
}

// follow reads one stream until it breaks and returns the last token.
func (w *watcher) follow(ctx context.Context, n *node, token string, ready chan<- struct{}) string {
	stream, err := n.WatchTx(
		ctx,
		&fencepostv1.WatchTxRequest{
			Target:      &fencepostv1.WatchTxRequest_All{All: &fencepostv1.AllTxs{}},
			ResumeToken: token,
		},
	)
	if err != nil {
		return token
	}
	if _, err := stream.Header(); err == nil {
		select {
		case ready <- struct{}{}:
		default:
		}
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			<-time.After(50 * time.Millisecond) // the node may be down: ask at a human pace
			return token
		}
		if m.GetResumeToken() != "" {
			token = m.GetResumeToken()
		}
		if e := m.GetEvent(); e != nil {
			w.mu.Lock()
			w.seqs[e.GetTxId()] = append(w.seqs[e.GetTxId()], e.GetSeq())
			w.mu.Unlock()
		}
	}
}

// lacks describes the missing events of transactions with these versions; nil if there are none.
// The caller holds the lock.
func (w *watcher) lacks(versions map[string]uint64) error {
	const most = 5
	missing, all := 0, ""
	for id, version := range versions {
		if seen := w.seqs[id]; len(seen) < int(version) {
			if missing++; missing <= most {
				all += fmt.Sprintf("; %d of %s, which has %d", seen, id, version)
			}
		}
	}
	if missing == 0 {
		return nil
	}
	return fmt.Errorf("events of %d transactions are missing: it saw only %s", missing, all[2:])
}

// verify waits until the watcher has every event of these transactions, and checks that it got each
// once and in order.
func (w *watcher) verify(t *testing.T, n *node, ids []string) {
	t.Helper()
	versions := map[string]uint64{}
	for _, id := range ids {
		answer, err := n.GetTx(t.Context(),
			&fencepostv1.GetTxRequest{Key: &fencepostv1.GetTxRequest_TxId{TxId: id}})
		if err != nil {
			t.Fatal(err)
		}
		versions[id] = answer.GetTx().GetVersion()
	}
	eventually(t, 30*time.Second, "the watcher has every event", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.lacks(versions)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, version := range versions {
		for i, seq := range w.seqs[id] {
			if seq != uint64(i+1) {
				t.Fatalf("watcher saw events %v of %s, which has %d", w.seqs[id], id, version)
			}
		}
	}
}

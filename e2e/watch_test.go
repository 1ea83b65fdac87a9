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
// breaks. If the token has expired, it starts over with snapshots.
type watcher struct {
	mu        sync.Mutex
	seqs      map[string][]uint64 // by tx_id, in the order of arrival, after its snapshot if any
	snapshots map[string]uint64   // versions
	restarts  int                 // without a token
	restarted time.Time
}

func (n *node) watchAll(t *testing.T) *watcher {
	t.Helper()
	return watchAll(t, func() *node { return n })
}

// watchAll watches on whichever node is chosen each time that a stream breaks.
func watchAll(t *testing.T, choose func() *node) *watcher {
	t.Helper()
	w := &watcher{seqs: map[string][]uint64{}, snapshots: map[string]uint64{}}
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
		if reasonOf(err) == "RESUME_TOKEN_EXPIRED" {
			w.restart()
			return ""
		}
		if err != nil {
			<-time.After(50 * time.Millisecond) // the node may be down: ask at a human pace
			return token
		}
		if m.GetResumeToken() != "" {
			token = m.GetResumeToken()
		}
		w.receive(m)
	}
}

func (w *watcher) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restarts++
	w.restarted = time.Time{} // until the new stream has begun
	clear(w.seqs)
	clear(w.snapshots)
}

func (w *watcher) receive(m *fencepostv1.WatchTxResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.restarted.IsZero() {
		w.restarted = time.Now()
	}
	// The newest events may be both in a snapshot and after it.
	if e := m.GetEvent(); e != nil && e.GetSeq() > w.snapshots[e.GetTxId()] {
		w.seqs[e.GetTxId()] = append(w.seqs[e.GetTxId()], e.GetSeq())
	}
	if tx := m.GetSnapshot(); tx != nil {
		delete(w.seqs, tx.GetTxId())
		w.snapshots[tx.GetTxId()] = tx.GetVersion()
	}
}

// lacks describes the missing events of transactions with these versions; nil if there are none.
// The caller holds the lock.
func (w *watcher) lacks(versions map[string]uint64) error {
	const most = 5
	missing, all := 0, ""
	for id, version := range versions {
		if seen := w.seqs[id]; len(seen) < int(version)-int(w.snapshots[id]) {
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
// once and in order. It missed transactions that became final before it started over.
func (w *watcher) verify(t *testing.T, n *node, ids []string) {
	t.Helper()
	versions := map[string]uint64{}
	w.mu.Lock()
	restarts, restarted := w.restarts, w.restarted
	w.mu.Unlock()
	for _, id := range ids {
		answer, err := n.GetTx(t.Context(),
			&fencepostv1.GetTxRequest{Key: &fencepostv1.GetTxRequest_TxId{TxId: id}})
		if err != nil {
			t.Fatal(err)
		}
		tx := answer.GetTx()
		if restarts == 0 || tx.GetFinalTime().AsTime().After(restarted) {
			versions[id] = tx.GetVersion()
		}
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
			if seq != w.snapshots[id]+uint64(i+1) {
				t.Fatalf("watcher saw events %v of %s, which has %d, after a snapshot of %d",
					w.seqs[id], id, version, w.snapshots[id])
			}
		}
	}
}

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/internal/pgembed"
	"github.com/fencepost/fencepost/store"
)

// severalLedgers are ledgers on servers of their own, and nodes that serve them as one. The
// submitters 2i and 2i+1 are in ledger i.
type severalLedgers struct {
	names   []string
	servers []*pgembed.Server
	proxies []*pgproxy.Proxy // between all nodes and a server
	nodes   []*node
}

func newSeveralLedgers(t *testing.T, c *testChain, nodes int, names ...string) *severalLedgers {
	t.Helper()
	s := &severalLedgers{names: names}
	keys := filepath.Join(t.TempDir(), "keys")
	saveKeys(t, keys, c)
	ledgers := "database: {statement_timeout: 500ms}\nledgers:\n"
	for _, name := range names {
		server, err := pgembed.Start(t.Context(), pgembed.Options{Settings: pgembed.Disposable()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Stop(context.Background()) })
		if _, err := store.Migrate(t.Context(), server.URL("postgres"), ""); err != nil {
			t.Fatal(err)
		}
		proxy, err := pgproxy.Start(server.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		s.servers, s.proxies = append(s.servers, server), append(s.proxies, proxy)
		ledgers += fmt.Sprintf("  - {name: %s, url: %q}\n", name, proxy.URL())
	}
	ledgers += fmt.Sprintf("directory: {url: %q}\n", s.proxies[0].URL())
	for i := range nodes {
		n := prepareNode(t, c, nodeOptions{name: string(rune('a' + i)), keys: keys,
			pipelined: func(int) int { return 16 }, confirmations: 2,
			poll: 100 * time.Millisecond}, s.servers[0].URL("postgres"))
		n.edit(t, fmt.Sprintf("database: {url: %q, statement_timeout: 500ms}\n", n.url), ledgers)
		for j, submitter := range n.names {
			n.edit(t, "{name: "+submitter+",",
				fmt.Sprintf("{name: %s, ledger: %s,", submitter, names[j/2]))
		}
		s.nodes = append(s.nodes, n)
	}
	for _, name := range names {
		join := exec.Command(program, "ledger", "join", name, "--config", s.nodes[0].config)
		if text, err := join.CombinedOutput(); err != nil {
			t.Fatalf("join %s: %v: %s", name, err, text)
		}
	}
	var wg sync.WaitGroup
	for _, n := range s.nodes {
		wg.Go(func() { n.start(t) })
	}
	wg.Wait()
	return s
}

// load creates transactions of a submitter one after another, until it is stopped.
type load struct {
	done chan struct{}
	mu   sync.Mutex
	ids  []string
}

func (l *load) accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ids)
}

// latest is the last transaction that was accepted.
func (l *load) latest() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return []string{l.ids[len(l.ids)-1]}
}

// more waits until this many more transactions were accepted.
func (l *load) more(t *testing.T, what string, n int) {
	t.Helper()
	want := l.accepted() + n
	eventually(t, 2*time.Minute, what, func() error {
		if l.accepted() < want {
			return errNotYet
		}
		return nil
	})
}

func (s *severalLedgers) create(ctx context.Context, n *node, submitter int,
	request string) (*fencepostv1.Tx, error) {
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	answer, err := n.CreateTx(limited, &fencepostv1.CreateTxRequest{
		Submitter: fmt.Sprintf("s%02d", submitter), RequestId: request,
		Payload: &fencepostv1.Payload{To: "0x00000000000000000000000000000000000000bb",
			Value: "1", GasLimit: 21000},
	})
	return answer.GetTx(), err
}

// run runs the load of a submitter, on all nodes in turn.
func (s *severalLedgers) run(ctx context.Context, t *testing.T, submitter int) *load {
	t.Helper()
	l := &load{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(func() { cancel(); <-l.done })
	go func() {
		defer close(l.done)
		for i := 0; ctx.Err() == nil; i++ {
			tx, err := s.create(ctx, s.nodes[i%len(s.nodes)], submitter,
				fmt.Sprint("r", l.accepted()))
			switch code := status.Code(err); {
			case err == nil:
				l.mu.Lock()
				l.ids = append(l.ids, tx.GetTxId())
				l.mu.Unlock()
			case code != codes.Unavailable && code != codes.DeadlineExceeded &&
				code != codes.ResourceExhausted && ctx.Err() == nil:
				t.Errorf("submitter %d: %v", submitter, err)
				return
			}
			select {
			case <-time.After(200 * time.Millisecond): // slower than the chain
			case <-ctx.Done():
			}
		}
	}()
	return l
}

// TestLedgers_ChaosOnOne_OthersServed: while the server of one ledger is killed or does not
// respond, transactions of the other ledgers are accepted and become final on all nodes. In the
// end all are final, each was executed once, and a watch of all has every event.
func TestLedgers_ChaosOnOne_OthersServed(t *testing.T) {
	t.Parallel()
	c := embedded(t, 250*time.Millisecond, 6)
	s := newSeveralLedgers(t, c, 3, "eu1", "eu2", "us1")
	turn := 0
	w := watchAll(t, func() *node { turn++; return s.nodes[turn%len(s.nodes)] })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	loads := make([]*load, len(c.keys))
	for i := range loads {
		loads[i] = s.run(ctx, t, i)
	}
	for i, l := range loads {
		l.more(t, fmt.Sprintf("submitter %d begins", i), 3)
	}
	others := func(what string, down int) {
		t.Helper()
		for i, l := range loads {
			if i/2 == down {
				continue
			}
			l.more(t, fmt.Sprintf("submitter %d while %s", i, what), 5)
			s.final(t, l.latest())
		}
	}
	if err := s.servers[1].Kill(); err != nil {
		t.Fatal(err)
	}
	s.missing(t, "eu2")
	others("a server is killed", 1)
	if _, err := s.create(ctx, s.nodes[0], 2, "during"); status.Code(err) != codes.Unavailable {
		t.Errorf("a call for the ledger that is down: %v", err)
	}
	s.nodes[2].proc.kill() // a node also starts without the ledger
	s.nodes[2].start(t)
	others("a node has started without it", 1)
	if err := s.servers[1].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.missing(t)
	loads[2].more(t, "the server is back", 3)

	s.proxies[2].BlackHole()
	s.missing(t, "us1")
	others("a server does not respond", 2)
	s.proxies[2].Heal()
	s.missing(t)
	for i, l := range loads {
		l.more(t, fmt.Sprintf("submitter %d at the end", i), 3)
	}
	stop()
	var all []string
	for i, l := range loads {
		<-l.done
		ids := l.ids
		// The last call may have been cut, and accepted.
		last, err := s.create(t.Context(), s.nodes[0], i, fmt.Sprint("r", len(ids)))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, last.GetTxId())
		s.final(t, ids)
		if n, err := c.NonceAt(t.Context(), senders(c)[i], nil); err != nil ||
			int(n) != len(ids) {
			t.Errorf("account %d has sent %d transactions, want %d (%v)", i, n, len(ids), err)
		}
		all = append(all, ids...)
	}
	w.verify(t, s.nodes[0], all)
	_, metrics := s.nodes[0].getOps(t, "/metrics")
	for _, name := range s.names {
		if !strings.Contains(metrics, `fencepost_ledger_up{ledger="`+name+`"} 1`) {
			t.Errorf("the metrics lack ledger %s", name)
		}
	}
	for _, n := range s.nodes {
		n.proc.stop(t)
	}
}

// final waits until transactions are CONFIRMED.
func (s *severalLedgers) final(t *testing.T, ids []string) {
	t.Helper()
	for i, id := range ids {
		eventually(t, 2*time.Minute, "transaction "+id+" is final", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			answer, err := s.nodes[i%len(s.nodes)].GetTx(ctx, &fencepostv1.GetTxRequest{
				Key: &fencepostv1.GetTxRequest_TxId{TxId: id}})
			if err == nil && answer.GetTx().GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED {
				err = errNotYet
			}
			return err
		})
	}
}

// missing waits until all nodes miss these ledgers.
func (s *severalLedgers) missing(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range s.nodes {
		eventually(t, 2*time.Minute, fmt.Sprintf("missing: %v", names), func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			answer, err := n.ListTxs(ctx, &fencepostv1.ListTxsRequest{PageSize: 1})
			if err == nil && !slices.Equal(answer.GetMissingLedgers(), names) {
				err = fmt.Errorf("missing: %v", answer.GetMissingLedgers())
			}
			return err
		})
	}
}

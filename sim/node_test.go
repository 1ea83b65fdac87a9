package sim

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// node is one boot of a Fencepost process. A restart creates another node.
type node struct {
	w     *World
	index int
	boot  int
	clock *nodeClock
	store *store.Store // of the first ledger
	// of each ledger, and the ledgers of accounts as the node knows them; homes is under World.mu
	stores []*store.Store
	homes  map[txn.SubmitterID]int
	stop   context.CancelFunc
	done   chan struct{} // the engine has returned
	ended  chan struct{} // and the store is closed

	// Owned by the scheduler; crashed is read under World.mu.
	crashed     bool
	stopping    bool
	frozenUntil time.Duration
	noDatabase  time.Duration // connections are refused until then
	noAnswers   time.Duration // PostgreSQL is silent until then: nothing arrives, nothing fails
	noChain     time.Duration
	noSigner    time.Duration
	lag         uint64
	lagUntil    time.Duration
	links       []*link
	linksMade   int
	// unsettled holds the tokens of commits whose outcome the node does not know; under World.mu.
	unsettled map[txn.SubmitterID]int64
}

// Timing of the simulated cluster.
const (
	leaseDuration = 10 * time.Second
	renewInterval = 3 * time.Second
)

func (n *node) title() string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%c.%d", 'a'+n.index, n.boot)
}

func (n *node) order() int {
	if n == nil {
		return -1
	}
	return n.index<<16 | n.boot
}

// start boots a node.
func (w *World) start(index, boot int) error {
	n := w.process(index, boot, w.plan.Skews[index])
	log := slog.New(&logger{w: w, n: n})
	directory, err := n.openDirectory()
	if err != nil {
		return err
	}
	var engines []*engine.Engine
	for _, db := range w.dbs.ledgers {
		e, err := n.serve(db, directory, log)
		if err != nil {
			return err
		}
		engines = append(engines, e)
	}
	n.store = n.stores[0]
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	w.nodes = append(w.nodes, n)
	sinks, err := n.deliver(ctx, log)
	if err != nil {
		cancel()
		return err
	}
	n.watchFunds(ctx, log, sinks)
	go func() {
		defer close(n.ended)
		var running sync.WaitGroup
		for _, e := range engines {
			running.Go(func() { _ = e.Run(ctx) }) // leases that it could not release expire
		}
		if w.restored {
			running.Go(func() { n.askMoved(ctx) })
		}
		running.Wait()
		sinks.Wait()
		close(n.done)
		for _, s := range n.stores {
			s.Close()
		}
		if directory != nil {
			directory.Close()
		}
	}()
	return nil
}

// process returns a process without anything that runs in it.
func (w *World) process(index, boot int, skew Skew) *node {
	return &node{
		w: w, index: index, boot: boot,
		clock: &nodeClock{w: w, offset: skew.Offset, rate: skew.Rate},
		done:  make(chan struct{}), ended: make(chan struct{}),
		unsettled: map[txn.SubmitterID]int64{}, homes: map[txn.SubmitterID]int{},
	}
}

// open opens a database.
func (n *node) open(db *database, directory *store.Store) (*store.Store, error) {
	return store.Open(context.Background(), store.Config{
		URL: db.url, Node: fmt.Sprintf("%c/%d", 'a'+n.index, n.boot),
		LeaseDuration: leaseDuration, Clock: n.clockFor(db),
		Logger: slog.New(&logger{w: n.w, n: n}), Dial: n.dialer(db), CommitConns: 1 + n.index%2,
		Directory: directory,
	})
}

// openDirectory opens the directory of the ledgers; nil: there is none.
func (n *node) openDirectory() (*store.Store, error) {
	if n.w.dbs.directory == nil {
		return nil, nil
	}
	return n.open(n.w.dbs.directory, nil)
}

func (n *node) clockFor(db *database) clock.Clock { return markedClock{n.clock, db.mark} }

// serve opens a ledger, and returns the engine for it.
func (n *node) serve(db *database, directory *store.Store,
	log *slog.Logger) (*engine.Engine, error) {
	s, err := n.open(db, directory)
	if err != nil {
		return nil, err
	}
	n.stores = append(n.stores, s)
	book, err := sign.NewBook(sign.Entry{Name: "keys", Holder: sign.NewMemory(n.w.keys()...)})
	if err != nil {
		return nil, err
	}
	return engine.New(engine.Options{
		Store: s, Signer: signerPort{n, book, db}, Clock: n.clockFor(db), Logger: log,
		Gate: n.gateOf(db),
		Chains: []engine.ChainOptions{{Chain: chainPort{n, n.w.chain, db},
			Policy: n.w.plan.policy(), PollInterval: time.Second}},
		LeaseDuration: leaseDuration, RenewInterval: renewInterval, SweepInterval: 2 * time.Second,
		PollInterval: 2 * time.Second, IdleAfter: 20 * time.Second, Mode: n.w.plan.Mode,
		AuditInterval: 15 * time.Second, ProgressTimeout: 40 * time.Second, NoListen: true,
		Refuse: n.w.refuse,
	})
}

func (w *World) keys() []*ecdsa.PrivateKey {
	var keys []*ecdsa.PrivateKey
	for i := range w.plan.accounts() {
		keys = append(keys, chaintest.Key(i))
	}
	return keys
}

// current returns the newest boot of a node.
func (w *World) current(index int) *node {
	var newest *node
	for _, n := range w.nodes {
		if n.index == index {
			newest = n
		}
	}
	return newest
}

// alive reports whether a node runs and is not stopping.
func (n *node) alive() bool { return !n.crashed && !n.stopping }

// crash kills a node: its code stops running, but messages it has sent may still arrive.
func (w *World) crash(n *node, restart time.Duration) {
	if n.crashed {
		return
	}
	w.mu.Lock()
	n.crashed = true
	var asking []*item
	kept := w.waiting[:0]
	for _, it := range w.waiting {
		if it.node == n && it.inside {
			asking = append(asking, it)
			continue
		}
		kept = append(kept, it)
	}
	w.waiting = kept
	w.mu.Unlock()
	n.stop()
	for _, it := range asking {
		if it.granted != nil {
			it.granted <- verdict{err: errCrashed}
		}
		w.settle()
	}
	for _, l := range n.links {
		l.sever(false)
		w.settle()
	}
	w.again(n, restart)
}

// quit stops a node as SIGTERM does.
func (w *World) quit(n *node, restart time.Duration) {
	if !n.alive() {
		return
	}
	n.stopping = true
	n.stop()
	w.again(n, restart)
}

// again schedules the next boot of a node that has stopped.
func (w *World) again(n *node, after time.Duration) {
	if n.stopping && n.crashed { // it crashed while stopping: the next boot is scheduled
		return
	}
	if n.index >= w.plan.Nodes {
		return // a command, which its operator repeats
	}
	w.boot(n.index, n.boot+1, after)
}

func (w *World) boot(index, boot int, after time.Duration) {
	w.at(w.now()+after, fmt.Sprintf("boot %c.%d", 'a'+index, boot), func() {
		if w.moving {
			w.boot(index, boot, time.Second)
			return
		}
		if err := w.start(index, boot); err != nil {
			w.violated("sim", "node %d does not start: %v", index, err)
		}
	})
}

// cutAll cuts every connection of a node.
func (w *World) cutAll(n *node, silent bool) {
	for _, l := range n.links {
		l.sever(silent)
		w.settle()
	}
}

// gateOf returns the engine.Gate of a ledger.
func (n *node) gateOf(db *database) engine.Gate {
	return func(ctx context.Context, p engine.Point, id txn.SubmitterID) error {
		it := &item{node: n, kind: "gate", label: string(p) + db.mark, of: id}
		it.run = func() { it.answer(n.w.pass(it, "gate:"+string(p))) }
		return n.w.ask(ctx, it).err
	}
}

// logger keeps the log lines of the nodes for failure reports, and detects defects.
type logger struct {
	w     *World
	n     *node
	attrs []slog.Attr
}

func (l *logger) Enabled(context.Context, slog.Level) bool { return true }

func (l *logger) Handle(_ context.Context, r slog.Record) error {
	line := fmt.Sprintf("%10.4fs %-5s log    %s %s", l.w.now().Seconds(), l.n.title(), r.Level,
		r.Message)
	for _, a := range l.attrs {
		line += " " + a.String()
	}
	defect := false
	r.Attrs(func(a slog.Attr) bool {
		err, _ := a.Value.Any().(error)
		defect = defect || a.Key == "panic" || errors.Is(err, engine.ErrCommitRejected)
		line += " " + a.String()
		return true
	})
	l.w.logged(line, defect)
	return nil
}

func (l *logger) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logger{w: l.w, n: l.n, attrs: append(append([]slog.Attr(nil), l.attrs...), attrs...)}
}

func (l *logger) WithGroup(string) slog.Handler { return l }

// logged keeps a line. The order of lines from concurrent goroutines is random, so the digest
// excludes them.
func (w *World) logged(line string, defect bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs = append(w.logs, logLine{at: len(w.trace), text: line})
	if defect {
		w.defects = append(w.defects, line)
	}
}

type logLine struct {
	at   int // number of trace lines before it
	text string
}

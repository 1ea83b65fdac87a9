package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/txn"
)

// World is the scheduler. Only its goroutine lets anything happen. All others wait for it, for a
// timer of the bubble, or for each other.
type World struct {
	plan  Plan
	began time.Time
	dice  *rand.Rand // draws the next step
	dbs   databases
	db    *database // the first ledger
	chain *chaintest.Chain
	nodes []*node

	mu      sync.Mutex
	arrived []*item       // posted since the last settle
	serial  atomic.Int64  // number of the last item or event
	kick    chan struct{} // something was posted while the scheduler slept

	waiting      []*item
	events       []*event
	triggers     []*trigger
	healed       bool
	steps        int
	trace        []string
	digest       uint64
	broken       []string // violations found so far
	faults       map[string]int
	noBlocks     time.Duration             // no block is mined until then
	staleUntil   time.Duration             // orphaned receipts are served until then; under mu
	receipts     map[txn.Hash]*txn.Receipt // all receipts ever served; under mu
	closing      bool                      // under mu
	lookAgain    time.Duration
	rest         time.Duration
	stuck        []*exchange // exchanges that wait for a lock
	locks        []*rowLock
	ambushes     []ambush
	lapses       []span // spans in which a statement may outlast its lease
	closingSteps int

	submitters []txn.SubmitterID
	homes      map[txn.SubmitterID]int      // where they were registered
	external   map[txn.SubmitterID]bool     // whose key was used elsewhere
	deciding   map[txn.SubmitterID]bool     // an operator's decision is in progress; under mu
	guarded    map[txn.SubmitterID]bool     // protected by an operator
	senders    map[txn.Hash]txn.SubmitterID // by hash of the signed transaction; under mu
	logs       []logLine                    // under mu
	defects    []string                     // under mu
	calls      []*call
	holds      []*hold
	// the reservation that a client first signed for, by nonce
	signers    map[txn.Nonce]*hold
	byClient   map[txn.Hash]bool // signed by a client; under mu
	balances   []balancesRead
	drains     []drain
	pooled     []*pooledCall
	approved   map[int]bool // calls that another caller has approved; under mu
	watchers   []*watcher
	received   deliveries
	noReceiver [2]time.Duration // when the receiver is unavailable
	moving     bool             // no node may boot
	moved      bool
	commands   []*moveCommand
	restored   bool // the ledgers were, to before the moves
}

// item is one possible step: a message in transit, or a goroutine that waits for permission to
// proceed.
type item struct {
	node    *node
	kind    string
	label   string
	of      txn.SubmitterID
	serial  int
	ready   time.Duration
	inside  bool // needs the node's process: held while the node is frozen
	run     func()
	granted chan verdict // set for waiting goroutines
	gone    bool         // withdrawn; under World.mu
	late    bool         // its sender has already seen the connection fail
}

// verdict is the scheduler's reply to a waiting goroutine.
type verdict struct {
	err   error
	fault chaintest.Fault
	again bool // not yet: it is queued again
}

// event is a step that the plan or the simulation has scheduled.
type event struct {
	at     time.Duration
	serial int
	name   string
	run    func()
}

var (
	errCrashed = errors.New("sim: the node has crashed")
	errSwitch  = errors.New("sim: unavailable")
)

var arrivals = os.Getenv("SIM_ARRIVALS") != ""

const (
	maxSteps   = 120_000
	traceTail  = 60
	leastDelay = 50 * time.Microsecond
)

func newWorld(p Plan, dbs databases) *World {
	w := &World{
		plan: p, began: time.Now(), dice: rand.New(rand.NewPCG(p.Seed, 0x5c4ed)),
		dbs: dbs, db: dbs.ledgers[0],
		kick:     make(chan struct{}, 1),
		faults:   map[string]int{},
		homes:    map[txn.SubmitterID]int{},
		external: map[txn.SubmitterID]bool{},
		deciding: map[txn.SubmitterID]bool{},
		guarded:  map[txn.SubmitterID]bool{},
		senders:  map[txn.Hash]txn.SubmitterID{},
		receipts: map[txn.Hash]*txn.Receipt{},
		signers:  map[txn.Nonce]*hold{},
		byClient: map[txn.Hash]bool{}, approved: map[int]bool{},
		received: deliveries{first: map[string]bool{}, last: map[txn.TxID]int64{}},
	}
	w.chain = chaintest.New(chaintest.Options{
		Poll: true, Now: time.Now, StrictNonce: w.plan.GapsFail,
	})
	w.chain.Intercept(func(ctx context.Context, _ chaintest.Call) chaintest.Fault {
		f, _ := ctx.Value(faultKey{}).(chaintest.Fault)
		return f
	})
	return w
}

type faultKey struct{}

// now returns the time since the start of the run.
func (w *World) now() time.Duration { return time.Since(w.began) }

// post passes an item to the scheduler and returns false if its node has crashed.
func (w *World) post(it *item) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if it.node != nil && it.node.crashed {
		return false
	}
	it.serial = int(w.serial.Add(1))
	w.arrived = append(w.arrived, it)
	select {
	case w.kick <- struct{}{}:
	default:
	}
	return true
}

// ask waits until the scheduler lets the goroutine proceed.
func (w *World) ask(ctx context.Context, it *item) verdict {
	it.granted, it.inside = make(chan verdict, 1), true
	if !w.post(it) {
		return verdict{err: errCrashed}
	}
	select {
	case v := <-it.granted:
		return v
	case <-ctx.Done():
		w.mu.Lock()
		it.gone = true
		w.mu.Unlock()
		return verdict{err: ctx.Err()}
	}
}

// at schedules an event.
func (w *World) at(when time.Duration, name string, run func()) {
	w.events = append(w.events,
		&event{at: when, serial: int(w.serial.Add(1)), name: name, run: run})
}

// run lets steps happen until done returns true, or the time or step limit is reached.
func (w *World) run(limit time.Duration, done func() bool) bool {
	for {
		w.settle()
		for w.release() {
			w.settle()
		}
		if done() {
			return true
		}
		if w.steps-w.closingSteps >= maxSteps {
			w.violated("L11", "the cluster has not settled after %d steps", w.steps)
			return false
		}
		if w.now() > limit {
			return false
		}
		if !w.step() {
			w.sleep(limit)
		}
	}
}

// settle waits until every goroutine is blocked, and takes in the items posted meanwhile, in an
// order that does not depend on goroutine scheduling.
func (w *World) settle() {
	for synctest.Wait(); w.bury(); synctest.Wait() {
	}
	select {
	case <-w.kick:
	default:
	}
	w.mu.Lock()
	arrived := w.arrived
	w.arrived = nil
	w.waiting = slices.DeleteFunc(w.waiting, func(it *item) bool { return it.gone })
	w.mu.Unlock()
	slices.SortStableFunc(arrived, compareItems)
	for _, it := range arrived {
		if it.gone {
			continue
		}
		it.ready = w.now() + w.delay(it)
		if arrivals {
			w.write(
				fmt.Sprintf("%10.4fs %-5s   + %s %s %d, ready %v", w.now().Seconds(),
					it.node.title(), it.kind, it.label, it.of, it.ready),
			)
		}
		w.waiting = append(w.waiting, it)
	}
}

// bury lets the goroutines of crashed nodes end. Their requests fail at once, but some also wait
// for timers, which are not part of the run.
func (w *World) bury() (moved bool) {
	now := w.now()
	for _, n := range w.nodes {
		if !n.crashed {
			continue
		}
		for _, t := range n.clock.due(now) {
			moved = n.clock.fire(t) || moved
		}
	}
	return moved
}

func compareItems(a, b *item) int {
	if a.node != b.node {
		return a.node.order() - b.node.order()
	}
	if c := strings.Compare(a.kind, b.kind); c != 0 {
		return c
	}
	if c := strings.Compare(a.label, b.label); c != 0 {
		return c
	}
	if a.of != b.of {
		return int(a.of) - int(b.of)
	}
	return a.serial - b.serial
}

// delay draws the duration of a step: usually next to nothing, sometimes enough to be overtaken,
// rarely seconds.
func (w *World) delay(it *item) time.Duration {
	usual := map[string]time.Duration{
		"sql":   time.Millisecond,
		"reply": time.Millisecond,
		"chain": 20 * time.Millisecond,
		"sign":  5 * time.Millisecond,
	}
	most := usual[it.kind]
	switch roll := w.dice.IntN(100); {
	case w.healed:
	case roll < 2 && it.kind != "sql":
		most = 3 * time.Second
	case roll < 8:
		most = 200 * time.Millisecond
	}
	if it.kind == "reply" && w.dice.IntN(4) != 0 {
		return 0
	}
	return leastDelay + time.Duration(w.dice.Int64N(int64(most)+1))
}

// step lets one thing happen; it returns false if nothing can happen now.
func (w *World) step() bool {
	choices := w.choices()
	for len(choices) > 0 {
		i := w.dice.IntN(len(choices))
		if choices[i]() {
			w.steps++
			return true
		}
		choices = slices.Delete(choices, i, i+1) // a timer without a receiver
	}
	return false
}

// choices returns all possible steps at this moment. Each reports whether it happened.
func (w *World) choices() []func() bool {
	now := w.now()
	var all []func() bool
	for _, it := range w.waiting {
		if it.ready <= now && !w.held(it) {
			all = append(all, func() bool { w.grant(it); return true })
		}
	}
	for _, n := range w.nodes {
		if n.crashed || n.frozenUntil > now {
			continue
		}
		for _, t := range n.clock.due(now) {
			all = append(all, func() bool { return w.fire(n, t) })
		}
	}
	for _, e := range w.events {
		if e.at <= now {
			all = append(all, func() bool { w.happen(e); return true })
		}
	}
	return all
}

func (w *World) held(it *item) bool { return it.heldUntil() > w.now() }

// heldUntil returns when the item stops being held.
func (it *item) heldUntil() (until time.Duration) {
	if it.node == nil {
		return 0
	}
	if it.inside {
		until = it.node.frozenUntil
	}
	if it.kind == "sql" || it.kind == "reply" {
		until = max(until, it.node.noAnswers)
	}
	return until
}

func (w *World) grant(it *item) {
	w.waiting = slices.DeleteFunc(w.waiting, func(other *item) bool { return other == it })
	w.note(it.node, it.kind, it.label, it.of)
	it.run()
}

func (w *World) fire(n *node, t *timer) bool {
	if !n.clock.fire(t) {
		return false
	}
	w.note(n, "timer", t.label, 0)
	return true
}

func (w *World) happen(e *event) {
	w.events = slices.DeleteFunc(w.events, func(other *event) bool { return other == e })
	w.note(nil, "event", e.name, 0)
	e.run()
}

// sleep lets time pass until the next moment at which a step is possible, or until an item is
// posted.
func (w *World) sleep(limit time.Duration) {
	now := w.now()
	next := limit + time.Millisecond
	sooner := func(t time.Duration) {
		if t > now && t < next {
			next = t
		}
	}
	for _, it := range w.waiting {
		sooner(max(it.ready, it.heldUntil()))
	}
	for _, n := range w.nodes {
		held := n.frozenUntil
		if n.crashed {
			held = 0
		}
		if t, ok := n.clock.next(now); ok {
			sooner(max(t, held))
		}
		sooner(held)
	}
	for _, e := range w.events {
		sooner(e.at)
	}
	t := time.NewTimer(next - now)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.kick:
	}
}

// note adds a line to the trace. Its contents depend on the seed alone.
func (w *World) note(n *node, kind, label string, of txn.SubmitterID) {
	line := fmt.Sprintf("%10.4fs %-5s %-6s %s", w.now().Seconds(), n.title(), kind, label)
	if of != 0 {
		line += fmt.Sprintf(" s%d", of)
	}
	w.write(line)
}

// remark adds a line about the effect of a fault.
func (w *World) remark(format string, args ...any) {
	w.write(fmt.Sprintf("%10.4fs       ! %s", w.now().Seconds(), fmt.Sprintf(format, args...)))
}

func (w *World) write(line string) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%x %s", w.digest, line)
	w.digest = h.Sum64()
	w.trace = append(w.trace, line)
}

// violated records that a law is broken.
func (w *World) violated(law, format string, args ...any) {
	what := law + ": " + fmt.Sprintf(format, args...)
	if len(w.broken) < 20 {
		w.broken = append(w.broken, what)
		w.remark("VIOLATION %s", what)
	}
}

package txn

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// walkEvent is something that can happen in the small world.
type walkEvent struct {
	name string
	do   func(c *chained, t fataler)
}

// walkEvents are all that can happen between two looks at the small world.
var walkEvents = []walkEvent{
	{"run", func(c *chained, t fataler) { c.run(t, Accepted, accepted) }},
	{"step", func(c *chained, t fataler) { c.step(t, Accepted, accepted) }},
	{"lost reply", func(c *chained, t fataler) { c.step(t, Ambiguous, accepted) }},
	{"invalid", func(c *chained, t fataler) { c.step(t, Invalid, accepted) }},
	{"block", func(c *chained, _ fataler) { c.mine(chainBlock{}) }},
	{"inclusion", func(c *chained, _ fataler) { c.minePool(true, 0) }},
	{"inclusion of the newest", func(c *chained, _ fataler) {
		c.minePool(true, max(0, len(c.pool[c.nonceAt(c.head)])-1))
	}},
	{"use elsewhere", func(c *chained, _ fataler) {
		if c.view.Cursor != nil {
			c.mine(chainBlock{uses: true})
		}
	}},
	{"reorg of 1", func(c *chained, _ fataler) { c.reorg(1, 6) }},
	{"reorg of 2", func(c *chained, _ fataler) { c.reorg(2, 6) }},
	{"eviction", func(c *chained, _ fataler) { clear(c.pool) }},
	{"takeover", func(c *chained, _ fataler) { c.takeover(Accepted) }},
	{"time", func(c *chained, _ fataler) { c.view.Now = c.view.Now.Add(90 * time.Second) }},
	{"cancel", func(c *chained, _ fataler) {
		if len(c.view.Commands) == 0 && len(c.results) == 0 {
			c.view.Commands = append(c.view.Commands,
				Command{ID: 1, Kind: CommandCancel, Tx: c.first, Reason: "a test"})
		}
	}},
}

// TestDecide_SmallWorld_EveryPath walks every sequence of events in a world of two transactions, up
// to a length, and joins paths that lead to the same state. After each event every nonce has one
// transaction. From every state the world comes to rest, with the outcomes on the chain, once the
// faults end and an operator decides.
func TestDecide_SmallWorld_EveryPath(t *testing.T) {
	t.Parallel()
	length := 6
	if raceEnabled { // ten times slower
		length = 5
	}
	for _, limit := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d in flight", limit), func(t *testing.T) {
			t.Parallel()
			w := walk{T: t, limit: limit, seen: map[string]bool{}}
			frontier := [][]int{nil}
			for range length {
				frontier = w.extend(frontier)
			}
			t.Logf("%d states", len(w.seen))
		})
	}
}

type walk struct {
	*testing.T
	limit int
	seen  map[string]bool
	path  []int // that is being replayed
}

// Fatalf reports a failure with the path to it.
func (w *walk) Fatalf(format string, args ...any) {
	w.T.Helper()
	var names []string
	for _, i := range w.path {
		names = append(names, walkEvents[i].name)
	}
	w.T.Fatalf("after %s: %s", strings.Join(names, ", "), fmt.Sprintf(format, args...))
}

// extend returns the paths to new states, one event longer than the given ones.
func (w *walk) extend(paths [][]int) (longer [][]int) {
	for _, path := range paths {
		for i := range walkEvents {
			w.path = append(slices.Clone(path), i)
			c := w.replay()
			state := c.fingerprint()
			if w.seen[state] {
				continue
			}
			w.seen[state] = true
			longer = append(longer, w.path)
			c.drain(w)
			w.verify(c)
		}
	}
	return longer
}

func (w *walk) replay() *chained {
	p := guarded
	p.AuditDepth = 8
	c := newChained(2, p)
	c.limit(w.limit)
	c.first = c.view.Queue[0].ID
	for _, i := range w.path {
		next, blocks := c.next(), len(c.blocks)
		walkEvents[i].do(c, w)
		if c.next() > next && len(c.blocks) == blocks {
			c.releasedIncluded(w)
		}
		c.audit()
		c.everyNonceOnce(w)
	}
	return c
}

func (c *chained) next() Nonce {
	if c.view.Cursor == nil {
		return 0
	}
	return c.view.Cursor.Next
}

// releasedIncluded fails if a released transaction is in no block. It is called after a nonce was
// taken: law L5.
func (c *chained) releasedIncluded(t fataler) {
	for _, tx := range c.view.Open {
		if tx.Released && !slices.ContainsFunc(tx.Attempts,
			func(a Attempt) bool { return c.included[a.Hash] != nil }) {
			t.Fatalf("a nonce is taken while %d, which was released, is in no block", *tx.Nonce)
		}
	}
}

// verify compares the outcomes of a world at rest with its chain.
func (w *walk) verify(c *chained) {
	w.Helper()
	for range 10 {
		c.mine(chainBlock{})
		c.run(w, Accepted, accepted)
	}
	c.audit()
	c.everyNonceOnce(w)
	if len(c.view.Open)+len(c.view.Queue) > 0 {
		w.Fatalf("not final: %+v %+v", c.view.Open, c.view.Queue)
	}
	for _, tx := range c.final {
		c.checkOutcome(w, tx)
	}
}

// fingerprint is the state without the ids and times that differ between two replays.
func (c *chained) fingerprint() string {
	var b strings.Builder
	for _, list := range [][]Tx{c.view.Open, c.view.Queue, c.final, c.view.NotExecuted} {
		for _, tx := range list {
			nonce := "none"
			if tx.Nonce != nil {
				nonce = fmt.Sprint(*tx.Nonce)
			}
			s := tx.Status
			s.Nonce, s.Receipt = nil, nil
			fmt.Fprintf(&b, "%d %s %+v %v %v %v", tx.QueueSeq, nonce, s, tx.Turn,
				tx.Due.Sub(c.view.Now), tx.Doubted)
			if tx.Receipt != nil {
				fmt.Fprint(&b, tx.Receipt.BlockNumber)
			}
			for _, a := range tx.Attempts {
				fmt.Fprint(&b, a.No, a.Kind, a.Nonce, c.view.Now.Sub(a.At))
			}
		}
		b.WriteByte('|')
	}
	if cursor := c.view.Cursor; cursor != nil {
		fmt.Fprint(&b, cursor.Next, cursor.Protections, cursor.AwaitsDecision())
	}
	for _, block := range c.blocks {
		fmt.Fprint(&b, block.uses, block.tx)
	}
	for nonce := range Nonce(4) {
		fmt.Fprint(&b, c.pool[nonce])
	}
	fmt.Fprint(&b, c.view.Account, c.view.Suspicion, len(c.view.Commands), len(c.results))
	return b.String()
}

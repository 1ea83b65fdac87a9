package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// silence keeps the chain from answering, and waits until that is noticed.
func (v *venue) silence() {
	v.t.Helper()
	asked := make(chan struct{}, 1)
	v.memory.Intercept(func(context.Context, chaintest.Call) chaintest.Fault {
		select {
		case asked <- struct{}{}:
		default:
		}
		return chaintest.Fault{Down: true}
	})
	for range 3 {
		<-asked
	}
}

// While the chain cannot be asked it loses a block that was final, and grows by more than is audited: by so much that the view reaches down there, by more, and by so
// much that blocks go by unseen. What was final is compared all the same before anybody lets go of it.
func TestAReorgAfterFinalityDuringAnOutage(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{5, 14, 500} {
		t.Run(fmt.Sprint(blocks, " blocks"), func(t *testing.T) {
			t.Parallel()
			v := newVenue(t, "memory", quick, nil)
			v.node()
			id, behind := v.finalAndOneBehind()
			above := v.above(id)
			v.silence()
			if err := v.reorg(above); err != nil {
				t.Fatal(err)
			}
			v.memory.MineEmpty(blocks)
			v.memory.Intercept(nil)
			v.restored(id, behind)
		})
	}
}

// What the view cannot show is read by number, a few blocks in each pass, and read anew after a gap.
func TestAuditedBlocksBeneathTheView(t *testing.T) {
	t.Parallel()
	c := chaintest.New(chaintest.Options{})
	c.MineEmpty(300)
	tr := newTracker(ChainOptions{Chain: c, Policy: quick}, clock.Real{},
		slog.New(slog.DiscardHandler))
	if err := tr.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	woken := 0
	var blocks []uint64
	for n := range uint64(maxWalk + 4) {
		blocks = append(blocks, 10+n)
	}
	tr.audit(1, blocks, func() { woken++ })
	passed := func(want int, news bool) {
		t.Helper()
		woken = 0
		if err := tr.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		canonical := tr.view().canonical
		shown := 0
		for _, number := range blocks {
			b, err := c.BlockByNumber(t.Context(), number)
			hash, ok := canonical(number)
			if err != nil || ok && hash != b.Hash {
				t.Errorf("block %d is %s: %v", number, hash, err)
			} else if ok {
				shown++
			}
		}
		if shown != want || (woken > 0) != news {
			t.Errorf("%d blocks, want %d; woken %d times", shown, want, woken)
		}
	}
	passed(maxWalk, true)
	passed(len(blocks), true)
	passed(len(blocks), false)
	if err := c.Reorg(295, chaintest.Keep); err != nil {
		t.Fatal(err)
	}
	c.MineEmpty(300)
	passed(maxWalk, true)
	passed(len(blocks), true)
	tr.auditNoMore(1)
	if passed(0, false); len(tr.beneath) > 0 {
		t.Errorf("%d are kept", len(tr.beneath))
	}
}

// Where blocks went by unseen, what was audited before is reached for a while more, for an owner to compare it, also when blocks go by unseen once more meanwhile.
// A chain that is faster than it is followed does not hold that up for ever.
func TestAGapReachesFurtherBack(t *testing.T) {
	t.Parallel()
	type step struct {
		mined int
		after time.Duration
		want  uint64
	}
	steps := map[string][]step{
		"one": {
			{20, 0, 20},
			{500, 0, 20},
			{1, time.Minute, 20},
			{1, time.Hour, 522},
		},
		"a second one": {
			{20, 0, 20},
			{500, 0, 20},
			{40, time.Second, 20},
			{1, time.Hour - time.Second - 1, 20},
			{1, 1, 520},
			{1, time.Second, 563},
		},
		"a second one, long after": {
			{20, 0, 20},
			{500, 0, 20},
			{1, 2 * time.Hour, 521},
			{40, 0, 521},
		},
	}
	fast := []step{{20, 0, 20}}
	for range 2 * mostOutages {
		fast = append(fast, step{maxWalk + 1, time.Minute, 20})
	}
	steps["ever again"] = append(fast,
		step{1, time.Hour - (2*mostOutages-1)*time.Minute, 20 + maxWalk + 1})
	for name, steps := range steps {
		c, now := chaintest.New(chaintest.Options{}), clock.NewFake(
			time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		tr := newTracker(ChainOptions{Chain: c, Policy: quick}, now, slog.New(slog.DiscardHandler))
		for i, step := range steps {
			c.MineEmpty(step.mined)
			now.Advance(step.after)
			if err := tr.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := tr.auditedAbove(time.Hour); got != step.want-quick.AuditDepth {
				t.Errorf("%s, %d: %d, want %d", name, i, got+quick.AuditDepth, step.want)
			}
			if len(tr.outages) > mostOutages {
				t.Fatalf("%d outages are kept", len(tr.outages))
			}
		}
	}
}

// What ended as never run is let go of only once all that was signed for it is known to be in no block, as seen from there.
func TestWhatEndedIsComparedBeforeItIsLetGo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seen txn.Inclusion
		head uint64
		kept int
	}{
		"not deep":         {txn.Inclusion{Known: true}, 100 + quick.AuditDepth - 1, 1},
		"deep":             {txn.Inclusion{Known: true}, 100 + quick.AuditDepth, 0},
		"not looked for":   {txn.Inclusion{}, 1000, 1},
		"it is in a block": {txn.Inclusion{Known: true, Receipt: &txn.Receipt{}}, 1000, 1},
	} {
		track := newTracker(ChainOptions{Chain: chaintest.New(chaintest.Options{}), Policy: quick},
			clock.Real{}, slog.New(slog.DiscardHandler))
		a := &actor{
			e:     &Engine{Options: Options{Clock: clock.Real{}}},
			track: track,
			ended: []txn.Tx{
				{Status: txn.Status{FinalBlock: 100}, Attempts: []txn.Attempt{{No: 1}}},
			},
		}
		a.letGo(&txn.View{Head: c.head, Inclusion: func(txn.Hash) txn.Inclusion { return c.seen }})
		if len(a.ended) != c.kept {
			t.Errorf("%s: %d kept", name, len(a.ended))
		}
	}
}

// The tracker is told of audited blocks whenever these are others: after all of them were let go of it knows of none, and of those that come later again.
func TestTheTrackerKnowsWhatIsAudited(t *testing.T) {
	t.Parallel()
	track := newTracker(ChainOptions{Chain: chaintest.New(chaintest.Options{}), Policy: quick},
		clock.Real{}, slog.New(slog.DiscardHandler))
	a := &actor{e: &Engine{Options: Options{Clock: clock.Real{}}}, id: 1, track: track}
	final := func(block uint64) {
		a.put(
			&txn.Tx{
				Status: txn.Status{
					State:   txn.Confirmed,
					Receipt: &txn.Receipt{BlockNumber: block, BlockHash: txn.Hash{byte(block)}},
				},
			},
			nil,
		)
	}
	known := func(want ...uint64) {
		t.Helper()
		if a.awaitReorgs(); !slices.Equal(track.audits[1].blocks, want) {
			t.Errorf("the tracker knows of %v, not of %v", track.audits[1].blocks, want)
		}
	}
	canonical := func(number uint64) (txn.Hash, bool) { return txn.Hash{byte(number)}, number != 12 }
	known()
	final(11)
	known(11)
	final(12)
	final(13)
	known(11, 12, 13)
	a.letGo(
		&txn.View{Head: 13 + quick.AuditDepth, Canonical: canonical}) // of what cannot be compared nothing is let go
	known(12)
	a.letGo(
		&txn.View{
			Head:      13 + quick.AuditDepth,
			Canonical: func(number uint64) (txn.Hash, bool) { return txn.Hash{byte(number)}, true },
		},
	)
	known()
	final(14)
	known(14)
}

// During an outage the block of what was final goes, somebody else uses its nonce, and what was sent after it is included far above. The owner crashes right after it
// has written that down, before it has compared anything; whoever comes next on a node that has seen the outage compares as far down as before.
func TestACrashRightAfterAnOutage(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	crashed := make(chan struct{})
	var once sync.Once
	w.startNode("a", func(o *Options) {
		o.Chains[0].Chain, o.AuditInterval = w.chain, NoAudit
		o.Gate = func(_ context.Context, p Point, _ txn.SubmitterID) (err error) {
			select {
			case <-crashed:
				return nil
			default:
			}
			if p == AfterRecord &&
				w.number(
					"SELECT count(*) FROM managed_tx WHERE receipt_block > 300 AND terminal_at IS NULL") > 0 {
				once.Do(func() { close(crashed); err = errors.New("a crash") })
			}
			return err
		}
	})
	first := w.create(0, "one", transfer())
	w.eventually("it is sent", w.is(first, txn.Pending))
	w.chain.Mine(1)
	w.chain.MineEmpty(int(w.policy.Confirmations))
	final := w.awaitFinal(first)
	second := w.create(0, "two", transfer())
	w.eventually("the next is sent", w.is(second, txn.Pending))
	var behind types.Transaction
	if err := behind.UnmarshalBinary(w.attempts()[second.String()]); err != nil {
		t.Fatal(err)
	}
	(&venue{rig: w.rig, memory: w.chain}).silence()
	if err := w.chain.Reorg(int(w.chain.MineEmpty(1).Number-final.Receipt.BlockNumber)+1, chaintest.Drop); err != nil {
		t.Fatal(err)
	}
	w.chain.ForgetPool()
	w.inject(w.outsider(0))
	w.chain.Mine(1)
	w.chain.MineEmpty(300)
	w.inject(&behind)
	w.chain.Mine(1)
	w.chain.Intercept(nil)
	<-crashed
	w.has(first, "its end is taken back", func(tx txn.Tx) bool { return tx.State == txn.Stuck })
}

// What is audited far below the head, and lower than a window reaches, is compared at once and not a few blocks with each look at the head: an owner that goes
// meanwhile would leave it to nobody.
func TestWhatIsDeepIsComparedWithoutWaiting(t *testing.T) {
	t.Parallel()
	chain, policy := chaintest.New(chaintest.Options{}), quick
	policy.AuditDepth = 80
	chain.MineEmpty(400)
	track := newTracker(ChainOptions{Chain: chain, Policy: policy, PollInterval: time.Hour},
		clock.Real{}, slog.New(slog.DiscardHandler))
	blocks := []uint64{325} // the rest lies beneath
	for number := uint64(100); number < 200; number++ {
		blocks = append(blocks, number)
	}
	woken := make(chan struct{}, 1)
	track.audit(1, blocks, func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { track.run(ctx) })
	defer running.Wait()
	defer cancel()
	for left := blocks; len(left) > 0; {
		select {
		case <-woken:
			canonical := track.view().canonical
			left = slices.DeleteFunc(slices.Clone(blocks),
				func(number uint64) bool { _, known := canonical(number); return known })
		case <-ctx.Done():
			t.Fatalf("%d of %d blocks are compared with nothing", len(left), len(blocks))
		}
	}
}

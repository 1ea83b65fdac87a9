package store

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// testItem is an item that a test sends.
type testItem struct {
	id, bytes int
	bond      int64
	bad       bool // refused wherever it is
	weary     int  // refused that many times, and then accepted

	ended chan string
}

func (p *testItem) size() int  { return p.bytes }
func (p *testItem) key() int64 { return p.bond }

// fakeDatabase accepts groups without a bad item.
type fakeDatabase struct {
	mu     sync.Mutex
	groups [][]*testItem
	hold   chan struct{} // each group waits for it to be closed
}

func (p *fakeDatabase) send(_ bool, group []*testItem) *refusal {
	<-p.hold
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groups = append(p.groups, slices.Clone(group))
	for _, it := range group {
		if it.bad || it.weary > 0 {
			it.weary--
			return &refusal{err: errors.New("refused"), again: !it.bad}
		}
	}
	for _, it := range group {
		it.ended <- "sent"
	}
	return nil
}

func refuseTestItem(it *testItem, why *refusal) {
	it.ended <- map[bool]string{true: "weary", false: "bad"}[why.again]
}

// TestCombiner sends random items: each is ended once, and rightly; groups keep their limits;
// order is kept within a bond.
func TestCombiner(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := limits{
			items:       rapid.IntRange(1, 9).Draw(t, "items"),
			bytes:       rapid.IntRange(1, 60).Draw(t, "bytes"),
			outstanding: 1000,
		}
		p := &fakeDatabase{hold: make(chan struct{})}
		c := newCombiner(l, p.send, refuseTestItem)
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *testItem {
			return &testItem{
				bytes: rapid.IntRange(0, 70).Draw(t, "size"),
				bond:  rapid.Int64Range(0, 4).Draw(t, "bond"),
				bad:   rapid.IntRange(0, 5).Draw(t, "bad") == 0,
				weary: rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, 99}).Draw(t, "weary"),
				ended: make(chan string, 2),
			}
		}), 1, 60).Draw(t, "items")
		wants := make([]string, len(items))
		for i, it := range items {
			it.id = i
			wants[i] = map[bool]string{true: "bad"}[it.bad]
			if wants[i] == "" && it.weary == 99 {
				wants[i] = "weary"
			}
			if wants[i] == "" {
				wants[i] = "sent"
			}
			if err := c.put(it); err != nil {
				t.Fatal(err)
			}
			if i == len(items)/2 {
				close(p.hold)
			}
		}
		c.close()
		for i, it := range items {
			if len(it.ended) != 1 {
				t.Fatalf("item %d was ended %d times", i, len(it.ended))
			}
			if got := <-it.ended; got != wants[i] {
				t.Fatalf("item %d: %s, want %s", i, got, wants[i])
			}
		}
		checkGroups(t, l, p.groups)
		if c.outstanding != 0 || c.sending || c.dividing {
			t.Fatalf("something is left: %d %v %v", c.outstanding, c.sending, c.dividing)
		}
	})
}

func checkGroups(t *rapid.T, l limits, groups [][]*testItem) {
	seen := map[*testItem]bool{}
	last := map[int64]int{}
	for _, g := range groups {
		bytes, bonds := 0, map[int64]bool{}
		for _, it := range g {
			bytes += it.bytes
			if it.bond != 0 && bonds[it.bond] {
				t.Fatalf("two items of bond %d share a group", it.bond)
			}
			bonds[it.bond] = true
			if it.bond != 0 && !seen[it] {
				if it.id < last[it.bond] {
					t.Fatalf("item %d goes after %d of the same bond", it.id, last[it.bond])
				}
				last[it.bond] = it.id
			}
			seen[it] = true
		}
		if len(g) > l.items || len(g) > 1 && bytes > l.bytes {
			t.Fatalf("a group of %d items and %d bytes", len(g), bytes)
		}
	}
}

// TestCombiner_Busy_Gathers: items that arrive while a group is running are sent together.
func TestCombiner_Busy_Gathers(t *testing.T) {
	t.Parallel()
	p := &fakeDatabase{hold: make(chan struct{})}
	c := newCombiner(limits{items: 100, bytes: 1000, outstanding: 1000}, p.send, refuseTestItem)
	for i := range 50 {
		if err := c.put(&testItem{id: i, ended: make(chan string, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	close(p.hold)
	c.close()
	if n := len(p.groups); n > 2 {
		t.Fatalf("%d groups, want the first item and then all others", n)
	}
}

func TestCombiner_Full_Rejects(t *testing.T) {
	t.Parallel()
	p := &fakeDatabase{hold: make(chan struct{})}
	c := newCombiner(limits{items: 1, bytes: 1, outstanding: 3}, p.send, refuseTestItem)
	put := func() error { return c.put(&testItem{ended: make(chan string, 1)}) }
	for range 3 {
		if err := put(); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(); !errors.Is(err, errFull) {
		t.Fatalf("a fourth item: %v", err)
	}
	close(p.hold)
	c.close()
	if err := put(); !errors.Is(err, errClosed) {
		t.Fatalf("after the end: %v", err)
	}
}

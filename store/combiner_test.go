package store

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// parcel is an item that a test sends.
type parcel struct {
	id, bytes int
	bond      int64
	bad       bool // refused wherever it is
	weary     int  // refused that many times, and then accepted

	ended chan string
}

func (p *parcel) size() int  { return p.bytes }
func (p *parcel) key() int64 { return p.bond }

// post is a database that accepts what holds no bad parcel.
type post struct {
	mu     sync.Mutex
	groups [][]*parcel
	hold   chan struct{} // each group waits for it to be closed
}

func (p *post) send(_ bool, group []*parcel) *refusal {
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

func refuseParcel(it *parcel, why *refusal) {
	it.ended <- map[bool]string{true: "weary", false: "bad"}[why.again]
}

// TestCombiner sends random parcels: each is ended once, and rightly; groups keep their limits;
// order is kept within a bond.
func TestCombiner(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := limits{
			items:       rapid.IntRange(1, 9).Draw(t, "items"),
			bytes:       rapid.IntRange(1, 60).Draw(t, "bytes"),
			outstanding: 1000,
		}
		p := &post{hold: make(chan struct{})}
		c := newCombiner(l, p.send, refuseParcel)
		parcels := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *parcel {
			return &parcel{
				bytes: rapid.IntRange(0, 70).Draw(t,
					"size"), bond: rapid.Int64Range(0, 4).Draw(t, "bond"),
				bad: rapid.IntRange(0, 5).Draw(t, "bad") == 0,
				weary: rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, 99}).Draw(t,
					"weary"), ended: make(chan string, 2),
			}
		}), 1, 60).Draw(t, "parcels")
		wants := make([]string, len(parcels))
		for i, it := range parcels {
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
			if i == len(parcels)/2 {
				close(p.hold)
			}
		}
		c.close()
		for i, it := range parcels {
			if len(it.ended) != 1 {
				t.Fatalf("parcel %d was ended %d times", i, len(it.ended))
			}
			if got := <-it.ended; got != wants[i] {
				t.Fatalf("parcel %d: %s, want %s", i, got, wants[i])
			}
		}
		checkGroups(t, l, p.groups)
		if c.outstanding != 0 || c.sending || c.dividing {
			t.Fatalf("something is left: %d %v %v", c.outstanding, c.sending, c.dividing)
		}
	})
}

func checkGroups(t *rapid.T, l limits, groups [][]*parcel) {
	seen := map[*parcel]bool{}
	last := map[int64]int{}
	for _, g := range groups {
		bytes, bonds := 0, map[int64]bool{}
		for _, it := range g {
			bytes += it.bytes
			if it.bond != 0 && bonds[it.bond] {
				t.Fatalf("two parcels of bond %d share a group", it.bond)
			}
			bonds[it.bond] = true
			if it.bond != 0 && !seen[it] {
				if it.id < last[it.bond] {
					t.Fatalf("parcel %d goes after %d of the same bond", it.id, last[it.bond])
				}
				last[it.bond] = it.id
			}
			seen[it] = true
		}
		if len(g) > l.items || len(g) > 1 && bytes > l.bytes {
			t.Fatalf("a group of %d parcels and %d bytes", len(g), bytes)
		}
	}
}

// TestCombiner_Busy_Gathers what comes while a group is under way.
func TestCombiner_Busy_Gathers(t *testing.T) {
	t.Parallel()
	p := &post{hold: make(chan struct{})}
	c := newCombiner(limits{items: 100, bytes: 1000, outstanding: 1000}, p.send, refuseParcel)
	for i := range 50 {
		if err := c.put(&parcel{id: i, ended: make(chan string, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	close(p.hold)
	c.close()
	if n := len(p.groups); n > 2 {
		t.Fatalf("%d groups, want the first parcel and then all others", n)
	}
}

func TestCombiner_Full_Rejects(t *testing.T) {
	t.Parallel()
	p := &post{hold: make(chan struct{})}
	c := newCombiner(limits{items: 1, bytes: 1, outstanding: 3}, p.send, refuseParcel)
	put := func() error { return c.put(&parcel{ended: make(chan string, 1)}) }
	for range 3 {
		if err := put(); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(); !errors.Is(err, errFull) {
		t.Fatalf("a fourth parcel: %v", err)
	}
	close(p.hold)
	c.close()
	if err := put(); !errors.Is(err, errClosed) {
		t.Fatalf("after the end: %v", err)
	}
}

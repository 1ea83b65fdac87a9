package conformance

import (
	"testing"
	"time"
)

const (
	lookEvery = 20 * time.Millisecond
	soonWait  = 10 * time.Second // for what a node does a moment after it has answered
	blockWait = time.Minute      // far above what any chain takes for a block: it is there to fail, not to measure
)

// NextBlock is the Mine of a chain that makes blocks by itself: it waits until there is a new one.
func NextBlock(t *testing.T, c Chain) func() {
	return func() {
		t.Helper()
		began, err := c.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		giveUp := time.NewTimer(blockWait)
		defer giveUp.Stop()
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		for {
			select {
			case <-look.C:
				if head, err := c.Head(t.Context()); err == nil && head.Hash != began.Hash {
					return
				}
			case <-giveUp.C:
				t.Fatalf("no block after %d within %v", began.Number, blockWait)
			}
		}
	}
}

// soon waits for what a node does by itself, without a block.
func (s *suite) soon(what string, holds func() bool) {
	s.Helper()
	giveUp := time.NewTimer(soonWait)
	defer giveUp.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-giveUp.C:
			s.Fatalf("%s did not come true within %v", what, soonWait)
		}
	}
}

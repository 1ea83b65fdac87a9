package conformance

import (
	"testing"
	"time"
)

const (
	lookEvery = 20 * time.Millisecond
	soonWait  = 10 * time.Second // delay of a node between a response and its effects
	blockWait = time.Minute      // far above any block time: a limit for failures only
)

// NextBlock is the Mine of a chain with automatic blocks: it waits for a new block.
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

// soon waits for a condition that needs no block.
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
			s.Fatalf("%s: not within %v", what, soonWait)
		}
	}
}

package node

import (
	"testing"

	"github.com/fencepost/fencepost/store"
)

func TestOthers(t *testing.T) {
	t.Parallel()
	one, two := &ledger{store: &store.Store{}}, &ledger{store: &store.Store{}}
	n := &Node{ledgers: []*ledger{one, two}}
	if others := n.others(one); len(others) != 1 || others[0] != two.store {
		t.Errorf("of the first: %v", others)
	}
	if others := (&Node{ledgers: []*ledger{one}}).others(one); len(others) != 0 {
		t.Errorf("of the only one: %v", others)
	}
}

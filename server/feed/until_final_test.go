package feed

import (
	"testing"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func TestProgress_OlderVersion_Ignored(t *testing.T) {
	t.Parallel()
	a, b := txn.TxID{1}, txn.TxID{2}
	p := newProgress(IDSet{a, b})
	for i, step := range []struct {
		info store.TxVersion
		id   txn.TxID
		done bool
	}{
		{store.TxVersion{Version: 5, State: txn.Confirmed}, a, false},
		{store.TxVersion{Version: 4, State: txn.Tracking}, a, false},
		{store.TxVersion{Version: 1, State: txn.Confirmed}, txn.TxID{3}, false},
		{store.TxVersion{Version: 2, State: txn.Cancelled}, b, true},
		{store.TxVersion{Version: 3, State: txn.Tracking}, b, false},
		{store.TxVersion{Version: 2, State: txn.Cancelled}, b, false},
		{store.TxVersion{Version: 4, State: txn.Failed}, b, true},
	} {
		if p.record(step.id, step.info.Version, step.info.State); p.done() != step.done {
			t.Errorf("step %d: done is %v", i, !step.done)
		}
	}
}

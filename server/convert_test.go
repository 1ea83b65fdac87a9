package server

import (
	"testing"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// A transaction without a nonce was never broadcast, however often its preparation was retried.
func TestSubmitAttempts_NoNonce_Zero(t *testing.T) {
	t.Parallel()
	tx := txn.Tx{Status: txn.Status{State: txn.Queued, SubmitAttempts: 7}}
	if got := wireOperator(store.TxInfo{Tx: tx}, nil); got.GetSubmitAttempts() != 0 ||
		got.Nonce != nil {
		t.Errorf("%+v", got)
	}
	tx.State, tx.Nonce = txn.Tracking, new(txn.Nonce(3))
	if got := wireOperator(store.TxInfo{Tx: tx}, nil); got.GetSubmitAttempts() != 7 ||
		got.GetNonce() != 3 {
		t.Errorf("%+v", got)
	}
}

func TestQueued_CountedInPart_AtLeast(t *testing.T) {
	t.Parallel()
	for _, more := range []bool{false, true} {
		s := wireSubmitter(store.SubmitterInfo{Queued: store.CountedQueue, More: more})
		if s.GetQueued() != store.CountedQueue || s.GetQueuedIsAtLeast() != more {
			t.Errorf("%v: %v", more, s)
		}
	}
}

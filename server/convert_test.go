package server

import (
	"testing"
	"time"

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

// A lease that no node has acquired has no times, also of an account that moved here with a token.
func TestWireLease_NeverAcquired_NoTimes(t *testing.T) {
	t.Parallel()
	at, never := time.Unix(1_700_000_000, 0), time.Unix(0, 0)
	for _, l := range []store.LeaseInfo{
		{AcquiredAt: at, ExpiresAt: never},
		{Token: 7, AcquiredAt: at, ExpiresAt: never},
	} {
		if got := wireLease(l); got.AcquireTime != nil || got.ExpireTime != nil {
			t.Errorf("%+v: %v", l, got)
		}
	}
	if got := wireLease(store.LeaseInfo{Token: 7, AcquiredAt: at, ExpiresAt: at}); !got.
		GetExpireTime().AsTime().Equal(at) {
		t.Errorf("%v", got)
	}
}

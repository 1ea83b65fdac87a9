package txn

import (
	"testing"
	"time"
)

// externalView is an external submitter with one nonce in this state, and the cursor at 1.
func externalView(state NonceState, account *Account) *View {
	v := newWorld(0, Policy{}).view
	v.Submitter.Mode, v.Submitter.Limit = External, 8
	v.Cursor, v.Account = &Cursor{Next: 1}, account
	v.External = ExternalView{
		Nonces: []ExternalNonce{{
			State: state, Version: 1, Reservation: TxID{1}, Expires: v.Now.Add(time.Hour),
		}},
		Requests: []NonceRequest{{
			No: 1, Kind: RequestAllocate, Reservation: TxID{2}, TTL: time.Minute,
		}},
		ReadAt: v.Now,
	}
	return &v
}

// TestExternal_Recyclable_OnlyIfUnusedOnChain: a released nonce is reserved again only if the chain
// shows that it is unused.
func TestExternal_Recyclable_OnlyIfUnusedOnChain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		account *Account
		want    Nonce
	}{
		"unused":           {&Account{}, 0},
		"used, unsettled":  {&Account{Latest: 1, Pending: 1}, 1},
		"account not read": {nil, 1},
	} {
		step, ok := external(externalView(NonceRecyclable, c.account))
		r, isRecord := step.(Record)
		if !ok || !isRecord || len(r.Change.Nonces.Results) != 1 {
			t.Fatalf("%s: %+v", name, step)
		}
		if got := r.Change.Nonces.Results[0].Nonce; got == nil || *got != c.want {
			t.Errorf("%s: allocated %v, want %d", name, got, c.want)
		}
	}
}

// TestExternal_UnreservedTx_Failed: a transaction of CreateTx takes no nonce in mode EXTERNAL.
func TestExternal_UnreservedTx_Failed(t *testing.T) {
	t.Parallel()
	v := externalView(NonceReserved, &Account{})
	v.External.Requests = nil
	v.Queue = []Tx{{ID: TxID{9}, Status: Status{State: Queued}}}
	r, ok := Decide(v).(Record)
	if !ok || len(r.Change.Writes) != 1 || r.Change.Writes[0].Next.State != Failed {
		t.Fatalf("decided %+v", r)
	}
}

// TestExternal_SettledOnce_NotAccepted: ACCEPTED is final, so one read of one endpoint is not
// enough. The second read follows soon.
func TestExternal_SettledOnce_NotAccepted(t *testing.T) {
	t.Parallel()
	v := externalView(NoncePending, &Account{Latest: 1, Pending: 1, Settled: 1})
	v.External.Requests, v.External.Settled = nil, 1
	if w := firstWrite(t, v); w != nil {
		t.Fatalf("accepted by one read: %+v", w)
	}
	v.Now, v.External.Source = v.External.ReadAt.Add(readPause), "a"
	step, _ := external(v)
	if read, ok := step.(ReadAccount); !ok || !read.External || read.Avoid != "a" {
		t.Fatalf("no second read elsewhere: %+v", step)
	}
	v.External.Before, v.External.ReadAt = 1, v.Now
	if w := firstWrite(t, v); w == nil || w.Next.State != NonceAccepted {
		t.Fatalf("not accepted by two: %+v", w)
	}
}

// TestExternal_ReleasedUsed_ProtectedBySecondRead: one wrong response must not stop the account.
func TestExternal_ReleasedUsed_ProtectedBySecondRead(t *testing.T) {
	t.Parallel()
	v := externalView(NonceRecyclable, &Account{Latest: 1, Pending: 1, Settled: 1})
	v.External.Requests, v.External.Settled = nil, 1
	step, _ := external(v)
	if r, ok := step.(Record); ok {
		t.Fatalf("recorded after one read: %+v", r.Change)
	}
	v.External.Before = 1
	step, _ = external(v)
	if r, ok := step.(Record); !ok || r.Change.Protect == nil ||
		r.Change.Protect.Reason != ReasonNonceElsewhere {
		t.Fatalf("not protected after two: %+v", step)
	}
}

// TestExternal_ReceiptsUnread_OthersReadSoon: a nonce whose receipts cannot be read does not delay
// the second read of those after it.
func TestExternal_ReceiptsUnread_OthersReadSoon(t *testing.T) {
	t.Parallel()
	v := externalView(NoncePending, &Account{Latest: 2, Pending: 2, Settled: 2})
	v.External.Requests, v.Cursor.Next = nil, 2
	second := v.External.Nonces[0]
	v.External.Nonces[0].Hashes = []Hash{{1}}
	second.Nonce, second.Reservation = 1, TxID{3}
	v.External.Nonces = append(v.External.Nonces, second)
	v.External.Receipts = map[Hash]*Receipt{} // one without an entry was not read
	v.External.Settled, v.External.Before = 2, 1
	v.Now = v.External.ReadAt.Add(readPause)
	step, _ := external(v)
	if read, ok := step.(ReadAccount); !ok || !read.External {
		t.Errorf("no second read: %+v", step)
	}
}

// TestExternal_Read_AvoidsEndpointOfEvidence: every read that may confirm another one is of another
// endpoint, whatever it is for.
func TestExternal_Read_AvoidsEndpointOfEvidence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settled, before Nonce
		want            string
	}{
		"nothing to confirm":      {0, 0, ""},
		"passed by the last read": {1, 0, "a"},
		"and the next one failed": {0, 1, "a"},
	} {
		v := externalView(NonceReserved, nil) // an allocation needs a read
		v.Now = v.External.ReadAt.Add(readPause)
		v.External.Settled, v.External.Before = c.settled, c.before
		v.External.Source = "a"
		step, _ := external(v)
		if read, ok := step.(ReadAccount); !ok || read.Avoid != c.want {
			t.Errorf("%s: %+v", name, step)
		}
	}
}

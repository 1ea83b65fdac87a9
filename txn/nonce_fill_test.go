package txn

import (
	"testing"
	"time"
)

// filling is an external submitter with a PENDING nonce, and the transaction that fills it.
func filling() (*View, *Tx) {
	v := externalView(NoncePending, &Account{})
	v.External.Requests = nil
	v.Queue = []Tx{{
		ID: TxID{9}, Reservation: TxID{1}, Payload: CancelPayload(v.Submitter.Address),
		Status: Status{State: Queued},
	}}
	return v, &v.Queue[0]
}

// TestFill_CannotBePrepared_Waits: its nonce is closed by nothing else, and no second transaction
// may have its reservation.
func TestFill_CannotBePrepared_Waits(t *testing.T) {
	t.Parallel()
	accepted := Outcome{Class: Accepted}
	for name, p := range map[string]Preparation{
		"no key":     {Outcome: accepted, SignErr: ErrKeyMissing},
		"too large":  {Outcome: accepted, Signed: Signed{Raw: make([]byte, maxRawBytes+1)}},
		"no balance": {Outcome: Outcome{Class: InsufficientFunds}},
	} {
		v, tx := filling()
		v.Policy.PrepareMaxAge = 1
		tx.WaitingSince = v.Now.Add(-1000)
		s, ok := Decide(v).(Prepare)
		if !ok || s.Tx.ID != tx.ID {
			t.Fatalf("%s: decided %+v", name, s)
		}
		c := Prepared(v, s, &p)
		if len(c.Writes) != 1 || c.Writes[0].Next.State != Queued || c.Writes[0].Delay <= 0 {
			t.Errorf("%s: %+v", name, c.Writes)
		}
	}
	v, tx := filling()
	tx.Reason = ReasonInvalid
	tx.SubmitAttempts = refusalBlocks
	tx.RefusedAt, tx.RefusedSince = 1, v.Now.Add(-2*refusalAge)
	v.Head = 9
	c := Prepared(v, Prepare{Tx: tx}, &Preparation{Outcome: Outcome{Class: Invalid}})
	if len(c.Writes) != 1 || c.Writes[0].Next.State != Queued {
		t.Errorf("refused by the chain: %+v", c.Writes)
	}
}

// TestFill_NonceUsed_Ends: there is nothing left to fill.
func TestFill_NonceUsed_Ends(t *testing.T) {
	t.Parallel()
	v, _ := filling()
	v.External.Nonces = nil
	r, ok := Decide(v).(Record)
	if !ok || len(r.Change.Writes) != 1 || r.Change.Writes[0].Next.State != Failed {
		t.Fatalf("decided %+v", r)
	}
}

// TestFill_NonceUsedByClient_RecordedOnce: no protection follows a nonce that its client used, so
// the record alone keeps the owner from finding it again.
func TestFill_NonceUsedByClient_RecordedOnce(t *testing.T) {
	t.Parallel()
	v := externalView(NoncePending, &Account{Latest: 1, Pending: 1, Settled: 1, Head: 9})
	v.Head, v.Suspicion = 9, &Suspicion{Reason: ReasonNonceElsewhere, Latest: 1, Head: 8}
	v.External.Nonces, v.External.Requests = nil, nil
	v.Inclusion = func(Hash) Inclusion { return Inclusion{Known: true} }
	v.Open = []Tx{{
		ID: TxID{9}, Reservation: TxID{1},
		Status: Status{
			Version: 2, Nonce: new(Nonce(0)), State: Tracking, Sub: Pending,
			LastOutcome: NonceTooLow,
		},
		Attempts: []Attempt{{No: 1, Hash: Hash{1}, Kind: Original}},
	}}
	found, ok := Decide(v).(Investigate)
	if !ok {
		t.Fatal("the use is not found")
	}
	c := Investigated(v, found, nil)
	if len(c.Writes) != 1 || c.Protect != nil || c.Writes[0].Next.State != Stuck {
		t.Fatalf("%+v", c)
	}
	v.Open[0].Status = c.Writes[0].Next
	v.Open[0].Due = v.Now.Add(time.Minute)
	if again, ok := Decide(v).(Investigate); ok {
		t.Fatalf("found again: %+v", again)
	}
}

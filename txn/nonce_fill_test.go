package txn

import (
	"testing"
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

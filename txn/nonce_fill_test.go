package txn

import (
	"strings"
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
		if len(c.Writes) != 1 || c.Writes[0].Next.State != Queued || c.Writes[0].Delay <= 0 ||
			strings.Contains(c.Writes[0].Next.LastError, "request_id") {
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

// lostFill is an external submitter with a transaction that lost nonce 0 to a client: it fills that
// nonce, and is due.
func lostFill() (*View, *Tx) {
	v := externalView(NoncePending, &Account{Latest: 1, Pending: 1, Settled: 1, Head: 99})
	v.Head = 100
	v.Policy = Policy{Confirmations: 2, AuditDepth: 10, ResubmitInterval: time.Minute}
	v.External.Nonces, v.External.Requests = nil, nil
	v.Inclusion = func(Hash) Inclusion { return Inclusion{Known: true} }
	v.Open = []Tx{{
		ID: TxID{9}, Reservation: TxID{1},
		Status: Status{
			Version: 3, Nonce: new(Nonce(0)), State: Stuck, Reason: ReasonNonceElsewhere,
			LastOutcome: NonceTooLow, Executed: Unknown,
		},
		Attempts: []Attempt{{No: 1, Hash: Hash{1}, Kind: Original}},
		Due:      v.Now,
	}}
	return v, &v.Open[0]
}

// TestFill_NonceUsedByClient_Ends: it ends once another transaction is known to have used the nonce
// for good. Until then it may be included, and is broadcast.
func TestFill_NonceUsedByClient_Ends(t *testing.T) {
	t.Parallel()
	const deep = 90 // the highest block at the audit depth
	other := func(block uint64) *Consumer {
		return &Consumer{Block: block, BlockHash: Hash{7}, TxHash: Hash{2}}
	}
	none := func(*View, *Tx) {}
	for name, c := range map[string]struct {
		by     *Consumer
		change func(v *View, tx *Tx)
		want   Executed // empty: it does not end
	}{
		"used for good":         {other(deep), none, No},
		"without a transaction": {&Consumer{Block: deep, BlockHash: Hash{7}}, none, No},
		"above the audit depth": {other(deep + 1), none, ""},
		"final is deeper": {other(deep), func(v *View, _ *Tx) {
			v.Policy.Confirmations = 11
		}, ""},
		"unknown user":   {nil, none, ""},
		"used by itself": {&Consumer{Block: deep, TxHash: Hash{1}}, none, ""},
		"in another branch": {other(deep), func(v *View, _ *Tx) {
			v.Canonical = func(uint64) (Hash, bool) { return Hash{8}, true }
		}, ""},
		"in this branch": {other(deep), func(v *View, _ *Tx) {
			v.Canonical = func(uint64) (Hash, bool) { return Hash{7}, true }
		}, No},
		"ledger restored":    {other(deep), func(_ *View, tx *Tx) { tx.Restored = true }, Unknown},
		"a client signed it": {other(deep), func(_ *View, tx *Tx) { tx.Signed = true }, ""},
		"nonce not accepted": {other(deep), func(v *View, _ *Tx) {
			v.External.Nonces = []ExternalNonce{{State: NoncePending, Since: v.Now}}
			v.External.Settled, v.External.Before = 1, 0 // another endpoint shows it unused
			v.External.ReadAt = v.Now
		}, ""},
		"another nonce not accepted": {other(deep), func(v *View, _ *Tx) {
			v.External.Nonces = []ExternalNonce{{Nonce: 1, State: NoncePending, Since: v.Now}}
			v.External.ReadAt = v.Now
		}, No},
		"protected": {other(deep), func(v *View, _ *Tx) {
			v.Cursor.Protected = &Protected{Reason: ProtectByOperator}
		}, ""},
		"retried by an operator": {other(deep), func(_ *View, tx *Tx) {
			tx.State, tx.Sub = Tracking, Pending
			tx.Reason = ""
		}, ""},
	} {
		v, tx := lostFill()
		c.change(v, tx)
		step := Decide(v)
		if find, ok := step.(FindConsumer); ok {
			if find.Tx.ID != tx.ID || find.CommandID != 0 {
				t.Errorf("%s: %+v", name, find)
			}
			v.NonceUse = &NonceUse{Tx: find.Tx.ID, At: v.Now, Head: v.Head, By: c.by}
			step = Decide(v)
		}
		r, ok := step.(Record)
		if !ok || len(r.Change.Writes) != 1 {
			t.Errorf("%s: decided %+v", name, step)
			continue
		}
		switch w := r.Change.Writes[0]; {
		case c.want == "" && (!w.Turn.Claimed || w.Next.State.Final()):
			t.Errorf("%s: not broadcast: %+v", name, w)
		case c.want != "" && (w.Kind != EventFailed || w.Next.State != Failed ||
			w.Next.Executed != c.want || !w.Next.Released || w.Next.FinalBlock != v.Head):
			t.Errorf("%s: %s %+v", name, w.Kind, w.Next)
		}
	}
}

// TestFill_ReceiptUnknown_Waits: it may have used the nonce itself.
func TestFill_ReceiptUnknown_Waits(t *testing.T) {
	t.Parallel()
	v, tx := lostFill()
	v.NonceUse = &NonceUse{
		Tx: tx.ID, At: v.Now, Head: v.Head, By: &Consumer{Block: 1, TxHash: Hash{2}},
	}
	v.Inclusion = func(Hash) Inclusion { return Inclusion{} }
	if step, ok := Decide(v).(Rest); !ok {
		t.Errorf("decided %+v", step)
	}
}

// TestFill_UserUnknown_AskedOncePerBroadcast: the search takes many calls.
func TestFill_UserUnknown_AskedOncePerBroadcast(t *testing.T) {
	t.Parallel()
	v, tx := lostFill()
	v.NonceUse = &NonceUse{Tx: tx.ID, At: v.Now}
	claim, ok := Decide(v).(Record)
	if !ok || len(claim.Change.Writes) != 1 || !claim.Change.Writes[0].Turn.Claimed {
		t.Fatalf("decided %+v", claim)
	}
	tx.Turn, tx.Due = claim.Change.Writes[0].Turn, v.Now.Add(time.Minute)
	if step, ok := Decide(v).(Broadcast); !ok {
		t.Fatalf("then %+v", step)
	}
	tx.Turn = Turn{}
	if step, ok := Decide(v).(Rest); !ok {
		t.Fatalf("while it is not due %+v", step)
	}
	v.Now = tx.Due
	if step, ok := Decide(v).(FindConsumer); !ok {
		t.Fatalf("when it is due again %+v", step)
	}
}

// TestFill_EndNotCommitted_UserAskedAgain: the use that was found may be gone when its block would
// be at the audit depth. So a use that was found above it proves nothing later, however long a
// commit takes.
func TestFill_EndNotCommitted_UserAskedAgain(t *testing.T) {
	t.Parallel()
	v, tx := lostFill()
	v.NonceUse = &NonceUse{
		Tx: tx.ID, At: v.Now, Head: v.Head,
		By: &Consumer{Block: 95, BlockHash: Hash{7}, TxHash: Hash{2}},
	}
	for range 2 {
		claim, ok := Decide(v).(Record)
		if !ok || len(claim.Change.Writes) != 1 || !claim.Change.Writes[0].Turn.Claimed {
			t.Fatalf("at block %d decided %+v", v.Head, claim)
		}
		v.Now, v.Head = v.Now.Add(10*time.Minute), 400 // the claim was not committed
	}
	tx.Due = v.Now
	if step, ok := Decide(v).(FindConsumer); !ok {
		t.Fatalf("when it is due again %+v", step)
	}
}

// TestFill_NonceUsedByClient_OthersContinue: a lost nonce is used. It keeps no other nonce from
// being reserved, and no other transaction waits for it.
func TestFill_NonceUsedByClient_OthersContinue(t *testing.T) {
	t.Parallel()
	for _, signed := range []bool{false, true} {
		v, tx := lostFill()
		tx.Signed, tx.Due = signed, v.Now.Add(time.Minute)
		above := Tx{
			ID: TxID{8}, Reservation: TxID{2}, Signed: true, Attempts: []Attempt{{No: 1, Nonce: 1}},
			Status: Status{Nonce: new(Nonce(1)), State: Tracking, Sub: Pending},
		}
		v.Open, v.Cursor.Next = append(v.Open, above), 2
		if v.blocked(&v.Open[1]) {
			t.Errorf("signed %t: the next nonce waits", signed)
		}
		v.Suspicion, v.Open = AccountReadDone(v, v.Account)
		v.External.Requests = []NonceRequest{
			{No: 1, Kind: RequestAllocate, Reservation: TxID{3}, TTL: time.Minute},
		}
		step, _ := external(v)
		if r, ok := step.(Record); !ok || len(r.Change.Nonces.Results) != 1 ||
			r.Change.Nonces.Results[0].Result != Applied {
			t.Errorf("signed %t: allocation %+v", signed, step)
		}
		v.Account.Latest = 2 // and the next one is noticed as ever
		if s, _ := AccountReadDone(v, v.Account); s == nil || s.Nonce != 1 {
			t.Errorf("signed %t: suspicion %+v", signed, s)
		}
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

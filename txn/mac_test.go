package txn

import "testing"

// TestIntent_Verify changes each part of an intent that has a code.
func TestIntent_Verify(t *testing.T) {
	t.Parallel()
	key := []byte("0123456789abcdef0123456789abcdef")
	to := Address{1}
	whole := Tx{Submitter: 7, RequestID: "r", Caller: "shop",
		Payload: Payload{To: &to, Value: wei(5), Data: []byte{1}}}
	whole.RequestHash = RequestHash(whole.Payload, whole.Terms)
	whole.MAC = IntentMAC(key, 7, "r", whole.RequestHash, "shop", false)
	for name, c := range map[string]struct {
		change   func(*Tx)
		required bool
		valid    bool
	}{
		"unchanged":         {func(*Tx) {}, true, true},
		"value":             {func(tx *Tx) { tx.Payload.Value = wei(6) }, false, false},
		"recipient":         {func(tx *Tx) { tx.Payload.To = &Address{2} }, false, false},
		"terms":             {func(tx *Tx) { tx.Terms.MaxFee = wei(1) }, false, false},
		"account":           {func(tx *Tx) { tx.Submitter = 8 }, false, false},
		"request":           {func(tx *Tx) { tx.RequestID = "s" }, false, false},
		"caller":            {func(tx *Tx) { tx.Caller = "desk" }, false, false},
		"code":              {func(tx *Tx) { tx.MAC = make([]byte, 32) }, false, false},
		"no code":           {func(tx *Tx) { tx.MAC = nil }, false, true},
		"no code, required": {func(tx *Tx) { tx.MAC = nil }, true, false},
		"payload and hash": {func(tx *Tx) {
			tx.Payload.Value = wei(6)
			tx.RequestHash = RequestHash(tx.Payload, tx.Terms)
		}, false, false},
	} {
		tx := whole
		c.change(&tx)
		if err := tx.Verify(key, c.required); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIntent_Verify_Approval: the codes cover that an approval is needed, and who gave it.
func TestIntent_Verify_Approval(t *testing.T) {
	t.Parallel()
	key := []byte("0123456789abcdef0123456789abcdef")
	whole := Tx{Submitter: 7, RequestID: "r", Caller: "shop", Payload: Payload{Value: wei(5)}}
	whole.RequestHash = RequestHash(whole.Payload, whole.Terms)
	whole.MAC = IntentMAC(key, 7, "r", whole.RequestHash, "shop", true)
	whole.Approval = Approval{State: ApprovalGiven, By: "desk",
		MAC: ApprovalMAC(key, 7, "r", whole.RequestHash, "shop", "desk")}
	for name, c := range map[string]struct {
		change func(*Tx)
		valid  bool
	}{
		"unchanged":          {func(*Tx) {}, true},
		"needs none":         {func(tx *Tx) { tx.Approval = Approval{} }, false},
		"by another":         {func(tx *Tx) { tx.Approval.By = "boss" }, false},
		"without a code":     {func(tx *Tx) { tx.Approval.MAC = nil }, false},
		"code of the intent": {func(tx *Tx) { tx.Approval.MAC = tx.MAC }, false},
	} {
		tx := whole
		c.change(&tx)
		if err := tx.Verify(key, false); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAllocate_AwaitingApproval_NoStep: the decision, too, gives it no nonce.
func TestAllocate_AwaitingApproval_NoStep(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.view.Queue[0].Approval.State = ApprovalWaiting
	for range 20 {
		w.do(t, Decide(&w.view), Outcome{Class: Accepted}, accepted)
		w.view.Now = w.view.Now.Add(Backoff(5))
		w.head++
	}
	if len(w.nonces) > 0 || len(w.view.Queue) != 1 || w.view.Queue[0].Version != 1 {
		t.Errorf("it moved: %+v", w.view.Queue)
	}
}

// TestAllocate_OnHold_NeverSigned: a transaction that waits for an operator holds the head of the
// queue without an attempt, however long, until it is cancelled.
func TestAllocate_OnHold_NeverSigned(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]Refusal{
		"unverified": Unverified(), "unknown caller": CallerUnknown("shop"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(2, policy)
			w.view.Policy.PrepareMaxAge = Backoff(5)
			first := w.view.Queue[0].ID
			w.view.Refuse = func(tx *Tx) Refusal {
				if tx.ID == first {
					return why
				}
				return Refusal{}
			}
			for range 50 {
				w.do(t, Decide(&w.view), Outcome{Class: Accepted}, accepted)
				w.view.Now = w.view.Now.Add(Backoff(5))
				w.head++
			}
			head := w.view.Queue[0]
			if len(w.nonces) > 0 || head.ID != first || head.Sub != BackingOff ||
				head.Reason != why.Reason {
				t.Fatalf("nonces %v, head %+v", w.nonces, head.Status)
			}
			w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: first}}
			for step := 0; len(w.nonces) == 0; step++ {
				if step == 50 {
					t.Fatal("the next transaction takes no nonce")
				}
				w.do(t, Decide(&w.view), Outcome{Class: Accepted}, accepted)
			}
		})
	}
}

// TestReplaced_Unverified_Rebroadcast: a changed payload is not signed for a replacement.
func TestReplaced_Unverified_Rebroadcast(t *testing.T) {
	t.Parallel()
	w := capped(t)
	w.view.Policy.BumpMaxFee = wei(1000)
	w.do(t, w.afterRead(t), Outcome{}, Preparation{Outcome: Outcome{Class: Accepted},
		SignErr: ErrUnverified})
	if tx := w.view.Open[0]; tx.Reason != ReasonUnverified || len(tx.Attempts) != 1 {
		t.Errorf("%+v", tx.Status)
	}
}

package txn

import (
	"strings"
	"testing"
	"time"
)

// firstWrite returns the only write of the step of an external submitter; nil: it writes nothing.
func firstWrite(t *testing.T, v *View) *NonceWrite {
	t.Helper()
	step, ok := external(v)
	r, isRecord := step.(Record)
	switch {
	case !ok || !isRecord:
		return nil
	case len(r.Change.Nonces.Writes) != 1:
		t.Fatalf("%+v", r.Change.Nonces)
	}
	return &r.Change.Nonces.Writes[0]
}

// TestExternal_Hole_FilledOnEvidenceOnly: age is not enough to fill a nonce.
func TestExternal_Hole_FilledOnEvidenceOnly(t *testing.T) {
	t.Parallel()
	const after, hard = time.Minute, time.Hour
	for name, c := range map[string]struct {
		change func(v *View, hole, above *ExternalNonce)
		want   bool
	}{
		"released": {func(_ *View, hole, _ *ExternalNonce) {
			hole.State, hole.NeedsOperator = NonceRecyclable, false
		}, true},
		"released just now": {func(v *View, hole, _ *ExternalNonce) {
			hole.State, hole.NeedsOperator = NonceRecyclable, false
			hole.Since = v.Now
		}, false},
		"pending":  {func(*View, *ExternalNonce, *ExternalNonce) {}, true},
		"reserved": {func(_ *View, hole, _ *ExternalNonce) { hole.State = NonceReserved }, false},
		"in the pool": {func(v *View, _, _ *ExternalNonce) {
			v.Account.Pending = 1
		}, false},
		"in a block, unsettled": {func(v *View, _, _ *ExternalNonce) {
			v.Account.Latest, v.Account.Pending = 1, 1
		}, false},
		"account not read": {func(v *View, _, _ *ExternalNonce) { v.Account = nil }, false},
		"hash recorded": {func(_ *View, hole, _ *ExternalNonce) {
			hole.Hashes = []Hash{{1}}
		}, false},
		"signed by a former holder": {func(_ *View, hole, _ *ExternalNonce) {
			hole.Reason = NonceFormerSigned
		}, false},
		"nothing signed above": {func(_ *View, _, above *ExternalNonce) {
			above.Hashes = nil
		}, false},
		"off": {func(v *View, _, _ *ExternalNonce) { v.Policy.External.FillAfter = 0 },
			false},
		"protected": {func(v *View, _, _ *ExternalNonce) { v.Cursor.Protected = &Protected{} },
			false},
		"paused": {func(v *View, _, _ *ExternalNonce) { v.Submitter.Status = Paused }, false},
	} {
		v := externalView(NoncePending, &Account{})
		v.Cursor.Next = 2
		v.External.Requests = nil
		v.Policy.External = ExternalPolicy{FillAfter: after, HardMaxAge: hard}
		hole := &v.External.Nonces[0]
		hole.NeedsOperator, hole.Since = true, v.Now.Add(-hard)
		above := ExternalNonce{Nonce: 1, State: NoncePending, Version: 1, Reservation: TxID{7},
			NeedsOperator: true, Since: v.Now.Add(-hard), Hashes: []Hash{{2}}}
		c.change(v, hole, &above)
		v.External.Nonces = append(v.External.Nonces, above)
		w := firstWrite(t, v)
		if filled := w != nil; filled != c.want {
			t.Errorf("%s: %+v", name, w)
			continue
		}
		if w == nil {
			continue
		}
		if w.Next.State != NoncePending || w.Next.Reason != NonceHole || w.Next.Nonce != 0 {
			t.Errorf("%s: %+v", name, w.Next)
		}
		v.External.Nonces[0] = w.Next
		if step, ok := external(v); !ok || step != (FillHole{w.Next.Reservation}) {
			t.Errorf("%s: then %+v", name, step)
		}
		v.External.Filled = map[ReservationID]bool{w.Next.Reservation: true}
		if step, ok := external(v); ok {
			t.Errorf("%s: again %+v", name, step)
		}
		v.External.Requests = []NonceRequest{{No: 1, Kind: RequestRelease,
			Reservation: w.Next.Reservation}}
		if w := firstWriteOrResult(t, v); !strings.HasPrefix(w, ResultNonceState) {
			t.Errorf("%s: a nonce that is being filled is released: %s", name, w)
		}
	}
}

// firstWriteOrResult returns the result of the only request, which must write nothing.
func firstWriteOrResult(t *testing.T, v *View) string {
	t.Helper()
	step, _ := external(v)
	r, ok := step.(Record)
	if !ok || len(r.Change.Nonces.Results) != 1 || len(r.Change.Nonces.Writes) > 0 {
		t.Fatalf("%+v", step)
	}
	return r.Change.Nonces.Results[0].Result
}

// TestExternal_FormerHolderSigned_KeptAndShown: a report of a holder that had released its nonce,
// which another one holds by now, is refused, recorded, shown, and keeps the nonce from a third.
func TestExternal_FormerHolderSigned_KeptAndShown(t *testing.T) {
	t.Parallel()
	former, hash := TxID{7}, Hash{9}
	for _, state := range []NonceState{NonceReserved, NoncePending, NonceRecyclable} {
		v := externalView(state, &Account{})
		v.External.Requests = []NonceRequest{{No: 1, Kind: RequestRecordHash, Reservation: former,
			Given: new(Nonce), Hash: hash}}
		w := firstWrite(t, v)
		if w == nil || w.Next.State != NoncePending || w.Next.Reason != NonceFormerSigned ||
			!w.Next.NeedsOperator || w.Hash != hash || w.Former != former ||
			w.Next.Reservation != (TxID{1}) {
			t.Fatalf("%s: %+v", state, w)
		}
		v.External.Nonces[0] = w.Next
		for _, r := range []NonceRequest{
			{No: 2, Kind: RequestRelease, Reservation: TxID{1}},
			{No: 2, Kind: RequestResolve, Reservation: TxID{1}, Action: NonceNeverSigned},
			{No: 2, Kind: RequestRecordHash, Reservation: former, Given: new(Nonce), Hash: hash},
		} {
			v.External.Requests = []NonceRequest{r}
			if got := firstWriteOrResult(t, v); !strings.HasPrefix(got, ResultNonceState) {
				t.Errorf("%s: %s is answered %s", state, r.Kind, got)
			}
		}
	}
	v := externalView(NonceReserved, &Account{})
	v.External.Nonces = nil
	v.External.Requests = []NonceRequest{{No: 1, Kind: RequestRecordHash, Reservation: former,
		Given: new(Nonce), Hash: hash, Accepted: &ExternalNonce{State: NonceAccepted, Version: 3,
			Reservation: TxID{1}}}}
	if w := firstWrite(t, v); w == nil || w.Next.State != NonceAccepted || w.Hash != hash ||
		w.Former != former || w.Version != 3 {
		t.Fatalf("of an accepted nonce: %+v", w)
	}
}

// TestExternal_FormerHolderSigned_SameStep: the report and the next reservation of its nonce arrive
// together.
func TestExternal_FormerHolderSigned_SameStep(t *testing.T) {
	t.Parallel()
	v := externalView(NonceRecyclable, &Account{})
	v.External.Requests = append(v.External.Requests, NonceRequest{No: 2, Kind: RequestRecordHash,
		Reservation: TxID{1}, Given: new(Nonce), Hash: Hash{9}})
	w := firstWrite(t, v)
	if w == nil || w.Next.State != NonceReserved || w.Hash != (Hash{}) {
		t.Fatalf("first %+v", w)
	}
	v.External.Nonces[0], v.External.Requests = w.Next, v.External.Requests[1:]
	if w = firstWrite(t, v); w == nil || w.Next.Reason != NonceFormerSigned {
		t.Fatalf("then %+v", w)
	}
}

// TestExternal_Settled_ReasonNamesEvidence: a used nonce counts as its client's transaction only by
// a receipt, and the lack of one counts only if it was read after the nonce was used.
func TestExternal_Settled_ReasonNamesEvidence(t *testing.T) {
	t.Parallel()
	h := Hash{3}
	for name, c := range map[string]struct {
		hashes   []Hash
		receipts map[Hash]*Receipt
		settled  Nonce
		want     string
	}{
		"no hash":                  {nil, nil, 1, NonceBySettled},
		"no hash, an older read":   {nil, nil, 0, ""},
		"receipt":                  {[]Hash{h}, map[Hash]*Receipt{h: {}}, 1, NonceByReceipt},
		"receipt of an older read": {[]Hash{h}, map[Hash]*Receipt{h: {}}, 0, ""},
		"no receipt":               {[]Hash{h}, map[Hash]*Receipt{h: nil}, 1, NonceByOther},
		"none before":              {[]Hash{h}, map[Hash]*Receipt{h: nil}, 0, ""},
		"unread":                   {[]Hash{h}, nil, 1, ""},
	} {
		v := externalView(NoncePending, &Account{Latest: 1, Pending: 1, Settled: 1})
		v.External.Requests, v.External.Nonces[0].Hashes = nil, c.hashes
		v.External.Receipts, v.External.Settled = c.receipts, c.settled
		v.External.Before = 1
		switch w := firstWrite(t, v); {
		case w == nil && c.want != "":
			t.Errorf("%s: it waits", name)
		case w != nil && (w.Next.Reason != c.want || w.Next.State != NonceAccepted):
			t.Errorf("%s: %s %s", name, w.Next.State, w.Next.Reason)
		}
	}
}

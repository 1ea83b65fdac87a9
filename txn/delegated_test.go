package txn

import (
	"strings"
	"testing"
)

var acceptedCode = Address{0xac}

// TestAllocate_CodeAccepted_OneNonce: an account whose code is accepted takes one nonce at a time,
// whatever its limit. Pools keep no more.
func TestAllocate_CodeAccepted_OneNonce(t *testing.T) {
	t.Parallel()
	p := policy
	p.AllowCode = []Address{{1}, acceptedCode}
	w := newWorld(3, p)
	w.limit(4)
	w.view.Cursor = &Cursor{}
	account := Account{HasCode: true, Delegate: acceptedCode}
	w.setAccount(account)
	s, ok := Decide(&w.view).(Prepare)
	if !ok {
		t.Fatalf("not one is prepared: %+v", Decide(&w.view))
	}
	w.do(t, s, Outcome{}, accepted)
	account.Pending = 1
	for {
		w.setAccount(account)
		switch step := Decide(&w.view).(type) {
		case Prepare, PrepareRange:
			t.Fatalf("another one is prepared: %+v", step)
		case Rest:
			return
		default:
			w.do(t, step, Outcome{Class: Accepted}, accepted)
		}
	}
}

func TestAllocate_AccountHasCode_Waits(t *testing.T) {
	t.Parallel()
	p := policy
	p.AllowCode = []Address{acceptedCode}
	for _, cursor := range []*Cursor{nil, {}} {
		for of, remedy := range map[Address]string{
			{}:     "is a contract",
			{0xde}: "or accept this code in allow_code of the chain",
		} {
			w := newWorld(1, p)
			w.view.Cursor = cursor
			w.setAccount(Account{HasCode: true, Delegate: of})
			r, ok := Decide(&w.view).(Record)
			if !ok || r.Change.Init != nil {
				t.Fatalf("code of %s: %+v", of, Decide(&w.view))
			}
			if next := r.Change.Writes[0].Next; next.Reason != ReasonHasCode ||
				!strings.Contains(next.LastError, remedy) {
				t.Errorf("code of %s: %+v", of, next)
			}
		}
	}
}

// TestExternal_AccountHasCode: a client gets one nonce at a time if the code is accepted, and none
// otherwise.
func TestExternal_AccountHasCode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state NonceState
		code  Address
		want  string
	}{
		"accepted, free":     {NonceRecyclable, acceptedCode, Applied},
		"accepted, reserved": {NonceReserved, acceptedCode, ResultExhausted},
		"not accepted":       {NonceRecyclable, Address{0xde}, ResultNotReady},
		"contract":           {NonceRecyclable, Address{}, ResultNotReady},
	} {
		v := externalView(c.state, &Account{HasCode: true, Delegate: c.code})
		v.Policy.AllowCode = []Address{acceptedCode}
		step, _ := external(v)
		r, ok := step.(Record)
		if !ok || len(r.Change.Nonces.Results) != 1 {
			t.Fatalf("%s: %+v", name, step)
		}
		if got := r.Change.Nonces.Results[0].Result; !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}
}

package engine

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// picky signs for others what it does not sign for some payloads.
type rejectingSigner struct {
	Signer
	refuse func(txn.Payload) error
}

func (p rejectingSigner) Sign(ctx context.Context, signer string, u txn.Unsigned) (txn.Signed,
	error) {
	if err := p.refuse(u.Payload); err != nil {
		return txn.Signed{}, err
	}
	return p.Signer.Sign(ctx, signer, u)
}

// reverting is a payload that a simulation refuses.
func (v *chainHarness) reverting() txn.Payload {
	if v.memory == nil {
		return txn.Payload{
			Data: []byte{0x60, 0, 0x60, 0, 0xfd},
		} // a creation whose code is PUSH1 0, PUSH1 0, REVERT
	}
	to := txn.Address{0xfe}
	v.memory.Register(to, chaintest.Reverter("never"))
	return txn.Payload{To: &to}
}

// A head that can never be sent ends without a nonce, and the one behind it goes on.
func TestQueueHead_NeverSendable_NoNonce(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		to := txn.Address{0xaa}
		heads := map[string]struct {
			payload func(*chainHarness) txn.Payload
			refuse  error // of the signer
			reason  string
		}{
			"reverts in simulation": {(*chainHarness).reverting, nil, txn.ReasonPrepareReverted},
			"too little gas": {
				func(*chainHarness) txn.Payload {
					return txn.Payload{To: &to, Data: []byte{1, 2, 3},
						GasLimit: 21_000}
				},
				nil,
				txn.ReasonInvalid,
			},
			"less than any": {
				func(*chainHarness) txn.Payload { return txn.Payload{To: &to, GasLimit: 20_000} },
				nil,
				txn.ReasonInvalid,
			},
			"cannot be signed": {
				func(*chainHarness) txn.Payload {
					return txn.Payload{To: &to,
						Value: *uint256.NewInt(13)}
				},
				txn.ErrKeyMissing,
				txn.ReasonSignerKeyMissing,
			},
		}
		for name, head := range heads {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				v := newChainHarness(t, kind, quick, func(o *Options) {
					o.Signer = rejectingSigner{o.Signer, func(p txn.Payload) error {
						if p.Value.Eq(uint256.NewInt(13)) {
							return head.refuse
						}
						return nil
					}}
				})
				v.node()
				id := v.create(0, "head", head.payload(v))
				behind := v.create(0, "behind", transfer())
				if tx := v.finish(id); tx.State != txn.Failed || tx.Executed != txn.No ||
					tx.Nonce != nil ||
					tx.Reason != head.reason ||
					tx.LastError == "" {
					t.Errorf("%+v", tx.Status)
				}
				if tx := v.finish(behind); tx.State != txn.Confirmed || *tx.Nonce != 0 {
					t.Errorf("the one behind it is %+v", tx.Status)
				}
			})
		}
	})
}

// Where gas limits are trusted a head that brings one is not simulated: it takes its nonce, reverts
// on the chain, and the one behind it goes on. One that cannot be enough for its data still ends
// without a nonce.
func TestQueueHead_TrustedGasLimit_NotSimulated(t *testing.T) {
	t.Parallel()
	v := newChainHarness(t, "memory", quick, nil)
	v.onMemory(chaintest.New(chaintest.Options{TrustGasLimits: true}))
	v.node()
	reverts := v.reverting()
	unlimited := v.create(0, "reverts in simulation", reverts)
	reverts.GasLimit = 20_000
	tooLow := v.create(0, "too low", reverts)
	reverts.GasLimit = 100_000
	own := v.create(0, "reverts on the chain", reverts)
	behind := v.create(0, "behind", transfer())
	for id, reason := range map[txn.TxID]string{unlimited: txn.ReasonPrepareReverted,
		tooLow: txn.ReasonInvalid} {
		if tx := v.finish(id); tx.State != txn.Failed || tx.Executed != txn.No || tx.Nonce != nil ||
			tx.Reason != reason {
			t.Errorf("%s: %+v", tx.RequestID, tx.Status)
		}
	}
	if tx := v.finish(own); tx.State != txn.Failed || tx.Executed != txn.Reverted ||
		*tx.Nonce != 0 {
		t.Errorf("%s: %+v", tx.RequestID, tx.Status)
	}
	if tx := v.finish(behind); tx.State != txn.Confirmed || *tx.Nonce != 1 {
		t.Errorf("the one behind it is %+v", tx.Status)
	}
}

// What keeps a head from being sent goes away. It kept its place, took no nonce, and goes on by
// itself; so does the one behind it.
func TestQueueHead_TemporaryFailure_Waits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signer error // until after
		before func(*chainHarness)
		reason string
		sub    txn.Sub // BACKING_OFF, unless it is another
		after  func(*chainHarness)
	}{
		"no funds": {
			before: func(v *chainHarness) { v.memory.Drain(devchain.Address(0)) },
			reason: txn.ReasonInsufficientFunds, sub: txn.Unfunded,
			after: func(v *chainHarness) {
				v.memory.Fund(devchain.Address(0), *uint256.MustFromDecimal("1000000000000000000"))
			},
		},
		"no fees below the cap": {
			before: func(v *chainHarness) {
				v.memory.SetBaseFee(*uint256.NewInt(900e9))
				v.mine(1)
			}, reason: txn.ReasonFeeCap,
			after: func(v *chainHarness) { v.memory.SetBaseFee(*uint256.NewInt(1e9)); v.mine(1) },
		},
		"code at the account": {
			before: func(v *chainHarness) { v.memory.SetCode(devchain.Address(0), true) },
			reason: txn.ReasonHasCode,
			after:  func(v *chainHarness) { v.memory.SetCode(devchain.Address(0), false) },
		},
		"the signer is away":     {signer: txn.ErrUnavailable, reason: txn.ReasonSignerUnavailable},
		"the signer is mistaken": {signer: txn.ErrSignerFault, reason: txn.ReasonSignerFault},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var signs atomic.Bool
			v := newChainHarness(t, "memory", quick, func(o *Options) {
				o.Signer = rejectingSigner{o.Signer, func(txn.Payload) error {
					if signs.Load() {
						return nil
					}
					return c.signer
				}}
			})
			if c.before != nil {
				c.before(v)
			}
			v.node()
			most := txn.Terms{MaxFee: *uint256.NewInt(100e9)}
			id, behind := v.createWith("head", transfer(), most), v.createWith("behind", transfer(),
				most)
			tx := v.await(id, "it waits", func(tx txn.Tx) bool { return tx.Reason == c.reason })
			if tx.State != txn.Queued || tx.Sub != cmp.Or(c.sub, txn.BackingOff) ||
				tx.Nonce != nil ||
				tx.WaitingSince.IsZero() {
				t.Errorf("%+v", tx.Status)
			}
			signs.Store(true)
			if c.after != nil {
				c.after(v)
			}
			for i, id := range []txn.TxID{id, behind} {
				if tx := v.finish(id); tx.State != txn.Confirmed || *tx.Nonce != txn.Nonce(i) {
					t.Errorf("%d: %+v", i, tx.Status)
				}
			}
		})
	}
}

// The account is emptied by somebody else once the nonce is taken: before a node has the
// transaction, or after that, when its pool has dropped it for that. The nonce is kept. At each
// time until there is money again it says that this is what it waits for, also when it is STUCK by
// its hand-overs; then it goes on by itself, and so do those behind it.
func TestFunds_SpentAfterAllocation_Unfunded(t *testing.T) {
	t.Parallel()
	const few = 4
	for name, c := range map[string]struct {
		taken bool // by a node, before
		max   int
		want  []txn.Kind
	}{
		"funded in time": {false, 1000, []txn.Kind{txn.EventQueued, txn.EventAllocated,
			txn.EventDelayed, txn.EventSubmitted}},
		"funded late": {false, few, []txn.Kind{txn.EventQueued, txn.EventAllocated,
			txn.EventDelayed, txn.EventStuck, txn.EventUnstuck}},
		"dropped, and funded in time": {true, 1000, []txn.Kind{txn.EventQueued, txn.EventAllocated,
			txn.EventSubmitted, txn.EventDelayed, txn.EventResubmitted}},
		"dropped, and funded late": {true, few, []txn.Kind{txn.EventQueued, txn.EventAllocated,
			txn.EventSubmitted, txn.EventDelayed, txn.EventStuck, txn.EventUnstuck}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := quick
			p.ResubmitMax = c.max
			v := newChainHarness(t, "memory", p, nil)
			v.drainedAtSend(c.taken)
			v.node()
			id, behind := v.create(0, "head", transfer()), v.create(0, "behind", transfer())
			v.awaitUnfunded(id, 3*few, c.max, c.taken)
			v.memory.Fund(devchain.Address(0), *uint256.MustFromDecimal("1000000000000000000"))
			v.eventually("it goes on", v.is(id, txn.Pending))
			if got := v.events(id); !slices.Equal(got, c.want) {
				t.Errorf("told %v, want %v", got, c.want)
			}
			for i, id := range []txn.TxID{id, behind} {
				if tx := v.finish(id); tx.State != txn.Confirmed || *tx.Nonce != txn.Nonce(i) ||
					len(v.awaitAttempts(id, 1)) != 1 {
					t.Errorf("%d: %+v", i, tx.Status)
				}
			}
		})
	}
}

// drainedAtSend takes the account's money when something is handed over for the first time, or once
// it was taken.
func (v *chainHarness) drainedAtSend(taken bool) {
	sends := new(atomic.Int32)
	gone := int32(1)
	if taken {
		gone = 2
	}
	v.memory.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		if call.Method == chaintest.MethodSend && sends.Add(1) == gone {
			v.forget()
			v.memory.Drain(devchain.Address(0))
		}
		return chaintest.Fault{}
	})
}

// unfunded watches a transaction through so many refused hand-overs: it says at each time that it
// waits for money.
func (v *chainHarness) awaitUnfunded(id txn.TxID, moves, most int, taken bool) {
	v.t.Helper()
	v.await(id, "it waits for money", func(tx txn.Tx) bool { return tx.Sub == txn.Unfunded })
	v.await(id, "it is handed over often", func(tx txn.Tx) bool {
		want := txn.Allocated
		if taken {
			want = txn.Tracking
		}
		if tx.SubmitAttempts >= most && tx.State == txn.Stuck {
			want = txn.Stuck
		}
		if tx.State != want || tx.Sub != txn.Unfunded || tx.Reason != txn.ReasonInsufficientFunds ||
			!strings.Contains(tx.LastError, "insufficient funds for this transaction") ||
			*tx.Nonce != 0 {
			v.t.Errorf("%+v", tx.Status)
		}
		return tx.SubmitAttempts >= moves && (most > moves || tx.State == txn.Stuck)
	})
}

// A transaction that ran and reverted ends; whether the queue goes on is the account's choice,
// which may be changed under its owner.
func TestRevert_FailurePolicy_Applied(t *testing.T) {
	t.Parallel()
	told := &jsonLog{}
	v := newChainHarness(t, "memory", quick, func(o *Options) { o.Logger = told.logger() })
	to := txn.Address{0xfd}
	var reverts atomic.Bool
	v.memory.Register(to, func(chaintest.Message) error {
		if reverts.Load() {
			return errors.New("not any more")
		}
		return nil
	})
	v.node()
	fails := func(request string) {
		t.Helper()
		reverts.Store(false)
		id := v.create(0, request, txn.Payload{To: &to})
		v.eventually("it is sent", v.is(id, txn.Pending))
		reverts.Store(true)
		if tx := v.finish(id); tx.State != txn.Failed || tx.Executed != txn.Reverted ||
			tx.Reason != txn.ReasonReverted {
			t.Errorf("%+v", tx.Status)
		}
	}
	status := func() txn.SubmitterStatus { return v.info().Status }
	fails("one")
	if got := status(); got != txn.Active {
		t.Errorf("it is %s", got)
	}
	if err := v.admin.SetPolicies(t.Context(), v.submitters[0],
		store.PolicyChange{OnFailure: new(txn.PauseOnFailure)}); err != nil {
		t.Fatal(err)
	}
	if got := v.decide(store.Ask{Kind: txn.CommandUpdate}); got != txn.Applied {
		t.Fatal(got)
	}
	fails("two")
	if got := status(); got != txn.Paused {
		t.Errorf("it is %s", got)
	}
	said := regexp.MustCompile(
		`^transaction [0-9a-f-]{36} \(request "two"\) was included in block [0-9]+ \(0x[0-9a-f]{64}\) and reverted, and on_failure is PAUSE$`)
	if p := v.info().Pause; p == nil || !p.OnFailure || p.Operator != txn.OperatorSelf ||
		!said.MatchString(p.Reason) ||
		p.At.IsZero() {
		t.Errorf("it is paused by %+v", p)
	}
	if lines := told.find(t, "submitter paused; resume it to continue allocation"); len(
		lines) != 1 ||
		lines[0]["reason"] != v.info().Pause.Reason ||
		lines[0]["level"] != "WARN" {
		t.Errorf("logged %v", lines)
	}
	if got := v.decide(store.Ask{Kind: txn.CommandResume}); got != txn.Applied {
		t.Fatal(got)
	}
	if tx := v.finish(v.create(0, "three", transfer())); tx.State != txn.Confirmed ||
		*tx.Nonce != 2 {
		t.Errorf("%+v", tx.Status)
	}
}

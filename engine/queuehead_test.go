package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// rejectingSigner refuses to sign some payloads.
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

// reverting returns a payload that fails in simulation.
func (v *chainHarness) reverting() txn.Payload {
	if v.memory == nil {
		return txn.Payload{
			Data: []byte{0x60, 0, 0x60, 0, 0xfd},
		} // init code PUSH1 0, PUSH1 0, REVERT
	}
	to := txn.Address{0xfe}
	v.memory.Register(to, chaintest.Reverter("never"))
	return txn.Payload{To: &to}
}

// TestQueueHead_NeverSendable_NoNonce verifies that a head that can never be sent fails without a
// nonce, and the next one proceeds.
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
			"gas below the minimum": {
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
					tx.Nonce != nil || tx.Reason != head.reason || tx.LastError == "" {
					t.Errorf("%+v", tx.Status)
				}
				if tx := v.finish(behind); tx.State != txn.Confirmed || *tx.Nonce != 0 {
					t.Errorf("the next one is %+v", tx.Status)
				}
			})
		}
	})
}

// TestQueueHead_TrustedGasLimit_NotSimulated verifies that with trusted gas limits a head with a
// limit is not simulated: it takes its nonce and reverts on chain. A limit below the minimum still
// fails without a nonce.
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
		t.Errorf("the next one is %+v", tx.Status)
	}
}

// TestQueueHead_TemporaryFailure_Waits verifies that a head that cannot be sent yet keeps its
// position without a nonce, and proceeds automatically.
func TestQueueHead_TemporaryFailure_Waits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signer error // until after is called
		before func(*chainHarness)
		reason string
		sub    txn.Sub // default BACKING_OFF
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
			before: func(v *chainHarness) {
				v.memory.Delegate(devchain.Address(0), txn.Address{1})
			},
			reason: txn.ReasonHasCode,
			after: func(v *chainHarness) {
				v.memory.Delegate(devchain.Address(0), txn.Address{})
			},
		},
		"signer unavailable": {signer: txn.ErrUnavailable, reason: txn.ReasonSignerUnavailable},
		"signer faulty":      {signer: txn.ErrSignerFault, reason: txn.ReasonSignerFault},
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
				tx.Nonce != nil || tx.WaitingSince.IsZero() {
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

// TestFunds_SpentAfterAllocation_Unfunded drains the account after the nonce is taken: before a
// node has the transaction, or after its pool dropped it. The nonce is kept and the transaction is
// UNFUNDED, also while STUCK. Once funded, it and the next ones proceed automatically.
func TestFunds_SpentAfterAllocation_Unfunded(t *testing.T) {
	t.Parallel()
	const few = 4
	for name, c := range map[string]struct {
		taken bool // a node accepted it before
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
			v.eventually("it proceeds", v.is(id, txn.Pending))
			if got := v.events(id); !slices.Equal(got, c.want) {
				t.Errorf("events %v, want %v", got, c.want)
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

// drainedAtSend drains the account at the first broadcast, or at the second if taken.
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

// awaitUnfunded follows a transaction through rejected broadcasts; it is UNFUNDED all the time.
func (v *chainHarness) awaitUnfunded(id txn.TxID, moves, most int, taken bool) {
	v.t.Helper()
	v.await(id, "it is UNFUNDED", func(tx txn.Tx) bool { return tx.Sub == txn.Unfunded })
	v.await(id, "it is rebroadcast often", func(tx txn.Tx) bool {
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

// TestRevert_FailurePolicy_Applied verifies that on_failure decides whether the queue continues
// after a revert. It may change while the submitter has an owner.
func TestRevert_FailurePolicy_Applied(t *testing.T) {
	t.Parallel()
	log := &jsonLog{}
	v := newChainHarness(t, "memory", quick, func(o *Options) { o.Logger = log.logger() })
	to := txn.Address{0xfd}
	var reverts atomic.Bool
	v.memory.Register(to, func(chaintest.Message) error {
		if reverts.Load() {
			return errors.New("reverts")
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
	want := regexp.MustCompile(`^transaction [0-9a-f-]{36} .*"two".* on_failure is PAUSE$`)
	if p := v.info().Pause; p == nil || !p.OnFailure || p.Operator != txn.OperatorSelf ||
		!want.MatchString(p.Reason) || p.At.IsZero() {
		t.Errorf("paused by %+v", p)
	}
	if lines := log.find(t, "submitter paused; resume it to continue allocation"); len(
		lines) != 1 || lines[0]["reason"] != v.info().Pause.Reason || lines[0]["level"] != "WARN" {
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

// TestQuirk_CodeSetMeanwhile_Waits sets code at the account of a busy owner. It is noticed without
// another read for each transaction, and the queue waits until the code is removed.
func TestQuirk_CodeSetMeanwhile_Waits(t *testing.T) {
	t.Parallel()
	v := newChainHarness(t, "memory", quick, func(o *Options) { o.AccountMaxAge = time.Second })
	v.node()
	v.finish(v.create(0, "before", transfer()))
	v.memory.Delegate(devchain.Address(0), txn.Address{1})
	for n := 0; ; n++ { // no pause that would make the owner read the account anyway
		id := v.create(0, fmt.Sprint(n), transfer())
		tx := v.await(id, "final, or waiting", func(tx txn.Tx) bool {
			if tx.State == txn.Tracking {
				v.mine(1)
			}
			return tx.State.Final() || tx.Reason == txn.ReasonHasCode
		})
		if tx.Reason == txn.ReasonHasCode {
			v.memory.Delegate(devchain.Address(0), txn.Address{})
			v.finish(id)
			return
		}
	}
}

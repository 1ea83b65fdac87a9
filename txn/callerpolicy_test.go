package txn

import (
	"testing"

	"github.com/holiman/uint256"
)

func TestCallerPolicy_Denies(t *testing.T) {
	t.Parallel()
	shop, other := Address{1}, Address{2}
	transfer := Selector{0xa9, 0x05, 0x9c, 0xbb}
	policy := &CallerPolicy{
		Recipients: []Address{shop},
		Selectors:  []Selector{transfer},
		MaxValue:   uint256.NewInt(10),
		Quota:      Quota{DayValue: uint256.NewInt(8), DayGas: 50000},
	}
	allowed := Payload{To: &shop, Value: *uint256.NewInt(8), GasLimit: 50000,
		Data: append(transfer[:], 1, 2)}
	for name, c := range map[string]struct {
		policy *CallerPolicy
		change func(*Payload)
		want   Rule
	}{
		"no policy":         {nil, func(p *Payload) { p.To = &other }, ""},
		"empty policy":      {&CallerPolicy{}, func(p *Payload) { p.To = nil }, ""},
		"allowed":           {policy, func(*Payload) {}, ""},
		"plain transfer":    {policy, func(p *Payload) { p.Data = nil }, ""},
		"other recipient":   {policy, func(p *Payload) { p.To = &other }, RuleRecipients},
		"contract creation": {policy, func(p *Payload) { p.To = nil }, RuleRecipients},
		"creation, any recipient": {&CallerPolicy{Selectors: policy.Selectors},
			func(p *Payload) { p.To = nil }, RuleSelectors},
		"other function": {policy, func(p *Payload) { p.Data = []byte{1, 2, 3, 4} },
			RuleSelectors},
		"three bytes":     {policy, func(p *Payload) { p.Data = transfer[:3] }, RuleSelectors},
		"too much value":  {policy, func(p *Payload) { p.Value.SetUint64(11) }, RuleMaxValue},
		"more than a day": {policy, func(p *Payload) { p.Value.SetUint64(9) }, RuleDayValue},
		"too much gas":    {policy, func(p *Payload) { p.GasLimit = 50001 }, RuleDayGas},
		"unknown gas":     {policy, func(p *Payload) { p.GasLimit = 0 }, RuleDayGas},
	} {
		payload := allowed
		c.change(&payload)
		if got := c.policy.Denies(&payload); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// refusingSecond is a world whose second transaction must not be signed.
func refusingSecond(p Policy, limit int) *world {
	w := newWorld(3, p)
	w.view.Submitter.Limit = limit
	if limit > 1 {
		w.view.Submitter.Mode = Pipelined
	}
	refused := w.view.Queue[1].ID
	w.view.Refuse = func(tx *Tx) Refusal {
		if tx.ID == refused {
			return RefusedByPolicy("shop", RuleRecipients)
		}
		return Refusal{}
	}
	return w
}

// TestAllocate_Refused_FailsWithoutNonce: it fails at the head of the queue, takes no nonce, and
// the next one proceeds.
func TestAllocate_Refused_FailsWithoutNonce(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"strict": 1, "pipelined": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := refusingSecond(policy, limit)
			refused := w.view.Queue[1].ID
			for step := 0; len(w.nonces) < 2; step++ {
				if step == 200 {
					t.Fatal("the third transaction takes no nonce")
				}
				w.do(t, Decide(&w.view), Outcome{Class: Accepted}, accepted)
				for _, tx := range w.view.Open {
					if w.included[tx.TxHash] == nil && tx.Accepted > 0 {
						w.include(tx.TxHash, true)
					}
				}
				w.head++
			}
			failed := w.final[0]
			for _, tx := range w.final {
				if tx.ID == refused {
					failed = tx
				}
			}
			if failed.ID != refused || failed.State != Failed || failed.Executed != No ||
				failed.Reason != ReasonPolicyDenied || failed.Nonce != nil ||
				len(failed.Attempts) > 0 {
				t.Errorf("refused: %+v", failed)
			}
			for _, id := range w.order {
				if id == refused {
					t.Error("the refused transaction has a nonce")
				}
			}
		})
	}
}

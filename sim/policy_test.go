package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// PayPlan is the payment of a call, and the decisions about it if it needs an approval.
type PayPlan struct {
	Value  uint64 // wei
	Asks   []AskPlan
	Within time.Duration // for which it waits for a decision
}

// AskPlan is one decision of a caller.
type AskPlan struct {
	Caller  string
	Approve bool
	After   time.Duration // from the call
	Node    int
}

// The callers of the simulation, and the policy of the first one.
const (
	spender  = "spender" // creates all transactions
	approver = "approver"

	approveAbove = 3
	// mostValue is the most that the policy allows when owners sign. Nodes accepted more before it
	// was tightened.
	mostValue = 6
)

// DrawPolicies returns a plan whose calls spend, above the limits of their caller's policy too.
func DrawPolicies(seed uint64) Plan {
	p := Draw(seed)
	p.Policies = true
	d := rand.New(rand.NewPCG(seed, 0x901))
	for i := range p.Calls {
		p.Calls[i].Pay = drawPay(d, &p)
	}
	for range 2 + d.IntN(4) {
		p.Faults = append(p.Faults, Fault{
			Node: -1, At: between(d, time.Second, faultTime), Count: 1 + d.IntN(4),
			On:  "sql:" + one(d, "DecideApproval", "DecideApproval", "ExpireApprovals"),
			For: between(d, time.Second, 25*time.Second),
			Do: one(d, doLoseReply, doLoseReply, doCutBefore, doArriveLate, doReplyLate, doFreeze,
				doCrash, doCrashBefore),
		})
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	for i := range p.Faults {
		p.Faults[i].No = i
	}
	return p
}

func drawPay(d *rand.Rand, p *Plan) *PayPlan {
	pay := &PayPlan{Value: uint64(d.IntN(10)), Within: 24 * time.Hour}
	if pay.Value <= approveAbove {
		return pay
	}
	ask := func(caller string, approve bool) {
		pay.Asks = append(pay.Asks, AskPlan{Caller: caller, Approve: approve,
			After: between(d, 100*time.Millisecond, 40*time.Second), Node: d.IntN(p.Nodes)})
	}
	if d.IntN(2) == 0 {
		ask(spender, true) // it may not
	}
	switch d.IntN(6) {
	case 0:
		ask(approver, false)
	case 1: // the first one counts
		ask(approver, true)
		ask(approver, false)
	case 2:
		pay.Within = between(d, time.Second, 20*time.Second) // nobody decides
	default:
		ask(approver, true)
	}
	return pay
}

func (p *PayPlan) String() string {
	if p == nil {
		return ""
	}
	text := fmt.Sprintf(", pays %d", p.Value)
	for _, ask := range p.Asks {
		decision := "denies"
		if ask.Approve {
			decision = "approves"
		}
		text += fmt.Sprintf(", %s %s %.1fs later on %c", ask.Caller, decision,
			ask.After.Seconds(), 'a'+ask.Node)
	}
	return text
}

// needsApproval reports whether a call needs the approval of another caller.
func (c *call) needsApproval() bool { return c.plan.Pay != nil && c.plan.Pay.Value > approveAbove }

// intent returns the intent of a call, as a node accepts it.
func (c *call) intent() store.Intent {
	intent := store.Intent{Submitter: c.submitter, RequestID: c.request(), Payload: c.payload()}
	if pay := c.plan.Pay; pay != nil {
		intent.Caller = spender
		intent.Payload.Value.SetUint64(pay.Value)
		if c.needsApproval() {
			intent.ApprovalTime = pay.Within
		}
	}
	return intent
}

// refuse is the policy of owners.
func (w *World) refuse(tx *txn.Tx) txn.Refusal {
	policy := &txn.CallerPolicy{MaxValue: new(txn.Wei).SetUint64(mostValue),
		ApproveAbove: new(txn.Wei).SetUint64(approveAbove)}
	if tx.Caller != spender {
		return txn.Refusal{}
	}
	if rule := policy.Denies(&tx.Payload); rule != "" {
		return txn.RefusedByPolicy(tx.Caller, rule)
	}
	if policy.NeedsApproval(&tx.Payload) && tx.Approval.State != txn.ApprovalGiven {
		return txn.RefusedByPolicy(tx.Caller, txn.RuleApproval)
	}
	return txn.Refusal{}
}

// beginPolicies schedules the decisions, and the expiry of those that are not made.
func (w *World) beginPolicies() {
	if !w.plan.Policies {
		return
	}
	for _, c := range w.calls {
		for i, ask := range c.plan.Pay.Asks {
			who := fmt.Sprintf("decision %d.%d", c.plan.No, i)
			w.at(w.now()+c.plan.At+ask.After, who, func() { w.review(who, c, ask) })
		}
	}
	w.expire()
}

// review makes a decision about a transaction once it is accepted.
func (w *World) review(who string, c *call, ask AskPlan) {
	go w.retry(who, ask.Node, func(ctx context.Context, n *node) bool {
		w.mu.Lock()
		accepted := slices.Clone(c.answers)
		w.mu.Unlock()
		if len(accepted) == 0 {
			return false
		}
		info, err := n.store.Tx(ctx, accepted[0])
		if err != nil {
			return false
		}
		w.mu.Lock()
		if ask.Approve && ask.Caller != spender {
			w.approved[c.plan.No] = true // it may be in force as soon as it is sent
		}
		w.mu.Unlock()
		err = n.store.DecideApproval(ctx, &info.Tx,
			store.Decision{Approved: ask.Approve, Caller: ask.Caller, Reason: "sim"})
		return err == nil || errors.Is(err, store.ErrNotAwaiting)
	})
}

// expire fails transactions that were not decided in time, on one node after another.
func (w *World) expire() {
	w.at(w.now()+5*time.Second, "expiry", func() {
		index := int(w.now()/(5*time.Second)) % w.plan.Nodes
		go w.try("expiry", index, func(ctx context.Context, n *node) bool {
			_, err := n.store.ExpireApprovals(ctx)
			return err == nil
		})
		w.expire()
	})
}

// judgePayment checks a transaction that leaves a node. P1: nothing is broadcast that the policy of
// its caller refuses. P2: nothing above the limit is broadcast without an approval by another
// caller than the one that created it.
func (w *World) judgePayment(n *node, signed txn.Signed) {
	if !w.plan.Policies {
		return
	}
	var tx types.Transaction
	if err := tx.UnmarshalBinary(signed.Raw); err != nil {
		w.violated("sim", "%v", err)
		return
	}
	number, paid := strings.CutPrefix(string(tx.Data()), "call ")
	if !paid {
		return // a cancel transaction
	}
	no, err := strconv.Atoi(number)
	if err != nil {
		w.violated("sim", "%v", err)
	}
	w.mu.Lock()
	approved := w.approved[no]
	w.mu.Unlock()
	switch value := tx.Value().Uint64(); {
	case value > mostValue:
		w.violated("P1", "node %s broadcasts call %d, which pays %d of at most %d", n.title(), no,
			value, mostValue)
	case value > approveAbove && !approved:
		w.violated("P2", "node %s broadcasts call %d, which pays %d, and no other caller approved",
			n.title(), no, value)
	}
}

// judgePolicies checks the outcomes: a refused or unapproved call has failed or was cancelled.
// Everything is final by then.
func (w *World) judgePolicies(l *ledger) {
	for _, c := range w.calls {
		r := w.rowOf(l, c)
		if c.plan.Pay == nil || r == nil || r.state != string(txn.Confirmed) {
			continue
		}
		if c.plan.Pay.Value > mostValue {
			w.violated("P1", "call %d, which pays %d, is %s", c.plan.No, c.plan.Pay.Value, r.state)
		}
		if c.needsApproval() && !w.approved[c.plan.No] {
			w.violated("P2", "call %d, which no other caller approved, is %s", c.plan.No, r.state)
		}
	}
}

// TestPolicySeeds runs simulations whose calls need approvals and violate policies.
func TestPolicySeeds(t *testing.T) {
	t.Parallel()
	playSeeds(t, "policies", DrawPolicies)
}

package main

import (
	"strings"
	"testing"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// An UNFUNDED transaction is shown as such everywhere, with the remedy.
func TestUnfunded_Shown(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	const lacks = "insufficient funds for this transaction: it has 1 ether, may need 3, and " +
		"lacks 2 ether"
	poor := func(s *txn.Status, _ *txn.Change) {
		s.Sub = txn.Unfunded
		s.Reason = txn.ReasonInsufficientFunds
		s.LastError = lacks
		s.LastOutcome = txn.InsufficientFunds
	}
	text := l.create("r1")
	id, err := txn.ParseTxID(text)
	l.must(err)
	shown := func(state, nonce string) {
		t.Helper()
		l.rows(l.good("tx", "get", text), `state +`+state+`/UNFUNDED`, `reason +INSUFFICIENT_FUNDS`,
			`last_error +`+lacks,
			`what_to_do +fund the account; see "fencepost submitter show alice"`)
		l.rows(l.good("tx", "list"), text+` .*`+state+`/UNFUNDED +INSUFFICIENT_FUNDS.*`)
		l.rows(
			l.good("submitter", "show", "alice"),
			`(queue_head|blocking) +`+text+` `+state+`/UNFUNDED`+nonce+`, accepted \S+; `+
				`INSUFFICIENT_FUNDS: `+lacks,
			`Insufficient funds\. Fund 0x01\S+ on chain 31337; .*`,
			`  fencepost tx watch `+text+` .*`,
			`  fencepost tx cancel `+text+` +# cancel it.*`,
		)
	}
	l.move(id, txn.EventDelayed, txn.Queued, poor)
	shown("QUEUED", "")
	l.move(id, txn.EventAllocated, txn.Allocated, func(s *txn.Status, c *txn.Change) {
		s.Sub = txn.None
		s.Reason = ""
		s.LastError = ""
		s.Nonce = new(
			txn.Nonce(0))
		s.TxHash = txn.Hash{
			7,
		}
		c.Take = &txn.Take{
			Nonce: 0,
		}
	})
	if out := l.good("tx", "get", text) + l.good("submitter", "show", "alice"); strings.Contains(
		out, "what_to_do") ||
		strings.Contains(out, "Insufficient funds") {
		t.Errorf("printed %s", out)
	}
	l.move(id, txn.EventDelayed, txn.Allocated, poor)
	shown("ALLOCATED", ", nonce 0")
	l.move(id, txn.EventStuck, txn.Stuck, poor)
	shown("STUCK", ", nonce 0")
	l.deciding(0)
	if out := l.good("tx", "cancel", text); !strings.Contains(out,
		`fund the account; see "fencepost submitter show alice"`) {
		t.Errorf("printed %s", out)
	}
}

func TestFunding_ShownWhenBlocking(t *testing.T) {
	t.Parallel()
	waiting := func(sub pb.TxSubState) *pb.Waiting { return &pb.Waiting{TxId: "id", SubState: sub} }
	poor, other := waiting(pb.TxSubState_TX_SUB_STATE_UNFUNDED), waiting(
		pb.TxSubState_TX_SUB_STATE_BACKING_OFF)
	for name, c := range map[string]struct {
		s    *pb.Submitter
		want bool
	}{
		"nothing waits":                {&pb.Submitter{}, false},
		"the head":                     {&pb.Submitter{QueueHead: poor}, true},
		"the head, for something else": {&pb.Submitter{QueueHead: other}, false},
		"the head of a paused account": {
			&pb.Submitter{QueueHead: poor, Status: pb.SubmitterStatus_SUBMITTER_STATUS_PAUSED},
			false,
		},
		"the head, behind what is blocked": {
			&pb.Submitter{QueueHead: poor, Blocking: other}, false,
		},
		"in flight of a paused account": {
			&pb.Submitter{Blocking: poor, Status: pb.SubmitterStatus_SUBMITTER_STATUS_PAUSED}, true,
		},
		"in flight, protected": {
			&pb.Submitter{
				Blocking: poor, Protection: &pb.Protection{Reason: txn.ReasonNonceElsewhere},
			},
			false,
		},
	} {
		if heading, steps := nextSteps(c.s, nil); strings.HasPrefix(heading,
			"Insufficient funds") != c.want ||
			c.want != (len(steps) == 2 && strings.Contains(steps[0], "tx watch id")) {
			t.Errorf("%s: %q %q", name, heading, steps)
		}
	}
}

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// The outcome of a cancel depends on the state of the transaction.
func TestTxCancel_Outcomes(t *testing.T) {
	t.Parallel()
	const (
		queued   = pb.TxState_TX_STATE_QUEUED
		tracking = pb.TxState_TX_STATE_TRACKING
		stuck    = pb.TxState_TX_STATE_STUCK
	)
	attempts := func(kinds ...string) *pb.OperatorDetails {
		o := &pb.OperatorDetails{}
		for i, kind := range kinds {
			o.Attempts = append(o.Attempts,
				&pb.Attempt{AttemptNo: uint32(i + 1), Kind: kind, TxHash: kind})
		}
		return o
	}
	protected := &pb.Submitter{
		Name:       "alice",
		Protection: &pb.Protection{ProtectionId: 3, Reason: "BY_OPERATOR"},
	}
	reorged := &pb.Submitter{
		Name:       "alice",
		Protection: &pb.Protection{ProtectionId: 3, Reason: "REORGED_AFTER_FINAL"},
	}
	in := func(hash string) *pb.Receipt { return &pb.Receipt{TxHash: hash, BlockNumber: 7} }
	for name, c := range map[string]struct {
		tx      *pb.Tx
		account *pb.Submitter
		want    string
	}{
		"in flight": {
			&pb.Tx{State: tracking, Operator: attempts("ORIGINAL", "BUMP")}, nil,
			"is in flight (TRACKING)",
		},
		"on its way": {
			&pb.Tx{State: tracking, Operator: attempts("ORIGINAL", "CANCEL")}, nil,
			"is being cancelled by attempt 2",
		},
		"in a block": {
			&pb.Tx{State: tracking, Receipt: in("ORIGINAL"), Operator: attempts("ORIGINAL")}, nil,
			"is already in block 7",
		},
		"lost to its block": {
			&pb.Tx{
				State: tracking, Receipt: in("ORIGINAL"), Operator: attempts("ORIGINAL", "CANCEL"),
			},
			protected, "is already in block 7",
		},
		"won": {
			&pb.Tx{
				State: tracking, Receipt: in("CANCEL"),
				Operator: attempts("ORIGINAL", "CANCEL", "BUMP"),
			},
			protected, "was cancelled in block 7",
		},
		"protected": {
			&pb.Tx{State: tracking, Operator: attempts("ORIGINAL")}, protected,
			`under protection 3 (BY_OPERATOR) and nothing is signed until an operator`,
		},
		"protected by a reorg": {
			&pb.Tx{State: tracking, Operator: attempts("ORIGINAL")}, reorged,
			`nothing is signed until the reorged`,
		},
		"protected, on its way": {
			&pb.Tx{State: tracking, Operator: attempts("ORIGINAL", "CANCEL")}, protected,
			"is being cancelled",
		},
		"in the queue again": {
			&pb.Tx{State: queued, Operator: attempts("ORIGINAL")}, protected,
			"was requeued",
		},
		"without its nonce": {
			&pb.Tx{
				TxId: "T", State: stuck, Reason: "NONCE_USED_ELSEWHERE",
				Operator: attempts("ORIGINAL"),
			},
			protected,
			`"fencepost tx resolve T --fail --reason TEXT"`,
		},
		"once final": {
			&pb.Tx{State: stuck, Reason: "REORGED_AFTER_FINAL", Operator: attempts("ORIGINAL")},
			protected, "was final before a reorg",
		},
	} {
		if got := cancelling(c.tx, c.account); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// The result names the recorded replacement, also if there are newer ones.
func TestTxSpeedUp_Result(t *testing.T) {
	t.Parallel()
	attempt := func(no uint32, hash string) *pb.Attempt {
		return &pb.Attempt{AttemptNo: no, Kind: "BUMP", TxHash: hash}
	}
	tx := func(all ...*pb.Attempt) *pb.Tx {
		return &pb.Tx{
			TxId:     "T",
			TxHash:   "0x1",
			Operator: &pb.OperatorDetails{Nonce: new(uint64(5)), Attempts: all},
		} // 0x1 was included meanwhile
	}
	got := spedUp(tx(attempt(1, "0x1")),
		tx(attempt(1, "0x1"), attempt(2, "0x2"), attempt(3, "0x3")))
	if !strings.HasPrefix(got, "transaction T: attempt 2 (BUMP 0x2, ") ||
		!strings.Contains(got, `nonce 5`) || !strings.HasSuffix(got, `"fencepost tx watch T"`) {
		t.Errorf("printed %s", got)
	}
}

func TestQueued_AtLeast(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]*pb.Submitter{
		"0": {}, "3": {Queued: 3}, "1000": {Queued: 1000}, "at least 1000": {
			Queued: 1000, QueuedIsAtLeast: true,
		},
	} {
		if fields := submitterFields(s, time.Now()); !slices.Contains(fields,
			field{"queued", want}) {
			t.Errorf("want %s: %v", want, fields)
		}
	}
}

// The next nonce is the one recorded with the decision; the account may have moved on since.
func TestExitProtect_Result(t *testing.T) {
	t.Parallel()
	const resume, align = pb.ProtectionDecision_PROTECTION_DECISION_RESUME,
		pb.ProtectionDecision_PROTECTION_DECISION_ALIGN_FORWARD
	const resumeKeep = pb.ProtectionDecision_PROTECTION_DECISION_RESUME_KEEP_QUEUE
	at := func(next uint64, more func(*pb.Submitter)) *pb.Submitter {
		s := &pb.Submitter{Name: "alice", NextNonce: &next, Queued: 2}
		more(s)
		return s
	}
	under := func(id int64) func(*pb.Submitter) {
		return func(s *pb.Submitter) {
			s.Protection = &pb.Protection{
				ProtectionId: id, Reason: "CHAIN_BEHIND",
			}
		}
	}
	gaps := func(all ...*pb.NonceGap) func(*pb.Submitter) {
		return func(s *pb.Submitter) { s.Gaps = all }
	}
	none := func(*pb.Submitter) {}
	waits := func(queued, inFlight int64) func(*pb.Submitter) {
		return func(s *pb.Submitter) { s.Queued, s.InFlight = queued, inFlight }
	}
	long := func(s *pb.Submitter) {
		s.Queued = 1000
		s.QueuedIsAtLeast = true
		s.InFlight = 1
	}
	many := make([]*pb.NonceGap, mostGaps)
	for name, c := range map[string]struct {
		before, after *pb.Submitter
		decision      pb.ProtectionDecision
		want          string
	}{
		"resumed": {
			at(3, under(1)), at(9, none), resume,
			`by RESUME (operator ops); next nonce 3; 2 queued, 0 in flight; follow with ` +
				`"fencepost tx watch --submitter alice"`,
		},
		"aligned": {
			at(3, under(1)),
			at(
				9,
				gaps(
					&pb.NonceGap{FirstNonce: 1, LastNonce: 1},
					&pb.NonceGap{FirstNonce: 3, LastNonce: 6},
				),
			),
			align, "7 (was 3), nonces 3 to 6 recorded as a gap; 2 queued",
		},
		"taken since": {
			at(3, under(1)), at(4, waits(0, 1)), resume,
			`; 0 queued, 1 in flight; `,
		},
		"one of each": {
			at(3, under(1)), at(4, waits(1, 2)), resume, `; 1 queued, 2 in flight; `,
		},
		"many": {
			at(3, under(1)), at(4, long), resume, `; at least 1000 queued, 1 in flight; `,
		},
		"at rest": {
			at(3, under(1)), at(3, waits(0, 0)), resume,
			`; 0 queued, 0 in flight`,
		},
		"by one": {
			at(3, under(1)), at(9, gaps(&pb.NonceGap{FirstNonce: 3, LastNonce: 3})), align,
			"4 (was 3), nonce 3 recorded as a gap;",
		},
		"aligned, none": {at(3, under(1)), at(9, none), align, "next nonce 3; "},
		"not reported":  {at(3, under(1)), at(9, gaps(many...)), align, "next nonce 9 by now"},
		"compared": {
			at(3, under(1)), at(9, gaps(many...)), resumeKeep,
			"by RESUME_KEEP_QUEUE (operator ops); next nonce 3;",
		},
		"again": {
			at(9, none), at(9, none), resume,
			`already ended by RESUME; `,
		},
		"protected": {
			at(3, under(1)), at(3, under(2)), resume,
			`protection 2 (CHAIN_BEHIND) is in force now`,
		},
		"paused": {at(3, under(1)), at(
			3, func(s *pb.Submitter) { s.Status = pb.SubmitterStatus_SUBMITTER_STATUS_PAUSED },
		), resume,
			`next nonce 3; still PAUSED`},
	} {
		got := exited(c.before, c.after,
			&pb.ExitProtectRequest{ProtectionId: 1, Decision: c.decision, Operator: "ops"})
		if !strings.HasPrefix(got, "protection 1 of submitter alice ") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

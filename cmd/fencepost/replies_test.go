package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// A cancel that is asked for comes to something else in each place where the transaction may be.
func TestTxCancel_Outcomes(t *testing.T) {
	t.Parallel()
	const queued, tracking, stuck = pb.TxState_TX_STATE_QUEUED, pb.TxState_TX_STATE_TRACKING, pb.TxState_TX_STATE_STUCK
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
		says    string
	}{
		"in flight":             {&pb.Tx{State: tracking, Operator: attempts("ORIGINAL", "BUMP")}, nil, "has a nonce already (it is TRACKING), so the chain decides: the cancel is recorded, one that does nothing is sent next"},
		"on its way":            {&pb.Tx{State: tracking, Operator: attempts("ORIGINAL", "CANCEL")}, nil, "is being cancelled: attempt 2 does nothing and is handed over"},
		"in a block":            {&pb.Tx{State: tracking, Receipt: in("ORIGINAL"), Operator: attempts("ORIGINAL")}, nil, "is in block 7 already: the cancel is recorded, and lost unless a reorg"},
		"lost to its block":     {&pb.Tx{State: tracking, Receipt: in("ORIGINAL"), Operator: attempts("ORIGINAL", "CANCEL")}, protected, "is in block 7 already"},
		"won":                   {&pb.Tx{State: tracking, Receipt: in("CANCEL"), Operator: attempts("ORIGINAL", "CANCEL", "BUMP")}, protected, "has been cancelled in block 7, and is CANCELLED once that is final"},
		"protected":             {&pb.Tx{State: tracking, Operator: attempts("ORIGINAL")}, protected, `may still be included: the cancel is recorded, but its account is under protection 3 (BY_OPERATOR), and nothing is signed for it until somebody ends that ("fencepost submitter show alice")`},
		"protected by a reorg":  {&pb.Tx{State: tracking, Operator: attempts("ORIGINAL")}, reorged, `nothing is signed for it until that ends, which it does by itself once all that was final before is final again ("fencepost submitter show alice")`},
		"protected, on its way": {&pb.Tx{State: tracking, Operator: attempts("ORIGINAL", "CANCEL")}, protected, "is being cancelled"},
		"in the queue again":    {&pb.Tx{State: queued, Operator: attempts("ORIGINAL")}, protected, "had a nonce before it went back into the queue"},
		"without its nonce":     {&pb.Tx{TxId: "T", State: stuck, Reason: "NONCE_USED_ELSEWHERE", Operator: attempts("ORIGINAL")}, protected, `there is nothing to race: the cancel is recorded; end it with "fencepost tx resolve T --fail --reason TEXT"`},
		"once final":            {&pb.Tx{State: stuck, Reason: "REORGED_AFTER_FINAL", Operator: attempts("ORIGINAL")}, protected, "was final before a reorg, and is handed over as it was"},
	} {
		if got := cancelling(c.tx, c.account); !strings.HasPrefix(got, c.says) &&
			!strings.HasSuffix(got, c.says) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// What a raise has recorded is told, whatever came after it.
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
		!strings.Contains(got, `is recorded for nonce 5; it is handed over next`) ||
		!strings.HasSuffix(got, `"fencepost tx watch T" tells which`) {
		t.Errorf("told %s", got)
	}
}

// A queue that was not counted to its end is told as one.
func TestQueued_AtLeast(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]*pb.Submitter{
		"0": {}, "3": {Queued: 3}, "1000": {Queued: 1000}, "at least 1000": {Queued: 1000, QueuedIsAtLeast: true},
	} {
		if fields := submitterFields(s, time.Now()); !slices.Contains(fields,
			field{"queued", want}) {
			t.Errorf("want %s: %v", want, fields)
		}
	}
}

// Where an account goes on was decided with the end of its protection; by the time of the answer it may be further.
func TestExitProtect_Result(t *testing.T) {
	t.Parallel()
	const resume, align = pb.ProtectionDecision_PROTECTION_DECISION_RESUME, pb.ProtectionDecision_PROTECTION_DECISION_ALIGN_FORWARD
	const resumeKeep = pb.ProtectionDecision_PROTECTION_DECISION_RESUME_KEEP_QUEUE
	at := func(next uint64, more func(*pb.Submitter)) *pb.Submitter {
		s := &pb.Submitter{Name: "alice", NextNonce: &next, Queued: 2}
		more(s)
		return s
	}
	under := func(id int64) func(*pb.Submitter) {
		return func(s *pb.Submitter) { s.Protection = &pb.Protection{ProtectionId: id, Reason: "CHAIN_BEHIND"} }
	}
	gaps := func(all ...*pb.NonceGap) func(*pb.Submitter) { return func(s *pb.Submitter) { s.Gaps = all } }
	none := func(*pb.Submitter) {}
	waits := func(queued, inFlight int64) func(*pb.Submitter) {
		return func(s *pb.Submitter) { s.Queued, s.InFlight = queued, inFlight }
	}
	long := func(s *pb.Submitter) { s.Queued, s.QueuedIsAtLeast, s.InFlight = 1000, true, 1 }
	many := make([]*pb.NonceGap, mostGaps)
	for name, c := range map[string]struct {
		before, after *pb.Submitter
		decision      pb.ProtectionDecision
		says          string
	}{
		"resumed":       {at(3, under(1)), at(9, none), resume, `RESUME is recorded, by ops, and the next nonce to be taken is 3; 2 are queued, nothing is in flight: "fencepost tx watch --submitter alice" tells how that goes on`},
		"aligned":       {at(3, under(1)), at(9, gaps(&pb.NonceGap{FirstNonce: 1, LastNonce: 1}, &pb.NonceGap{FirstNonce: 3, LastNonce: 6})), align, "is 7 (was 3); nonces 3 to 6 are recorded as a gap; 2 are queued"},
		"taken since":   {at(3, under(1)), at(4, waits(0, 1)), resume, `; nothing is queued, 1 is in flight: "fencepost tx watch --submitter alice"`},
		"one of each":   {at(3, under(1)), at(4, waits(1, 2)), resume, `; 1 is queued, 2 are in flight: `},
		"many":          {at(3, under(1)), at(4, long), resume, `; at least 1000 are queued, 1 is in flight: `},
		"at rest":       {at(3, under(1)), at(3, waits(0, 0)), resume, `; nothing is queued, nothing is in flight`},
		"by one":        {at(3, under(1)), at(9, gaps(&pb.NonceGap{FirstNonce: 3, LastNonce: 3})), align, "is 4 (was 3); nonce 3 is recorded as a gap;"},
		"aligned, none": {at(3, under(1)), at(9, none), align, "the next nonce to be taken is 3; "},
		"not told":      {at(3, under(1)), at(9, gaps(many...)), align, "is 9 by now"},
		"compared":      {at(3, under(1)), at(9, gaps(many...)), resumeKeep, "RESUME_KEEP_QUEUE is recorded, by ops, and the next nonce to be taken is 3;"},
		"again":         {at(9, none), at(9, none), resume, `was ended by this decision (RESUME) before, so nothing was done now; "fencepost submitter log alice" tells when and by whom`},
		"protected":     {at(3, under(1)), at(3, under(2)), resume, `but protection 2 (CHAIN_BEHIND) is in force now: look at it with "fencepost submitter show alice"`},
		"paused": {at(3, under(1)), at(3, func(s *pb.Submitter) { s.Status = pb.SubmitterStatus_SUBMITTER_STATUS_PAUSED }), resume,
			`the next nonce to be taken is 3; it is PAUSED, so it goes on once "fencepost submitter resume alice" is run`},
	} {
		got := exited(c.before, c.after,
			&pb.ExitProtectRequest{ProtectionId: 1, Decision: c.decision, Operator: "ops"})
		if !strings.HasPrefix(got, "protection 1 of submitter alice ") ||
			!strings.Contains(got, c.says) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

package e2e

import (
	"context"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// operator decides on the submitters that are protected after a loss, as docs/operations.md
// describes under Restore, until the test is over.
func (s *faultInjector) operator() {
	for tick := time.NewTicker(300 * time.Millisecond); ; {
		var wg sync.WaitGroup
		for _, index := range s.attention() {
			wg.Go(func() { s.decide(index) })
		}
		wg.Wait()
		select {
		case <-s.over:
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

// attention lists the submitters that wait for an operator, by their index.
func (s *faultInjector) attention() []int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	rows, err := s.cl.pool.Query(ctx, `SELECT right(s.name, -1)::INT FROM submitter s
		  JOIN submitter_nonce_cursor n USING (submitter_id)
		 WHERE (n.protect_at IS NOT NULL
		    OR EXISTS (SELECT FROM managed_tx t
		                WHERE t.submitter_id = s.submitter_id AND t.state = 'STUCK'))
		   AND s.mode <> 'EXTERNAL'`)
	if err != nil {
		return nil // the database is down just now
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return nil
	}
	return list
}

// openTx is a transaction that an operator compares with the chain.
type openTx struct {
	ID      string
	State   string
	Reason  string
	Value   string
	Version uint64
}

// decide compares a submitter with the chain, and takes the next step for it. A step that is
// refused, because the chain does not bear it out yet, is repeated in the next round.
func (s *faultInjector) decide(index int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	name, from := s.cl.members[0].names[index], senders(s.cl.chain)[index]
	next, still := s.standsStill(ctx, from)
	if !still {
		return
	}
	rows, err := s.cl.pool.Query(ctx, `SELECT tx_id::TEXT, state, reason, value::TEXT, version
		  FROM managed_tx t JOIN submitter s USING (submitter_id)
		 WHERE s.name = $1 AND terminal_at IS NULL`, name)
	if err != nil {
		return
	}
	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[openTx])
	if err != nil {
		return
	}
	for _, tx := range open {
		if done, err := s.resolve(ctx, tx, from); err != nil || !done {
			return
		}
	}
	s.exitProtect(ctx, name, next)
}

// standsStill returns the next nonce of an account that has nothing in the pool.
func (s *faultInjector) standsStill(ctx context.Context, a common.Address) (uint64, bool) {
	latest, err := s.cl.chain.NonceAt(ctx, a, nil)
	if err != nil {
		return 0, false
	}
	pending, err := s.cl.chain.PendingNonceAt(ctx, a)
	return latest, err == nil && latest == pending
}

// resolve reports whether a transaction needs no decision of an operator.
func (s *faultInjector) resolve(ctx context.Context, tx openTx, from common.Address) (bool, error) {
	ran, err := s.cl.ledger.executions.of(execution{from, tx.Value})
	if err != nil {
		return false, err
	}
	switch {
	case tx.State == "QUEUED" && ran > 0:
		_, err := s.cl.any().CancelTx(ctx, &fencepostv1.CancelTxRequest{
			TxId: tx.ID, Reason: "executed in the lost part",
		})
		s.refusable("CancelTx", err)
		return false, err
	case tx.State == "STUCK":
		decision := fencepostv1.StuckDecision_STUCK_DECISION_REQUEUE_UNPROVEN
		if ran > 0 {
			decision = fencepostv1.StuckDecision_STUCK_DECISION_FAIL
		}
		_, err := s.cl.any().ResolveStuck(ctx, &fencepostv1.ResolveStuckRequest{
			TxId: tx.ID, Decision: decision, Reason: "compared with the chain",
			ExpectVersion: tx.Version,
		})
		s.refusable("ResolveStuck", err)
		return false, err
	}
	return true, nil
}

// exitProtect lifts a protection for commits that were lost. The account has its next nonce.
func (s *faultInjector) exitProtect(ctx context.Context, name string, next uint64) {
	answer, err := s.cl.any().GetSubmitter(ctx, &fencepostv1.GetSubmitterRequest{Submitter: name})
	if err != nil {
		return
	}
	p := answer.GetSubmitter().GetProtection()
	if p == nil {
		return
	}
	if reason := p.GetReason(); reason != "DATABASE_RESTORED" && reason != "NONCE_USED_ELSEWHERE" {
		s.t.Errorf("submitter %s was protected for %s: %s", name, reason, p.GetEvidence())
	}
	decision := fencepostv1.ProtectionDecision_PROTECTION_DECISION_RESUME_KEEP_QUEUE
	if next > answer.GetSubmitter().GetNextNonce() {
		decision = fencepostv1.ProtectionDecision_PROTECTION_DECISION_ALIGN_FORWARD_KEEP_QUEUE
	}
	_, err = s.cl.any().ExitProtect(ctx, &fencepostv1.ExitProtectRequest{
		Submitter: name, ProtectionId: p.GetProtectionId(), Decision: decision,
		Reason: "compared with the chain",
	})
	s.refusable("ExitProtect", err)
}

// refusable reports an error that is no reason to decide again.
func (s *faultInjector) refusable(what string, err error) {
	switch status.Code(err) {
	case codes.OK, codes.Unavailable, codes.DeadlineExceeded, codes.FailedPrecondition,
		codes.Aborted:
	default:
		s.t.Errorf("%s: %v", what, err)
	}
}

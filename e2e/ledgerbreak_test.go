package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/pgembed"
)

// ledgerHistory is what happened to the ledger of a cluster as a whole, and the chain that shows
// what was lost.
type ledgerHistory struct {
	losses     atomic.Int64 // fail-overs that lost commits, from the moment of the loss
	moves      atomic.Int64 // by dump and restore
	executions *executions

	// lost has when each attempt was recorded that a fail-over lost: the owner may have sent it.
	lost map[common.Hash]time.Time
}

// callOf is call n of a submitter, and its payload.
func (h *ledgerHistory) callOf(submitter, n int) (execution, *fencepostv1.Payload) {
	value := strconv.Itoa(n)
	return execution{senders(h.executions.chain)[submitter], value},
		&fencepostv1.Payload{To: h.executions.contract.Hex(), Value: value}
}

// present returns the transactions that the ledger has not lost.
func (h *ledgerHistory) present(t *testing.T, pool *pgxpool.Pool, ids []string) []string {
	t.Helper()
	if h.losses.Load() == 0 {
		return ids
	}
	rows, err := pool.Query(t.Context(),
		"SELECT tx_id::TEXT FROM managed_tx WHERE tx_id::TEXT = ANY($1)", ids)
	if err != nil {
		t.Fatal(err)
	}
	present, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return present
}

// failOver promotes a standby that lacks the newest commits, under working nodes, and waits until
// an operator has decided on every account that lost something.
func (s *faultInjector) failOver(string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	primary := s.postgres
	o := pgembed.Options{Settings: pgembed.Disposable()}
	standby, err := primary.Standby(ctx, "second", o)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.t.Cleanup(func() { _ = standby.Stop(context.Background()) })
	s.external.pause()
	defer s.external.resume()
	s.awaitReplay(primary)
	if err := standby.Kill(); err != nil {
		s.t.Error(err)
		return
	}
	kept := s.nonces()
	eventually(s.t, 30*time.Second, "commits that the standby lacks", func() error {
		return s.tookNonces(kept, 10)
	})
	before := s.nonces()
	s.cl.ledger.losses.Add(1)
	if err := errors.Join(primary.Kill(), standby.Restart(ctx)); err != nil {
		s.t.Error(err)
		return
	}
	s.promote(standby)
	s.postgres = standby
	if err := s.line.Redirect(standby.URL("postgres")); err != nil {
		s.t.Error(err)
		return
	}
	s.t.Logf("the fail-over lost nonces of %d submitters", s.lostNonces(before))
	s.operate.Do(func() { s.wgOperator.Go(s.operator) })
	s.noteLost(ctx, primary)
	s.awaitRecovery()
}

// noteLost reads from the old primary, which no node reaches any more, what it alone recorded.
func (s *faultInjector) noteLost(ctx context.Context, primary *pgembed.Server) {
	if err := primary.Restart(ctx); err != nil {
		s.t.Error(err)
		return
	}
	pool := openPool(s.t, primary.URL("postgres"))
	defer pool.Close()
	had, err := attempts(ctx, pool)
	if err != nil {
		s.t.Error(err)
		return
	}
	var has map[common.Hash]time.Time
	eventually(s.t, 30*time.Second, "the ledger is read", func() (err error) {
		has, err = attempts(ctx, s.cl.pool)
		return err
	})
	if s.cl.ledger.lost == nil {
		s.cl.ledger.lost = map[common.Hash]time.Time{}
	}
	lost := 0
	for hash, at := range had {
		if again, recorded := has[hash]; !recorded || !again.Equal(at) {
			s.cl.ledger.lost[hash] = at
			lost++
		}
	}
	if lost == 0 {
		s.t.Error("the fail-over lost no attempt")
	}
	if err := primary.Stop(ctx); err != nil {
		s.t.Error(err)
	}
}

// attempts reads when each attempt was recorded.
func attempts(ctx context.Context, ledger *pgxpool.Pool) (map[common.Hash]time.Time, error) {
	rows, err := ledger.Query(ctx, "SELECT tx_hash, created_at FROM tx_attempt")
	if err != nil {
		return nil, err
	}
	at := map[common.Hash]time.Time{}
	var hash []byte
	var recorded time.Time
	_, err = pgx.ForEachRow(rows, []any{&hash, &recorded}, func() error {
		at[common.BytesToHash(hash)] = recorded
		return nil
	})
	return at, err
}

// awaitReplay waits until a standby has replayed all commits so far.
func (s *faultInjector) awaitReplay(primary *pgembed.Server) {
	pool := openPool(s.t, primary.URL("postgres"))
	defer pool.Close()
	var position string
	eventually(s.t, 30*time.Second, "the standby follows", func() error {
		if position == "" {
			return errors.Join(pool.QueryRow(context.Background(),
				"SELECT pg_current_wal_lsn()::TEXT").Scan(&position), errNotYet)
		}
		var there bool
		err := pool.QueryRow(context.Background(), "SELECT EXISTS (SELECT FROM "+
			"pg_stat_replication WHERE replay_lsn >= $1::pg_lsn)", position).Scan(&there)
		if err == nil && !there {
			err = errNotYet
		}
		return err
	})
}

func (s *faultInjector) promote(standby *pgembed.Server) {
	pool := openPool(s.t, standby.URL("postgres"))
	defer pool.Close()
	if _, err := pool.Exec(context.Background(), "SELECT pg_promote(TRUE, 60)"); err != nil {
		s.t.Error(err)
	}
}

// nonces reads the next nonce of each submitter.
func (s *faultInjector) nonces() map[string]int64 {
	next := map[string]int64{}
	eventually(s.t, 30*time.Second, "the ledger is read", func() error {
		rows, err := s.cl.pool.Query(context.Background(), "SELECT s.name, n.next_nonce FROM "+
			"submitter s JOIN submitter_nonce_cursor n USING (submitter_id)")
		if err != nil {
			return err
		}
		var name string
		var nonce int64
		_, err = pgx.ForEachRow(rows, []any{&name, &nonce}, func() error {
			next[name] = nonce
			return nil
		})
		return err
	})
	return next
}

// tookNonces reports whether some more nonces were taken.
func (s *faultInjector) tookNonces(before map[string]int64, want int64) error {
	for name, next := range s.nonces() {
		want -= next - before[name]
	}
	if want > 0 {
		return errNotYet
	}
	return nil
}

// lostNonces counts the submitters of which the ledger lost nonces.
func (s *faultInjector) lostNonces(before map[string]int64) (lost int) {
	after := s.nonces()
	for name, next := range before {
		if after[name] < next {
			lost++
		}
	}
	if lost == 0 {
		s.t.Error("the fail-over lost no nonce")
	}
	return lost
}

// awaitRecovery waits until each submitter takes calls again.
func (s *faultInjector) awaitRecovery() {
	before := s.calls.counts()
	eventually(s.t, 2*time.Minute, "calls are accepted again", func() error {
		for i, n := range s.calls.counts() {
			if n == before[i] {
				return fmt.Errorf("none of submitter %d", i)
			}
		}
		return s.cl.protectedSubmitters()
	})
}

// moveLedger moves the ledger to another server, as docs/operations.md describes.
func (s *faultInjector) moveLedger(string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	other, err := pgembed.Start(ctx, pgembed.Options{Settings: pgembed.Disposable()})
	if err != nil {
		s.t.Error(err)
		return
	}
	s.t.Cleanup(func() { _ = other.Stop(context.Background()) })
	for _, m := range s.cl.members {
		m.proc.stop(s.t)
	}
	s.copyLedger(ctx, other) // nobody owns a submitter: the nodes have stopped
	s.cl.ledger.moves.Add(1)
	if err := errors.Join(
		s.postgres.Stop(ctx), s.line.Redirect(other.URL("postgres")),
	); err != nil {
		s.t.Error(err)
		return
	}
	s.postgres = other
	s.cl.members[0].refuses(s.t) // before the copy is recovered
	if out, err := exec.CommandContext(ctx, program, "recover", "--config",
		s.cl.members[0].config, "--moved", "--yes").CombinedOutput(); err != nil {
		s.t.Errorf("fencepost recover: %v\n%s", err, out)
	}
	var wg sync.WaitGroup
	for _, m := range s.cl.members {
		wg.Go(func() { m.start(s.t) })
	}
	wg.Wait()
}

// copyLedger copies the database by PostgreSQL's own programs, which its server comes with.
func (s *faultInjector) copyLedger(ctx context.Context, to *pgembed.Server) {
	dump := filepath.Join(s.t.TempDir(), "dump")
	programs := s.postgres.Programs().Dir
	for _, command := range [][]string{
		{"pg_dump", "--format=custom", "--file", dump, s.postgres.URL("postgres")},
		{"pg_restore", "--exit-on-error", "--dbname", to.URL("postgres"), dump},
	} {
		if out, err := exec.CommandContext(ctx, filepath.Join(programs, command[0]),
			command[1:]...).CombinedOutput(); err != nil {
			s.t.Errorf("%s (install PostgreSQL's client programs beside its server, in %s): %v\n%s",
				command[0], programs, err, out)
		}
	}
}

// settleLosses waits until the operator is done and all is final. It then repeats the calls that
// were lost and never executed, as callers do that look at the chain first.
func (cl *cluster) settleLosses(t *testing.T, each []int, limit time.Duration) {
	t.Helper()
	const rounds = 3
	for round := range rounds {
		eventually(t, limit, "everything is final", func() error {
			var open int
			err := cl.pool.QueryRow(context.Background(),
				"SELECT count(*) FROM managed_tx WHERE terminal_at IS NULL").Scan(&open)
			if err == nil && open > 0 {
				err = fmt.Errorf("%d are not", open)
			}
			return errors.Join(err, cl.protectedSubmitters())
		})
		lost := cl.unexecuted(t, each)
		if len(lost) == 0 {
			cl.verifyProtected(t)
			return
		}
		t.Logf("%d calls were lost and are repeated", len(lost))
		for _, l := range lost {
			_, payload := cl.ledger.callOf(l[0], l[1])
			cl.create(t, cl.members[0].names[l[0]],
				fmt.Sprintf("%s-again-%d", requestOf(l[1]), round), payload)
		}
	}
	t.Errorf("calls are missing on chain after %d rounds", rounds)
}

// unexecuted lists the accepted calls that are not on chain. None may be there twice.
func (cl *cluster) unexecuted(t *testing.T, each []int) (list [][2]int) {
	t.Helper()
	for i, calls := range each {
		for n := range calls {
			e, _ := cl.ledger.callOf(i, n)
			switch ran, err := cl.ledger.executions.of(e); {
			case err != nil:
				t.Fatal(err)
			case ran == 0:
				list = append(list, [2]int{i, n})
			case ran > 1:
				t.Errorf("call %d of submitter %d was executed %d times", n, i, ran)
			}
		}
	}
	return list
}

// protectedSubmitters is an error as long as there are some.
func (cl *cluster) protectedSubmitters() error {
	var n int
	err := cl.pool.QueryRow(context.Background(),
		"SELECT count(*) FROM submitter_nonce_cursor WHERE protect_at IS NOT NULL").Scan(&n)
	if err == nil && n > 0 {
		err = fmt.Errorf("%d submitters are protected", n)
	}
	return err
}

// verifyProtected requires submitters to have been protected for records that the ledger lost. A
// lost nonce alone is no reason: its transaction may never have been broadcast.
func (cl *cluster) verifyProtected(t *testing.T) {
	t.Helper()
	var protected int64
	if err := cl.pool.QueryRow(t.Context(), "SELECT count(*) FROM submitter_command WHERE "+
		"kind = 'PROTECT' AND action = 'DATABASE_RESTORED'").Scan(&protected); err != nil {
		t.Fatal(err)
	}
	if losses := cl.ledger.losses.Load(); protected < losses {
		t.Errorf("%d submitters were protected after %d fail-overs that lost commits", protected,
			losses)
	}
}

// verifyAudit runs the audit of the whole ledger.
func (cl *cluster) verifyAudit(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, program, "audit", "--config",
		cl.members[0].config).CombinedOutput(); err != nil {
		t.Errorf("fencepost audit: %v\n%s", err, out)
	}
}

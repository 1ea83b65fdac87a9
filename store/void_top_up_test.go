package store

import (
	"context"
	"errors"
	"testing"

	"github.com/holiman/uint256"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// topUps is an account with a treasury, and a top-up of 3 within a limit of 3 a day.
type topUps struct {
	*kit
	s, node      *Store // as the owner of the tables, and as a node
	to, treasury txn.Submitter
}

func newTopUps(t *testing.T) *topUps {
	k := newKit(t)
	r := &topUps{kit: k, s: k.open("a", k.asOwner), node: k.open("b")}
	for name, of := range map[string]*txn.Submitter{"alice": &r.to, "bank": &r.treasury} {
		info, err := r.s.Submitter(k.ctx, k.submitter(r.s, name))
		k.must(err)
		*of = info.Submitter
	}
	return r
}

func (r *topUps) funds() Funds {
	r.t.Helper()
	all, err := r.s.FundsOf(r.ctx, []txn.SubmitterID{r.to.ID})
	r.must(err)
	return all[r.to.ID]
}

func (r *topUps) decide(want int64) TopUp {
	r.t.Helper()
	u, done, err := r.node.DecideTopUp(r.ctx, TopUpNeed{Submitter: r.to.ID, Treasury: r.treasury.ID,
		To: r.to.Address, Funds: r.funds(), Amount: *uint256.NewInt(3),
		DayLimit: *uint256.NewInt(3)})
	r.must(err)
	if !done || u.No != want {
		r.t.Fatalf("decided %v, number %d; want number %d", done, u.No, want)
	}
	return u
}

// begun is a transaction that ends with the test at the latest.
func (r *topUps) begun(on interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}) pgx.Tx {
	r.t.Helper()
	tx, err := on.Begin(r.ctx)
	r.must(err)
	r.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// sends fails unless there are so many transactions of top-ups.
func (r *topUps) sends(want int) {
	r.t.Helper()
	if n := value[int](r.kit, "SELECT count(*) FROM managed_tx WHERE caller = $1",
		TopUpCaller); n != want {
		r.t.Errorf("%d transactions, want %d", n, want)
	}
}

// TestVoidTopUp_NoTransaction_DecidedAgain: a void top-up is never sent, also by a node that has
// read it before. It counts for nothing, and the one before it still guards against old balances.
func TestVoidTopUp_NoTransaction_DecidedAgain(t *testing.T) {
	t.Parallel()
	r := newTopUps(t)
	if _, err := r.s.VoidTopUp(r.ctx, r.to.ID, Ask{}); !errors.Is(err, ErrNoTopUp) {
		t.Errorf("without a top-up: %v", err)
	}
	old := r.decide(1)
	for range 2 { // the second time it is void already
		no, err := r.s.VoidTopUp(r.ctx, r.to.ID, Ask{Reason: "bank is gone", Operator: "eve"})
		r.must(err)
		if no != 1 {
			t.Errorf("number %d is void", no)
		}
	}
	if u := r.funds(); u.TopUp.No != 0 || u.LastNo != 1 || !u.DayAmount.IsZero() {
		t.Errorf("after it became void: %+v", u)
	}
	if _, _, err := r.node.CreateTopUp(r.ctx, r.to, old); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a node that read it before: %v", err)
	}
	r.sends(0)

	sent, _, err := r.node.CreateTopUp(r.ctx, r.to, r.decide(2))
	r.must(err)
	_, err = r.s.VoidTopUp(r.ctx, r.to.ID, Ask{})
	if e, ok := errors.AsType[*TopUpSentError](err); !ok || *e != (TopUpSentError{Tx: sent.ID}) {
		t.Errorf("with a transaction: %v", err)
	}
	if _, err = r.s.CancelQueued(r.ctx, sent.ID); err != nil {
		t.Fatal(err)
	}
	_, err = r.s.VoidTopUp(r.ctx, r.to.ID, Ask{})
	if e, ok := errors.AsType[*TopUpSentError](err); !ok ||
		*e != (TopUpSentError{Tx: sent.ID, Final: true}) {
		t.Errorf("with a final transaction: %v", err)
	}
	r.exec("UPDATE top_up SET created_at = created_at - INTERVAL '2 days'")
	r.decide(3)
	_, err = r.s.VoidTopUp(r.ctx, r.to.ID, Ask{})
	r.must(err)
	if u := r.funds(); u.TopUp.No != 2 || u.TopUp.Tx != sent.ID || u.LastNo != 3 {
		t.Errorf("the newest that is not void: %+v", u)
	}
	r.sends(1)
	log := value[string](r.kit, `SELECT string_agg(kind || ' ' || action || ' ' || reason || ' ' ||
		operator || ' ' || result, ', ' ORDER BY command_id) FROM submitter_command`)
	if want := "UPDATE TOP_UP_VOIDED top-up 1: bank is gone eve APPLIED, " +
		"UPDATE TOP_UP_VOIDED top-up 3  APPLIED"; log != want {
		t.Errorf("commands: %s", log)
	}
}

// TestVoidTopUp_WhileCreated_OneWins: of a transaction and a void at the same time, one waits for
// the other and then finds it.
func TestVoidTopUp_WhileCreated_OneWins(t *testing.T) {
	t.Parallel()
	t.Run("transaction first", func(t *testing.T) {
		t.Parallel()
		r := newTopUps(t)
		u := r.decide(1)
		session := r.begun(r.session())
		plug := &createJob{chain: r.treasury.Chain, intent: Intent{Submitter: r.treasury.ID,
			RequestID: u.RequestID, Caller: TopUpCaller}}
		r.must(plug.name())
		_, err := db.New(session).InsertTxs(r.ctx, insertParams([]*createJob{plug}))
		r.must(err)
		done := make(chan error, 1)
		go func() {
			_, err := r.s.VoidTopUp(r.ctx, r.to.ID, Ask{})
			done <- err
		}()
		r.waiting(r.s, "api")
		r.must(session.Commit(r.ctx))
		if _, ok := errors.AsType[*TopUpSentError](<-done); !ok {
			t.Error("a top-up with a transaction became void")
		}
		if u := r.funds().TopUp; !u.Open() {
			t.Error("the top-up is not open")
		}
		r.sends(1)
	})
	t.Run("void first", func(t *testing.T) {
		t.Parallel()
		r := newTopUps(t)
		u := r.decide(1)
		tx := r.begun(r.db.Pool)
		q := db.New(tx)
		_, err := q.LockTopUp(r.ctx, int32(r.to.ID))
		r.must(err)
		done := make(chan error, 1)
		go func() {
			_, _, err := r.node.CreateTopUp(r.ctx, r.to, u)
			done <- err
		}()
		r.waiting(r.node, "api")
		_, err = q.VoidTopUp(r.ctx, db.VoidTopUpParams{SubmitterID: int32(r.to.ID), No: 1})
		r.must(err)
		r.must(tx.Commit(r.ctx))
		if err := <-done; !errors.Is(err, ErrUnavailable) {
			t.Errorf("the transaction of a void top-up: %v", err)
		}
		r.sends(0)
	})
}

// TestRecover_DecidedTopUp_NotSentAgain: the transaction of a decided top-up may be in the lost
// part, and executed. The next need is decided by the balance.
func TestRecover_DecidedTopUp_NotSentAgain(t *testing.T) {
	t.Parallel()
	r := newTopUps(t)
	u := r.decide(1) // its transaction was created, executed and lost with the restore
	recovering := r.open("recover", r.asOwner, func(c *Config) { c.Adopts = true })
	_, err := recovering.Recover(r.ctx)
	r.must(err)
	r.exec("UPDATE submitter SET status = 'ACTIVE'") // an operator has compared the treasury
	if f := r.funds(); f.TopUp.Open() {
		t.Errorf("the top-up is still to be sent: %+v", f.TopUp)
	}
	if _, created, err := r.open("c").CreateTopUp(r.ctx, r.to, u); created {
		t.Errorf("sent again: %v", err)
	}
}

package store

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// TopUpCaller is the caller of top-ups. No configured caller has this name, so no policy applies.
const TopUpCaller = "@top-up"

// TopUpLabel is the key of the label that names the account that a transaction tops up.
const TopUpLabel = "fencepost/top-up"

// TopUp is a decided transfer from a treasury to an account. Its transaction is created after it
// was recorded.
type TopUp struct {
	No        int64 // from 1, of the account; 0: there is none
	Treasury  txn.SubmitterID
	From      string // name of the treasury
	RequestID string
	Amount    txn.Wei
	MAC       []byte // authentication code; empty: none
	CreatedAt time.Time

	Tx           txn.TxID // zero: there is none
	MayBeLost    bool     // it may have been created and executed: a fail-over lost commits since
	State        txn.State
	Sub          txn.Sub
	ReceiptBlock uint64 // 0: it is in no block
	ReceiptHash  txn.Hash
	FinalAt      time.Time // 1970: it is not final
}

// Open reports whether the top-up is not final: no other one may be decided.
func (u *TopUp) Open() bool { return u.No > 0 && !u.State.Final() }

// Funds is what the ledger knows about the balance of an account.
type Funds struct {
	ReadAt    time.Time // by the database's clock
	Low       bool
	Falls     int64  // how often it became low
	Held      string // why it gets no top-up; empty: it needs none, or gets one
	TopUp     TopUp  // the newest that is not void
	LastNo    int64  // of the newest, void or not
	DayAmount txn.Wei
}

// Reasons why an account gets no top-up that end with this top-up. The ledger proves
// TOP_UP_RESTORED, TOP_UP_STUCK and TREASURY_UNFUNDED; nodes record the others.
const (
	HeldNoRule           = "NO_RULE"           // no node creates the transaction
	HeldRestored         = "TOP_UP_RESTORED"   // it may have been executed before a fail-over
	HeldStuck            = "TOP_UP_STUCK"      // an operator decides on it
	HeldTreasuryBlocked  = "TREASURY_BLOCKED"  // its queue does not proceed
	HeldTreasuryUnfunded = "TREASURY_UNFUNDED" // the treasury cannot pay
)

// HeldNow returns why the account gets no top-up: the reason that the state of the top-up proves,
// or the one that a node recorded, unless that state refutes it. Age proves none: nodes record
// none while they cannot read the balance, or if no rule of theirs has the account.
func (f *Funds) HeldNow() string {
	u := &f.TopUp
	switch {
	case !u.Open():
		if slices.Contains([]string{HeldNoRule, HeldRestored, HeldStuck, HeldTreasuryBlocked,
			HeldTreasuryUnfunded}, f.Held) {
			return "" // it is final or void since
		}
	case u.MayBeLost:
		return HeldRestored
	case u.State == txn.Stuck:
		return HeldStuck
	case u.Sub == txn.Unfunded:
		return HeldTreasuryUnfunded
	case u.Tx != (txn.TxID{}) && u.State != txn.Queued:
		return ""
	}
	return f.Held
}

// FundsOf reads what is known about the balances of submitters.
func (s *Store) FundsOf(ctx context.Context,
	ids []txn.SubmitterID) (map[txn.SubmitterID]Funds, error) {
	const verb = "read the top-ups of submitters"
	rows, err := s.read().FundsOf(ctx, numbers(ids))
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	all := make(map[txn.SubmitterID]Funds, len(rows))
	for _, r := range rows {
		f := Funds{ReadAt: r.ReadAt, Low: r.Low, Falls: r.Falls, Held: r.Held,
			DayAmount: amount(r.DayAmount), LastNo: r.LastNo,
			TopUp: TopUp{No: r.No, Treasury: txn.SubmitterID(r.TreasuryID),
				From:      r.Treasury,
				RequestID: r.RequestID, Amount: amount(r.Amount), CreatedAt: r.CreatedAt,
				State: txn.State(r.State), Sub: txn.Sub(r.SubState),
				ReceiptBlock: uint64(r.ReceiptBlock), FinalAt: r.FinalAt, MAC: r.Mac,
				MayBeLost: r.MayBeLost}}
		if len(r.ReceiptHash) > 0 {
			f.TopUp.ReceiptHash = toHash(r.ReceiptHash)
		}
		if r.TxID != "" {
			id, err := uuid.Parse(r.TxID)
			if err != nil {
				return nil, fmt.Errorf("store: %s: %w", verb, err)
			}
			f.TopUp.Tx = txn.TxID(id)
		}
		all[txn.SubmitterID(r.SubmitterID)] = f
	}
	return all, nil
}

func numbers(ids []txn.SubmitterID) []int32 {
	all := make([]int32, len(ids))
	for i, id := range ids {
		all[i] = int32(id)
	}
	return all
}

// TopUpNeed is a need that was seen after the funds of the account were read.
type TopUpNeed struct {
	Submitter, Treasury txn.SubmitterID
	To                  txn.Address // of the submitter
	Funds               Funds       // as they were read
	Amount              txn.Wei
	DayLimit            txn.Wei // of all top-ups of the account in 24 hours
}

// DecideTopUp records a top-up for a need. It returns false if another node was faster, the last
// top-up is not final, or the limit is reached. The transaction is created afterwards, with
// CreateTopUp, by any node that reads the record.
func (s *Store) DecideTopUp(ctx context.Context, n TopUpNeed) (TopUp, bool, error) {
	u := TopUp{No: n.Funds.LastNo + 1, Treasury: n.Treasury, Amount: n.Amount,
		RequestID: "top-up/" + uuid.NewString()}
	u.MAC = s.topUpMAC(n.Submitter, n.To, u)
	rows, err := s.read().DecideTopUp(ctx, db.DecideTopUpParams{
		No: u.No, RequestID: u.RequestID, Amount: u.Amount.Dec(), TreasuryID: int32(n.Treasury),
		Mac:         u.MAC,
		SubmitterID: int32(n.Submitter), ReadAt: n.Funds.ReadAt, DayLimit: n.DayLimit.Dec(),
	})
	if err != nil {
		return TopUp{}, false, s.failed(ctx,
			fmt.Sprintf("record a top-up of submitter %d", n.Submitter), err)
	}
	return u, rows > 0, nil
}

// topUpMAC returns the authentication code of a top-up; nil without a key.
func (s *Store) topUpMAC(of txn.SubmitterID, to txn.Address, u TopUp) []byte {
	if len(s.cfg.IntentKey) == 0 {
		return nil
	}
	return txn.TopUpMAC(s.cfg.IntentKey, of, u.No, u.Treasury, u.RequestID, to, u.Amount)
}

// CreateTopUp creates the transaction of a recorded top-up, or finds it. The errors are those of
// CreateTx, and with a key of authentication codes txn.ErrUnverified.
func (s *Store) CreateTopUp(ctx context.Context, to txn.Submitter,
	u TopUp) (info TxInfo, created bool, err error) {
	if want := s.topUpMAC(to.ID, to.Address, u); want != nil && !hmac.Equal(u.MAC, want) {
		return TxInfo{}, false, fmt.Errorf("store: create top-up %d of %q: %w", u.No, to.Name,
			txn.ErrUnverified)
	}
	return s.CreateTx(ctx, Intent{
		Submitter: u.Treasury, RequestID: u.RequestID, Caller: TopUpCaller,
		Payload: txn.Payload{To: &to.Address, Value: u.Amount},
		Labels:  map[string]string{TopUpLabel: to.Name},
	})
}

// ErrNoTopUp is returned for an account without a top-up.
var ErrNoTopUp = errors.New("no top-up of the account was decided; " +
	"see \"fencepost balances\"")

// TopUpSentError is returned for a top-up whose transaction exists.
type TopUpSentError struct {
	Tx    txn.TxID
	Final bool
}

func (e *TopUpSentError) Error() string {
	if e.Final {
		return fmt.Sprintf("the newest top-up of the account is final (transaction %s)", e.Tx)
	}
	return fmt.Sprintf("the newest top-up of the account has a transaction: %s", e.Tx)
}

// VoidTopUp ends the newest top-up of an account, for which there is no transaction, and returns
// its number. No node can create its transaction any more, also one that has read it before, and
// the next need is decided again. Repeating it changes nothing. Nodes have no right to do this; the
// role must own the tables.
//
// Errors: ErrNoTopUp, and a TopUpSentError.
func (s *Store) VoidTopUp(ctx context.Context, id txn.SubmitterID,
	ask Ask) (no int64, err error) {
	verb := fmt.Sprintf("void the top-up of submitter %d", id)
	var sent db.VoidTopUpRow
	err = pgx.BeginFunc(ctx, s.api, func(tx pgx.Tx) (err error) {
		q := db.New(tx)
		if no, err = q.LockTopUp(ctx, int32(id)); err != nil {
			return err
		}
		sent, err = q.VoidTopUp(ctx, db.VoidTopUpParams{SubmitterID: int32(id), No: no,
			Reason: ask.Reason, Operator: ask.Operator})
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, fmt.Errorf("store: %s: %w", verb, ErrNoTopUp)
	case err != nil:
		return 0, s.failed(ctx, verb, err)
	case sent.TxID != nil:
		return 0, fmt.Errorf("store: %s: %w", verb,
			&TopUpSentError{Tx: txn.TxID(*sent.TxID), Final: sent.Final})
	}
	return no, nil
}

// LowChange is a change of the judgement whether an account is low.
type LowChange struct {
	Low    bool
	Block  uint64          // of the balance
	ReadAt time.Time       // when the ledger was read for it, by the database's clock
	Emit   *txn.LowBalance // content of the event of a fall; nil: no event
}

// RecordLow records that an account became low or is no longer, and reports whether that is a
// change that no other node has recorded. The event of a fall is written with it.
func (s *Store) RecordLow(ctx context.Context, id txn.SubmitterID,
	c LowChange) (changed bool, err error) {
	verb := fmt.Sprintf("record the balance of submitter %d", id)
	p := db.RecordLowParams{SubmitterID: int32(id), Low: c.Low, Block: int64(c.Block),
		ReadAt: c.ReadAt, Stream: uuid.UUID(txn.AccountStream(id))}
	if c.Low && c.Emit != nil {
		p.Emit = true
		if p.Message, err = c.Emit.Text(); err != nil {
			return false, fmt.Errorf("store: %s: %w", verb, err)
		}
	}
	if err = s.openBalance(ctx, id); err != nil {
		return false, err
	}
	_, err = s.read().RecordLow(ctx, p)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, s.failed(ctx, verb, err)
	}
	if p.Emit {
		s.wakes.signalEvents()
	}
	return true, nil
}

// RecordHeld records why an account gets no top-up; empty: it needs none, or gets one. It reports
// whether that is a change.
func (s *Store) RecordHeld(ctx context.Context, id txn.SubmitterID,
	held string) (changed bool, err error) {
	if err = s.openBalance(ctx, id); err != nil {
		return false, err
	}
	rows, err := s.read().RecordHeld(ctx,
		db.RecordHeldParams{SubmitterID: int32(id), Held: held})
	if err != nil {
		return false, s.failed(ctx, fmt.Sprintf("record the top-up of submitter %d", id), err)
	}
	return rows > 0, nil
}

func (s *Store) openBalance(ctx context.Context, id txn.SubmitterID) error {
	if err := s.read().OpenBalances(ctx, []int32{int32(id)}); err != nil {
		return s.failed(ctx, fmt.Sprintf("open the balance of submitter %d", id), err)
	}
	return nil
}

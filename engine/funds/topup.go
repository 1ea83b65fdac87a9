package funds

import (
	"context"
	"errors"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Reasons why an account that needs a top-up gets none.
const (
	HeldDayLimit          = "DAY_LIMIT"           // max_per_day is reached
	HeldTreasuryUnknown   = "TREASURY_UNKNOWN"    // the chain has no such submitter
	HeldTreasuryExternal  = "TREASURY_EXTERNAL"   // its clients sign
	HeldTreasuryPaused    = "TREASURY_PAUSED"     //
	HeldTreasuryProtected = "TREASURY_PROTECTED"  //
	HeldTreasuryUnfunded  = "TREASURY_UNFUNDED"   // the treasury cannot pay
	HeldTreasuryQueueFull = "TREASURY_QUEUE_FULL" //
	HeldStuck             = "TOP_UP_STUCK"        // an operator decides on the last one
)

// HeldReasons lists every reason.
var HeldReasons = []string{HeldDayLimit, HeldTreasuryUnknown, HeldTreasuryExternal,
	HeldTreasuryPaused, HeldTreasuryProtected, HeldTreasuryUnfunded, HeldTreasuryQueueFull,
	HeldStuck}

// topUp tops an account up if it needs that, and returns why it gets nothing.
func (l *look) topUp(ctx context.Context, a *account) (held string, err error) {
	if last := a.funds.TopUp; last.Open() { // also if no rule has the account any more
		return l.proceed(ctx, a, last)
	}
	rule := l.ruleOf(a.Name)
	if rule == nil || !a.left().Lt(&rule.Below) {
		return "", nil
	}
	if a.block < a.funds.TopUp.ReceiptBlock {
		return a.funds.Held, nil // the balance is older than the last top-up
	}
	treasury := l.accounts[rule.From]
	if held = heldBy(treasury); held != "" {
		return held, nil
	}
	amount := a.lacks(&rule.To)
	if rest := leftOf(&rule.MaxPerDay, &a.funds.DayAmount); amount.Gt(rest) {
		amount = rest
	}
	if amount.Lt(new(uint256.Int).Sub(&rule.To, &rule.Below)) {
		return HeldDayLimit, nil
	}
	decided, done, err := l.Store.DecideTopUp(ctx, store.TopUpNeed{
		Submitter: a.ID, Treasury: treasury.ID, Funds: a.funds, Amount: *amount,
		DayLimit: rule.MaxPerDay,
	})
	if err != nil || !done { // else another node has decided
		return a.funds.Held, err
	}
	l.Decided()
	l.Logger.Info("top-up decided", "submitter", a.Name, "chain", l.Name, "treasury", rule.From,
		"amount", amount.Dec(), "balance", a.balance.Dec(), "committed", a.committed.Dec())
	return l.proceed(ctx, a, decided)
}

// leftOf returns the rest of a limit.
func leftOf(most, used *uint256.Int) *uint256.Int {
	if !most.Gt(used) {
		return new(uint256.Int)
	}
	return new(uint256.Int).Sub(most, used)
}

// heldBy returns why a treasury can send nothing.
func heldBy(treasury *store.SubmitterInfo) string {
	switch {
	case treasury == nil:
		return HeldTreasuryUnknown
	case treasury.Mode == txn.External:
		return HeldTreasuryExternal
	case treasury.Status == txn.Paused:
		return HeldTreasuryPaused
	case treasury.Cursor != nil && treasury.Cursor.Protected != nil:
		return HeldTreasuryProtected
	}
	return ""
}

// proceed creates the transaction of a decided top-up, or returns what it waits for.
func (l *look) proceed(ctx context.Context, a *account, u store.TopUp) (held string, err error) {
	switch {
	case u.State == txn.Stuck:
		return HeldStuck, nil
	case u.Sub == txn.Unfunded:
		return HeldTreasuryUnfunded, nil
	case u.Tx != (txn.TxID{}) && u.State == txn.Queued:
		return heldBy(l.byID[u.Treasury]), nil
	case u.Tx != (txn.TxID{}):
		return "", nil
	}
	info, created, err := l.Store.CreateTopUp(ctx, a.Submitter, u)
	var full *store.QueueFullError
	switch {
	case errors.Is(err, store.ErrPaused):
		return HeldTreasuryPaused, nil
	case errors.Is(err, store.ErrProtected):
		return HeldTreasuryProtected, nil
	case errors.As(err, &full):
		return HeldTreasuryQueueFull, nil
	case err != nil:
		return a.funds.Held, err
	}
	if created {
		l.Logger.Info("top-up created", "submitter", a.Name, "chain", l.Name, "tx", info.ID,
			"treasury", info.SubmitterName, "amount", u.Amount.Dec())
	}
	return "", nil
}

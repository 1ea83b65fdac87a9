package funds

import (
	"context"
	"errors"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Reasons why an account that needs a top-up gets none.
const (
	HeldDayLimit          = "DAY_LIMIT"           // max_per_day is reached
	HeldAccountPaused     = "ACCOUNT_PAUSED"      //
	HeldAccountProtected  = "ACCOUNT_PROTECTED"   // its key may be stolen
	HeldAccountUnknown    = "ACCOUNT_UNKNOWN"     // no ledger of the node has a name of a rule
	HeldNoRule            = store.HeldNoRule      // no rule of this node has the decided top-up
	HeldUnverified        = "TOP_UP_UNVERIFIED"   // its authentication code is wrong
	HeldRestored          = store.HeldRestored    // it may have been executed before a fail-over
	HeldNotInChain        = "TOP_UP_NOT_IN_CHAIN" // the endpoint lacks the block of the last one
	HeldTreasuryUnknown   = "TREASURY_UNKNOWN"    // not on the chain in this ledger
	HeldTreasuryMoved     = "TREASURY_MOVED"      // to another ledger
	HeldTreasuryBlocked   = store.HeldTreasuryBlocked
	HeldTreasuryExternal  = "TREASURY_EXTERNAL"  // its clients sign
	HeldTreasuryPaused    = "TREASURY_PAUSED"    //
	HeldTreasuryProtected = "TREASURY_PROTECTED" //
	HeldTreasuryUnfunded  = store.HeldTreasuryUnfunded
	HeldTreasuryQueueFull = "TREASURY_QUEUE_FULL" //
	HeldStuck             = store.HeldStuck
)

// HeldReasons lists every reason.
var HeldReasons = []string{HeldDayLimit, HeldTreasuryUnknown, HeldTreasuryExternal,
	HeldTreasuryPaused, HeldTreasuryProtected, HeldTreasuryUnfunded, HeldTreasuryQueueFull,
	HeldTreasuryMoved, HeldTreasuryBlocked, HeldStuck, HeldAccountPaused, HeldAccountProtected,
	HeldAccountUnknown, HeldNoRule, HeldUnverified, HeldRestored, HeldNotInChain}

const (
	// sameBlock is after how many looks at one block a sighting counts, where no blocks are made.
	sameBlock = 5
	// blockedAfter is for how many intervals a top-up may be queued.
	blockedAfter = 10
	// checkedFor is how long the block of a final top-up is compared with the chain.
	checkedFor = 24 * time.Hour
)

// topUp tops an account up if it needs that, and returns why it gets nothing.
func (l *look) topUp(ctx context.Context, a *account) (held string, err error) {
	rule := l.ruleOf(a.Name)
	if last := a.funds.TopUp; last.Open() {
		delete(l.needs, a.ID)
		return l.proceed(ctx, a, rule, last)
	}
	if rule == nil || !a.left().Lt(&rule.Below) {
		delete(l.needs, a.ID)
		return "", nil
	}
	if a.block < a.funds.TopUp.ReceiptBlock {
		return a.funds.Held, nil // the balance is older than the last top-up
	}
	if held = a.stopped(); held != "" {
		return held, nil
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
	if !l.needs.seenBefore(a, a.funds.LastNo) {
		return "", nil
	}
	if recent(a.funds) && a.receiptHash != a.funds.TopUp.ReceiptHash {
		return HeldNotInChain, nil
	}
	decided, done, err := l.Store.DecideTopUp(ctx, store.TopUpNeed{
		Submitter: a.ID, To: a.Address, Treasury: treasury.ID, Funds: a.funds, Amount: *amount,
		DayLimit: rule.MaxPerDay,
	})
	if err != nil || !done { // else another node has decided
		return a.funds.Held, err
	}
	l.Decided()
	l.Logger.Info("top-up decided", "submitter", a.Name, "chain", l.Name, "treasury", rule.From,
		"amount", amount.Dec(), "balance", a.balance.Dec(), "committed", a.committed.Dec())
	delete(l.needs, a.ID)
	decided.From = rule.From
	return l.proceed(ctx, a, rule, decided)
}

// seenBefore reports whether an earlier block has shown the same of the account: one wrong response
// must not move funds, nor page an operator. after is the number of the last top-up, or fall, which
// another node may have recorded: a sighting from before it proves nothing.
func (s sightings) seenBefore(a *account, after int64) bool {
	n, seen := s[a.ID]
	switch {
	case !seen || n.after != after || a.block < n.block:
		s[a.ID] = sighting{after, a.block, 1}
		return false
	case a.block == n.block:
		n.looks++
		s[a.ID] = n
		return n.looks >= sameBlock
	}
	return true
}

// recent reports whether the block of the last top-up is compared with the chain before the next
// one.
func recent(f store.Funds) bool {
	return f.TopUp.No > 0 && !f.TopUp.Open() && f.TopUp.ReceiptBlock > 0 &&
		f.ReadAt.Sub(f.TopUp.FinalAt) < checkedFor
}

// stopped returns why an account gets nothing itself.
func (a *account) stopped() string {
	switch {
	case a.Status == txn.Paused:
		return HeldAccountPaused
	case a.Cursor != nil && a.Cursor.Protected != nil:
		return HeldAccountProtected
	}
	return ""
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

// proceed creates the transaction of a decided top-up, or returns what it waits for. A rule must
// allow it: a row that was written by hand must not move funds.
func (l *look) proceed(ctx context.Context, a *account, rule *Rule,
	u store.TopUp) (held string, err error) {
	switch {
	case u.State == txn.Stuck:
		return HeldStuck, nil
	case u.Sub == txn.Unfunded:
		return HeldTreasuryUnfunded, nil
	case u.Tx != (txn.TxID{}) && u.State == txn.Queued:
		held = heldBy(l.byID[u.Treasury])
		if held == "" && a.funds.ReadAt.Sub(u.CreatedAt) > blockedAfter*l.Interval {
			held = HeldTreasuryBlocked
		}
		return held, nil
	case u.Tx != (txn.TxID{}):
		return "", nil
	case u.MayBeLost: // the trigger top_up_is_in_force refuses it too
		return HeldRestored, nil
	}
	if rule == nil || rule.From != u.From || u.Amount.Gt(&rule.MaxPerDay) {
		return HeldNoRule, nil
	}
	if held = a.stopped(); held != "" {
		return held, nil
	}
	info, created, err := l.Store.CreateTopUp(ctx, a.Submitter, u)
	var full *store.QueueFullError
	switch {
	case errors.Is(err, txn.ErrUnverified):
		return HeldUnverified, nil
	case errors.Is(err, store.ErrMoved):
		return HeldTreasuryMoved, nil
	case errors.Is(err, store.ErrSubmitterNotFound):
		return HeldTreasuryUnknown, nil
	case errors.Is(err, store.ErrMode):
		return HeldTreasuryExternal, nil
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

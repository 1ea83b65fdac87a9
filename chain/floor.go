package chain

import (
	"math/big"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// Floor is the minimum that the nodes of a chain are known to accept per unit of gas. Zero fields
// are unknown.
type Floor struct {
	Tip   txn.Wei // of the tip, and of a gas price
	Price txn.Wei // of the fee cap, and of a gas price
	// a tip that was tried because the nodes refused less without a number. It never exceeds a cap,
	// so that no transaction waits for it.
	Guess txn.Wei
	// the nodes take legacy transactions only
	LegacyOnly bool
}

const (
	// floorHold is how long a floor is trusted after the last rejection that reported it. It is
	// halved after each further floorHold. A floor still in force costs one rejected broadcast to
	// learn again, and a lowered floor is not paid forever.
	floorHold = time.Hour
	// guessHold is the same for a guessed tip, which no node has stated.
	guessHold = 10 * time.Minute
	// firstGuessPause is the time until a guess may be doubled; each further pause is twice as
	// long, up to lastGuessPause.
	firstGuessPause, lastGuessPause = time.Second, time.Minute
	// floorBits ends the halving.
	floorBits = 256
	// typeHold is how long only legacy transactions are sent after the last rejection of another
	// type. Each try costs one rejected broadcast and, until it is replaced, a second.
	typeHold = 24 * time.Hour
)

// Floors learns the requirements of a chain's nodes from rejections. A node's minimum is a local
// setting that no method reports; fee history and gas price show only the fees of others. It is
// safe for concurrent use.
type Floors struct {
	mu      sync.Mutex
	floor   Floor     // LegacyOnly is unused
	at      time.Time // of the last rejection that changed it
	typed   bool      // a transaction's type was rejected
	typedAt time.Time // the last time

	doublings int       // of the guess, in a row
	doubleAt  time.Time // when it may be doubled again
	refused   txn.Wei   // the highest tip that was refused without a number since then
}

// Learn records the outcome of a broadcast of these bytes. An UNDERPRICED outcome with a required
// fee has an effect, and the acceptance of a tip after a lower one was refused without a number.
// limit, unless zero, caps the floor, so that no node can raise fees above the configuration.
func (f *Floors) Learn(now time.Time, signed txn.Signed, o txn.Outcome, limit txn.Wei) {
	if o.Class == txn.Accepted {
		f.learnAccepted(now, signed)
		return
	}
	if o.Class != txn.Underpriced || o.FeeNeeded == nil && o.TipNeeded == nil {
		return
	}
	tx := new(types.Transaction)
	if tx.UnmarshalBinary(signed.Raw) != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	learned, raised := f.decayedAt(now), true
	tip, fee := believed(o.TipNeeded, limit), believed(o.FeeNeeded, limit)
	lacksTip := below(tx.GasTipCap(), tip)
	if lacksTip {
		learned.Tip = tip
	}
	switch {
	case below(tx.GasFeeCap(), fee):
		learned.Price = fee
	// the cap was sufficient, so the tip is meant
	case below(tx.GasTipCap(), fee) && o.TipNeeded == nil:
		learned.Tip = fee
	default:
		raised = lacksTip
	}
	if raised {
		f.floor, f.at = learned, now
	}
}

func (f *Floors) learnAccepted(now time.Time, signed txn.Signed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	tx := new(types.Transaction)
	if f.refused.IsZero() || tx.UnmarshalBinary(signed.Raw) != nil {
		return
	}
	tip, overflow := uint256.FromBig(tx.GasTipCap())
	learned, most := f.decayedAt(now), txn.Wei{}
	most.Lsh(&f.refused, 1)
	if overflow || !tip.Gt(&f.refused) || tip.Gt(&most) || !tip.Gt(&learned.Guess) {
		return
	}
	learned.Guess = *tip
	f.floor, f.at = learned, now
	f.refused = txn.Wei{}
}

// LearnType records that no node took these bytes because of their type.
func (f *Floors) LearnType(now time.Time, signed txn.Signed, o txn.Outcome) {
	if o.Class != txn.TypeNotSupported {
		return
	}
	tx := new(types.Transaction)
	if tx.UnmarshalBinary(signed.Raw) != nil || tx.Type() == types.LegacyTxType {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.typed, f.typedAt = true, now
}

// Guess raises the floor for the replacement of an attempt that every node refused as UNDERPRICED,
// unless a rejection stated the minimum: to the tip that the node suggests, or to twice the refused
// one. The pauses between doublings grow, for any number of accounts: a pool that is full for
// a moment refuses in the same words. limit, unless zero, caps the floor; without a limit only the
// suggestion counts. The floor of m is updated.
func (f *Floors) Guess(now time.Time, r txn.FeeRequest, m *Market, limit txn.Wei) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.Floor = f.floorAt(now)
	if r.Refused != txn.Underpriced || r.Newest.Tip.Lt(&m.Floor.Tip) ||
		r.Newest.Cap.Lt(&m.Floor.Price) || r.Newest.Tip.Lt(&m.Floor.Guess) {
		return
	}
	guess := m.TipHint
	if m.BaseFee == nil {
		guess = orZero(m.GasPrice)
	}
	if !guess.Gt(&r.Newest.Tip) {
		f.refused = larger(f.refused, r.Newest.Tip)
		if limit.IsZero() || now.Before(f.doubleAt) {
			return
		}
		if _, overflow := guess.MulOverflow(&r.Newest.Tip, uint256.NewInt(2)); overflow {
			return
		}
	}
	if guess = believed(&guess, limit); guess.Gt(&m.Floor.Guess) {
		if now.Sub(f.doubleAt) > guessHold {
			f.doublings = 0
		}
		f.doubleAt = now.Add(min(firstGuessPause<<f.doublings, lastGuessPause))
		f.doublings++
		f.floor, f.at = f.decayedAt(now), now
		f.floor.Guess, m.Floor.Guess = guess, guess
	}
}

// believed returns the required fee, capped by limit; zero if none is required.
func believed(needed *txn.Wei, limit txn.Wei) txn.Wei {
	switch {
	case needed == nil:
		return txn.Wei{}
	case !limit.IsZero() && needed.Gt(&limit):
		return limit
	}
	return *needed
}

func below(offered *big.Int, needed txn.Wei) bool { return offered.Cmp(needed.ToBig()) < 0 }

// At returns the floor that is trusted at a time.
func (f *Floors) At(now time.Time) Floor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.floorAt(now)
}

// Rules returns everything learned, for Recall in another process.
func (f *Floors) Rules(now time.Time) txn.PoolRules {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := txn.PoolRules{MinTip: f.floor.Tip, MinPrice: f.floor.Price, GuessedTip: f.floor.Guess}
	if f.floor != (Floor{}) {
		r.FeesAge = max(0, now.Sub(f.at))
	}
	if r.Typed = f.typed; f.typed {
		r.TypeAge = max(0, now.Sub(f.typedAt))
	}
	return r
}

// Recall adds rules learned elsewhere, as if they had been learned here at that time. Of two fees
// the higher one counts. limit, unless zero, caps them: it may have been higher elsewhere.
func (f *Floors) Recall(now time.Time, r txn.PoolRules, limit txn.Wei) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := now.Add(-r.FeesAge)
	others := Floors{at: at, floor: Floor{
		Tip: believed(&r.MinTip, limit), Price: believed(&r.MinPrice, limit),
		Guess: believed(&r.GuessedTip, limit),
	}}
	mine, theirs := f.decayedAt(now), others.decayedAt(now)
	both := Floor{
		Tip: larger(mine.Tip, theirs.Tip), Price: larger(mine.Price, theirs.Price),
		Guess: larger(mine.Guess, theirs.Guess),
	}
	switch both {
	case mine:
	case theirs:
		f.floor, f.at = others.floor, at
	default:
		f.floor, f.at = both, now
	}
	if typedAt := now.Add(-r.TypeAge); r.Typed && (!f.typed || typedAt.After(f.typedAt)) {
		f.typed, f.typedAt = true, typedAt
	}
}

func (f *Floors) floorAt(now time.Time) Floor {
	floor := f.decayedAt(now)
	floor.LegacyOnly = f.typed && now.Sub(f.typedAt) < typeHold
	return floor
}

func (f *Floors) decayedAt(now time.Time) Floor {
	halvings := uint(min(max(0, now.Sub(f.at)/floorHold), floorBits))
	guessHalvings := uint(min(max(0, now.Sub(f.at)/guessHold), floorBits))
	held := f.floor
	held.Tip.Rsh(&held.Tip, halvings)
	held.Price.Rsh(&held.Price, halvings)
	held.Guess.Rsh(&held.Guess, guessHalvings)
	return held
}

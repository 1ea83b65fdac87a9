package chain

import (
	"math/big"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/fencepost/fencepost/txn"
)

// Floor is the least that the nodes of a chain were found to take for a unit of gas; zero fields: nothing is known.
type Floor struct {
	Tip   txn.Wei // of the tip, and of a gas price
	Price txn.Wei // of the fee cap, and of a gas price
}

const (
	// floorHold is how long a floor is believed after the last refusal that told it. Then it is halved with every such time that goes by: a floor that is
	// still in force costs one refused hand-over and is known again, one that was lowered is not paid for ever.
	floorHold = time.Hour
	// floorBits ends the halving.
	floorBits = 256
)

// Floors learns a chain's floor from the words of its nodes. What gas price a node insists on is its owner's setting and is told nowhere else: fee history
// and gas price show what others pay. It is safe for use by many goroutines.
type Floors struct {
	mu    sync.Mutex
	floor Floor
	at    time.Time // of the last refusal that told it
}

// Learn takes note of a refusal of these bytes. Only an UNDERPRICED that names what is needed teaches anything. The limit, unless zero, bounds what is
// believed: no node talks us into more than the configuration allows.
func (f *Floors) Learn(now time.Time, signed txn.Signed, o txn.Outcome, limit txn.Wei) {
	if o.Class != txn.Underpriced || o.FeeNeeded == nil && o.TipNeeded == nil {
		return
	}
	tx := new(types.Transaction)
	if tx.UnmarshalBinary(signed.Raw) != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	learned, told := f.decayedAt(now), true
	tip, fee := believed(o.TipNeeded, limit), believed(o.FeeNeeded, limit)
	lacksTip := below(tx.GasTipCap(), tip)
	if lacksTip {
		learned.Tip = tip
	}
	switch {
	case below(tx.GasFeeCap(), fee):
		learned.Price = fee
	case below(tx.GasTipCap(), fee) && o.TipNeeded == nil: // the cap was enough, so it is the tip that they mean
		learned.Tip = fee
	default:
		told = lacksTip
	}
	if told {
		f.floor, f.at = learned, now
	}
}

// believed is what a node asks for, as far as we would pay it; zero: it does not ask.
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

// At is the floor as it is believed at a time.
func (f *Floors) At(now time.Time) Floor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.decayedAt(now)
}

func (f *Floors) decayedAt(now time.Time) Floor {
	halvings := uint(min(max(0, now.Sub(f.at)/floorHold), floorBits))
	held := f.floor
	held.Tip.Rsh(&held.Tip, halvings)
	held.Price.Rsh(&held.Price, halvings)
	return held
}

package chain

import (
	"math/big"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/fencepost/fencepost/txn"
)

// Floor is the minimum that the nodes of a chain are known to accept per unit of gas. Zero fields
// are unknown.
type Floor struct {
	Tip   txn.Wei // of the tip, and of a gas price
	Price txn.Wei // of the fee cap, and of a gas price
}

const (
	// floorHold is how long a floor is trusted after the last rejection that reported it. It is
	// halved after each further floorHold. A floor still in force costs one rejected broadcast to
	// learn again, and a lowered floor is not paid forever.
	floorHold = time.Hour
	// floorBits ends the halving.
	floorBits = 256
)

// Floors learns the minimum fees of a chain from rejections. A node's minimum is a local setting
// that no method reports; fee history and gas price show only the fees of others. It is safe for
// concurrent use.
type Floors struct {
	mu    sync.Mutex
	floor Floor
	at    time.Time // of the last rejection that reported it
}

// Learn records a rejection of these bytes. Only an UNDERPRICED outcome with a required fee has an
// effect. limit, unless zero, caps the floor, so that no node can raise fees above the
// configuration.
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
	return f.decayedAt(now)
}

func (f *Floors) decayedAt(now time.Time) Floor {
	halvings := uint(min(max(0, now.Sub(f.at)/floorHold), floorBits))
	held := f.floor
	held.Tip.Rsh(&held.Tip, halvings)
	held.Price.Rsh(&held.Price, halvings)
	return held
}

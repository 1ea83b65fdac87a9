package chain

import (
	"math/big"
	"regexp"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
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

// tipWords tell that a floor is one of the tip.
var tipWords = regexp.MustCompile(`(?i)\btip|priority`)

// Learn takes note of a refusal of these bytes. Only an UNDERPRICED that names what is needed teaches anything. The limit, unless zero, bounds what is
// believed: no node talks us into more than the configuration allows.
func (f *Floors) Learn(now time.Time, signed txn.Signed, o txn.Outcome, limit txn.Wei) {
	needed := feeNeeded(o)
	if o.Class != txn.Underpriced || needed.IsZero() {
		return
	}
	if !limit.IsZero() && needed.Gt(&limit) {
		needed = limit
	}
	tx := new(types.Transaction)
	if tx.UnmarshalBinary(signed.Raw) != nil {
		return
	}
	lacksTip, lacksPrice := below(tx.GasTipCap(), needed), below(tx.GasFeeCap(), needed)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case lacksTip && (!lacksPrice || tipWords.MatchString(o.Detail)):
		f.floor, f.at = Floor{Tip: needed, Price: f.heldAt(now).Price}, now
	case lacksPrice:
		// Which of the two is meant is not said. The cheaper reading comes first: if the tip was meant, the next refusal shows it.
		f.floor, f.at = Floor{Tip: f.heldAt(now).Tip, Price: needed}, now
	}
}

func below(offered *big.Int, needed txn.Wei) bool { return offered.Cmp(needed.ToBig()) < 0 }

// At is the floor as it is believed at a time.
func (f *Floors) At(now time.Time) Floor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.heldAt(now)
}

func (f *Floors) heldAt(now time.Time) Floor {
	halvings := uint(min(max(0, now.Sub(f.at)/floorHold), floorBits))
	held := f.floor
	held.Tip.Rsh(&held.Tip, halvings)
	held.Price.Rsh(&held.Price, halvings)
	return held
}

var neededText = regexp.MustCompile(`(?i)minimum needed:? (\d{1,78})`)

// feeNeeded is what the node says would be enough; zero when it does not say.
func feeNeeded(o txn.Outcome) (needed txn.Wei) {
	m := neededText.FindStringSubmatch(o.Detail)
	if m == nil {
		return needed
	}
	if n, err := uint256.FromDecimal(m[1]); err == nil {
		needed = *n
	}
	return needed
}

package chain

import (
	"math"
	"math/big"
	"slices"

	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// maxTxGas is the highest gas limit of a transaction since EIP-7825. A margin never lifts an estimate above it; an estimate that is above it by itself comes
// from a chain without that rule.
const maxTxGas = 1 << 24

// gasLimit is an estimate with the margin, within what one transaction may ask for in a block of blockLimit gas (0: not known).
func gasLimit(estimate, blockLimit uint64, margin float64) uint64 {
	limit := uint64(math.Ceil(float64(estimate) * margin))
	if estimate <= maxTxGas {
		limit = min(limit, maxTxGas)
	}
	if blockLimit > 0 {
		limit = min(limit, max(blockLimit, estimate))
	}
	return max(limit, estimate)
}

// DynamicFees are the fees for a chain with a base fee: twice the base fee of the next block plus the tip, so that the transaction stays payable through
// six full blocks in a row, within floor and cap. ok is false when the cap lies below the next base fee: nothing sent now could be included.
func (f FeeOptions) DynamicFees(nextBaseFee, tip txn.Wei) (fees txn.Fees, ok bool) {
	if tip.Lt(&f.MinTip) {
		tip = f.MinTip
	}
	var limit txn.Wei
	if _, overflow := limit.MulOverflow(&nextBaseFee, uint256.NewInt(2)); overflow {
		limit.SetAllOne()
	}
	if _, overflow := limit.AddOverflow(&limit, &tip); overflow {
		limit.SetAllOne()
	}
	if !f.MaxFee.IsZero() && limit.Gt(&f.MaxFee) {
		limit = f.MaxFee
	}
	if limit.Lt(&nextBaseFee) {
		return txn.Fees{}, false
	}
	if tip.Gt(&limit) {
		tip = limit
	}
	return txn.Fees{Cap: limit, Tip: tip}, true
}

// LegacyFees are the fees for a chain without a base fee, within the cap; the fixed price, if there is one, counts instead.
func (f FeeOptions) LegacyFees(price txn.Wei) txn.Fees {
	if f.FixedPrice != nil {
		price = *f.FixedPrice
	} else if !f.MaxFee.IsZero() && price.Gt(&f.MaxFee) {
		price = f.MaxFee
	}
	return txn.Fees{Cap: price, Tip: price, Legacy: true}
}

// tipOf is the median of the tips that the history shows. Empty blocks tell 0 and do not count.
func tipOf(rewards [][]*big.Int) txn.Wei {
	var paid []txn.Wei
	for _, block := range rewards {
		if len(block) == 0 || block[0] == nil || block[0].Sign() <= 0 {
			continue
		}
		if tip, overflow := uint256.FromBig(block[0]); !overflow {
			paid = append(paid, *tip)
		}
	}
	if len(paid) == 0 {
		return txn.Wei{}
	}
	slices.SortFunc(paid, func(a, b txn.Wei) int { return a.Cmp(&b) })
	return paid[len(paid)/2]
}

// cost is the most that a transaction can take from its sender. ok is false when that is more than any account can hold.
func cost(gas uint64, fees txn.Fees, value txn.Wei) (total txn.Wei, ok bool) {
	if _, overflow := total.MulOverflow(&fees.Cap, uint256.NewInt(gas)); overflow {
		return total, false
	}
	_, overflow := total.AddOverflow(&total, &value)
	return total, !overflow
}

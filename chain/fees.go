package chain

import (
	"bytes"
	"fmt"
	"math"

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
// six full blocks in a row, within floors and cap. ok is false when the cap leaves less than the least tip above the next base fee: what is sent now could not be
// included, or by nobody who asks for a tip, and would hold its nonce meanwhile.
func (f FeeOptions) DynamicFees(nextBaseFee, tip txn.Wei) (fees txn.Fees, ok bool) {
	f = f.withDefaults()
	tip = larger(tip, f.MinTip)
	var limit txn.Wei
	if _, overflow := limit.MulOverflow(&nextBaseFee, uint256.NewInt(2)); overflow {
		limit.SetAllOne()
	}
	if _, overflow := limit.AddOverflow(&limit, &tip); overflow {
		limit.SetAllOne()
	}
	limit = larger(limit, f.MinPrice)
	if !f.MaxFee.IsZero() && limit.Gt(&f.MaxFee) {
		limit = f.MaxFee
	}
	if least := f.minFeeCap(nextBaseFee); limit.Lt(&least) {
		return txn.Fees{}, false
	}
	if tip.Gt(&limit) {
		tip = limit
	}
	return txn.Fees{Cap: limit, Tip: tip}, true
}

// minFeeCap is what has to be offered in all for the least tip to be left above a base fee.
func (f FeeOptions) minFeeCap(baseFee txn.Wei) (least txn.Wei) {
	f = f.withDefaults()
	if _, overflow := least.AddOverflow(&baseFee, &f.MinTip); overflow {
		least.SetAllOne()
	}
	return least
}

// LegacyFees are the fees for a chain without a base fee, within floor and cap; the fixed price, if there is one, counts instead.
func (f FeeOptions) LegacyFees(price txn.Wei) txn.Fees {
	price = larger(price, f.MinPrice)
	if f.FixedPrice != nil {
		price = *f.FixedPrice
	} else if !f.MaxFee.IsZero() && price.Gt(&f.MaxFee) {
		price = f.MaxFee
	}
	return txn.Fees{Cap: price, Tip: price, Legacy: true}
}

func larger(a, b txn.Wei) txn.Wei {
	if a.Lt(&b) {
		return b
	}
	return a
}

// percentile is the share of the tips paid that a speed tops.
func (f FeeOptions) percentile(speed txn.Speed) float64 {
	f = f.withDefaults()
	switch speed {
	case txn.Slow:
		return f.SlowPercentile
	case txn.Fast:
		return f.FastPercentile
	}
	return f.Percentile
}

// within lowers the cap to the asker's own; zero is none.
func (f FeeOptions) within(limit txn.Wei) FeeOptions {
	if !limit.IsZero() && (f.MaxFee.IsZero() || limit.Lt(&f.MaxFee)) {
		f.MaxFee = limit
	}
	return f
}

// withPremium is a gas price for a speed. A chain that tells one price tells nothing of what others pay, so only haste has a premium.
func withPremium(price txn.Wei, speed txn.Speed) txn.Wei {
	if speed != txn.Fast {
		return price
	}
	var more txn.Wei
	more.Rsh(&price, 2)
	if _, overflow := more.AddOverflow(&more, &price); overflow {
		return price
	}
	return more
}

// Market is what a chain tells of prices, and of one sender's means.
type Market struct {
	BaseFee     *txn.Wei // of the newest block; nil on a chain without EIP-1559
	NextBaseFee *txn.Wei // of the block after it; nil when the node does not tell
	Tip         txn.Wei  // what the speed asked for takes; zero when the node does not tell
	GasPrice    *txn.Wei // usual legacy price; nil when the node does not tell
	Balance     txn.Wei
	Estimate    uint64 // gas that the draft takes by simulation
	BlockGas    uint64 // gas of one block; 0 when the node does not tell
	Floor       Floor  // least that its nodes were found to take
}

// Quote is what it takes to send the draft on this market: ACCEPTED with the quote, or why nothing should be sent now.
func (f FeeOptions) Quote(draft txn.Draft, m Market, gasMargin float64) (txn.Quote, txn.Outcome) {
	fees, o := f.Offer(draft.Speed, draft.MaxFee, m)
	if o.Class != txn.Accepted {
		return txn.Quote{}, o
	}
	quote := txn.Quote{GasLimit: draft.Payload.GasLimit, Fees: fees}
	if quote.GasLimit == 0 {
		quote.GasLimit = gasLimit(m.Estimate, m.BlockGas, gasMargin)
	}
	if o := f.checkGas(quote.GasLimit, m); o.Class != txn.Accepted {
		return txn.Quote{}, o
	}
	need, ok := cost(quote.GasLimit, fees, draft.Payload.Value)
	if !ok {
		return txn.Quote{}, txn.Outcome{
			Class:  txn.Invalid,
			Detail: "value and gas together are more than any account can hold",
		}
	}
	if m.Balance.Lt(&need) {
		return txn.Quote{}, insufficientFunds(m.Balance, need)
	}
	return quote, o
}

// Gas is the estimate with the margin. What takes no more than every transaction does needs none: it takes that whatever the state.
func (m Market) Gas(margin float64) uint64 {
	if m.Estimate <= txGas {
		return txGas
	}
	return gasLimit(m.Estimate, m.BlockGas, margin)
}

func insufficientFunds(have, want txn.Wei) txn.Outcome {
	return txn.Outcome{
		Class: txn.InsufficientFunds, Detail: fmt.Sprintf("the account has %s wei, the transaction may take up to %s", have.Dec(), want.Dec()),
		Have: &have, Want: &want, Short: new(txn.Wei).Sub(&want, &have),
	}
}

// checkGas refuses a gas limit that no pool or no block would take, since such a transaction would hold its nonce for ever, and one that is not enough by
// simulation. Estimates of go-ethereum are up to 1.5 % above the least that does, but never below what every transaction takes: a pool refuses what is.
func (f FeeOptions) checkGas(gas uint64, m Market) txn.Outcome {
	const leastPercent = 98
	blockGas := m.BlockGas
	switch {
	case gas < m.Estimate/100*leastPercent, gas < txGas && m.Estimate >= txGas:
		return txn.Outcome{
			Class: txn.Invalid,
			Detail: fmt.Sprintf(
				"a gas limit of %d is not enough: it takes %d; raise it, or leave it out", gas,
				m.Estimate),
		}
	case f.MaxGas > 0 && gas > f.MaxGas:
		return txn.Outcome{
			Class: txn.Invalid,
			Detail: fmt.Sprintf(
				"a gas limit of %d is above the chain's limit for one transaction, %d", gas,
				f.MaxGas),
		}
	case blockGas > 0 && gas > blockGas:
		return txn.Outcome{
			Class:  txn.Invalid,
			Detail: fmt.Sprintf("a gas limit of %d is above that of a block, %d", gas, blockGas),
		}
	}
	return txn.Outcome{Class: txn.Accepted}
}

// Offer chooses by the newest block: one with a base fee asks for EIP-1559 fees, one without for a gas price. Below a floor or above a cap there is nothing to
// offer: the outcome is FEE_CAP_BELOW_BASE_FEE, and names the two.
func (f FeeOptions) Offer(speed txn.Speed, limit txn.Wei, m Market) (txn.Fees, txn.Outcome) {
	f = f.within(limit)
	chains := f.MaxFee != limit // else nothing is gained by raising it
	if f.FixedPrice != nil {
		if !limit.IsZero() && f.FixedPrice.Gt(&limit) {
			return txn.Fees{}, feeTooHigh(
				"the chain's fixed price is %s gwei, above the cap of %s gwei", *f.FixedPrice,
				limit, false)
		}
		return f.LegacyFees(*f.FixedPrice), txn.Outcome{Class: txn.Accepted}
	}
	f.MinPrice = larger(f.MinPrice, m.Floor.Price)
	if least := larger(f.MinPrice, m.Floor.Tip); !f.MaxFee.IsZero() && least.Gt(&f.MaxFee) {
		return txn.Fees{}, feeTooHigh(
			"the chain's nodes take nothing below %s gwei, and the cap is %s gwei", least, f.MaxFee,
			chains)
	}
	if m.BaseFee == nil {
		f.MinPrice = larger(f.MinPrice, m.Floor.Tip)
		if m.GasPrice == nil {
			return txn.Fees{}, txn.Outcome{
				Class:  txn.Unavailable,
				Detail: "the node does not tell a gas price",
			}
		}
		return f.LegacyFees(withPremium(*m.GasPrice, speed)), txn.Outcome{Class: txn.Accepted}
	}
	next := m.nextBaseFee()
	fees, ok := f.DynamicFees(next, larger(m.Tip, m.Floor.Tip))
	switch {
	case !ok && f.MaxFee.Lt(&next):
		return fees, feeTooHigh("the next block's base fee is %s gwei, above the cap of %s gwei", next,
			f.MaxFee, chains)
	case !ok:
		return fees, feeTooHigh(
			"the next block's base fee with the least tip is %s gwei, above the cap of %s gwei",
			f.minFeeCap(next), f.MaxFee, chains)
	}
	return fees, txn.Outcome{Class: txn.Accepted}
}

// Reoffer is Offer for a replacement: its limit, which has a key of its own, counts in place of the cap for what is new. What was sent when fees were usual must
// be able to follow them when they rise.
func (f FeeOptions) Reoffer(speed txn.Speed, limit txn.Wei, m Market) (txn.Fees, txn.Outcome) {
	f.MaxFee = limit
	return f.Offer(speed, limit, m)
}

func feeTooHigh(text string, asked, limit txn.Wei, chains bool) txn.Outcome {
	return txn.Outcome{
		Class:    txn.FeeCapBelowBaseFee,
		Detail:   fmt.Sprintf(text, txn.InGwei(asked), txn.InGwei(limit)),
		ChainCap: chains,
	}
}

// nextBaseFee is what the node tells, else the most that it can be: a full block raises the base fee by an eighth.
func (m Market) nextBaseFee() txn.Wei {
	if m.NextBaseFee != nil {
		return *m.NextBaseFee
	}
	var next txn.Wei
	next.Rsh(m.BaseFee, 3)
	if _, overflow := next.AddOverflow(&next, m.BaseFee); overflow {
		next.SetAllOne()
	}
	return next
}

// cost is the most that a transaction can take from its sender. ok is false when that is more than any account can hold.
func cost(gas uint64, fees txn.Fees, value txn.Wei) (total txn.Wei, ok bool) {
	if _, overflow := total.MulOverflow(&fees.Cap, uint256.NewInt(gas)); overflow {
		return total, false
	}
	_, overflow := total.AddOverflow(&total, &value)
	return total, !overflow
}

// What any transaction takes, by the yellow paper and EIP-2028. Chains that take more say so when they get it.
const (
	createGas  = 32_000
	zeroGas    = 4
	nonZeroGas = 16
)

// intrinsicGas is what a payload takes before anything runs.
func intrinsicGas(p txn.Payload) uint64 {
	least := uint64(txGas)
	if p.To == nil {
		least += createGas
	}
	zeros := uint64(bytes.Count(p.Data, []byte{0}))
	return least + zeros*zeroGas + (uint64(len(p.Data))-zeros)*nonZeroGas
}

// OwnGasFits is INVALID for a payload whose own gas limit is not enough for its data: nothing with less is ever included. Otherwise it is ACCEPTED.
func OwnGasFits(p txn.Payload) txn.Outcome {
	if least := intrinsicGas(p); p.GasLimit > 0 && p.GasLimit < least {
		return txn.Outcome{
			Class: txn.Invalid,
			Detail: fmt.Sprintf(
				"the gas limit of %d is below %d, which a transaction with these data takes at least",
				p.GasLimit, least),
		}
	}
	return txn.Outcome{Class: txn.Accepted}
}

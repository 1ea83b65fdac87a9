package chain

import (
	"bytes"
	"fmt"
	"math"

	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// maxTxGas is the highest gas limit of a transaction since EIP-7825. The margin never raises an
// estimate above it. An estimate above it comes from a chain without that rule.
const maxTxGas = 1 << 24

// gasLimit returns an estimate with the margin, within the limits of one transaction and of a block
// (blockLimit 0 means unknown).
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

// DynamicFees returns the fees for a chain with a base fee: twice the next base fee plus the tip,
// within floors and cap. The transaction then stays payable through six full blocks in a row. It is
// not ok if the cap leaves less than the minimum tip above the next base fee: such a transaction
// would occupy its nonce without being included.
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

// minFeeCap returns the lowest fee cap that leaves the minimum tip above a base fee.
func (f FeeOptions) minFeeCap(baseFee txn.Wei) (least txn.Wei) {
	f = f.withDefaults()
	if _, overflow := least.AddOverflow(&baseFee, &f.MinTip); overflow {
		least.SetAllOne()
	}
	return least
}

// LegacyFees returns the fees for a chain without a base fee, within floor and cap, or the fixed
// price if one is set.
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

// percentile returns the percentile of the paid tips for a speed.
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

// within lowers the cap to limit; zero means no limit.
func (f FeeOptions) within(limit txn.Wei) FeeOptions {
	if !limit.IsZero() && (f.MaxFee.IsZero() || limit.Lt(&f.MaxFee)) {
		f.MaxFee = limit
	}
	return f
}

// withPremium returns a gas price for a speed. A single price shows nothing about the prices of
// others, so only FAST adds a premium.
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

// Market is the state of a chain's fee market, and one sender's balance.
type Market struct {
	BaseFee     *txn.Wei // of the newest block; nil on a chain without EIP-1559
	NextBaseFee *txn.Wei // of the next block; nil if the node does not report it
	Tip         txn.Wei  // for the requested speed; zero if the node does not report it
	GasPrice    *txn.Wei // usual legacy price; nil if the node does not report it
	Balance     txn.Wei
	Rollup      *RollupFee // fees of the chain beside gas; nil: none
	Estimate    uint64     // simulated gas of the draft
	BlockGas    uint64     // gas limit of a block; 0 if the node does not report it
	Floor       Floor      // minimum that the nodes are known to accept
	// the node's suggestion of a tip; zero if it was not queried or not reported
	TipHint txn.Wei
}

// Quote prices the draft on this market: ACCEPTED with the quote, or the reason not to send now.
func (f FeeOptions) Quote(draft txn.Draft, m Market, gasMargin float64) (txn.Quote, txn.Outcome) {
	fees, o := f.Offer(draft.Speed, draft.MaxFee, m)
	if o.Class != txn.Accepted {
		return txn.Quote{}, o
	}
	quote := txn.Quote{GasLimit: draft.Payload.GasLimit, Fees: fees}
	if quote.GasLimit == 0 {
		quote.GasLimit = m.Gas(draft.Payload, gasMargin)
	}
	if o := f.checkGas(quote.GasLimit, m); o.Class != txn.Accepted {
		return txn.Quote{}, o
	}
	quote.L1Fee = m.Rollup.Of(draft.Payload, quote.GasLimit)
	need, ok := costOf(quote, draft.Payload.Value)
	if !ok {
		return txn.Quote{}, txn.Outcome{
			Class:  txn.Invalid,
			Detail: "value plus gas exceeds any possible balance",
		}
	}
	if need = sum(need, draft.Committed); m.Balance.Lt(&need) {
		return txn.Quote{}, insufficientFunds(m.Balance, need)
	}
	return quote, o
}

// Gas returns the estimate of a payload with the margin. A transfer that runs no code needs none:
// its gas does not depend on the state. If the recipient gets code before the block (EIP-7702), the
// transfer may run out of gas: it is then final as reverted, and its value stays with the sender.
func (m Market) Gas(p txn.Payload, margin float64) uint64 {
	if p.To != nil && len(p.Data) == 0 && m.Estimate <= outcome.TxGas {
		return outcome.TxGas
	}
	return gasLimit(m.Estimate, m.BlockGas, margin)
}

func insufficientFunds(have, want txn.Wei) txn.Outcome {
	return txn.Outcome{
		Class: txn.InsufficientFunds,
		Detail: fmt.Sprintf(
			"balance %s wei is below the maximum cost %s wei",
			have.Dec(),
			want.Dec(),
		),
		Have: &have, Want: &want, Short: new(txn.Wei).Sub(&want, &have),
	}
}

// checkGas rejects a gas limit that no pool or block accepts, because the transaction would occupy
// its nonce forever, and one below the simulated gas. Estimates of go-ethereum exceed the minimum
// by up to 1.5 %, but are never below the intrinsic gas, which pools require.
func (f FeeOptions) checkGas(gas uint64, m Market) txn.Outcome {
	const leastPercent = 98
	blockGas := m.BlockGas
	switch {
	case gas < m.Estimate/100*leastPercent, gas < outcome.TxGas && m.Estimate >= outcome.TxGas:
		return belowEstimate(gas, m.Estimate)
	case blockGas > 0 && gas > blockGas:
		return txn.Outcome{
			Class:  txn.Invalid,
			Detail: fmt.Sprintf("gas limit %d is above the block gas limit %d", gas, blockGas),
		}
	case f.MaxGas > 0 && gas > f.MaxGas:
		return txn.Outcome{
			Class: txn.Invalid,
			Detail: fmt.Sprintf(
				"gas limit %d is above the configured maximum of %d (gas.max_limit of the "+
					"chain); lower it, or raise the maximum", gas, f.MaxGas),
			GasCap: true,
		}
	}
	return txn.Outcome{Class: txn.Accepted}
}

func belowEstimate(gas, estimate uint64) txn.Outcome {
	return txn.Outcome{
		Class: txn.Invalid,
		Detail: fmt.Sprintf(
			"gas limit %d is below the estimate %d; raise or omit it", gas, estimate),
	}
}

// Offer returns fees by the newest block: EIP-1559 fees if it has a base fee and the nodes are not
// known to refuse such transactions, else a gas price. If no fees fit between floor and cap, the
// outcome is FEE_CAP_BELOW_BASE_FEE with both values.
func (f FeeOptions) Offer(speed txn.Speed, limit txn.Wei, m Market) (txn.Fees, txn.Outcome) {
	f = f.within(limit)
	chains := f.MaxFee != limit // otherwise raising it does not help
	if f.FixedPrice != nil {
		if !limit.IsZero() && f.FixedPrice.Gt(&limit) {
			return txn.Fees{}, feeTooHigh(
				"the chain's fixed price of %s gwei is above the cap of %s gwei", *f.FixedPrice,
				limit, false)
		}
		return f.LegacyFees(*f.FixedPrice), txn.Outcome{Class: txn.Accepted}
	}
	f.MinPrice = larger(f.MinPrice, m.Floor.Price)
	if least := larger(f.MinPrice, m.Floor.Tip); !f.MaxFee.IsZero() && least.Gt(&f.MaxFee) {
		return txn.Fees{}, feeTooHigh(
			"the chain's minimum fee of %s gwei is above the cap of %s gwei", least, f.MaxFee,
			chains)
	}
	if m.BaseFee == nil {
		f.MinPrice = larger(f.MinPrice, m.Floor.Tip)
		f.MinPrice = larger(f.MinPrice, m.Floor.Guess)
		if m.GasPrice == nil {
			return txn.Fees{}, txn.Outcome{
				Class:  txn.Unavailable,
				Detail: "the node reports no gas price",
			}
		}
		return f.LegacyFees(withPremium(*m.GasPrice, speed)), txn.Outcome{Class: txn.Accepted}
	}
	next := m.nextBaseFee()
	tip := larger(larger(m.Tip, m.Floor.Tip), m.Floor.Guess)
	fees, ok := f.DynamicFees(next, tip)
	if ok && m.Floor.LegacyOnly {
		usual := withPremium(orZero(m.GasPrice), speed)
		fees = f.LegacyFees(larger(usual, f.promptPrice(next, tip)))
	}
	switch {
	case !ok && f.MaxFee.Lt(&next):
		return fees, feeTooHigh("the next base fee of %s gwei is above the cap of %s gwei", next,
			f.MaxFee, chains)
	case !ok:
		return fees, feeTooHigh(
			"the next base fee plus minimum tip, %s gwei, is above the cap of %s gwei",
			f.minFeeCap(next), f.MaxFee, chains)
	}
	return fees, txn.Outcome{Class: txn.Accepted}
}

// promptPrice returns the gas price that pays the tip in the next block and, at a rising base fee,
// in the one after it. Its sender pays all of it, so there is no reserve for more blocks.
func (f FeeOptions) promptPrice(nextBaseFee, tip txn.Wei) (price txn.Wei) {
	f = f.withDefaults()
	tip = larger(tip, f.MinTip)
	price.Rsh(&nextBaseFee, 3)
	if _, overflow := price.AddOverflow(&price, &nextBaseFee); overflow {
		price.SetAllOne()
	}
	if _, overflow := price.AddOverflow(&price, &tip); overflow {
		price.SetAllOne()
	}
	return price
}

// Reoffer is Offer for a replacement. Its limit, which has its own configuration key, replaces the
// configured cap, so that a transaction sent at usual fees can follow rising fees.
func (f FeeOptions) Reoffer(r txn.FeeRequest, m Market) (txn.Fees, txn.Outcome) {
	f.MaxFee = r.Limit
	m.Floor.LegacyOnly = m.Floor.LegacyOnly || r.Refused == txn.TypeNotSupported
	return f.Offer(r.Speed, r.Limit, m)
}

func feeTooHigh(text string, asked, limit txn.Wei, chains bool) txn.Outcome {
	return txn.Outcome{
		Class:    txn.FeeCapBelowBaseFee,
		Detail:   fmt.Sprintf(text, txn.InGwei(asked), txn.InGwei(limit)),
		ChainCap: chains,
	}
}

// nextBaseFee returns the reported next base fee, or its upper bound: a full block raises the base
// fee by an eighth.
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

// costOf returns the maximum that a transaction can take from its sender, with a rollup's fees. It
// is not ok if no account can hold that much.
func costOf(q txn.Quote, value txn.Wei) (total txn.Wei, ok bool) {
	if total, ok = cost(q.GasLimit, q.Fees, value); !ok {
		return total, false
	}
	_, overflow := total.AddOverflow(&total, &q.L1Fee)
	return total, !overflow
}

// cost is costOf without the fees of a rollup.
func cost(gas uint64, fees txn.Fees, value txn.Wei) (total txn.Wei, ok bool) {
	if _, overflow := total.MulOverflow(&fees.Cap, uint256.NewInt(gas)); overflow {
		return total, false
	}
	_, overflow := total.AddOverflow(&total, &value)
	return total, !overflow
}

// Gas of any transaction by the yellow paper and EIP-2028. Chains with higher costs report them
// when they reject.
const (
	createGas  = 32_000
	zeroGas    = 4
	nonZeroGas = 16
)

// intrinsicGas returns the gas of a payload before any execution.
func intrinsicGas(p txn.Payload) uint64 {
	least := uint64(outcome.TxGas)
	if p.To == nil {
		least += createGas
	}
	zeros := uint64(bytes.Count(p.Data, []byte{0}))
	return least + zeros*zeroGas + (uint64(len(p.Data))-zeros)*nonZeroGas
}

// OwnGasFits returns INVALID if the payload's own gas limit is below its intrinsic gas, because no
// block would include it, and ACCEPTED otherwise.
func OwnGasFits(p txn.Payload) txn.Outcome {
	if least := intrinsicGas(p); p.GasLimit > 0 && p.GasLimit < least {
		return txn.Outcome{
			Class: txn.Invalid,
			Detail: fmt.Sprintf(
				"gas limit %d is below the intrinsic gas %d",
				p.GasLimit, least),
		}
	}
	return txn.Outcome{Class: txn.Accepted}
}

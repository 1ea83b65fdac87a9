package chain

import (
	"encoding/binary"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// OPStack is the FeeOptions.L1Fee of chains of the OP stack.
const OPStack = "op-stack"

// gasPriceOracle is the contract of an OP stack chain that computes its fees beside gas (predeploy
// of the OP stack specification). getL1FeeUpperBound exists since Fjord, getOperatorFee since
// Isthmus.
var gasPriceOracle = common.HexToAddress("0x420000000000000000000000000000000000000F")

const (
	selectorL1Bound  = 0xf1c7a58b // getL1FeeUpperBound(uint256 unsignedTxSize)
	selectorOperator = 0x275aedd2 // getOperatorFee(uint256 gasUsed)

	// The fees are read at zero and at these values, and are at most linear in between: both are
	// convex, a minimum or constant first and then linear.
	rollupSize = 128 << 10 // bytes
	rollupGas  = 1 << 30

	// rollupOverhead is the most bytes of an unsigned transaction besides its data.
	rollupOverhead = 160
)

// RollupFee bounds the fee that a rollup charges for a transaction beside its gas: a fact of a
// block.
type RollupFee struct {
	l1       [2]txn.Wei // data fee of a transaction of 0 and of rollupSize bytes
	operator [2]txn.Wei // operator fee for gas of 0 and of rollupGas
}

// FlatRollupFee returns a fee that is the same for every transaction.
func FlatRollupFee(fee txn.Wei) *RollupFee { return &RollupFee{l1: [2]txn.Wei{fee, fee}} }

// Of returns the upper bound for a payload with a gas limit. A nil fee is zero.
func (r *RollupFee) Of(p txn.Payload, gas uint64) (fee txn.Wei) {
	if r == nil {
		return fee
	}
	size := line(r.l1, uint64(len(p.Data)+rollupOverhead), rollupSize)
	operator := line(r.operator, gas, rollupGas)
	fee.Add(&size, &operator)
	return fee
}

// line returns the value at x of a line from 0 to end, rounded up. Values are below 2^129.
func line(values [2]txn.Wei, x, end uint64) (y txn.Wei) {
	if values[1].Gt(&values[0]) {
		y.Sub(&values[1], &values[0])
		y.Mul(&y, uint256.NewInt(x))
		y.AddUint64(&y, end-1)
		y.Div(&y, uint256.NewInt(end))
	}
	y.Add(&y, &values[0])
	return y
}

// rollupCalls returns the calls that read the fees of a rollup, in the order of RollupFee.
func rollupCalls(answers *[4]hexutil.Bytes) []jsonrpc.Call {
	calls := make([]jsonrpc.Call, len(answers))
	for i, c := range [len(answers)]struct {
		selector uint32
		argument uint64
	}{
		{selectorL1Bound, 0}, {selectorL1Bound, rollupSize},
		{selectorOperator, 0}, {selectorOperator, rollupGas},
	} {
		data := binary.BigEndian.AppendUint32(nil, c.selector)
		data = append(data, make([]byte, 24)...)
		data = binary.BigEndian.AppendUint64(data, c.argument)
		calls[i] = jsonrpc.Call{
			Method: "eth_call",
			Args: []any{
				map[string]any{"to": gasPriceOracle, "data": hexutil.Bytes(data)}, "latest",
			},
			Result: &answers[i],
		}
	}
	return calls
}

// rollupFee reads the results of rollupCalls. A chain without an operator fee reverts that call.
func (e *endpoint) rollupFee(calls []jsonrpc.Call, answers *[4]hexutil.Bytes) (*RollupFee, error) {
	fee := &RollupFee{}
	for i, to := range []*txn.Wei{&fee.l1[0], &fee.l1[1], &fee.operator[0], &fee.operator[1]} {
		operator := i >= len(fee.l1)
		f := e.elementFault(calls[i])
		switch {
		case f != nil && operator && f.class == txn.ExecutionReverted:
			continue
		case f != nil && f.answered && f.class != txn.RateLimited:
			return nil, &fault{
				class: txn.Unavailable, answered: true,
				detail: "L1 fee of the OP stack (fees.l1_fee) unreadable: " + f.detail,
			}
		case f != nil:
			return nil, f
		case len(answers[i]) != 32:
			return nil, fmt.Errorf("%w: no L1 fee; fees.l1_fee is for OP stack chains only",
				errMalformed)
		}
		if to.SetBytes(answers[i]); to.BitLen() > maxFeeBits {
			return nil, fmt.Errorf("%w: an L1 fee of 2^%d wei or more", errOutOfRange, maxFeeBits)
		}
	}
	return fee, nil
}

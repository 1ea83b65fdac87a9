package outcome

import (
	"regexp"
	"strconv"

	"github.com/fencepost/fencepost/txn"
)

// ForEstimate corrects a class for a response to a gas estimate. An estimate has no nonce and no
// hash, so words about them mean something else. data is the response's data.
func ForEstimate(o txn.Outcome, data any) txn.Class {
	switch {
	case o.Class == txn.NonceTooLow, o.Class == txn.NonceGap,
		o.Class == txn.AlreadyKnown, o.Class == txn.ReplacementUnderpriced:
		return txn.Ambiguous
	case o.Class == txn.Ambiguous && executionFailed.MatchString(o.Detail),
		o.Class == txn.Ambiguous && isRevert(ReturnData(data)):
		return txn.ExecutionReverted
	case o.Class == txn.TypeNotSupported: // an estimate names no type: the draft itself is meant
		return txn.Invalid
	case o.Class == txn.Invalid && cannotAfford(o.Detail):
		return txn.InsufficientFunds
	case AboutGas(o, data):
		return txn.Ambiguous
	}
	return o.Class
}

// AboutGas reports whether a response to a gas estimate says no more than that its gas limit did
// not suffice, or was too high. The limit is the node's own unless the draft has one: some nodes
// try limits below the minimum of the calldata (EIP-7623), and each has its own limit for calls.
func AboutGas(o txn.Outcome, data any) bool {
	if o.Class != txn.Invalid || cannotAfford(o.Detail) {
		return false
	}
	text := normalize(Response{Message: o.Detail, Data: data}.text())
	_, ok := gasRule.read(text)
	return ok
}

// isRevert reports whether data is the return data of Solidity's require, revert or assert.
func isRevert(data []byte) bool {
	if len(data) < selectorSize {
		return false
	}
	found := selector(data[:selectorSize])
	return found == errorSelector || found == panicSelector
}

var allowance = regexp.MustCompile(`(?i)exceeds allowance \((\d{1,19})\)`)

// cannotAfford reads the allowance that go-ethereum names if an estimate runs out of gas. An
// allowance below the cost of any transaction is limited by the balance, so funding the account
// helps.
func cannotAfford(detail string) bool {
	m := allowance.FindStringSubmatch(detail)
	if m == nil {
		return false
	}
	gas, err := strconv.ParseUint(m[1], 10, 64)
	return err == nil && gas < TxGas
}

// TxGas is the gas of a transaction before any execution (yellow paper, G_transaction).
const TxGas = 21_000

// executionFailed matches an EVM halt other than REVERT. It applies to simulations only: nodes also
// use these words for transactions that were included.
var executionFailed = regexp.MustCompile(
	`(?i)\b(invalid opcode|opcode .* not defined|stack (under|over)flow|stack limit|out of gas|` +
		`invalid jump|bad jump|write protection|` +
		`max(imum)? (code|init ?code) size|invalid code|return data out of bounds|` +
		`max call depth|contract address collision|always failing transaction|` +
		`gas uint64 overflow|` +
		`execution (error|failed)|evm error|precompile)`,
)

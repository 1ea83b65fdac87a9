package outcome

import (
	"regexp"
	"strconv"

	"github.com/fencepost/fencepost/txn"
)

// ForEstimate corrects the class of an answer to a gas estimate: it has no nonce and no hash, so words about them mean something else. The data are those of the
// answer.
func ForEstimate(o txn.Outcome, data any) txn.Class {
	switch {
	case o.Class == txn.NonceTooLow || o.Class == txn.NonceGap || o.Class == txn.AlreadyKnown || o.Class == txn.ReplacementUnderpriced:
		return txn.Ambiguous
	case o.Class == txn.Ambiguous && executionFailed.MatchString(o.Detail),
		o.Class == txn.Ambiguous && isRevert(ReturnData(data)):
		return txn.ExecutionReverted
	case o.Class == txn.Invalid && cannotAfford(o.Detail):
		return txn.InsufficientFunds
	}
	return o.Class
}

// isRevert tells whether data is what Solidity's require, revert and assert return.
func isRevert(data []byte) bool {
	return len(data) >= selectorSize &&
		(selector(data[:selectorSize]) == errorSelector || selector(data[:selectorSize]) == panicSelector)
}

var allowance = regexp.MustCompile(`(?i)exceeds allowance \((\d{1,19})\)`)

// cannotAfford reads the allowance that go-ethereum names when an estimate has no room: below what any transaction takes, it is the balance that allows no
// more, and funds mend it.
func cannotAfford(detail string) bool {
	m := allowance.FindStringSubmatch(detail)
	if m == nil {
		return false
	}
	gas, err := strconv.ParseUint(m[1], 10, 64)
	return err == nil && gas < leastGas
}

// leastGas is what a transaction takes before anything runs (yellow paper, G_transaction).
const leastGas = 21_000

// executionFailed is how a simulation tells that the EVM stopped for another reason than REVERT. To a send such words would say nothing: they are told of
// transactions that were included, too.
var executionFailed = regexp.MustCompile(
	`(?i)\b(invalid opcode|opcode .* not defined|stack (under|over)flow|stack limit|out of gas|invalid jump|bad jump|write protection|` +
		`max(imum)? (code|init ?code) size|invalid code|return data out of bounds|max call depth|contract address collision|always failing transaction|gas uint64 overflow|` +
		`execution (error|failed)|evm error|precompile)`,
)

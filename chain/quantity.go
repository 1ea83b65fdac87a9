package chain

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// errOutOfRange is a malformed response with a number that no chain has and that the ledger has no
// room for. The endpoint that reported it is wrong, so another one is asked.
var errOutOfRange = fmt.Errorf("%w: number out of range", errMalformed)

// quantity is a number below 2^63 in a response. The standard forbids leading zeros, but some nodes
// send them, and "0x" for zero. Neither leaves a doubt about the value.
type quantity uint64

// UnmarshalJSON reads the number; null leaves it unchanged.
func (q *quantity) UnmarshalJSON(raw []byte) error {
	digits, isNull, err := hexDigits(raw)
	if err != nil || isNull {
		return err
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && n > math.MaxInt64:
		return fmt.Errorf("%w: a quantity of 2^63 or more", errOutOfRange)
	case err != nil:
		return fmt.Errorf("%w: a quantity that is not a number", errMalformed)
	}
	*q = quantity(n)
	return nil
}

// feeQuantity is an amount of wei per unit of gas in a response. Its product with any gas limit
// fits 256 bits.
type feeQuantity uint256.Int

// maxFeeBits bounds a fee. Even 2^64 coins of 18 decimals per unit of gas are less.
const maxFeeBits = 128

// UnmarshalJSON reads the number; null leaves it unchanged.
func (q *feeQuantity) UnmarshalJSON(raw []byte) error {
	read := bigQuantity(*q)
	if err := read.UnmarshalJSON(raw); err != nil {
		return err
	}
	if (*uint256.Int)(&read).BitLen() > maxFeeBits {
		return fmt.Errorf("%w: a fee of 2^%d wei or more", errOutOfRange, maxFeeBits)
	}
	*q = feeQuantity(read)
	return nil
}

// wei returns a copy of the value; nil if it is missing.
func (q *feeQuantity) wei() *txn.Wei {
	if q == nil {
		return nil
	}
	return (*uint256.Int)(q).Clone()
}

// bigQuantity is a number of up to 256 bits in a response.
type bigQuantity uint256.Int

// UnmarshalJSON reads the number; null leaves it unchanged.
func (q *bigQuantity) UnmarshalJSON(raw []byte) error {
	digits, isNull, err := hexDigits(raw)
	if err != nil || isNull {
		return err
	}
	err = (*uint256.Int)(q).SetFromHex("0x" + digits)
	switch {
	case errors.Is(err, uint256.ErrBig256Range):
		return fmt.Errorf("%w: a quantity of 2^256 or more", errOutOfRange)
	case err != nil:
		return fmt.Errorf("%w: a quantity that is not a number", errMalformed)
	}
	return nil
}

// ToInt returns the value.
func (q *bigQuantity) ToInt() *big.Int { return (*uint256.Int)(q).ToBig() }

// hexDigits returns the digits of a quantity without leading zeros, at least one.
func hexDigits(raw []byte) (digits string, isNull bool, err error) {
	if string(raw) == "null" {
		return "", true, nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil || !strings.HasPrefix(text, "0x") {
		return "", false, fmt.Errorf("%w: a quantity without 0x", errMalformed)
	}
	if digits = strings.TrimLeft(text[2:], "0"); digits == "" {
		digits = "0"
	}
	return digits, false, nil
}

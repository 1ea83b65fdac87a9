package chain

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/holiman/uint256"
)

// quantity is a number in a response. The standard forbids leading zeros, but some nodes send them,
// and "0x" for zero. Neither leaves a doubt about the value.
type quantity uint64

// UnmarshalJSON reads the number; null leaves it unchanged.
func (q *quantity) UnmarshalJSON(raw []byte) error {
	digits, isNull, err := hexDigits(raw)
	if err != nil || isNull {
		return err
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return fmt.Errorf("%w: a quantity that is not a number below 2^64", errMalformed)
	}
	*q = quantity(n)
	return nil
}

// bigQuantity is a number of up to 256 bits in a response.
type bigQuantity uint256.Int

// UnmarshalJSON reads the number; null leaves it unchanged.
func (q *bigQuantity) UnmarshalJSON(raw []byte) error {
	digits, isNull, err := hexDigits(raw)
	if err != nil || isNull {
		return err
	}
	if err := (*uint256.Int)(q).SetFromHex("0x" + digits); err != nil {
		return fmt.Errorf("%w: a quantity that is not a number below 2^256", errMalformed)
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

package txn

import (
	"math/big"
	"strings"
)

// InGwei writes an amount as flags and keys for fees take it, exactly.
func InGwei(w Wei) string { return inUnits(w, 9) }

// InEther writes an amount as people name what an account has, exactly.
func InEther(w Wei) string { return inUnits(w, 18) }

func inUnits(w Wei, digits int) string {
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
	text := new(big.Rat).SetFrac(w.ToBig(), unit).FloatString(digits)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

package txn

import (
	"fmt"
	"math/big"
	"strings"
)

// InGwei formats an amount exactly, in the unit of fee flags and keys.
func InGwei(w Wei) string { return inUnits(w, 9) }

// InEther formats an amount exactly, in the unit of balances.
func InEther(w Wei) string { return inUnits(w, 18) }

func inUnits(w Wei, digits int) string {
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
	text := new(big.Rat).SetFrac(w.ToBig(), unit).FloatString(digits)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// shortfall formats the account's balance, the need and the difference, if known.
func shortfall(o Outcome) string {
	if o.Have == nil || o.Want == nil || o.Short == nil {
		return ""
	}
	bound := ""
	if o.AtLeast {
		bound = "at least "
	}
	return fmt.Sprintf(": it has %s ether, may need %s%s, and lacks %s%s ether",
		InEther(*o.Have), bound, InEther(*o.Want), bound, InEther(*o.Short))
}

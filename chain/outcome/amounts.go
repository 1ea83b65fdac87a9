package outcome

import (
	"regexp"
	"strconv"

	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

var (
	// maxFee is one whole coin per unit of gas. A larger number is not a fee per gas, or it is
	// wrong.
	maxFee = new(uint256.Int).Exp(uint256.NewInt(10), uint256.NewInt(18))
	// maxAmount is 10^18 coins.
	maxAmount = new(uint256.Int).Exp(uint256.NewInt(10), uint256.NewInt(36))
)

var (
	feeField = regexp.MustCompile(
		`\b(?:(blob \S+ ?\S*|per blob gas)|(\S*tip( cap)?|priority fee( per gas)?|` +
			`(gas )?premium)|(gas ?price|(gas ?)?fee ?cap|max fee|base ?fee|fee per gas|price))\b`)
	// neededBefore matches words that introduce the minimum a node accepts.
	neededBefore = regexp.MustCompile(
		`\b(minimum|minimal|min|at least|needed|required?|requires|must be|should be|` +
			`lower bound|base ?fee|floor)\b[^0-9]{0,45}$|\bincrease \S+ \S* ?to $`)
	// moreThan matches words that ask for more than the number that follows.
	moreThan = regexp.MustCompile(
		`\b(higher|greater|more|larger) than( the)? \W*$|> ?$|<= ?$|\b(in the (queue|pool)|` +
			`existing|queued|pending) [^0-9]{0,30}$`)
	lessThan = regexp.MustCompile(`< ?$`)
	// notFee matches words that introduce another kind of number than a fee.
	notFee     = regexp.MustCompile(`\bgas ?limit\b[^0-9]*$|\b(next|block number|block|nonce)\W*$`)
	notFeeUnit = regexp.MustCompile(`^ (blocks?|bytes|seconds|times|confirmations)\b`)
	penalty    = regexp.MustCompile(`^ queued \+ ([0-9]{1,4})% replacement penalty`)
)

// feesIn returns the lowest fee cap and the lowest tip that a rejection asks for, in wei per unit
// of gas. Of several numbers the largest counts, because it satisfies them all.
func feesIn(text string) (fee, tip *txn.Wei) {
	for _, f := range numbersIn(text) {
		needed, ok := neededFee(f)
		if !ok {
			continue
		}
		switch field := lastField(f.before); {
		case field == "tip" && (tip == nil || needed.Gt(tip)):
			tip = &needed
		case field == "fee" && (fee == nil || needed.Gt(fee)):
			fee = &needed
		}
	}
	return fee, tip
}

// lastField returns the fee named last in the text: "fee", "tip", "blob", or "" for none.
func lastField(text string) string {
	all := feeField.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return ""
	}
	switch last := all[len(all)-1]; {
	case last[1] != "":
		return "blob"
	case last[2] != "":
		return "tip"
	default:
		return "fee"
	}
}

// neededFee returns the lowest fee that the node would have accepted, if the number states it.
func neededFee(f number) (txn.Wei, bool) {
	if notFee.MatchString(f.clause) || notFeeUnit.MatchString(f.after) || f.value.Gt(maxFee) {
		return txn.Wei{}, false
	}
	needed := f.value
	switch {
	case moreThan.MatchString(f.lead):
		needed.AddUint64(&needed, 1)
	case lessThan.MatchString(f.lead) && penalty.MatchString(f.after):
		percent, err := strconv.ParseUint(penalty.FindStringSubmatch(f.after)[1], 10, 16)
		if err != nil {
			return txn.Wei{}, false
		}
		needed.Mul(&needed, uint256.NewInt(100+percent)) // at most 1e18 times 1e4: it fits
		needed.AddUint64(&needed, 99)                    // rounded up
		needed.Div(&needed, uint256.NewInt(100))
	case lessThan.MatchString(f.lead), neededBefore.MatchString(f.lead):
	default:
		return txn.Wei{}, false
	}
	return needed, !needed.IsZero() && !needed.Gt(maxFee)
}

var amountRoles = []role{
	{"have", regexp.MustCompile(`\b(have|has|had|balance|got|available|funds|spendable)\b`)},
	{
		"want",
		regexp.MustCompile(
			`\b(want|needs?|needed|requires?|required|costs?|fee|value|total|price)\b`),
	},
	{"short", regexp.MustCompile(`\b(overshot|short|shortfall|missing|lacks|deficit)\b`)},
}

// Comparisons in words, repeated in numbers: "sender balance < tx cost (100 < 200)".
var (
	smallerFirst = regexp.MustCompile(`<=? ?[^<>]*\($`)
	largerFirst  = regexp.MustCompile(`>=? ?[^<>]*\($`)
	justSmaller  = regexp.MustCompile(`^ ?<=? ?$`)
	justLarger   = regexp.MustCompile(`^ ?>=? ?$`)
)

func amountRole(f number) string {
	switch {
	case smallerFirst.MatchString(f.lead), justLarger.MatchString(f.lead):
		return "have"
	case largerFirst.MatchString(f.lead), justSmaller.MatchString(f.lead):
		return "want"
	}
	return roleOf(f.clause, amountRoles)
}

// amountsIn returns the balance, the required amount and the difference, in wei. It returns nothing
// if the numbers do not show a shortage.
func amountsIn(text string) (have, want, short *txn.Wei) {
	for _, f := range numbersIn(text) {
		if f.value.Gt(maxAmount) {
			continue
		}
		at := map[string]**txn.Wei{"have": &have, "want": &want, "short": &short}[amountRole(f)]
		if at != nil && *at == nil {
			value := f.value
			*at = &value
		}
	}
	if have != nil && short != nil { // a stated cost is then only part of it
		want = new(uint256.Int).Add(have, short)
	}
	if have != nil && want != nil {
		if !want.Gt(have) {
			return nil, nil, nil
		}
		short = new(uint256.Int).Sub(want, have)
	}
	return have, want, short
}

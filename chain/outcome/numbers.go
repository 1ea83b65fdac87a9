package outcome

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// number is a number in a text, with the words around it, which tell what it counts.
type number struct {
	value  txn.Wei
	unit   bool   // it had a unit of money, and value is in wei
	clause string // the words that lead to it, back to the last comma, bracket or number
	before string // the whole text before it
	lead   string // what stands between the number before and this one
	after  string // what stands between this number and the next
}

const (
	// maxFigures bounds what is looked at: a text with more numbers is a dump.
	maxFigures = 40
	// maxNonce is far above what an account reaches in a lifetime, and far below what a hash or a time in nanoseconds gives when it is taken for a nonce.
	maxNonce = 1 << 48
)

var (
	numeral   = regexp.MustCompile(`0x[0-9a-f]{1,5}\b|[0-9]+(?:[_,][0-9]{3})*(?:\.[0-9]+)?`)
	moneyUnit = regexp.MustCompile(
		`^ ?(wei|kwei|mwei|gwei|szabo|finney|ether|eth|fil|bnb|matic|pol|avax|celo|xdai|ftm)\b`)
	// clauseStart separates the words of one number from those of another one: "expected nonce (nonce: 20, next nonce: 12)".
	clauseStart = regexp.MustCompile(`[,;(][^a-z]*[a-z]`)
)

var unitDigits = map[string]int{
	"wei":    0,
	"kwei":   3,
	"mwei":   6,
	"gwei":   9,
	"szabo":  12,
	"finney": 15,
} // every other is a chain's coin

const coinDigits = 18

// numbersIn finds the numbers of a normalised text. What belongs to a word, has a unit that is not known or is a share ("10%") is none.
func numbersIn(text string) []number {
	var all []number
	end := 0
	for _, at := range numeral.FindAllStringIndex(text, maxFigures) {
		f, length, ok := numberAt(text, at[0], at[1])
		if !ok {
			continue
		}
		f.before, f.lead = text[:at[0]], text[end:at[0]]
		f.clause = f.lead
		if cuts := clauseStart.FindAllStringIndex(f.lead, -1); len(cuts) > 0 {
			f.clause = f.lead[cuts[len(cuts)-1][1]-1:]
		}
		if len(all) > 0 {
			all[len(all)-1].after = f.lead
		}
		all = append(all, f)
		end = at[0] + length
	}
	if len(all) > 0 {
		all[len(all)-1].after = text[end:]
	}
	return all
}

// numberAt reads the number that stands at [from, to) and tells how long it is with its unit.
func numberAt(text string, from, to int) (f number, length int, ok bool) {
	if from > 0 && strings.ContainsRune("abcdefghijklmnopqrstuvwxyz_.#^", rune(text[from-1])) ||
		negative(text[:from]) {
		return f, 0, false
	}
	digits, rest, exponent := text[from:to], text[to:], 0
	if m := moneyUnit.FindStringSubmatch(rest); m != nil {
		f.unit, exponent = true, coinDigits
		if n, known := unitDigits[m[1]]; known {
			exponent = n
		}
		to += len(m[0])
	} else if rest != "" && (rest[0] == '%' || rest[0] == '#' || rest[0] >= 'a' && rest[0] <= 'z') {
		return f, 0, false
	}
	f.value, ok = scaled(digits, exponent)
	return f, to - from, ok
}

// negative tells whether a minus sign belongs to a number, as it does not in "5-7", nor in "5 - 7".
func negative(before string) bool {
	sign, found := strings.CutSuffix(before, "-")
	return found && (sign == "" || strings.ContainsRune(" (=:^", rune(sign[len(sign)-1])))
}

// scaled is the number times ten to the exponent, if that is a whole number that fits: a fraction of no known unit is none.
func scaled(digits string, exponent int) (value txn.Wei, ok bool) {
	if hex, found := strings.CutPrefix(digits, "0x"); found {
		n, err := strconv.ParseUint(hex, 16, 64)
		value.SetUint64(n)
		return value, err == nil
	}
	digits = strings.NewReplacer("_", "", ",", "").Replace(digits)
	whole, fraction, _ := strings.Cut(digits, ".")
	if len(fraction) > exponent {
		return value, false
	}
	digits = strings.TrimLeft(whole+fraction+strings.Repeat("0", exponent-len(fraction)), "0")
	if digits == "" {
		return value, true
	}
	n, err := uint256.FromDecimal(digits)
	if err != nil {
		return value, false
	}
	return *n, true
}

// role is what words make of a number.
type role struct {
	name  string
	words *regexp.Regexp
}

// roleOf is the role whose words stand nearest before the number.
func roleOf(words string, roles []role) string {
	name, nearest := "", -1
	for _, r := range roles {
		at := r.words.FindAllStringIndex(words, -1)
		if len(at) == 0 {
			continue
		}
		if start := at[len(at)-1][0]; start > nearest {
			name, nearest = r.name, start
		}
	}
	return name
}

var nonceRoles = []role{
	{
		"expected",
		regexp.MustCompile(
			`\b(expect(ed|s|ing)?|next|state|account|current|requires?|required|want(ed)?|should be|must be|at least|minimum|gapped|chain|acc?|allowed|ledger)\b`),
	},
	{
		"given",
		regexp.MustCompile(
			`\b(got|given|provided|actual|received|txn?|trx|transactions?|message|rejected|have|sent|supplied|your|found)\b`),
	},
}

var (
	bareNonce  = regexp.MustCompile(`^\W*nonce\W*$`)
	givenAfter = regexp.MustCompile(`^ (was|is) (given|provided|received|sent|supplied)\b`)
)

// noncesIn are the two nonces of a text that reports a nonce mismatch.
func noncesIn(text string) (expected, given *txn.Nonce) {
	set := func(to **txn.Nonce, f number) {
		if *to == nil {
			n := txn.Nonce(f.value.Uint64())
			*to = &n
		}
	}
	for _, f := range numbersIn(text) {
		if f.unit || !f.value.LtUint64(maxNonce) {
			continue
		}
		switch name := roleOf(f.clause, nonceRoles); {
		case name == "given" || givenAfter.MatchString(f.after) || name == "" && bareNonce.MatchString(f.clause):
			set(&given, f)
		case name == "expected":
			set(&expected, f)
		}
	}
	return expected, given
}

// nonceMisfit reads the direction of a nonce mismatch from its two numbers: "invalid nonce; got 18,
// expected 32" is too low, the same words with the numbers swapped are a gap. Without two numbers it
// is too low, the class that makes the owner look for the receipts of its own transactions first.
func nonceMisfit(text string) txn.Class {
	if class, ok := directionIn(text); ok {
		return class
	}
	return txn.NonceTooLow
}

// directionIn compares the two nonces of a text, if it has both.
func directionIn(text string) (txn.Class, bool) {
	expected, given := noncesIn(text)
	if expected == nil || given == nil || *expected == *given {
		return "", false
	}
	return directionOf(*expected, *given), true
}

func directionOf(expected, given txn.Nonce) txn.Class {
	if given > expected {
		return txn.NonceGap
	}
	return txn.NonceTooLow
}

var (
	comparison = regexp.MustCompile(
		`\bnonce ` + fewWords + `(lower|less|smaller|below|behind|higher|greater|larger|bigger|ahead|exceeds|<|>)`)
	ledgerSide = regexp.MustCompile(
		`\b(account|state|current|next|expected|on chain|chain|pending) $`)
	lowWords = []string{"lower", "less", "smaller", "below", "behind", "<"}
)

// nonceCompared reads "X nonce is lower than Y nonce". Which of them is the ledger's the words tell, unless the numbers do.
func nonceCompared(text string) txn.Class {
	if class, ok := directionIn(text); ok {
		return class
	}
	at := comparison.FindStringSubmatchIndex(text)
	if at == nil {
		return txn.NonceTooLow
	}
	low := slices.Contains(lowWords, text[at[4]:at[5]])
	if ledgerSide.MatchString(text[:at[0]]) {
		low = !low
	}
	if low {
		return txn.NonceTooLow
	}
	return txn.NonceGap
}

// addNumbers puts into an outcome what its words say in numbers. The class is settled by then: numbers that contradict it are not believed.
func addNumbers(o *txn.Outcome, text string) {
	switch o.Class {
	case txn.NonceTooLow, txn.NonceGap:
		expected, given := noncesIn(text)
		if expected != nil && given != nil &&
			(*expected == *given || directionOf(*expected, *given) != o.Class) {
			return
		}
		o.NonceExpected, o.NonceGiven = expected, given
	case txn.Underpriced, txn.FeeCapBelowBaseFee, txn.ReplacementUnderpriced:
		o.FeeNeeded, o.TipNeeded = feesIn(text)
	case txn.InsufficientFunds:
		o.Have, o.Want, o.Short = amountsIn(text)
	}
}

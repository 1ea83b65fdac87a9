package outcome

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// number is a number in a text with the words around it, which show its meaning.
type number struct {
	value  txn.Wei
	unit   bool   // it had a unit of money; value is in wei
	clause string // the words before it, back to the last comma, bracket or number
	before string // the whole text before it
	lead   string // the text between the previous number and this one
	after  string // the text between this number and the next one
}

const (
	// maxFigures limits the numbers read: a text with more of them is a dump.
	maxFigures = 40
	// maxNonce is far above the nonce of any real account, and far below a hash or a time in
	// nanoseconds.
	maxNonce = 1 << 48
)

var (
	numeral   = regexp.MustCompile(`0x[0-9a-f]{1,5}\b|[0-9]+(?:[_,][0-9]{3})*(?:\.[0-9]+)?`)
	moneyUnit = regexp.MustCompile(
		`^ ?(wei|kwei|mwei|gwei|szabo|finney|ether|eth|fil|bnb|matic|pol|avax|celo|xdai|ftm)\b`)
	// clauseStart separates the words of adjacent numbers: "expected nonce (nonce: 20, next nonce:
	// 12)".
	clauseStart = regexp.MustCompile(`[,;(][^a-z]*[a-z]`)
)

var unitDigits = map[string]int{
	"wei":    0,
	"kwei":   3,
	"mwei":   6,
	"gwei":   9,
	"szabo":  12,
	"finney": 15,
} // any other unit is a native coin

const coinDigits = 18

// numbersIn returns the numbers in a normalized text. It skips numbers that are part of a word,
// have an unknown unit or are a percentage.
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

// numberAt reads the number at [from, to) and returns its length including the unit.
func numberAt(text string, from, to int) (f number, length int, ok bool) {
	if from > 0 && strings.ContainsRune("abcdefghijklmnopqrstuvwxyz_.#^", rune(text[from-1])) ||
		negative(text[:from]) {
		return f, 0, false
	}
	digits := text[from:to]
	rest := text[to:]
	exponent := 0
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

// negative reports whether a minus sign belongs to the number. It does not in "5-7" or "5 - 7".
func negative(before string) bool {
	sign, found := strings.CutSuffix(before, "-")
	return found && (sign == "" || strings.ContainsRune(" (=:^", rune(sign[len(sign)-1])))
}

// scaled returns digits times 10^exponent. It is not ok for a fraction or an overflow.
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

// role is the meaning that words give to a number.
type role struct {
	name  string
	words *regexp.Regexp
}

// roleOf returns the role whose words are closest to the number.
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
			`\b(expect(ed|s|ing)?|next|state|account|current|requires?|required|want(ed)?|` +
				`should be|must be|at least|minimum|gapped|chain|acc?|allowed|ledger)\b`),
	},
	{
		"given",
		regexp.MustCompile(
			`\b(got|given|provided|actual|received|txn?|trx|transactions?|message|rejected|` +
				`have|sent|supplied|your|found)\b`),
	},
}

var (
	bareNonce  = regexp.MustCompile(`^\W*nonce\W*$`)
	givenAfter = regexp.MustCompile(`^ (was|is) (given|provided|received|sent|supplied)\b`)
)

// noncesIn returns the two nonces of a text that reports a nonce mismatch.
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
		case name == "given", givenAfter.MatchString(f.after),
			name == "" && bareNonce.MatchString(f.clause):
			set(&given, f)
		case name == "expected":
			set(&expected, f)
		}
	}
	return expected, given
}

// nonceMisfit derives the direction of a nonce mismatch from its two numbers: "invalid nonce; got
// 18, expected 32" is too low, the same words with swapped numbers are a gap. Without two numbers
// the class is NONCE_TOO_LOW, which makes the owner look for its own receipts first.
func nonceMisfit(text string) txn.Class {
	if class, ok := directionIn(text); ok {
		return class
	}
	return txn.NonceTooLow
}

// directionIn compares the two nonces of a text. It is not ok unless the text has both.
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
		`\bnonce ` + fewWords + `(lower|less|smaller|below|behind|higher|greater|larger|bigger|` +
			`ahead|exceeds|<|>)`)
	ledgerSide = regexp.MustCompile(
		`\b(account|state|current|next|expected|on chain|chain|pending) $`)
	lowWords = []string{"lower", "less", "smaller", "below", "behind", "<"}
)

// nonceCompared reads "X nonce is lower than Y nonce". The words show which of them is the
// account's, unless the numbers do.
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

// addNumbers adds the numbers in the text to the outcome. Numbers that contradict the class are
// ignored.
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

package outcome

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// TextLimit bounds what the rules look at: an HTML page or a stack trace says what it has to say early.
const TextLimit = 2000

var (
	hexRun      = regexp.MustCompile(`0[xX][0-9a-fA-F]{6,}`)
	urlRun      = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://\S+`)
	wordStart   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronymEnd  = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
	joint       = regexp.MustCompile(`([a-z])[-_]+([a-z])`)
	quoteMarks  = strings.NewReplacer(`'`, "", `"`, "", "`", "", "’", "", "\\", "")
	spaceRun    = regexp.MustCompile(`\s+`)
	trailing    = " .!\n\t"
	retryInText = regexp.MustCompile(
		`(?:(?:try|retry)(?:ing)?(?: again)? (?:in|after)|retry after:?|reset(?:s)? in|back ?off(?: seconds)?:?|wait(?: for)?|try again in:?)\s*` +
			`([0-9]+(?:\.[0-9]+)?)\s*(ms|millis\w*|s|secs?|seconds?|m|mins?|minutes?)?\b`,
	)
)

// normalise brings the spelling of some sixty clients to one: lower case, MaxFeePerGas and max_fee_per_gas and max-fee-per-gas as "max fee per gas", no
// quotes, no URLs, no long hex. Rules are written against this form.
func normalise(text string) string {
	if len(text) > TextLimit {
		text = text[:TextLimit]
	}
	text = urlRun.ReplaceAllString(text, " ")
	text = hexRun.ReplaceAllString(text, "0x#")
	text = acronymEnd.ReplaceAllString(text, "$1 $2")
	text = wordStart.ReplaceAllString(text, "$1 $2")
	text = strings.ToLower(quoteMarks.Replace(text))
	// Twice, because neighbouring joints share a letter: "a-b-c".
	text = joint.ReplaceAllString(text, "$1 $2")
	text = joint.ReplaceAllString(text, "$1 $2")
	return strings.Trim(spaceRun.ReplaceAllString(text, " "), trailing)
}

// maxRetryHint bounds a provider's hint: what asks for more is a plan that ran out, and a human has to look anyway.
const maxRetryHint = 10 * time.Minute

// retryHint is how long the answer asks us to stay away; 0 is no hint.
func retryHint(a Answer) time.Duration {
	for _, text := range []string{a.text(), a.dataText()} {
		m := retryInText.FindStringSubmatch(normalise(strings.ReplaceAll(text, `":`, `" `)))
		if m == nil {
			continue
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			continue
		}
		return waitFor(n, unitOf(m[2]))
	}
	return 0
}

func unitOf(word string) time.Duration {
	switch {
	case word == "ms" || strings.HasPrefix(word, "milli"):
		return time.Millisecond
	case word == "m" || strings.HasPrefix(word, "min"):
		return time.Minute
	}
	return time.Second
}

var (
	wantedNonce = regexp.MustCompile(
		`\b(?:expected|expect|expecting|expects|next|state|account|current|required|require|want|wanted|should be|ac)\b[^0-9]{0,30}?([0-9]+)`)
	givenNonce = regexp.MustCompile(
		`\b(?:got|given|provided|actual|received|tx|txn|transaction|was|found|have|sent)\b[^0-9]{0,20}?([0-9]+)`)
)

// nonceByNumbers reads the direction of a nonce mismatch from its two numbers: "invalid nonce; got 18, expected 32" is too low, the same words with the
// numbers swapped are a gap. Without two numbers it is read as too low, the reading that makes the owner look for the receipts of its own transactions
// before anything else.
func nonceByNumbers(text string) txn.Class {
	wanted, given := numberAfter(wantedNonce, text), numberAfter(givenNonce, text)
	if wanted != nil && given != nil && *given > *wanted {
		return txn.NonceGap
	}
	return txn.NonceTooLow
}

func numberAfter(pattern *regexp.Regexp, text string) *uint64 {
	m := pattern.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	n, err := strconv.ParseUint(m[1], 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

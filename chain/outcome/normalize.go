package outcome

import (
	"regexp"
	"strings"
)

// TextLimit is the number of bytes of a text that the rules read. HTML pages and stack traces state
// their point early.
const TextLimit = 2000

var (
	hexRun     = regexp.MustCompile(`0[xX][0-9a-fA-F]{6,}`)
	urlRun     = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://\S+`)
	wordStart  = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronymEnd = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
	joint      = regexp.MustCompile(`([a-z])[-_]+([a-z])`)
	quoteMarks = strings.NewReplacer(`'`, "", `"`, "", "`", "", "’", "", "\\", "")
	spaceRun   = regexp.MustCompile(`\s+`)
	trailing   = " .!\n\t"
)

// normalize unifies the spelling of different clients: lower case, "max fee per gas" for
// MaxFeePerGas, max_fee_per_gas and max-fee-per-gas, no quotes, no URLs, no long hex. Rules are
// written for this form.
func normalize(text string) string {
	if len(text) > TextLimit {
		text = text[:TextLimit]
	}
	text = urlRun.ReplaceAllString(text, " ")
	text = hexRun.ReplaceAllString(text, "0x#")
	text = acronymEnd.ReplaceAllString(text, "$1 $2")
	text = wordStart.ReplaceAllString(text, "$1 $2")
	text = strings.ToLower(quoteMarks.Replace(text))
	// Twice, because neighboring joints share a letter: "a-b-c".
	text = joint.ReplaceAllString(text, "$1 $2")
	text = joint.ReplaceAllString(text, "$1 $2")
	return strings.Trim(spaceRun.ReplaceAllString(text, " "), trailing)
}

package outcome

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// detailLimit is the most characters of a node's words that leave this package.
const detailLimit = 200

// Redacted stands where something secret was cut out of a text.
const Redacted = "[…]"

var (
	hostPath  = regexp.MustCompile(`(?i)\b(?:[a-z0-9_-]+\.)+[a-z]{2,}(?::\d+)?/\S*`)
	ipPort    = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b`)
	markup    = regexp.MustCompile(`<[^>]*>`)
	longToken = regexp.MustCompile(`[A-Za-z0-9_+=-]{20,}`)
	keptHex   = regexp.MustCompile(`^0x(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})$`)
)

// Clean makes a node's words safe to store and to show: no URLs or hosts (they hold API keys), no hex longer than an address or a hash (it may be a
// signed transaction), no long tokens that mix letters and digits (they may be keys), no control characters, at most detailLimit characters.
func Clean(text string) string {
	if len(text) > TextLimit {
		text = text[:TextLimit]
	}
	text = markup.ReplaceAllString(text, " ")
	text = urlRun.ReplaceAllString(text, Redacted)
	text = hostPath.ReplaceAllString(text, Redacted)
	text = ipPort.ReplaceAllString(text, Redacted)
	text = longToken.ReplaceAllStringFunc(text, keepHarmless)
	text = strings.Map(printable, text)
	text = strings.TrimSpace(spaceRun.ReplaceAllString(text, " "))
	if utf8.RuneCountInString(text) > detailLimit {
		text = string([]rune(text)[:detailLimit-1]) + "…"
	}
	return text
}

// keepHarmless keeps what is an address, a hash, a number or a word; a key mixes digits and letters.
func keepHarmless(token string) string {
	if keptHex.MatchString(token) || !strings.ContainsFunc(token, unicode.IsDigit) ||
		!strings.ContainsFunc(token, unicode.IsLetter) {
		return token
	}
	return Redacted
}

func printable(r rune) rune {
	switch {
	case r == utf8.RuneError:
		return -1
	case unicode.IsSpace(r):
		return ' '
	case unicode.IsPrint(r):
		return r
	}
	return -1
}

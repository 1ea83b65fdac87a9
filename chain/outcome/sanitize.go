package outcome

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// detailLimit is the maximum length of remote text that leaves this package, in characters.
const detailLimit = 200

// Redacted replaces a secret in a text.
const Redacted = "[…]"

var (
	hostPath  = regexp.MustCompile(`(?i)\b(?:[a-z0-9_-]+\.)+[a-z]{2,}(?::\d+)?/\S*`)
	ipPort    = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b`)
	markup    = regexp.MustCompile(`<[^>]*>`)
	longToken = regexp.MustCompile(`[A-Za-z0-9_+=-]{20,}`)
	keptHex   = regexp.MustCompile(`^0x(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})$`)
)

// Clean makes remote text safe to store and to show. It removes URLs and hosts (they hold API
// keys), hex longer than an address or a hash (it may be a signed transaction), long tokens of
// letters and digits (they may be keys), and control characters, and cuts to detailLimit.
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

// keepHarmless keeps an address, a hash, a number or a word. A key mixes digits and letters.
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

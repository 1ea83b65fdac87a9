package chain

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// detailLimit is the most characters of a node's words that leave this package.
const detailLimit = 200

const redacted = "[…]"

var (
	hostPath  = regexp.MustCompile(`(?i)\b(?:[a-z0-9_-]+\.)+[a-z]{2,}(?::\d+)?/\S*`)
	ipPort    = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b`)
	markup    = regexp.MustCompile(`<[^>]*>`)
	longToken = regexp.MustCompile(`[A-Za-z0-9_+=-]{20,}`)
	keptHex   = regexp.MustCompile(`^0x(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})$`)
)

// cleanText makes a node's words safe to store and to show: no URLs or hosts (they hold API keys), no hex longer than an address or a hash (it may be a
// signed transaction), no long tokens that mix letters and digits (they may be keys), no control characters, at most detailLimit characters.
func cleanText(text string) string {
	if len(text) > textLimit {
		text = text[:textLimit]
	}
	text = markup.ReplaceAllString(text, " ")
	text = urlRun.ReplaceAllString(text, redacted)
	text = hostPath.ReplaceAllString(text, redacted)
	text = ipPort.ReplaceAllString(text, redacted)
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
	return redacted
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

// redactor hides the parts of an endpoint's address in what the endpoint says: some servers quote the path that they were called by.
type redactor []string

const (
	minPassword = 3 // shorter ones occur in every text
	minSegment  = 6 // of the path or the query; shorter ones are "v3", "rpc", "eth"
)

func redactorFor(address string) redactor {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	var r redactor
	add := func(part string, least int) {
		if len(part) >= least {
			r = append(r, part, url.PathEscape(part), url.QueryEscape(part))
		}
	}
	add(u.Host, 1)
	add(u.Hostname(), 1)
	if u.User != nil {
		add(u.User.Username(), minPassword)
		password, _ := u.User.Password()
		add(password, minPassword)
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		add(segment, minSegment)
	}
	for _, values := range u.Query() {
		for _, value := range values {
			add(value, minSegment)
		}
	}
	slices.SortFunc(r,
		func(a, b string) int { return len(b) - len(a) }) // "host:port" before "host"
	return slices.Compact(r)
}

func (r redactor) hide(text string) string {
	for _, part := range r {
		text = strings.ReplaceAll(text, part, redacted)
	}
	return text
}

package outcome

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxRetryHint caps a provider's hint. A longer wait means that a plan ran out, which needs an
// operator.
const maxRetryHint = 10 * time.Minute

const (
	maxHintDepth = 6
	maxHintKeys  = 200
)

var (
	waitKey = regexp.MustCompile(
		`^(retry|try again|back ?off|wait|cool ?down|reset)` +
			`( (after|in|again|again in|delay|for|time))?` +
			`( (seconds?|secs?|s|ms|millis\w*|minutes?))?$`)
	// waitText matches a request to wait: a phrase, a number or a duration, and perhaps a unit.
	waitText = regexp.MustCompile(
		`(?:(?:try|retry)(?:ing)?(?: again| your request)?(?: in| after)|retry after|` +
			`resets? (?:in|after)|back ?off(?: seconds)?|wait(?: for)?(?: at least)?)` +
			`[ :=]*([0-9][0-9a-zµ.]*)(?: ([a-z]+))?`)
	wordUnit = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([a-z]+)$`)
	unitWord = regexp.MustCompile(
		`^(?:(ms|millis\w*)|(s|secs?|seconds?)|(m|mins?|minutes?)|(h|hrs?|hours?))$`)
)

// waitHint returns the delay that the response asks for; 0 for none. A data field named for it
// counts first, then the text, then other words in the data.
func waitHint(a Response) time.Duration {
	r := waitReader{keys: maxHintKeys}
	r.read("", a.Data, maxHintDepth)
	return cmp.Or(r.named, waitInText(normalize(a.text())), r.said)
}

// waitReader finds the longest wait in the data of a response, to a bounded depth and number of
// fields.
type waitReader struct {
	keys  int           // fields that may still be read
	named time.Duration // from fields named for a wait
	said  time.Duration // from the words of other fields
}

func (r *waitReader) read(key string, value any, depth int) {
	if depth == 0 {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if r.keys--; r.keys < 0 {
				return
			}
			r.read(key, inner, depth-1)
		}
	case []any:
		for _, inner := range v[:min(len(v), maxDataTexts)] {
			r.read(key, inner, depth-1)
		}
	case nil:
	default:
		name := normalize(key)
		isWait := waitKey.MatchString(name)
		if isWait {
			r.named = max(r.named, waitInField(name, value))
		}
		if _, isText := value.(string); isText || !isWait {
			r.said = max(r.said, waitInText(normalize(key+" "+fmt.Sprint(value))))
		}
	}
}

// waitInText returns the first wait in a normalized text.
func waitInText(text string) time.Duration {
	for _, m := range waitText.FindAllStringSubmatch(text, -1) {
		if d := waitIn(m[1], m[2]); d > 0 {
			return d
		}
	}
	return 0
}

// waitIn reads a duration with a unit ("1m30s"), or a number with the unit in the next word. The
// default unit is seconds.
func waitIn(number, word string) time.Duration {
	if before, ended := strings.CutSuffix(number, "."); ended {
		number, word = before, "" // the end of a sentence
	}
	if d, err := time.ParseDuration(number); err == nil {
		return max(0, min(d, maxRetryHint))
	}
	if m := wordUnit.FindStringSubmatch(number); m != nil { // "5minutes"
		number, word = m[1], m[2]
		if !unitWord.MatchString(word) {
			return 0
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	return boundedWait(n, unitOf(word))
}

// unitOf returns the unit that a word names; seconds by default.
func unitOf(word string) time.Duration {
	switch m := unitWord.FindStringSubmatch(word); {
	case m == nil || m[2] != "":
		return time.Second
	case m[1] != "":
		return time.Millisecond
	case m[3] != "":
		return time.Minute
	}
	return time.Hour
}

// waitInField reads a number in the unit that the field name ends with (seconds by default), or a
// text with its own unit.
func waitInField(name string, value any) time.Duration {
	unit := unitOf(name[strings.LastIndexByte(name, ' ')+1:])
	var n float64
	switch v := value.(type) {
	case float64:
		n = v
	case json.Number:
		n, _ = v.Float64()
	case string:
		if d, err := time.ParseDuration(strings.TrimSpace(v)); err == nil {
			return max(0, min(d, maxRetryHint))
		}
		n, _ = strconv.ParseFloat(strings.TrimSpace(v), 64)
	}
	return boundedWait(n, unit)
}

// boundedWait returns n units, at most maxRetryHint. It returns 0 for a number that is a point in
// time, as "reset" often is: a delay cannot be derived from it without a shared clock.
func boundedWait(n float64, unit time.Duration) time.Duration {
	if !(n > 0) || isPointInTime(n*unit.Seconds()) ||
		unit == time.Second && isPointInTime(n/1000) { // NaN too
		return 0
	}
	// Compared as floating point: a larger number overflows Duration.
	return time.Duration(min(n*float64(unit), float64(maxRetryHint)))
}

// isPointInTime reports whether a number can be seconds since 1970, of the years 2001 to 5138. No
// wait is that long.
func isPointInTime(seconds float64) bool { return seconds >= 1e9 && seconds < 1e11 }

var plainNumber = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// RetryAfter reads the Retry-After header: a delay in seconds, or a time, which is compared with
// the Date header of the same response so that no local clock is needed.
func RetryAfter(value, date string) time.Duration {
	value = strings.TrimSpace(value)
	at, err := httpTime(value)
	if plainNumber.MatchString(value) {
		n, _ := strconv.ParseFloat(value, 64) // infinite if too large: the longest wait
		if !isPointInTime(n) {
			return boundedWait(n, time.Second)
		}
		at, err = time.Unix(int64(n), 0), nil
	}
	if err != nil {
		return 0
	}
	now, err := httpTime(date)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(now), maxRetryHint))
}

// httpTime parses a time in the formats of RFC 9110, section 5.6.7, as net/http does.
func httpTime(text string) (at time.Time, err error) {
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if at, err = time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return at, err
}

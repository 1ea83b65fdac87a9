package outcome

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	maxHintDepth = 6
	maxHintKeys  = 200
)

var (
	waitKey = regexp.MustCompile(
		`^(retry|try again|back ?off|wait|cool ?down|reset)( (after|in|again|again in|delay|for|time))?( (seconds?|secs?|s|ms|millis\w*|minutes?))?$`)
	waitText = regexp.MustCompile(
		`(?:\b(?:try|retry)(?:ing)?(?: again| your request)?(?: in| after)|\bretry after:?|\bresets? (?:in|after)|\b(?:please )?wait(?: for)?(?: at least)?)[ :=]*([0-9][0-9a-zµ.]*(?: ?(?:hours?|hrs?))?)`)
	hoursInText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?h`)
)

// waitHint is how long the answer asks us to stay away, in its words or in a field of its data; 0 is no hint.
func waitHint(a Answer) time.Duration {
	keys := maxHintKeys
	if d := waitIn(a.Data, maxHintDepth, &keys); d > 0 {
		return min(d, maxRetryHint)
	}
	if m := waitText.FindStringSubmatch(normalise(a.text())); m != nil {
		if d, err := time.ParseDuration(m[1]); err == nil && d > 0 {
			return min(d, maxRetryHint)
		}
		if hoursInText.MatchString(m[1]) {
			return maxRetryHint
		}
	}
	return retryHint(a)
}

// waitIn looks for a field of that meaning, not deeper and not longer than is sensible.
func waitIn(data any, depth int, keys *int) time.Duration {
	fields, ok := data.(map[string]any)
	if !ok || depth == 0 {
		return 0
	}
	var longest time.Duration
	for key, value := range fields {
		if *keys--; *keys < 0 {
			break
		}
		name := normalise(key)
		if waitKey.MatchString(name) {
			longest = max(longest, waitOf(name, value))
			continue
		}
		longest = max(longest, waitIn(value, depth-1, keys))
	}
	return longest
}

// waitOf reads a field: a number of the unit that its name says, seconds unless it says another, or a text with a unit of its own.
func waitOf(name string, value any) time.Duration {
	unit := time.Second
	switch last := name[strings.LastIndexByte(name, ' ')+1:]; {
	case last == "ms" || strings.HasPrefix(last, "millis"):
		unit = time.Millisecond
	case strings.HasPrefix(last, "minute"):
		unit = time.Minute
	}
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
	return waitFor(n, unit)
}

// waitFor is a wait of so many units. A number that is a point in time, as "reset" often has it, says no length without a clock that both sides share.
func waitFor(n float64, unit time.Duration) time.Duration {
	if !(n > 0) || isPointInTime(n*unit.Seconds()) ||
		unit == time.Second && isPointInTime(n/1000) { // NaN too
		return 0
	}
	// Compared as numbers of floating point: a longer one does not fit a Duration.
	return time.Duration(min(n*float64(unit), float64(maxRetryHint)))
}

// isPointInTime tells whether a number can be seconds since 1970: of the years 2001 to 5138. No wait is that long.
func isPointInTime(seconds float64) bool { return seconds >= 1e9 && seconds < 1e11 }

var plainNumber = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// RetryAfter reads the header of that name: a delay in seconds, or the distance between the two times that the server gives, so that no clock of ours is asked.
// date is the header Date of the same answer.
func RetryAfter(value, date string) time.Duration {
	value = strings.TrimSpace(value)
	at, err := httpTime(value)
	if plainNumber.MatchString(value) {
		n, _ := strconv.ParseFloat(value, 64) // infinite if it is too large: the longest wait
		if !isPointInTime(n) {
			return waitFor(n, time.Second)
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

// httpTime reads a time in the formats of RFC 9110, section 5.6.7, as net/http does.
func httpTime(text string) (at time.Time, err error) {
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if at, err = time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return at, err
}

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

// maxRetryHint bounds a provider's hint: what asks for more is a plan that ran out, and a human has to look anyway.
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
	// waitText is a phrase that asks to wait, a number or a duration, and perhaps a unit.
	waitText = regexp.MustCompile(
		`(?:(?:try|retry)(?:ing)?(?: again| your request)?(?: in| after)|retry after|` +
			`resets? (?:in|after)|back ?off(?: seconds)?|wait(?: for)?(?: at least)?)` +
			`[ :=]*([0-9][0-9a-zµ.]*)(?: ([a-z]+))?`)
	wordUnit = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([a-z]+)$`)
	unitWord = regexp.MustCompile(
		`^(?:(ms|millis\w*)|(s|secs?|seconds?)|(m|mins?|minutes?)|(h|hrs?|hours?))$`)
)

// waitHint is how long the answer asks us to stay away; 0 is no hint. A field of the data that is
// named for it counts first, then the text, then any other words in the data.
func waitHint(a Response) time.Duration {
	r := waitReader{keys: maxHintKeys}
	r.read("", a.Data, maxHintDepth)
	return cmp.Or(r.named, waitInText(normalize(a.text())), r.said)
}

// waitReader looks for the longest wait in the data of an answer, to a bounded depth and a bounded
// number of fields.
type waitReader struct {
	keys  int           // fields that may still be read
	named time.Duration // of fields that are named for it
	said  time.Duration // in the words of other fields
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

// waitInText is the first wait that a normalised text asks for.
func waitInText(text string) time.Duration {
	for _, m := range waitText.FindAllStringSubmatch(text, -1) {
		if d := waitIn(m[1], m[2]); d > 0 {
			return d
		}
	}
	return 0
}

// waitIn reads a duration with its unit ("1m30s"), or a number of the unit in the word behind it.
// Without a unit it is seconds.
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

// unitOf is the unit that a word names, seconds unless it names another.
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

// waitInField reads a field: a number of the unit that its name says, seconds unless it says another, or a text with a unit of its own.
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

// boundedWait is a wait of so many units. A number that is a point in time, as "reset" often has it, says no length without a clock that both sides share.
func boundedWait(n float64, unit time.Duration) time.Duration {
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

// httpTime reads a time in the formats of RFC 9110, section 5.6.7, as net/http does.
func httpTime(text string) (at time.Time, err error) {
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if at, err = time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return at, err
}

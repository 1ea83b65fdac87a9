package feed

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fencepost/fencepost/store"
)

// The token of a stream over several ledgers is PREFIX "." VERSION, and for each ledger "."
// NUMBER "~" POSITION, and last ".~" MOVED if there is a named transaction whose account has moved:
// MOVED stands for the ledger that has it. A ledger that is not in it was added, or had no position
// yet: the stream starts there as a new one does, so that it misses nothing.

// mergedVersion begins the rest of a token over several ledgers. No position begins with it.
const mergedVersion = "~1"

const movedMark = ".~"

// IsMerged reports whether a token is of a stream over several ledgers.
func IsMerged(token string) bool { return strings.HasPrefix(PositionOf(token), mergedVersion) }

// PositionOf returns the position in a token of a stream of several transactions.
func PositionOf(token string) string {
	_, position, _ := strings.Cut(token, ".")
	return position
}

// MergedToken returns the token of a stream at these positions, by the numbers of the ledgers.
// Moved stands for the ledgers of the named transactions whose accounts have moved; empty: none
// has.
func MergedToken(t Target, at map[int32]string, moved string) string {
	var usual [usualToken]byte
	text := append(appendPrefix(usual[:0], t), mergedVersion...)
	for _, number := range slices.Sorted(maps.Keys(at)) {
		text = strconv.AppendInt(append(text, '.'), int64(number), 10)
		text = append(append(text, '~'), at[number]...)
	}
	if moved != "" {
		text = append(append(text, movedMark...), moved...)
	}
	return string(text)
}

// ParseMergedToken parses the token of a stream over several ledgers; an empty text has no
// positions. The token of a node with one ledger does not name that ledger: it is expired. So is
// one of before a named transaction moved to another ledger.
func ParseMergedToken(text string, t Target, moved string) (map[int32]string, error) {
	at := map[int32]string{}
	if text == "" {
		return at, nil
	}
	kind, rest, found := strings.Cut(text, ".")
	if !found || !utf8.ValidString(text) || kind == "" {
		return nil, malformedToken()
	}
	version, positions, _ := strings.Cut(rest, ".")
	if version != mergedVersion {
		if _, err := ParseToken(text, t); err != nil {
			return nil, err
		}
		return nil, store.ErrTokenExpired
	}
	if kind+"." != prefix(t) {
		return nil, otherToken()
	}
	positions, was, _ := strings.Cut(positions, movedMark)
	if was != moved {
		return nil, store.ErrTokenExpired
	}
	if positions == "" {
		return at, nil
	}
	for one := range strings.SplitSeq(positions, ".") {
		number, position, _ := strings.Cut(one, "~")
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil || n < 0 {
			return nil, malformedToken()
		}
		if p, err := store.ParsePosition(position); err != nil || p.Seen == "" {
			return nil, malformedToken()
		}
		at[int32(n)] = position
	}
	return at, nil
}

// ResumeAt returns the token of a stream of several transactions at a position; an empty one
// starts a new stream.
func ResumeAt(position string) (token Token, err error) {
	if position == "" {
		return token, nil
	}
	if token.position, err = store.ParsePosition(position); err != nil {
		return token, malformedToken()
	}
	token.given, token.epoch = true, token.position.Epoch
	return token, nil
}

package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// A resume token says what it is a place in, so that it cannot be used for something else: "t" one transaction, then its id, the epoch of the feed and the
// number of the last event; "i" several, then a digest of their ids and the position in the feed; "s" one submitter, then its id and the position in the feed; "a" all, then the position. Of certain labels, a digest of them comes
// before the position; of certain states, their bits. Callers pass it on unread.

// resumeToken is a token that was read.
type resumeToken struct {
	given    bool
	epoch    int64
	seq      int64          // of one transaction
	position store.Position // of many
}

const (
	tokenOne       = "t"
	tokenSeveral   = "i"
	tokenSubmitter = "s"
	tokenAll       = "a"
)

// Bytes that tokens mostly fit into, and what they are a place in: each event has one.
const (
	usualToken  = 256
	usualPrefix = 32
)

// digestBytes is how many bytes tell labels apart, or ids.
const digestBytes = 12

// prefix is the part of a token that says what it is a place in.
func prefix(t target) string { return string(appendPrefix(nil, t)) }

func appendPrefix(text []byte, t target) []byte {
	var few [usualPrefix]byte
	raw := few[:0]
	kind := tokenAll
	switch {
	case t.tx != txn.TxID{}:
		kind, raw = tokenOne, append(raw, t.tx[:]...)
	case t.txs != nil:
		kind, raw = tokenSeveral, append(raw, t.txs.digest()...)
	case t.submitter != 0:
		kind, raw = tokenSubmitter, binary.BigEndian.AppendUint32(raw, uint32(t.submitter))
	}
	if t.labels != "" {
		digest := sha256.Sum256([]byte(t.labels))
		raw = append(raw, digest[:digestBytes]...)
	}
	if t.states != 0 {
		raw = append(raw, byte(t.states))
	}
	text = base64.RawURLEncoding.AppendEncode(append(text, kind...), raw)
	return append(text, '.')
}

func oneToken(epoch int64, t target, seq int64) string {
	var number [16]byte
	raw := binary.BigEndian.AppendUint64(number[:0], uint64(epoch))
	raw = binary.BigEndian.AppendUint64(raw, uint64(seq))
	var usual [usualToken]byte
	return string(base64.RawURLEncoding.AppendEncode(appendPrefix(usual[:0], t), raw))
}

func manyToken(t target, at store.Position) string {
	var usual [usualToken]byte
	return string(at.AppendTo(appendPrefix(usual[:0], t)))
}

func parseResumeToken(text string, t target) (token resumeToken, err error) {
	if text == "" {
		return token, nil
	}
	kind, rest, found := strings.Cut(text, ".")
	if !found || !utf8.ValidString(text) ||
		!strings.Contains(tokenOne+tokenSeveral+tokenSubmitter+tokenAll,
			kind[:min(1, len(kind))]) ||
		kind == "" {
		return token, badToken()
	}
	if kind+"." != prefix(t) {
		return token, status.InvalidField("resume_token",
			"belongs to a stream of something else; use the token that this stream delivered last, or none to start anew")
	}
	token.given = true
	if t.tx == (txn.TxID{}) {
		if token.position, err = store.ParsePosition(rest); err != nil ||
			token.position.Seen == "" {
			return token, badToken()
		}
		token.epoch = token.position.Epoch
		return token, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil || len(raw) != 16 {
		return token, badToken()
	}
	token.epoch, token.seq = int64(binary.BigEndian.Uint64(raw)), int64(
		binary.BigEndian.Uint64(raw[8:]))
	if token.seq < 0 {
		return token, badToken()
	}
	return token, nil
}

func badToken() error {
	return status.InvalidField("resume_token",
		"is not one that WatchTx gave; use the token that the stream delivered last, or none to start anew")
}

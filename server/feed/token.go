package feed

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

// A resume token is PREFIX "." POSITION. The prefix names the target, so that a token cannot be
// used for a different stream: a letter for the kind, then base64url of the id (or a digest of the
// ids), a digest of the labels and the bits of the states, each if there are any. The position of
// one transaction is the epoch of the feed and the number of the last event; the position of all
// other streams is a [store.Position]. Clients must treat tokens as opaque.

// Token is a parsed resume token. The zero Token starts a new stream.
type Token struct {
	given    bool
	epoch    int64
	seq      int64          // one transaction: the number of the last event
	position store.Position // all other targets
}

// Seq returns the number of the last event, of one transaction.
func (t Token) Seq() int64 { return t.seq }

// Position returns the position in the feed, of all other targets.
func (t Token) Position() store.Position { return t.position }

// Kinds of prefixes.
const (
	tokenTx        = "t"
	tokenTxs       = "i"
	tokenSubmitter = "s"
	tokenAll       = "a"
)

// Usual sizes in bytes. Every event carries a token, so it is built in a buffer of this size.
const (
	usualToken  = 256
	usualPrefix = 32
)

// digestBytes is the length of the digests of labels and ids in a token.
const digestBytes = 12

func prefix(t Target) string { return string(appendPrefix(nil, t)) }

func appendPrefix(text []byte, t Target) []byte {
	var few [usualPrefix]byte
	raw := few[:0]
	kind := tokenAll
	switch {
	case t.Tx != txn.TxID{}:
		kind, raw = tokenTx, append(raw, t.Tx[:]...)
	case t.Txs != nil:
		kind, raw = tokenTxs, append(raw, t.Txs.digest()...)
	case t.Submitter != 0:
		kind, raw = tokenSubmitter, binary.BigEndian.AppendUint32(raw, uint32(t.Submitter))
	}
	if t.labels != "" {
		digest := sha256.Sum256([]byte(t.labels))
		raw = append(raw, digest[:digestBytes]...)
	}
	if t.States != 0 {
		raw = append(raw, byte(t.States))
	}
	text = base64.RawURLEncoding.AppendEncode(append(text, kind...), raw)
	return append(text, '.')
}

// TxToken returns the token of a stream of one transaction after event number seq.
func TxToken(epoch int64, t Target, seq int64) string {
	var number [16]byte
	raw := binary.BigEndian.AppendUint64(number[:0], uint64(epoch))
	raw = binary.BigEndian.AppendUint64(raw, uint64(seq))
	var usual [usualToken]byte
	return string(base64.RawURLEncoding.AppendEncode(appendPrefix(usual[:0], t), raw))
}

// MultiToken returns the token of a stream of several transactions at a position of the feed.
func MultiToken(t Target, at store.Position) string {
	var usual [usualToken]byte
	return string(at.AppendTo(appendPrefix(usual[:0], t)))
}

// ParseToken parses the token of a stream of the target; an empty text is the zero Token. Its
// errors are of type [status.InvalidError].
func ParseToken(text string, t Target) (token Token, err error) {
	if text == "" {
		return token, nil
	}
	kind, rest, found := strings.Cut(text, ".")
	if !found || !utf8.ValidString(text) || kind == "" ||
		!strings.Contains(tokenTx+tokenTxs+tokenSubmitter+tokenAll, kind[:1]) {
		return token, malformedToken()
	}
	if kind+"." != prefix(t) {
		return token, otherToken()
	}
	token.given = true
	if t.Tx == (txn.TxID{}) {
		token.position, err = store.ParsePosition(rest)
		if err != nil || token.position.Seen == "" {
			return token, malformedToken()
		}
		token.epoch = token.position.Epoch
		return token, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil || len(raw) != 16 {
		return token, malformedToken()
	}
	token.epoch = int64(binary.BigEndian.Uint64(raw))
	token.seq = int64(binary.BigEndian.Uint64(raw[8:]))
	if token.seq < 0 {
		return token, malformedToken()
	}
	return token, nil
}

func otherToken() error {
	return status.InvalidField("resume_token",
		"belongs to a different stream; use the last token of this stream, "+
			"or omit it to start over")
}

func malformedToken() error {
	return status.InvalidField("resume_token",
		"is malformed; use the last resume_token of the stream, or omit it to start over")
}

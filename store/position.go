package store

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost/txn"
)

// EventKey is a position in the order of the feed.
type EventKey struct {
	Xid       string // of the transaction that wrote the event; empty is before all
	Submitter txn.SubmitterID
	Tx        txn.TxID
	Seq       int64
}

// Key is the position of the event in the feed.
func (e EventInfo) Key() EventKey { return EventKey{e.Xid, e.Event.Submitter, e.Tx, e.Seq} }

// Position is how far a reader of the feed has come.
//
// Transactions commit in another order than they begin, so the number of an event does not define
// which events are newer. A snapshot does: an event that a newer snapshot sees and the reader's
// last one did not is new to it, whenever it began. Within the events between two snapshots the
// reader's position is After.
type Position struct {
	Epoch int64 // of the ledger; a restore raises it, and older positions mean nothing then
	// of the server, at the time of the snapshots; see Head.Holds
	Timeline int64
	Seen     string // everything that this snapshot sees has been read
	Until    string // the snapshot that is being read up to; empty: none
	After    EventKey
}

// Head is the end of the feed, and which positions lie before it.
type Head struct {
	Epoch    int64
	Timeline int64  // of the server
	Snapshot string // divides all events: those that it sees are before the end
	// no event has a number (xid) from here on yet; may be above the end of Snapshot
	Next uint64
	// of the last fail-over since the last recovery; zero: none
	Before int64  // the timeline before
	Begin  uint64 // events since then have no lower number
	// no event that was archived and removed has a higher number; 0: none was removed
	Trimmed uint64
}

// Trims reports whether events after a position may have been archived and removed.
func (h Head) Trims(p Position) bool { return h.Trimmed != 0 && snapshotBegin(p.Seen) <= h.Trimmed }

// Holds reports whether a position is one of this feed. One of another ledger or of before a
// recovery is not; nor is one of the future, which comes from a ledger that went back; nor is one
// from the part that a fail-over lost, whose numbers other events have now.
func (h Head) Holds(p Position) bool {
	end := max(snapshotEnd(p.Seen), snapshotEnd(p.Until))
	switch {
	case p.Epoch != h.Epoch || end > h.Next:
		return false
	case p.Timeline == h.Timeline:
		return true
	}
	return h.Before != 0 && p.Timeline == h.Before && end <= h.Begin
}

// maxKept bounds the transactions under way that before names one by one.
const maxKept = 1024

// before returns a position that sees no event but those that both see.
func (p Position) before(q Position) Position {
	var both []uint64 // under way in either snapshot
	a, b := appendNumbers(nil, p.Seen), appendNumbers(nil, q.Seen)
	end := min(a[1], b[1])
	for _, xid := range slices.Sorted(slices.Values(append(a[2:], b[2:]...))) {
		if xid < end {
			both = append(both, xid)
		}
	}
	both = slices.Compact(both)
	begin := end
	if len(both) > 0 {
		begin = both[0]
	}
	if len(both) > maxKept {
		end, both = begin, nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d:%d:", begin, end)
	for i, xid := range both {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(strconv.FormatUint(xid, 10))
	}
	return Position{Epoch: p.Epoch, Timeline: p.Timeline, Seen: text.String()}
}

// snapshotBegin returns the number below which a snapshot sees everything; 0 for no snapshot.
func snapshotBegin(snapshot string) uint64 {
	begin, _, _ := strings.Cut(snapshot, ":")
	n, _ := strconv.ParseUint(begin, 10, 64)
	return n
}

// snapshotEnd returns the number from which on a snapshot sees nothing; 0 for no snapshot.
func snapshotEnd(snapshot string) uint64 {
	_, rest, _ := strings.Cut(snapshot, ":")
	end, _, _ := strings.Cut(rest, ":")
	n, _ := strconv.ParseUint(end, 10, 64) // made by PostgreSQL, or checked by ParsePosition
	return n
}

const (
	positionVersion   = 2
	maxPositionLength = 16 << 10
	usualPosition     = 128  // bytes: with a few transactions under way
	usualNumbers      = 16   // of a snapshot
	maxInProgress     = 8192 // transactions under way in one snapshot
)

var errPosition = errors.New(
	"resume token cannot be read; use one that a watch has sent, unchanged")

// String is the opaque text form, a resume token.
func (p Position) String() string { return string(p.AppendTo(nil)) }

// AppendTo appends the text form.
func (p Position) AppendTo(text []byte) []byte {
	b := append(make([]byte, 0, usualPosition), positionVersion)
	b = binary.AppendUvarint(b, uint64(p.Epoch))
	b = binary.AppendUvarint(b, uint64(p.Timeline))
	b = appendSnapshot(b, p.Seen)
	b = appendSnapshot(b, p.Until)
	var xid uint64 // none is 0
	if p.After.Xid != "" {
		xid, _ = strconv.ParseUint(p.After.Xid, 10, 64)
	}
	b = binary.AppendUvarint(b, xid)
	b = binary.AppendUvarint(b, uint64(uint32(p.After.Submitter)))
	b = append(b, p.After.Tx[:]...)
	b = binary.AppendUvarint(b, uint64(p.After.Seq))
	return base64.RawURLEncoding.AppendEncode(text, signed(b))
}

// signed adds a checksum, which detects a mistyped or truncated token. It is not a secret: a forged
// token only reads events that its caller may read anyway.
func signed(b []byte) []byte { return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)) }

// ParsePosition reads a resume token.
func ParsePosition(token string) (Position, error) {
	if len(token) > maxPositionLength {
		return Position{}, fmt.Errorf("%w: it is longer than %d characters", errPosition,
			maxPositionLength)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) < 5 {
		return Position{}, errPosition
	}
	body, sum := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	if body[0] != positionVersion || crc32.ChecksumIEEE(body) != sum {
		return Position{}, errPosition
	}
	r := reader{rest: body[1:]}
	p := Position{
		Epoch: int64(r.number(math.MaxInt64)), Timeline: int64(r.number(math.MaxInt64)),
		Seen: r.snapshot(), Until: r.snapshot(),
	}
	if xid := r.number(math.MaxInt64); xid != 0 {
		p.After.Xid = strconv.FormatUint(xid, 10)
	}
	p.After.Submitter = txn.SubmitterID(r.number(math.MaxInt32))
	p.After.Tx = txn.TxID(r.bytes(16))
	p.After.Seq = int64(r.number(math.MaxInt64))
	if r.bad || len(r.rest) != 0 {
		return Position{}, errPosition
	}
	return p, nil
}

// appendSnapshot encodes "xmin:xmax:xip,xip,...": the count of its numbers, which is 0 for no
// snapshot, and how each differs from the one before.
func appendSnapshot(b []byte, snapshot string) []byte {
	if snapshot == "" {
		return binary.AppendUvarint(b, 0)
	}
	var few [usualNumbers]uint64
	numbers := appendNumbers(few[:0], snapshot)
	b = binary.AppendUvarint(b, uint64(len(numbers)))
	b = binary.AppendUvarint(b, numbers[0])
	b = binary.AppendUvarint(b, numbers[1]-numbers[0])
	last := numbers[0]
	for _, xid := range numbers[2:] {
		b = binary.AppendUvarint(b, xid-last)
		last = xid
	}
	return b
}

// appendNumbers appends xmin, xmax, and the transactions under way between them, in order, as
// PostgreSQL writes them.
func appendNumbers(numbers []uint64, snapshot string) []uint64 {
	xmin, rest, _ := strings.Cut(snapshot, ":")
	xmax, underWay, _ := strings.Cut(rest, ":")
	from, _ := strconv.ParseUint(xmin, 10, 64)
	to, _ := strconv.ParseUint(xmax, 10, 64)
	numbers = append(numbers, from, to)
	for underWay != "" {
		var xid string
		xid, underWay, _ = strings.Cut(underWay, ",")
		if n, err := strconv.ParseUint(xid, 10, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// reader decodes a position. Invalid data set bad and read as zero.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number(limit uint64) uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > limit || r.bad {
		r.bad = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) bytes(n int) []byte {
	if len(r.rest) < n || r.bad {
		r.bad = true
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) snapshot() string {
	count := r.number(maxInProgress)
	if count == 0 {
		return ""
	}
	if count == 1 {
		r.bad = true
		return ""
	}
	xmin := r.number(math.MaxInt64)
	xmax := r.number(math.MaxInt64) + xmin
	var text strings.Builder
	fmt.Fprintf(&text, "%d:%d:", xmin, xmax)
	last := xmin
	for i := uint64(2); i < count && !r.bad; i++ {
		last += r.number(math.MaxInt64)
		if last >= xmax {
			r.bad = true
		}
		if i > 2 {
			text.WriteByte(',')
		}
		text.WriteString(strconv.FormatUint(last, 10))
	}
	if xmax > math.MaxInt64 || uint32(xmin) == 0 ||
		uint32(xmax) == 0 { // PostgreSQL numbers no transaction so, and reads no such snapshot
		r.bad = true
	}
	return text.String()
}

package e2e

import (
	"encoding/binary"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/txn"
)

// fenced reads the parameters of a commit from the wire by their names in the statement text.
type fenced struct{ m pgproxy.Message }

// fencedCommit reports whether a message is step B or E of the statement that writes the ledger.
func fencedCommit(m pgproxy.Message, step byte) bool {
	return m.Type == step && strings.Contains(m.SQL, "name: Commit ")
}

var parameterNames sync.Map // by text of the statement: where each name is

// column is the array that a parameter holds.
func (f fenced) column(name string) [][]byte {
	known, ok := parameterNames.Load(f.m.SQL)
	if !ok {
		positions := map[string]int{}
		for _, found := range regexp.MustCompile(
			`unnest\(\$(\d+)::\w+\[\]\)\s+AS (\w+)`,
		).FindAllStringSubmatch(f.m.SQL, -1) {
			// the changes come first, then their writes, attempts, commands
			if _, taken := positions[found[2]]; !taken {
				positions[found[2]], _ = strconv.Atoi(found[1]) // digits
			}
		}
		known, _ = parameterNames.LoadOrStore(f.m.SQL, positions)
	}
	position := known.(map[string]int)[name]
	if position < 1 || position > len(f.m.Params) {
		return nil
	}
	return arrayElements(f.m.Params[position-1])
}

// arrayElements reads PostgreSQL's binary form of an array with one dimension: its count is at 12,
// elements begin at 20, each with its length before it.
func arrayElements(b []byte) (list [][]byte) {
	if len(b) < 20 {
		return nil
	}
	n := int(binary.BigEndian.Uint32(b[12:]))
	b = b[20:]
	for range n {
		if len(b) < 4 {
			return list
		}
		size := int32(binary.BigEndian.Uint32(b))
		b = b[4:]
		if size < 0 || int(size) > len(b) {
			return list
		}
		list, b = append(list, b[:size]), b[size:]
	}
	return list
}

func number(b []byte) (n int64) {
	for _, digit := range b {
		n = n<<8 | int64(digit)
	}
	if len(b) < 8 { // of four bytes
		return int64(int32(n))
	}
	return n
}

// The kinds of commit that a test asks for.

func moves(kind txn.Kind) func(fenced) bool {
	return func(f fenced) bool { return f.holds("kind", string(kind)) }
}

func sets(status txn.SubmitterStatus) func(fenced) bool {
	return func(f fenced) bool { return f.holds("new_status", string(status)) }
}

func both(a, b func(fenced) bool) func(fenced) bool {
	return func(f fenced) bool { return a(f) && b(f) }
}

func (f fenced) startsCursor() bool          { return f.notNegative("init_nonce") }
func (f fenced) protects() bool              { return f.notNegative("protect_expect") }
func (f fenced) unprotects() bool            { return f.notNegative("unprotect_expect") }
func (f fenced) protectsAutomatically() bool { return f.protects() && !f.isTrue("protect_asked") }
func (f fenced) unprotectsAutomatically() bool {
	return f.unprotects() &&
		!f.isTrue("unprotect_asked")
}
func (f fenced) failsLate() bool {
	return moves(txn.EventFailed)(f) &&
		f.isTrue("late")
}

// pausesAutomatically matches a pause with a reason. Commands pause without one.
func (f fenced) pausesAutomatically() bool {
	return sets(txn.Paused)(f) && !f.holds("status_reason", "")
}

// skipsNonces is the end of a protection after which the cursor stands higher.
func (f fenced) skipsNonces() bool {
	from, to := f.column("unprotect_expect"), f.column("unprotect_to")
	return f.unprotects() && len(from) == 1 && len(to) == 1 && number(to[0]) > number(from[0])
}

// releases is the schedule that frees a nonce's slot without an event, claims one that does not.
func (f fenced) releases() bool { return f.schedules() && f.isTrue("released") }
func (f fenced) claims() bool   { return f.schedules() && !f.isTrue("released") }

func (f fenced) schedules() bool {
	kinds := f.column("kind")
	return len(kinds) == 1 && len(kinds[0]) == 0
}

// endsCommandAlone changes nothing but a command.
func (f fenced) endsCommandAlone() bool {
	return len(f.column("command_id")) > 0 && len(f.column("kind")) == 0 &&
		f.holds("new_status", "") &&
		!f.protects() &&
		!f.unprotects()
}

func (f fenced) holds(column, value string) bool {
	return slices.ContainsFunc(f.column(column), func(b []byte) bool { return string(b) == value })
}

func (f fenced) notNegative(column string) bool {
	return slices.ContainsFunc(f.column(column), func(b []byte) bool { return number(b) >= 0 })
}

func (f fenced) isTrue(column string) bool {
	return slices.ContainsFunc(f.column(column), func(b []byte) bool { return number(b) != 0 })
}

// token is the fencing token under which a submitter is written; 0: it is not in this commit.
func (f fenced) token(submitter int) int64 {
	ids, tokens := f.column("submitter_id"), f.column("fencing_token")
	for i, id := range ids {
		if number(id) == int64(submitter) && i < len(tokens) {
			return number(tokens[i])
		}
	}
	return 0
}

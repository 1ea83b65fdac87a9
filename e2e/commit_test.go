package e2e

import (
	"encoding/binary"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fencepost/fencepost/internal/pgembed/pgproxy"
)

// fenced reads what a commit says from its parameters on the wire, each found by the name that the statement's text gives it.
type fenced struct{ m pgproxy.Message }

// fencedCommit tells whether a message is a step, B or E, of the one statement that writes the ledger.
func fencedCommit(m pgproxy.Message, step byte) bool {
	return m.Type == step && strings.Contains(m.SQL, "name: Commit ")
}

var parameterNames sync.Map // by text of the statement: where each name is

// column is the array that a parameter holds.
func (f fenced) column(name string) [][]byte {
	known, ok := parameterNames.Load(f.m.SQL)
	if !ok {
		places := map[string]int{}
		for _, found := range regexp.MustCompile(`unnest\(\$(\d+)::\w+\[\]\)\s+AS (\w+)`).FindAllStringSubmatch(f.m.SQL, -1) {
			if _, taken := places[found[2]]; !taken { // the changes come first, then their writes, attempts, commands
				places[found[2]], _ = strconv.Atoi(found[1]) // digits
			}
		}
		known, _ = parameterNames.LoadOrStore(f.m.SQL, places)
	}
	place := known.(map[string]int)[name]
	if place < 1 || place > len(f.m.Params) {
		return nil
	}
	return arrayElements(f.m.Params[place-1])
}

// arrayElements reads PostgreSQL's binary form of an array with one dimension: its count is at 12, elements begin at 20, each with its length before it.
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
func (f fenced) moves(kind string) bool {
	return slices.ContainsFunc(f.column("kind"), func(b []byte) bool { return string(b) == kind })
}

func (f fenced) sets(column, value string) bool {
	return slices.ContainsFunc(f.column(column), func(b []byte) bool { return string(b) == value })
}

func (f fenced) notNegative(column string) bool {
	return slices.ContainsFunc(f.column(column), func(b []byte) bool { return number(b) >= 0 })
}

// releases is the schedule that frees a nonce's place without an event.
func (f fenced) releases() bool {
	kinds, released := f.column("kind"), f.column("released")
	return len(kinds) == 1 && len(kinds[0]) == 0 && len(released) == 1 && number(released[0]) != 0
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

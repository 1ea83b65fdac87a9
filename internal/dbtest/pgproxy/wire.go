package pgproxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	frameLimit = 64 << 20 // far above the messages of tests; PostgreSQL's own limit is 1 GB

	// First messages that are not a startup.
	cancelRequest = 80877102
	tlsRequest    = 80877103
	gssRequest    = 80877104
)

// readStartup reads a client's first message, which has no letter.
func readStartup(r io.Reader) (frame []byte, code uint32, err error) {
	frame = make([]byte, 8)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, 0, err
	}
	size := binary.BigEndian.Uint32(frame)
	if size < 8 || size > frameLimit {
		return nil, 0, fmt.Errorf("a startup message of %d bytes", size)
	}
	frame = append(frame, make([]byte, size-8)...)
	_, err = io.ReadFull(r, frame[8:])
	return frame, binary.BigEndian.Uint32(frame[4:]), err
}

// readFrame reads a message: a letter, the length of the rest, the rest.
func readFrame(r io.Reader) ([]byte, error) {
	frame := make([]byte, 5)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(frame[1:])
	if size < 4 || size > frameLimit {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	frame = append(frame, make([]byte, size-4)...)
	_, err := io.ReadFull(r, frame[5:])
	return frame, err
}

// cstring cuts a text that ends with a zero off the front.
func cstring(b []byte) (text string, rest []byte) {
	before, after, _ := bytes.Cut(b, []byte{0})
	return string(before), after
}

// statements knows the statements of a connection by name, as the server does.
type statements struct {
	prepared map[string]string // name -> text
	portals  map[string]portal
}

// portal is a statement with values for its parameters.
type portal struct {
	sql    string
	params [][]byte
}

func newStatements() statements {
	return statements{prepared: map[string]string{}, portals: map[string]portal{}}
}

// learn returns the statement of a client's message and remembers prepared statements.
func (s *statements) learn(frame []byte) Message {
	m := Message{Type: frame[0]}
	body := frame[5:]
	switch m.Type {
	case 'Q':
		m.SQL, _ = cstring(body)
	case 'P':
		name, rest := cstring(body)
		m.SQL, _ = cstring(rest)
		s.prepared[name] = m.SQL
	case 'B':
		at, rest := cstring(body)
		name, rest := cstring(rest)
		bound := portal{sql: s.prepared[name], params: parameters(rest)}
		m.SQL, m.Params = bound.sql, bound.params
		s.portals[at] = bound
	case 'E':
		at, _ := cstring(body)
		m.SQL, m.Params = s.portals[at].sql, s.portals[at].params
	case 'D', 'C':
		m.SQL = s.named(body)
	}
	return m
}

// named finds the statement (S) or the portal (P) that a Describe or a Close names.
func (s *statements) named(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	name, _ := cstring(body[1:])
	if body[0] == 'S' {
		return s.prepared[name]
	}
	return s.portals[name].sql
}

// parameters reads the values of a Bind: a list of formats, then the values, each with its length
// before it, which is -1 for NULL. It leaves out values that it cannot read.
func parameters(b []byte) [][]byte {
	count := func() int {
		if len(b) < 2 {
			return 0
		}
		n := int(binary.BigEndian.Uint16(b))
		b = b[2:]
		return n
	}
	formats := count()
	b = b[min(len(b), 2*formats):]
	n := count()
	values := make([][]byte, 0, n)
	for range n {
		if len(b) < 4 {
			break
		}
		size := int32(binary.BigEndian.Uint32(b))
		b = b[4:]
		if size < 0 {
			values = append(values, nil)
			continue
		}
		if int(size) > len(b) {
			break
		}
		values = append(values, b[:size:size])
		b = b[size:]
	}
	return values
}

// question is a client's message that the server has not finished to answer.
type question struct {
	kind byte
	rule *Rule // that the answer, and all that follows in its round, is subject to
}

// exchange matches the server's answers to the client's messages.
type exchange struct {
	open  []question // in the order in which the server answers
	under *Rule      // from the answer that it is about on, to the end of the round
}

// asks reports whether a message has an answer of its own.
func asks(kind byte) bool { return bytes.IndexByte([]byte("QPBDECSF"), kind) >= 0 }

func (x *exchange) ask(kind byte, rule *Rule) {
	x.open = append(x.open, question{kind, rule})
}

// answer handles a message of the server. It returns the rule of the message, and whether the
// message ends a round.
func (x *exchange) answer(kind byte) (rule *Rule, through bool) {
	if len(x.open) == 0 {
		return x.under, false
	}
	first := x.open[0]
	x.meet(first.rule)
	switch {
	case first.kind == 'Q' || first.kind == 'F' || first.kind == 'S':
		if through = kind == 'Z'; through {
			x.open = x.open[1:]
		}
	case kind == 'E':
		x.skip()
	case ends(first.kind, kind):
		x.open = x.open[1:]
	}
	rule = x.under
	if through && (rule == nil || rule.action != LoseReply) {
		x.under = nil
	}
	return rule, through
}

func (x *exchange) meet(rule *Rule) {
	if x.under == nil {
		x.under = rule
	}
}

// skip acts as the server does after an error: it skips everything up to the Sync. The error is
// also the answer to the skipped messages.
func (x *exchange) skip() {
	for len(x.open) > 0 && x.open[0].kind != 'S' {
		x.meet(x.open[0].rule)
		x.open = x.open[1:]
	}
}

// ends reports whether a server's message is the last answer to a step of an extended query.
func ends(step, kind byte) bool {
	last := map[byte]string{'P': "1", 'B': "2", 'D': "Tn", 'E': "CsI", 'C': "3"}[step]
	return bytes.IndexByte([]byte(last), kind) >= 0
}

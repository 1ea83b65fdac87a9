package pgproxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	frameLimit = 64 << 20 // far above what a test sends; PostgreSQL's own is 1 GB

	// What a first message can be instead of a startup.
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
	portals  map[string]string
}

// learn tells what a client's message is about and remembers what it prepares.
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
		portal, rest := cstring(body)
		name, _ := cstring(rest)
		m.SQL = s.prepared[name]
		s.portals[portal] = m.SQL
	case 'E':
		portal, _ := cstring(body)
		m.SQL = s.portals[portal]
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
	return s.portals[name]
}

// question is a client's message that the server has not finished to answer.
type question struct {
	kind byte
	lost bool // its answer, and all that follows, is not for the client
}

// exchange matches the server's answers to the client's messages.
type exchange struct {
	open   []question // in the order in which the server answers
	losing bool       // from an answer that is to be lost on
}

// asks tells whether a message has an answer of its own.
func asks(kind byte) bool { return bytes.IndexByte([]byte("QPBDECSF"), kind) >= 0 }

func (x *exchange) ask(kind byte, lost bool) {
	x.open = append(x.open, question{kind, lost})
}

// answer takes in a message of the server. It says whether the message is to be
// lost, and whether it ends a round.
func (x *exchange) answer(kind byte) (lost, through bool) {
	if len(x.open) == 0 {
		return x.losing, false
	}
	first := x.open[0]
	x.losing = x.losing || first.lost
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
	return x.losing, through
}

// skip does as the server after an error: it skips all up to the Sync. The error is
// the answer to what is skipped as well.
func (x *exchange) skip() {
	for len(x.open) > 0 && x.open[0].kind != 'S' {
		x.losing = x.losing || x.open[0].lost
		x.open = x.open[1:]
	}
}

// ends tells whether a server's message is the last of the answer to a step of
// an extended query.
func ends(step, kind byte) bool {
	last := map[byte]string{'P': "1", 'B': "2", 'D': "Tn", 'E': "CsI", 'C': "3"}[step]
	return bytes.IndexByte([]byte(last), kind) >= 0
}

package sim

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// message is one write of a node, decoded as far as the scheduler needs (PostgreSQL's frontend
// protocol, version 3).
type message struct {
	bytes   []byte
	label   string
	role    string // of a startup message
	answers int    // ReadyForQuery messages to expect
	startup bool
	goodbye bool
	cancel  bool
	ping    bool
	copies  bool          // rows into a table
	commit  *fencedCommit // of a fenced statement
}

// pong answers an empty query.
var pong = []byte{'I', 0, 0, 0, 4, 'Z', 0, 0, 0, 5, 'I'}

const (
	codeCancel   = 80877102
	codeStartup3 = 196608
)

// readMessage decodes a write. whole is false when more bytes must follow.
func readMessage(b []byte, names map[string]string) (m message, whole bool) {
	if len(b) >= 8 && b[0] == 0 { // no type: the first message of a connection
		switch code := binary.BigEndian.Uint32(b[4:]); {
		case code == codeCancel:
			return message{cancel: true}, true
		case code>>16 == codeStartup3>>16:
			text, role := restart(b)
			return message{bytes: text, label: "start", role: role, startup: true, answers: 1}, true
		}
	}
	for rest := b; len(rest) > 0; {
		if len(rest) < 5 {
			return m, false
		}
		n := 1 + int(binary.BigEndian.Uint32(rest[1:]))
		if len(rest) < n {
			return m, false
		}
		m.read(rest[0], rest[5:n], names)
		m.bytes = append(m.bytes, restated(rest[:n])...)
		rest = rest[n:]
	}
	return m, m.answers > 0 || m.goodbye
}

func (m *message) read(kind byte, body []byte, names map[string]string) {
	switch kind {
	case 'X':
		m.goodbye = true
	case 'S', 'p':
		m.answers++
	case 'Q':
		m.answers++
		text := cString(body)
		m.ping = text == "-- ping"
		m.label = first(text)
		if strings.HasPrefix(text, "COPY ") && strings.Contains(text, ") FROM STDIN") {
			m.answers-- // the rows follow, in the same message
		}
	case 'c', 'f': // the end of rows
		m.answers++
		m.label, m.copies = "copy in", true
	case 'P':
		name := cString(body)
		names[name] = first(cString(body[len(name)+1:]))
		m.label = "prepare " + names[name]
	case 'B':
		portal := cString(body)
		name := cString(body[len(portal)+1:])
		m.label = names[name]
		if m.label == "Commit" || m.label == "CommitNonces" {
			m.commit = readCommit(body[len(portal)+len(name)+2:], m.label == "Commit")
		}
	}
}

// first returns the sqlc name of a statement, or its first word.
func first(text string) string {
	if rest, ok := strings.CutPrefix(text, "-- name: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	word, _, _ := strings.Cut(text, " ")
	return strings.ToLower(word)
}

func cString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// limitKept is the prefix of the setting that keeps a time limit which restart removed.
const limitKept = "sim."

// restated makes the statement that verifies a session read the limits that restart removed.
func restated(frame []byte) []byte {
	if frame[0] != 'P' {
		return frame
	}
	frame = replaced(frame, "set_config('lock_timeout'", "set_config('"+limitKept+"lock_timeout'")
	const setting = "s.setting) FROM pg_settings s"
	is := "coalesce(current_setting('" + limitKept + "' || s.name, TRUE), " + setting
	return replaced(frame, setting, strings.Replace(is, "s.setting)", "s.setting))", 1))
}

// replaced replaces text in the statement of a frame.
func replaced(frame []byte, was, is string) []byte {
	out := bytes.Replace(frame, []byte(was), []byte(is), 1)
	binary.BigEndian.PutUint32(out[1:], uint32(len(out)-1))
	return out
}

// restart removes the server's time limits from a startup message: they count real time, and the
// real duration of a simulation depends on the machine.
func restart(b []byte) (text []byte, role string) {
	out := append([]byte(nil), b[:8]...)
	for rest := b[8:]; len(rest) > 1; {
		key := cString(rest)
		value := cString(rest[len(key)+1:])
		rest = rest[len(key)+len(value)+2:]
		switch key {
		case "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout":
			out = append(append(append(append(out, limitKept+key...), 0), value...), 0)
			value = "0"
		case "application_name":
			if parts := strings.Split(value, "/"); len(parts) > 1 {
				role = parts[1]
			}
		}
		out = append(append(append(append(out, key...), 0), value...), 0)
	}
	out = append(out, 0)
	binary.BigEndian.PutUint32(out, uint32(len(out)))
	return out, role
}

// fencedCommit is the part of a fenced statement's parameters that the simulation reads.
type fencedCommit struct {
	submitters []int32
	tokens     []int64
	takes      bool // a nonce
}

// readCommit reads the submitters and tokens from a Bind message. They are the second and third
// parameter, in binary form; the fifth of Commit holds the nonces to take, negative for none.
func readCommit(b []byte, moves bool) *fencedCommit {
	formats := int(binary.BigEndian.Uint16(b))
	b = b[2+2*formats+2:]
	var params [][]byte
	for range 5 {
		n := int32(binary.BigEndian.Uint32(b))
		b = b[4:]
		if n < 0 {
			params = append(params, nil)
			continue
		}
		params = append(params, b[:n])
		b = b[n:]
	}
	c := &fencedCommit{}
	for _, v := range arrayItems(params[1]) {
		c.submitters = append(c.submitters, int32(binary.BigEndian.Uint32(v)))
	}
	for _, v := range arrayItems(params[2]) {
		c.tokens = append(c.tokens, int64(binary.BigEndian.Uint64(v)))
	}
	for _, v := range arrayItems(params[4]) {
		if !moves {
			break
		}
		c.takes = c.takes || int64(binary.BigEndian.Uint64(v)) >= 0
	}
	return c
}

// arrayItems returns the items of a one-dimensional array in PostgreSQL's binary format.
func arrayItems(b []byte) [][]byte {
	if len(b) < 20 {
		return nil
	}
	count := int(binary.BigEndian.Uint32(b[12:]))
	b = b[20:]
	var items [][]byte
	for range count {
		n := int(int32(binary.BigEndian.Uint32(b)))
		items = append(items, b[4:4+n])
		b = b[4+n:]
	}
	return items
}

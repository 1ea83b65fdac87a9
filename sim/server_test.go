package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"time"
)

// server is the real connection behind a link. Only the scheduler uses it, except for close.
type server struct {
	conn    net.Conn
	pid     int32
	buffer  []byte // received, not parsed yet
	answer  []byte
	left    int // ReadyForQuery messages still expected
	failure string
	rows    [][]byte // bodies of DataRow messages
	lost    bool     // the server has ended it
	closed  bool     // by its node
	ended   bool     // its session has
	// its transaction waits only briefly for locks
	impatient bool
}

func (s *server) close() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.closed = true
	}
}

// Real time: how long to read before checking whether the session waits for a lock, and the maximum
// duration of an exchange.
const (
	lookAfter = 4 * time.Millisecond
	hangLimit = 30 * time.Second
)

// send starts an exchange.
func (s *server) send(m message) error {
	s.answer, s.rows = nil, nil
	s.left, s.failure = m.answers, ""
	switch m.label {
	case "SetLockTimeout":
		s.impatient = true
	case "commit", "rollback":
		s.impatient = false
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(hangLimit)); err != nil {
		return err
	}
	_, err := s.conn.Write(m.bytes)
	return err
}

// receive reads for up to patience and reports whether the reply is complete.
func (s *server) receive(patience time.Duration) (done bool, err error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return false, err
	}
	chunk := make([]byte, 16<<10)
	for s.left > 0 {
		n, err := s.conn.Read(chunk)
		s.buffer = append(s.buffer, chunk[:n]...)
		s.parse()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return s.left <= 0, nil
		}
		if err != nil {
			return s.left <= 0, err
		}
	}
	return true, nil
}

// parse consumes complete messages from the buffer.
func (s *server) parse() {
	for len(s.buffer) >= 5 {
		n := 1 + int(binary.BigEndian.Uint32(s.buffer[1:]))
		if len(s.buffer) < n {
			return
		}
		kind, body := s.buffer[0], s.buffer[5:n]
		switch kind {
		case 'Z':
			s.left--
		case 'R':
			if auth := binary.BigEndian.Uint32(body); auth != 0 && auth != 12 {
				s.left-- // the node must answer
			}
		case 'K':
			s.pid = int32(binary.BigEndian.Uint32(body))
		case 'D':
			s.rows = append(s.rows, bytes.Clone(body))
		case 'E':
			s.failure = failed(body)
		}
		s.answer = append(s.answer, s.buffer[:n]...)
		s.buffer = bytes.Clone(s.buffer[n:])
	}
}

// failed returns the SQLSTATE and message of an error.
func failed(body []byte) string {
	code, words := "", ""
	for len(body) > 1 {
		value := cString(body[1:])
		switch body[0] {
		case 'C':
			code = value
		case 'M':
			words = value
		}
		body = body[len(value)+2:]
	}
	return code + " " + words
}

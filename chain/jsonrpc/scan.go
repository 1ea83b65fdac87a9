package jsonrpc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
)

const (
	maxDepth     = 64       // of nested values in a response
	maxKey       = 256      // bytes of the name of a field
	maxID        = 64       // bytes of an id
	maxParams    = 512      // bytes of a notification's parameters without its content
	maxMessage   = 16 << 10 // bytes of an error's message
	maxErrorData = 64 << 10 // bytes of an error's data
	scanBuffer   = 16 << 10
)

// scanner reads JSON values from a stream and keeps the wanted parts of them. It checks only the
// structure; kept parts are checked when they are decoded.
type scanner struct {
	r    *bufio.Reader
	from boundedReader
	skip map[string]bool // see Options.Skip; nil keeps all
	key  sink            // of the field being read
}

// boundedReader fails with a TooLargeError after its limit.
type boundedReader struct {
	r           io.Reader
	left, limit int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &TooLargeError{b.limit}
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// sink keeps a value up to a limit. Above it the value is dropped, and reading continues.
type sink struct {
	buf   bytes.Buffer
	limit int64
	over  bool
}

func (k *sink) start(limit int64) { k.buf.Reset(); k.limit, k.over = limit, false }

func (k *sink) add(p ...byte) {
	switch {
	case k == nil || k.over:
	case int64(k.buf.Len()+len(p)) > k.limit:
		k.over = true
	default:
		k.buf.Write(p)
	}
}

// taken returns a copy of the value; nil if it was above the limit.
func (k *sink) taken() []byte {
	if k.over {
		return nil
	}
	return bytes.Clone(k.buf.Bytes())
}

// parser reads the responses of one message.
type parser struct {
	scanner
	value sink
}

var parsers = sync.Pool{New: func() any {
	p := new(parser)
	p.r = bufio.NewReaderSize(nil, scanBuffer)
	return p
}}

// maxSpare is the capacity above which a buffer is not reused.
const maxSpare = 1 << 20

// parse reads one message: a response, or a batch of at most maxResponses. each is called for
// every response. alone reports a message that is not a batch.
func parse(from io.Reader, wire, kept int64, skip map[string]bool, maxResponses int,
	each func(message)) (alone bool, err error) {
	p := parsers.Get().(*parser)
	defer p.release()
	p.from = boundedReader{from, wire, wire}
	p.r.Reset(&p.from)
	p.scanner.skip = skip
	first, err := p.next()
	if err != nil {
		return false, err
	}
	if first == '{' {
		m, err := p.message(kept)
		if err == nil {
			each(m)
		}
		return true, err
	}
	if first != '[' {
		return false, ErrMalformed
	}
	n := 0
	return false, p.list(']', func() error {
		if n++; n > maxResponses {
			return ErrMalformed
		}
		if b, err := p.next(); err != nil || b != '{' {
			return orMalformed(err)
		}
		m, err := p.message(kept)
		if err == nil {
			each(m)
		}
		return err
	})
}

func (p *parser) release() {
	p.from.r = nil
	p.r.Reset(nil)
	if p.value.buf.Cap() > maxSpare {
		p.value.buf = bytes.Buffer{}
	}
	parsers.Put(p)
}

// message is a response or a notification.
type message struct {
	response
	subscription string // of a notification
}

// message reads the fields of an object whose brace was read.
func (p *parser) message(kept int64) (m message, err error) {
	tooLarge := false
	skip := p.scanner.skip
	err = p.fields(func(key string) error {
		p.scanner.skip = skip
		limit := int64(maxID)
		switch key {
		case "result":
			limit = kept
		case "error":
			p.scanner.skip = nil
			m.err, err = p.failure()
			return err
		case "params":
			limit, p.scanner.skip = maxParams, notificationSkip
		case "id":
		default:
			return p.anyValue(nil, 0)
		}
		p.value.start(limit)
		if err := p.anyValue(&p.value, 0); err != nil {
			return err
		}
		raw := p.value.taken()
		switch {
		case key == "id" && string(raw) != "null":
			m.id = strings.Trim(string(raw), `"`)
		case key == "result":
			m.result, tooLarge = raw, raw == nil
		case key == "params":
			var of struct{ Subscription string }
			if json.Unmarshal(raw, &of) == nil {
				m.subscription = of.Subscription
			}
		}
		return nil
	})
	p.scanner.skip = skip
	if tooLarge {
		m.lost = &TooLargeError{kept}
	}
	if m.err != nil {
		m.lost = nil
		if string(m.result) != "null" {
			m.err.Result = m.result
		}
	}
	return m, err
}

// notificationSkip drops the content of a notification; only its arrival counts.
var notificationSkip = map[string]bool{"result": true}

// failure reads the value of the field "error"; nil for null. JSON-RPC 1.0 has a null error next to
// each result, and some servers send a plain text.
func (p *parser) failure() (*Error, error) {
	b, err := p.peek()
	if err != nil {
		return nil, err
	}
	if b != '{' {
		p.value.start(maxMessage)
		if err := p.anyValue(&p.value, 0); err != nil {
			return nil, err
		}
		raw := p.value.taken()
		if string(raw) == "null" {
			return nil, nil
		}
		e := &Error{Message: string(raw)}
		_ = json.Unmarshal(raw, &e.Message) // any other value is its own text
		return e, nil
	}
	if _, err := p.next(); err != nil {
		return nil, err
	}
	e := new(Error)
	err = p.fields(func(key string) error {
		var limit int64
		switch key {
		case "code":
			limit = maxID
		case "message":
			limit = maxMessage
		case "data":
			limit = maxErrorData
		}
		p.value.start(limit)
		if err := p.anyValue(&p.value, 0); err != nil {
			return err
		}
		raw := p.value.taken()
		switch {
		case key == "code":
			_ = json.Unmarshal(raw, &e.Code) // not an integer: no code
		case key == "message" && json.Unmarshal(raw, &e.Message) != nil:
			e.Message = string(raw)
		case key == "data" && raw != nil && string(raw) != "null":
			e.Data = raw
		}
		return nil
	})
	return e, err
}

// fields calls fn for each field of an object whose opening brace was read. fn reads the value.
func (s *scanner) fields(fn func(key string) error) error {
	return s.list('}', func() error {
		if err := s.readKey(); err != nil {
			return err
		}
		return fn(s.keyName())
	})
}

// list calls fn for each of the members separated by commas, and reads the end of the list.
func (s *scanner) list(end byte, fn func() error) error {
	b, err := s.peek()
	if err != nil {
		return err
	}
	if b == end {
		_, err = s.next()
		return err
	}
	for {
		if err := fn(); err != nil {
			return err
		}
		switch b, err := s.next(); {
		case err != nil:
			return err
		case b == end:
			return nil
		case b != ',':
			return ErrMalformed
		}
	}
}

// readKey reads the name of a field and the colon.
func (s *scanner) readKey() error {
	b, err := s.next()
	if err != nil || b != '"' {
		return orMalformed(err)
	}
	s.key.start(maxKey)
	if err := s.text(&s.key); err != nil {
		return err
	}
	if b, err = s.next(); err != nil || b != ':' {
		return orMalformed(err)
	}
	return nil
}

// keyName is the name that readKey read; empty if it is too long to be known.
func (s *scanner) keyName() string {
	if s.key.over {
		return ""
	}
	return strings.TrimSuffix(s.key.buf.String(), `"`)
}

// anyValue reads a value of any kind and keeps it. A nil sink skips it.
func (s *scanner) anyValue(to *sink, depth int) error {
	b, err := s.next()
	switch {
	case err != nil:
		return err
	case depth == maxDepth:
		return ErrMalformed
	case b == '"':
		to.add(b)
		return s.text(to)
	case b == '{':
		return s.object(to, depth)
	case b == '[':
		return s.array(to, depth)
	}
	return s.literal(b, to)
}

func (s *scanner) object(to *sink, depth int) error {
	to.add('{')
	first := true
	err := s.list('}', func() error {
		if err := s.readKey(); err != nil {
			return err
		}
		dropped, counted := s.skip[s.keyName()]
		if to == nil || dropped {
			return s.anyValue(nil, depth+1)
		}
		if !first {
			to.add(',')
		}
		first = false
		to.add('"')
		to.add(s.key.buf.Bytes()...)
		to.add(':')
		to.over = to.over || s.key.over
		if counted {
			return s.count(to, depth+1)
		}
		return s.anyValue(to, depth+1)
	})
	to.add('}')
	return err
}

// count keeps the number of the elements of a list, and null of any other value.
func (s *scanner) count(to *sink, depth int) error {
	b, err := s.peek()
	if err != nil {
		return err
	}
	if b != '[' {
		to.add([]byte("null")...)
		return s.anyValue(nil, depth)
	}
	if _, err := s.next(); err != nil {
		return err
	}
	n := 0
	err = s.list(']', func() error {
		n++
		return s.anyValue(nil, depth+1)
	})
	to.add(strconv.AppendInt(nil, int64(n), 10)...)
	return err
}

func (s *scanner) array(to *sink, depth int) error {
	to.add('[')
	first := true
	err := s.list(']', func() error {
		if !first {
			to.add(',')
		}
		first = false
		return s.anyValue(to, depth+1)
	})
	to.add(']')
	return err
}

// text reads the rest of a string, with the closing quote.
func (s *scanner) text(to *sink) error {
	open := false // an unpaired backslash precedes
	for {
		part, err := s.r.ReadSlice('"')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return cut(err)
		}
		to.add(part...)
		if err != nil {
			open = unpaired(part, open)
			continue
		}
		if !unpaired(part[:len(part)-1], open) {
			return nil
		}
		open = false // the quote belongs to the string
	}
}

// unpaired reports whether a text ends with an odd number of backslashes. open is the result for
// the text before it.
func unpaired(text []byte, open bool) bool {
	n := len(text) - len(bytes.TrimRight(text, `\`))
	return (n%2 == 1) != (open && n == len(text))
}

// literal reads a number, true, false or null.
func (s *scanner) literal(b byte, to *sink) error {
	for n := 0; ; n++ {
		if !isLiteral(b) || n == maxKey {
			return ErrMalformed
		}
		to.add(b)
		next, err := s.r.Peek(1)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil || !isLiteral(next[0]) {
			return nil
		}
		b, _ = s.r.ReadByte() // it was peeked
	}
}

func isLiteral(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b == 'E' || b == '-' || b == '+' ||
		b == '.'
}

// next reads the next byte that is not white space.
func (s *scanner) next() (byte, error) {
	for {
		b, err := s.r.ReadByte()
		if err != nil {
			return 0, cut(err)
		}
		if b != ' ' && b != '\t' && b != '\n' && b != '\r' {
			return b, nil
		}
	}
}

func (s *scanner) peek() (byte, error) {
	b, err := s.next()
	if err == nil {
		err = s.r.UnreadByte()
	}
	return b, err
}

// cut makes the end of the stream within a value an error of its own.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func orMalformed(err error) error {
	if err != nil {
		return err
	}
	return ErrMalformed
}

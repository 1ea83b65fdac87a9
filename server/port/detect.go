package port

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// maxDetection bounds the bytes that are read before the protocol of a connection is known.
	// They are kept for its server, and clients need no credentials to send them.
	maxDetection = 8 << 10
	maxFrames    = 64  // before the first request
	headerChunk  = 512 // bytes of the first request's headers that are read at once

	frameHeader = 9       // bytes
	tableBytes  = 4 << 10 // of HPACK, unless the server sets another size
)

var errDetection = errors.New("port: the client sent too much before its first request")

// detector reads a connection until its protocol is known.
type detector struct {
	*Conn
	frame   int // where the current frame starts in pending
	headers *hpack.Decoder
	found   protocol
}

type protocol int

const (
	unknown protocol = iota
	grpcProtocol
	httpProtocol
)

// detect reports whether the connection is gRPC. All bytes that it has read, except pings, are
// pending. until returns the end of the wait for the first request.
func (c *Conn) detect(until func() time.Time) (isGRPC bool, err error) {
	d := &detector{Conn: c}
	if isHTTP2, err := d.preface(); err != nil || !isHTTP2 {
		return false, err
	}
	if err := c.writeFrame(http2.FrameSettings, 0, nil); err != nil {
		return false, err
	}
	c.awaitsAck = true
	if err := c.SetReadDeadline(until()); err != nil {
		return false, err
	}
	err = d.firstRequest()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		d.found, err = grpcProtocol, nil // a client that keeps a connection ready
	}
	d.suspend()
	return d.found == grpcProtocol, err
}

// preface reads until it is known whether the client has sent the preface of HTTP/2.
func (d *detector) preface() (bool, error) {
	for len(d.pending) < len(http2.ClientPreface) {
		if err := d.readSome(len(http2.ClientPreface) - len(d.pending)); err != nil {
			return false, err
		}
		if !strings.HasPrefix(http2.ClientPreface, string(d.pending)) {
			return false, nil
		}
	}
	return true, nil
}

// firstRequest reads frames up to the headers that reveal the protocol.
func (d *detector) firstRequest() error {
	for range maxFrames {
		d.frame = len(d.pending)
		if err := d.read(frameHeader); err != nil {
			return err
		}
		head := [frameHeader]byte(d.pending[d.frame:])
		if err := d.nextFrame(head[:]); err != nil || d.found != unknown {
			return err
		}
	}
	d.found = grpcProtocol
	return nil
}

func (d *detector) nextFrame(head []byte) error {
	size := length(head)
	switch kind := http2.FrameType(head[3]); {
	case kind == http2.FrameHeaders, kind == http2.FrameContinuation && d.headers != nil:
		return d.readHeaders(kind, http2.Flags(head[4]), size)
	case kind == http2.FramePing && size == 8 && !http2.Flags(head[4]).Has(http2.FlagPingAck):
		return d.answerPing()
	case kind == http2.FrameSettings, kind == http2.FrameWindowUpdate,
		kind == http2.FramePriority, kind > http2.FrameContinuation:
		if err := d.read(size); err != nil {
			return err
		}
		if d.awaitsAck && isAck(head) {
			d.awaitsAck, d.pending = false, d.pending[:d.frame]
		}
		return nil
	}
	d.found = grpcProtocol // whose server rejects the frame
	return nil
}

// answerPing answers a ping and drops it. Proxies ping a connection before they use it.
func (d *detector) answerPing() error {
	if err := d.read(8); err != nil {
		return err
	}
	payload := d.pending[d.frame+frameHeader:]
	err := d.writeFrame(http2.FramePing, http2.FlagPingAck, payload)
	d.pending = d.pending[:d.frame]
	return err
}

// readHeaders decodes headers until they reveal the protocol.
func (d *detector) readHeaders(kind http2.FrameType, flags http2.Flags, size int) error {
	if d.headers == nil {
		d.headers = hpack.NewDecoder(tableBytes, d.see)
	}
	padding := 0
	if kind == http2.FrameHeaders {
		before := 0
		if flags.Has(http2.FlagHeadersPadded) {
			before++
		}
		if flags.Has(http2.FlagHeadersPriority) {
			before += 5
		}
		if size < before {
			d.found = httpProtocol // whose server rejects the frame
			return nil
		}
		if err := d.read(before); err != nil {
			return err
		}
		if flags.Has(http2.FlagHeadersPadded) {
			padding = int(d.pending[d.frame+frameHeader])
		}
		size -= before
	}
	if size -= padding; size < 0 {
		d.found = httpProtocol // likewise
		return nil
	}
	for size > 0 && d.found == unknown {
		next := min(size, headerChunk)
		if err := d.read(next); errors.Is(err, errDetection) {
			d.found = httpProtocol // which transcodes gRPC as well
			return nil
		} else if err != nil {
			return err
		}
		if _, err := d.headers.Write(d.pending[len(d.pending)-next:]); err != nil {
			return err
		}
		size -= next
	}
	if d.found == unknown && flags.Has(http2.FlagHeadersEndHeaders) {
		d.found = httpProtocol
	}
	if d.found != unknown {
		return nil
	}
	return d.read(padding)
}

// see decides by one header field of the first request.
func (d *detector) see(f hpack.HeaderField) {
	switch {
	case d.found != unknown:
	case f.Name == ":method" && f.Value != "POST":
		d.found = httpProtocol
	case f.Name == "content-type":
		d.found = httpProtocol
		rest, found := strings.CutPrefix(f.Value, "application/grpc")
		if found && (rest == "" || rest[0] == '+' || rest[0] == ';') {
			d.found = grpcProtocol
		}
	}
}

// suspend records the part of the current frame that was read, for Conn.Read.
func (d *detector) suspend() {
	if !d.awaitsAck || d.frame == 0 {
		return
	}
	read := d.pending[d.frame:]
	if len(read) < frameHeader {
		d.head, d.pending = bytes.Clone(read), d.pending[:d.frame]
		return
	}
	d.rest = length(read) - (len(read) - frameHeader)
}

// read appends n bytes of the connection to pending.
func (d *detector) read(n int) error {
	if len(d.pending)+n > maxDetection {
		return errDetection
	}
	for end := len(d.pending) + n; len(d.pending) < end; {
		if err := d.readSome(end - len(d.pending)); err != nil {
			return err
		}
	}
	return nil
}

// readSome appends the bytes of one read, at most n.
func (d *detector) readSome(n int) error {
	start := len(d.pending)
	d.pending = append(d.pending, make([]byte, n)...)
	read, err := d.Conn.Conn.Read(d.pending[start:])
	if d.pending = d.pending[:start+read]; read > 0 {
		return nil
	}
	return err
}

// writeFrame writes a frame of the whole connection.
func (c *Conn) writeFrame(kind http2.FrameType, flags http2.Flags, payload []byte) error {
	head := [frameHeader]byte{2: byte(len(payload)), 3: byte(kind), 4: byte(flags)}
	_, err := c.Conn.Write(append(head[:], payload...))
	return err
}

func length(head []byte) int { return int(head[0])<<16 | int(head[1])<<8 | int(head[2]) }

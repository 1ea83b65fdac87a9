package port

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/credentials"
)

const (
	frameHeader = 9 // bytes
	// that of HTTP/2 unless somebody says otherwise, and nobody has; the framer takes 16 MiB by
	// itself
	maxFrame      = 16 << 10
	maxHeaderList = 64 << 10 // of the first request; more is left to the server that gets it
	maxFrames     = 64       // before the first request
)

// Conn is a connection whose first bytes were read, and are read again by whoever gets it.
type Conn struct {
	net.Conn
	auth credentials.AuthInfo

	pending []byte // read, and to be read again
	// Until the acknowledgement of our settings was taken out: the head of the next frame as far as
	// it was read, and what is left of the one before.
	awaitsAck bool
	head      []byte
	rest      int
}

// AuthInfo is what the handshake of the credentials gave; nil without credentials.
func (c *Conn) AuthInfo() credentials.AuthInfo { return c.auth }

// Read reads what was read before, then the rest.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		switch {
		case len(p) == 0:
			return 0, nil
		case len(c.pending) > 0:
			n := copy(p, c.pending)
			c.pending = c.pending[n:]
			return n, nil
		case !c.awaitsAck:
			return c.Conn.Read(p)
		case c.rest > 0:
			n, err := c.Conn.Read(p[:min(len(p), c.rest)])
			c.rest -= n
			return n, err
		}
		if err := c.nextFrame(); err != nil {
			return 0, err
		}
	}
}

// nextFrame reads the head of a frame, and passes it on unless it is the acknowledgement. A read
// that is broken off goes on where it was.
func (c *Conn) nextFrame() error {
	for len(c.head) < frameHeader {
		var more [frameHeader]byte
		n, err := c.Conn.Read(more[:frameHeader-len(c.head)])
		if c.head = append(c.head, more[:n]...); err != nil && len(c.head) < frameHeader {
			return err
		}
	}
	head := c.head
	c.head = nil
	if isAck(head) {
		c.awaitsAck = false
		return nil
	}
	c.pending, c.rest = head, length(head)
	return nil
}

func isAck(head []byte) bool {
	return http2.FrameType(head[3]) == http2.FrameSettings &&
		http2.Flags(head[4]).Has(http2.FlagSettingsAck)
}

// SyscallConn gives the socket to whoever wants to set or read an option of it.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// sniff tells whether the connection is one of gRPC, and leaves all that it read to be read again.
// until is when the wait for the first request ends.
func (c *Conn) sniff(until func() time.Time) (isGRPC bool, err error) {
	record := &recorder{from: c.Conn}
	defer func() { c.pending = record.bytes }()
	if isHTTP2, err := record.preface(); err != nil || !isHTTP2 {
		return false, err
	}
	framer := http2.NewFramer(c.Conn, record)
	framer.SetMaxReadFrameSize(maxFrame) // what is read here is kept, and it is of strangers
	if err := framer.WriteSettings(); err != nil {
		return false, err
	}
	c.awaitsAck = true
	if err := c.SetReadDeadline(until()); err != nil {
		return false, err
	}
	return c.firstRequest(framer, record)
}

// firstRequest reads frames up to the first request.
func (c *Conn) firstRequest(framer *http2.Framer, record *recorder) (isGRPC bool, err error) {
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.MaxHeaderListSize = maxHeaderList
	for range maxFrames {
		start := len(record.bytes)
		frame, err := framer.ReadFrame()
		var wrong http2.StreamError
		if errors.As(err, &wrong) {
			return false, nil // a request that is none: net/http says so
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.breakOff(record, start)
			return true, nil
		}
		if err != nil {
			return false, err
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() && c.awaitsAck {
				c.awaitsAck, record.bytes = false, record.bytes[:start]
			}
		case *http2.MetaHeadersFrame:
			return isGRPCType(f), nil
		// of a proxy that looks whether the connection is good, for whatever comes after
		case *http2.PingFrame:
			if err := framer.WritePing(true, f.Data); err != nil {
				return false, err
			}
			record.bytes = record.bytes[:start]
		case *http2.WindowUpdateFrame, *http2.PriorityFrame, *http2.UnknownFrame:
		default:
			return true, nil
		}
	}
	return true, nil
}

// breakOff notes how much of a frame that begins at start was read.
func (c *Conn) breakOff(record *recorder, start int) {
	read := record.bytes[start:]
	if len(read) < frameHeader {
		c.head, record.bytes = bytes.Clone(read), record.bytes[:start]
		return
	}
	c.rest = length(read) - (len(read) - frameHeader)
}

func length(head []byte) int { return int(head[0])<<16 | int(head[1])<<8 | int(head[2]) }

func isGRPCType(f *http2.MetaHeadersFrame) bool {
	for _, field := range f.RegularFields() {
		if field.Name == "content-type" {
			rest, found := strings.CutPrefix(field.Value, "application/grpc")
			return found && (rest == "" || rest[0] == '+' || rest[0] == ';')
		}
	}
	return false
}

// recorder keeps what is read through it.
type recorder struct {
	from  io.Reader
	bytes []byte
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.bytes = append(r.bytes, p[:n]...)
	return n, err
}

// preface reads as far as it takes to tell whether there is the preface of HTTP/2.
func (r *recorder) preface() (bool, error) {
	var buffer [len(http2.ClientPreface)]byte
	for len(r.bytes) < len(http2.ClientPreface) {
		if _, err := r.Read(buffer[:len(http2.ClientPreface)-len(r.bytes)]); err != nil {
			return false, err
		}
		if !bytes.HasPrefix([]byte(http2.ClientPreface), r.bytes) {
			return false, nil
		}
	}
	return true, nil
}

// Received are the credentials of a server whose connections come out of a Split: what they say was
// found out there.
type Received struct {
	credentials.TransportCredentials
}

// ServerHandshake passes on what the handshake gave.
func (Received) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	// a *Conn, or what holds one
	received, ok := conn.(interface{ AuthInfo() credentials.AuthInfo })
	if !ok || received.AuthInfo() == nil {
		return nil, nil, errors.New("port: the connection went through no handshake")
	}
	return conn, received.AuthInfo(), nil
}

// Clone returns the same: there is nothing in it that changes.
func (r Received) Clone() credentials.TransportCredentials { return r }

// ClientHandshake is not for servers.
func (Received) ClientHandshake(context.Context, string,
	net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("port: these are the credentials of a server")
}

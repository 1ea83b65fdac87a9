package port

import (
	"context"
	"errors"
	"net"
	"syscall"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"
)

// Conn is a connection whose protocol was detected. Read returns the bytes that this took first.
type Conn struct {
	net.Conn
	socket net.Conn // below the encryption
	auth   credentials.AuthInfo

	pending []byte // already read from Conn, and next to be read by the server
	// Until the acknowledgement of our settings is removed from the stream: the part of the next
	// frame header that was read, and the unread bytes of the frame before it.
	awaitsAck bool
	head      []byte
	rest      int
}

// AuthInfo returns the result of the handshake; nil without credentials.
func (c *Conn) AuthInfo() credentials.AuthInfo { return c.auth }

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		switch {
		case len(p) == 0:
			return 0, nil
		case len(c.pending) > 0:
			n := copy(p, c.pending)
			if c.pending = c.pending[n:]; len(c.pending) == 0 {
				c.pending = nil // the connection may live long
			}
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

// nextFrame reads the header of a frame, and passes it on unless it is the acknowledgement. An
// interrupted read resumes where it stopped.
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

// Socket returns the connection that the listener accepted, below the encryption.
func (c *Conn) Socket() net.Conn { return c.socket }

// SyscallConn returns the socket, for its options.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.socket.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Received are the credentials of a server behind a Split, which has done the handshake.
type Received struct {
	credentials.TransportCredentials
}

// ServerHandshake returns the result of the handshake of the Split.
func (Received) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	// a *Conn, or a type that embeds one
	received, ok := conn.(interface{ AuthInfo() credentials.AuthInfo })
	if !ok || received.AuthInfo() == nil {
		return nil, nil, errors.New("port: the connection went through no handshake")
	}
	return conn, received.AuthInfo(), nil
}

// Clone implements credentials.TransportCredentials.
func (r Received) Clone() credentials.TransportCredentials { return r }

// ClientHandshake fails: these are credentials of a server.
func (Received) ClientHandshake(context.Context, string,
	net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("port: these are the credentials of a server")
}

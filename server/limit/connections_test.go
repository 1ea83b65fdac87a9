package limit

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// fakeConn is a connection from an address that a test names.
type fakeConn struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return c.from }
func (c *fakeConn) Close() error         { c.closed = true; return nil }

func from(ip string) *fakeConn {
	return &fakeConn{from: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}}
}

func TestConnections(t *testing.T) {
	t.Parallel()
	t.Run("one source has a limit of its own", func(t *testing.T) {
		t.Parallel()
		var reasons []string
		c := NewConnections(10, 2, func(reason string) { reasons = append(reasons, reason) })
		for range 2 {
			c.add(from("192.0.2.1")).Prove()
		}
		if c.add(from("192.0.2.1")) != nil || c.add(from("192.0.2.2")) == nil {
			t.Error("want the third of the first source closed, and room for the second source")
		}
		if !slices.Equal(reasons, []string{ReasonSourceFull}) {
			t.Errorf("reasons %v", reasons)
		}
	})
	t.Run("a /64 of IPv6 is one source", func(t *testing.T) {
		t.Parallel()
		c := NewConnections(10, 1, func(string) {})
		c.add(from("2001:db8::1")).Prove()
		if c.add(from("2001:db8::2")) != nil {
			t.Error("a neighbour in the /64 found room")
		}
		if c.add(from("2001:db8:0:1::1")) == nil {
			t.Error("another /64 found no room")
		}
	})
	t.Run("a full node evicts the oldest stranger of the most crowded source", func(t *testing.T) {
		t.Parallel()
		var reasons []string
		c := NewConnections(4, 4, func(reason string) { reasons = append(reasons, reason) })
		proven, single := from("192.0.2.1"), from("192.0.2.2")
		first, second := from("192.0.2.3"), from("192.0.2.3")
		c.add(proven).Prove()
		for _, conn := range []*fakeConn{single, first, second} {
			c.add(conn)
		}
		if c.add(from("192.0.2.4")) == nil || !first.closed {
			t.Error("want room at the expense of the oldest stranger of the most crowded source")
		}
		if proven.closed || single.closed || second.closed || c.Open() != 4 {
			t.Errorf("others were closed, or %d open", c.Open())
		}
		if !slices.Equal(reasons, []string{ReasonEvicted}) {
			t.Errorf("reasons %v", reasons)
		}
	})
	t.Run("a node full of clients closes the new connection", func(t *testing.T) {
		t.Parallel()
		c := NewConnections(2, 2, func(string) {})
		c.add(from("192.0.2.1")).Prove()
		c.add(from("192.0.2.2")).Prove()
		late := from("192.0.2.3")
		if c.add(late) != nil || !late.closed || c.Open() != 2 {
			t.Error("a connection beyond the limit stays open")
		}
	})
	t.Run("a closed connection makes room once", func(t *testing.T) {
		t.Parallel()
		c := NewConnections(1, 1, func(string) {})
		one := c.add(from("192.0.2.1"))
		one.Close()
		one.Close()
		one.Prove()
		if c.Open() != 0 || len(c.sources) != 0 {
			t.Errorf("%d open, sources %v", c.Open(), c.sources)
		}
	})
}

// TestConnections_AnyOrder_StaysInBounds compares the counts with the open connections.
func TestConnections_AnyOrder_StaysInBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := NewConnections(8, 4, func(string) {})
		var all []*Connection
		t.Repeat(map[string]func(*rapid.T){
			"connect": func(t *rapid.T) {
				ip := fmt.Sprintf("192.0.2.%d", rapid.IntRange(1, 5).Draw(t, "host"))
				if conn := c.add(from(ip)); conn != nil {
					all = append(all, conn)
				}
			},
			"prove": func(t *rapid.T) {
				if len(all) > 0 {
					rapid.SampledFrom(all).Draw(t, "conn").Prove()
				}
			},
			"close": func(t *rapid.T) {
				if len(all) > 0 {
					_ = rapid.SampledFrom(all).Draw(t, "conn").Close()
				}
			},
			"": func(t *rapid.T) {
				open, bySource := 0, map[string]int{}
				for _, conn := range all {
					if !conn.Conn.(*fakeConn).closed {
						open++
						bySource[conn.source.String()]++
					} else if conn.proven.Load() && !conn.removed {
						t.Fatal("a proven connection was evicted")
					}
				}
				if open != c.Open() || open > 8 {
					t.Fatalf("%d open, %d counted", open, c.Open())
				}
				for source, n := range bySource {
					if n > 4 {
						t.Fatalf("%d connections of %s", n, source)
					}
				}
			},
		})
	})
}

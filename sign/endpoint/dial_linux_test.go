package endpoint

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A peer that vanishes does not keep its connection for longer than deadPeer.
func TestDial_LimitsUnacknowledged(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	limit := 0
	failed := raw.Control(func(fd uintptr) {
		limit, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	})
	if failed != nil || err != nil || limit != int(deadPeer.Milliseconds()) {
		t.Errorf("limit is %d ms, %v, %v", limit, failed, err)
	}
}

package endpoint

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func limitUnacknowledged(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		// A connection without the limit works too.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
			int(deadPeer.Milliseconds()))
	})
}

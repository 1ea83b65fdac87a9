package chain

import (
	"context"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// heldPort reserves a loopback port without listening at it. Under load another process may take a
// released port before a stopped node is restarted. The reservation is a bound socket that never
// listens, so connections are refused as by a stopped process. Sockets that share the port must all
// set the option for it, which no other program does.
type heldPort struct{ addr string }

func holdPort(t *testing.T) heldPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(os.NewSyscallError("socket", err))
	}
	unix.CloseOnExec(fd)
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := shared(fd); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(os.NewSyscallError("bind", err))
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(os.NewSyscallError("getsockname", err))
	}
	return heldPort{net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*unix.SockaddrInet4).Port))}
}

// listen listens at the port, which stays reserved when the listener is closed.
func (p heldPort) listen(t *testing.T) net.Listener {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) { err = shared(int(fd)) })
		if failed != nil {
			return failed
		}
		return err
	}}
	l, err := config.Listen(context.Background(), "tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func shared(fd int) error {
	return os.NewSyscallError("setsockopt SO_REUSEPORT",
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
}

// While it does not listen, no other socket gets the port, by number or as a free one, and
// connections are refused.
func TestHoldPort_PortStaysReserved(t *testing.T) {
	t.Parallel()
	p := holdPort(t)
	for round := range 3 {
		l := p.listen(t)
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		_ = conn.Close()
		_ = l.Close()
		if conn, err := net.Dial("tcp", p.addr); err == nil {
			_ = conn.Close()
			t.Fatalf("round %d: somebody answers", round)
		}
		if l, err := net.Listen("tcp", p.addr); err == nil {
			_ = l.Close()
			t.Fatalf("round %d: somebody else got it", round)
		}
		from := net.Dialer{LocalAddr: tcpAddr(t, p.addr)}
		if conn, err := from.Dial("tcp", p.addr); err == nil {
			_ = conn.Close()
			t.Fatalf("round %d: a connection began at it", round)
		}
	}
}

func tcpAddr(t *testing.T, addr string) *net.TCPAddr {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

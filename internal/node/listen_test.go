package node

import (
	"errors"
	"syscall"
	"testing"
)

func TestListen_PortTaken_NamesAddressOnce(t *testing.T) {
	t.Parallel()
	taken, err := listen("grpc.listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at := taken.Addr().String()
	_, err = listen("ops.listen", at)
	want := "ops.listen: cannot listen on " + at + ": address already in use; free the port, or " +
		"configure another"
	if err == nil || err.Error() != want || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v, want %s", err, want)
	}
}

package jsonrpc

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func TestDialWS_EndlessHeaders_Rejected(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, err = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n"))
		line := bytes.Repeat([]byte("X-Filler: "+strings.Repeat("a", 1000)+"\r\n"), 64)
		for err == nil {
			_, err = conn.Write(line)
		}
	}()
	_, err = DialWS(t.Context(), "ws://"+l.Addr().String(), time.Second, Options{MaxWire: 1 << 20})
	var tooLarge *TooLargeError
	if !errors.As(err, &tooLarge) {
		t.Errorf("error %v, want a TooLargeError", err)
	}
}

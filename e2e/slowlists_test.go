package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/metadata"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

const (
	// slowListBound is how much the memory of a node may grow while slowLists lists wait for
	// clients that read a byte a second.
	slowListBound = 100 << 20
	slowLists     = 300
)

// TestLists_ReadSlowly_MemoryBounded reads hundreds of long lists a byte a second, as one of two
// callers. The memory of the node stays bounded, and the other caller is served.
func TestLists_ReadSlowly_MemoryBounded(t *testing.T) {
	for name, attack := range map[string]func(t *testing.T, n *node, token string){
		"HTTP/1.1":            slowHTTP1,
		"HTTP/2, small steps": slowHTTP2,
	} {
		t.Run(name, func(t *testing.T) {
			c := embedded(t, time.Second, 2)
			n := prepareNode(t, c, nodeOptions{confirmations: 1, poll: time.Second},
				freshDatabase(t))
			tokens := map[string]string{
				"greedy": "greedy-0123456789abcdef", "shop": "shop-0123456789abcdef",
			}
			list := ""
			for caller, token := range tokens {
				file := filepath.Join(n.dir, caller)
				writeFile(t, file, token+"\n")
				list += fmt.Sprintf("  - {name: %s, tokens_file: %q, submitters: [\"*\"], "+
					"role: operator}\n", caller, file)
			}
			n.edit(t, "\nops:", "\ncallers:\n"+list+"ops:")
			n.migrate(t)
			n.start(t)
			shop := metadata.AppendToOutgoingContext(t.Context(),
				"authorization", "Bearer "+tokens["shop"])
			n.fillQueue(t, shop)
			for range 20 { // the heap gets its usual size
				n.listOnce(t, tokens["shop"])
			}
			before := n.resident(t)
			attack(t, n, tokens["greedy"])
			most, served := before, 0
			for i := range 20 {
				if code := n.listOnce(t, tokens["shop"]); code == http.StatusOK {
					served++
				}
				limited, cancel := context.WithTimeout(shop, 5*time.Second)
				if _, err := n.CreateTx(limited, &fencepostv1.CreateTxRequest{
					Submitter: "s01", RequestId: fmt.Sprint("honest-", i), Payload: transfer,
				}); err != nil {
					t.Errorf("another caller: %v", err)
				}
				cancel()
				most = max(most, n.resident(t))
			}
			t.Logf("resident memory: %d MB before, at most %d MB during; %d of 20 lists of "+
				"another caller were served", before>>20, most>>20, served)
			if most-before > slowListBound {
				t.Errorf("memory grew by %d MB; want at most %d MB",
					(most-before)>>20, slowListBound>>20)
			}
			if served < 20 {
				t.Errorf("%d of 20 lists of another caller were served", served)
			}
		})
	}
}

// fillQueue queues transactions that make the longest page of a list.
func (n *node) fillQueue(t *testing.T, ctx context.Context) {
	t.Helper()
	for i := range 24 {
		if _, err := n.CreateTx(ctx, &fencepostv1.CreateTxRequest{
			Submitter: "s00", RequestId: fmt.Sprint(i),
			Payload: &fencepostv1.Payload{
				To: "0x00000000000000000000000000000000000000bb", Data: make([]byte, 120<<10),
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
}

const listPath = "/api/v1/tx?page_size=1000"

// listOnce reads a page of the list.
func (n *node) listOnce(t *testing.T, token string) (code int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.addr+listPath,
		nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

// slowHTTP1 sends each call over a connection of its own, which has a small window.
func slowHTTP1(t *testing.T, n *node, token string) {
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
		})
	}}
	for range slowLists {
		conn, err := dialer.DialContext(t.Context(), "tcp", n.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n"+
			"Authorization: Bearer %s\r\n\r\n", listPath, token); err != nil {
			t.Fatal(err)
		}
		readSlowly(t, conn)
	}
}

// slowHTTP2 sends the calls over few connections, whose streams get a byte of window a second.
func slowHTTP2(t *testing.T, n *node, token string) {
	const connections = 10
	for range connections {
		s := n.stranger(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		for id := range slowLists / connections {
			if err := s.WriteHeaders(http2.HeadersFrameParam{
				StreamID: uint32(2*id + 1), EndStream: true, EndHeaders: true,
				BlockFragment: headers("GET", listPath, "application/json",
					hpack.HeaderField{Name: "authorization", Value: "Bearer " + token}),
			}); err != nil {
				t.Fatal(err)
			}
		}
		slowly(t, func() error {
			for id := range slowLists / connections {
				if err := s.WriteWindowUpdate(uint32(2*id+1), 1); err != nil {
					return err
				}
			}
			return nil
		})
	}
	eventually(t, time.Minute, "the slow caller exceeds its share", func() error {
		if n.counter(t, "fencepost_caller_refusals_total", `caller="greedy"`) == 0 {
			return errNotYet
		}
		return nil
	})
}

// readSlowly reads the status of the response, which must be 200, and the rest a byte a second.
func readSlowly(t *testing.T, conn net.Conn) {
	t.Helper()
	const ok = "HTTP/1.1 200"
	one, status := make([]byte, 1), make([]byte, len(ok))
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadFull(conn, status); err != nil || string(status) != ok {
		t.Fatalf("the slow caller got %q, %v", status, err)
	}
	slowly(t, func() error {
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := conn.Read(one); !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		return nil
	})
}

// slowly takes a step each second, until the test ends or a step fails.
func slowly(t *testing.T, step func() error) {
	ended := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for step() == nil {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { <-ended })
}

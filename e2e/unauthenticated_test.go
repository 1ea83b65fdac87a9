package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// memoryBound is how much the memory of a node may grow under an attack without credentials.
const memoryBound = 30 << 20

// TestUnauthenticated_MemoryBounded attacks a node that requires tokens with connections that have
// none, and bounds the memory of its process.
func TestUnauthenticated_MemoryBounded(t *testing.T) {
	for name, attack := range map[string]func(*testing.T, *node){
		"rejected calls with a zero window": zeroWindow(3, 10_000),
		"many connections, zero window":     zeroWindow(20, 250),
		"frames before the first request":   framesBeforeRequest,
		"many small frames":                 smallFrames,
		"large headers before the request":  longHeaders,
	} {
		t.Run(name, func(t *testing.T) {
			c := embedded(t, time.Second, 1)
			n := newNode(t, c, nodeOptions{
				confirmations: 1, poll: time.Second,
				secure: secure{tokens: writeToken(t, t.TempDir())},
			})
			n.warmUp(t)
			before := n.resident(t)
			attack(t, n)
			after := n.resident(t)
			t.Logf("resident memory: %d MB before, %d MB after", before>>20, after>>20)
			if after-before > memoryBound {
				t.Errorf("memory grew by %d MB; want at most %d MB",
					(after-before)>>20, memoryBound>>20)
			}
			if code, _ := n.secureCurl(false, "/api/v1/submitters",
				"--header", "Authorization: Bearer "+token); code != "200" {
				t.Errorf("an authenticated call gets %q", code)
			}
		})
	}
}

// TestHost_OtherName_Rejected: a web page whose name resolves to the node reads nothing of it.
func TestHost_OtherName_Rejected(t *testing.T) {
	t.Parallel()
	n := newNode(t, embedded(t, time.Second, 1), nodeOptions{confirmations: 1, poll: time.Second})
	for _, url := range []string{
		"http://" + n.addr + "/api/v1/submitters", "http://" + n.ops + "/metrics",
		"http://" + n.ops + "/readyz",
	} {
		for host, want := range map[string]int{
			"": http.StatusOK, "localhost": http.StatusOK,
			"evil.example": http.StatusMisdirectedRequest,
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if _ = response.Body.Close(); response.StatusCode != want {
				t.Errorf("%s as %q: %s, want %d", url, host, response.Status, want)
			}
		}
	}
}

// warmUp makes calls until the heap of the process has its usual size.
func (n *node) warmUp(t *testing.T) {
	t.Helper()
	for range 20 {
		n.secureCurl(false, "/api/v1/submitters", "--header", "Authorization: Bearer "+token)
	}
}

// resident returns the resident memory of the process, in bytes.
func (n *node) resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.proc.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kilobytes, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	t.Fatal("the process has no VmRSS")
	return 0
}

// stranger is a connection without credentials that writes HTTP/2 frames.
type stranger struct {
	net.Conn
	*http2.Framer
	ended chan struct{}
	acks  chan [8]byte
}

func (n *node) stranger(t *testing.T, settings ...http2.Setting) *stranger {
	t.Helper()
	conn, err := net.Dial("tcp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &stranger{Conn: conn, Framer: http2.NewFramer(conn, conn), ended: make(chan struct{}),
		acks: make(chan [8]byte, 1)}
	t.Cleanup(func() { _ = conn.Close(); <-s.ended })
	_, _ = io.WriteString(conn, http2.ClientPreface) // the node may close at any time
	_ = s.WriteSettings(settings...)
	go s.read()
	return s
}

// read discards all frames of the node, except the responses to pings.
func (s *stranger) read() {
	defer close(s.ended)
	for {
		frame, err := s.ReadFrame()
		if err != nil && !isStreamError(err) {
			return
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
			select {
			case s.acks <- ping.Data:
			default:
			}
		}
	}
}

func isStreamError(err error) bool {
	_, ok := err.(http2.StreamError)
	return ok
}

// settle waits until the node has processed all frames, or has closed the connection.
func (s *stranger) settle(t *testing.T) {
	t.Helper()
	_ = s.WritePing(false, [8]byte{1})
	select {
	case <-s.acks:
	case <-s.ended:
	case <-time.After(time.Minute):
		t.Fatal("the node does not respond to a ping")
	}
}

// zeroWindow opens streams whose responses have no room in the client's window.
func zeroWindow(connections, streams int) func(*testing.T, *node) {
	return func(t *testing.T, n *node) {
		var all []*stranger
		for range connections {
			s := n.stranger(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			block := headers("GET", "/api/v1/submitters", "application/json")
			for id := range streams {
				err := s.WriteHeaders(http2.HeadersFrameParam{
					StreamID: uint32(2*id + 1), BlockFragment: block,
					EndStream: true, EndHeaders: true,
				})
				if err != nil {
					break
				}
			}
			all = append(all, s)
		}
		for _, s := range all {
			s.settle(t)
		}
	}
}

// headers encodes a request without a dynamic table.
func headers(method, path, contentType string, more ...hpack.HeaderField) []byte {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSizeLimit(0)
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: method}, {Name: ":scheme", Value: "http"},
		{Name: ":authority", Value: "localhost"}, {Name: ":path", Value: path},
		{Name: "content-type", Value: contentType},
	}, more...) {
		_ = e.WriteField(f) // into memory
	}
	return block.Bytes()
}

// preRequest opens connections that send frames, then a call.
func preRequest(t *testing.T, n *node, send func(*stranger)) {
	t.Helper()
	var all []*stranger
	for range 500 {
		s := n.stranger(t)
		send(s)
		_ = s.WriteHeaders(http2.HeadersFrameParam{
			StreamID:      1,
			BlockFragment: headers("POST", "/fencepost.v1.TxService/GetTx", "application/grpc"),
			EndHeaders:    true,
		})
		all = append(all, s)
	}
	for _, s := range all {
		s.settle(t)
	}
}

func framesBeforeRequest(t *testing.T, n *node) {
	const unknown = 0x42
	preRequest(t, n, func(s *stranger) {
		for range 60 {
			_ = s.WriteRawFrame(unknown, 0, 0, make([]byte, 16<<10))
		}
	})
}

func smallFrames(t *testing.T, n *node) {
	preRequest(t, n, func(s *stranger) {
		for range 100 {
			_ = s.WriteWindowUpdate(0, 1)
		}
	})
}

func longHeaders(t *testing.T, n *node) {
	preRequest(t, n, func(s *stranger) {
		block := headers("POST", "/fencepost.v1.TxService/GetTx", "application/grpc",
			hpack.HeaderField{Name: "x", Value: strings.Repeat("\x01", 60<<10)})
		_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:16<<10]})
		_ = s.WriteContinuation(1, false, block[16<<10:32<<10])
		_ = s.WriteContinuation(1, true, block[32<<10:])
	})
}

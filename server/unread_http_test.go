package server

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/limit"
)

// A client whose window has no room for the response keeps the slot of the call until it opens the
// window or ends the stream.
func TestUnreadResponse_OverHTTP_KeepsSlot(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	conn, err := net.Dial("tcp", n.conn.Target())
	h.must(err)
	framer := http2.NewFramer(conn, conn)
	var reading sync.WaitGroup
	t.Cleanup(func() { conn.Close(); reading.Wait() })
	_, err = io.WriteString(conn, http2.ClientPreface)
	h.must(err)
	h.must(framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize}))
	reading.Go(func() { _, _ = io.Copy(io.Discard, conn) })
	const reset, read = 1, 3
	for _, stream := range []uint32{reset, read} {
		var block bytes.Buffer
		e := hpack.NewEncoder(&block)
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"},
			{":authority", "localhost"}, {":path", "/api/v1/submitters/alice?unknown=1"}} {
			h.must(e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
		}
		h.must(framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: stream, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
		}))
	}
	h.eventually("two responses wait", func() bool { return n.server.limiter.Calls() == 2 })
	h.must(framer.WriteRSTStream(reset, http2.ErrCodeCancel))
	h.eventually("the ended stream releases its slot",
		func() bool { return n.server.limiter.Calls() == 1 })
	h.must(framer.WriteWindowUpdate(read, 1<<20))
	h.eventually("the response that was read releases its slot",
		func() bool { return n.server.limiter.Calls() == 0 })
}

// A stranger that reads none of its responses leaves room for those to other addresses.
func TestRejected_UnreadByOneAddress_OthersServed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(func(o *Options) { o.Tokens = []string{"only-for-tests-0123456789"} })
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	conn, err := dialer.DialContext(h.ctx, "tcp", n.conn.Target())
	h.must(err)
	framer := http2.NewFramer(conn, conn)
	var reading sync.WaitGroup
	t.Cleanup(func() { conn.Close(); reading.Wait() })
	_, err = io.WriteString(conn, http2.ClientPreface)
	h.must(err)
	h.must(framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize}))
	var responses atomic.Int64
	reading.Go(func() {
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			if _, ok := frame.(*http2.HeadersFrame); ok {
				responses.Add(1)
			}
		}
	})
	for i := range uint32(200) {
		var block bytes.Buffer
		e := hpack.NewEncoder(&block)
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"},
			{":authority", "localhost"}, {":path", "/api/v1/submitters"}} {
			h.must(e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
		}
		h.must(framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 2*i + 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
		}))
	}
	h.eventually("its responses wait", func() bool { return responses.Load() >= 50 })
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	r, err := (&http.Client{Transport: transport}).Get(
		"http://" + n.conn.Target() + "/api/v1/submitters")
	h.must(err)
	defer r.Body.Close()
	if r.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d, want 401", r.StatusCode)
	}
}

// TestRejectedBurst_EachHasReason: many rejected calls at once wait for room rather than lose their
// responses.
func TestRejectedBurst_EachHasReason(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(func(o *Options) { o.Tokens = []string{"only-for-tests-0123456789"} })
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	var calls sync.WaitGroup
	for range maxHTTPStreams {
		calls.Go(func() {
			r, err := client.Get("http://" + n.conn.Target() + "/api/v1/submitters")
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			text, err := io.ReadAll(r.Body)
			if err != nil || r.StatusCode != http.StatusUnauthorized ||
				!strings.Contains(string(text), "UNAUTHENTICATED") {
				t.Errorf("%d %s (%v)", r.StatusCode, text, err)
			}
		})
	}
	calls.Wait()
}

// TestHTTPWatch_Unread_Closed: a watcher that takes no message for as long as a call may take
// loses its connection.
func TestHTTPWatch_Unread_Closed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(limits(func(l *Limits) {
		l.PingAfter = 100 * time.Millisecond
		l.Answer = time.Second
		l.CommandWait = 100 * time.Millisecond
	}))
	n.fillPage()
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
		})
	}}
	conn, err := dialer.DialContext(h.ctx, "tcp", n.conn.Target())
	h.must(err)
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	h.must(err)
	_, err = conn.Read(make([]byte, 1))
	h.must(err)
	if n.server.limiter.Watches() != 1 {
		t.Fatal("the watch is not in progress")
	}
	h.eventually("the watch ends", func() bool { return n.server.limiter.Watches() == 0 })
}

// TestRejectedByBusyNode_UnreadByOneCaller_OthersAnswered: behind a proxy all callers have one
// address. One that reads none of its responses leaves room for those to others.
func TestRejectedByBusyNode_UnreadByOneCaller_OthersAnswered(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n, _, _ := twoCallers(h, limits(func(l *Limits) { l.Calls = limit.HeavyCall }))
	for _, caller := range []string{"greedy", "shop"} {
		for {
			if _, err := n.server.limiter.Enter(limit.ConnOf(h.ctx), caller,
				pb.TxService_GetTx_FullMethodName); err != nil {
				break
			}
		}
	}
	for range 3 { // connections, each with its most streams
		n.unreadRequests(t, maxHTTPStreams, "Bearer a-token-of-greedy")
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	r := n.request("GET", "/api/v1/submitters/alice", "")
	r.Header.Set("Authorization", "Bearer a-token-of-the-shop")
	response, err := (&http.Client{Transport: transport}).Do(r)
	h.must(err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("status %d, want 429", response.StatusCode)
	}
}

// unreadRequests sends requests over a connection whose windows have no room for a response, and
// waits until the node has read them.
func (n *node) unreadRequests(t *testing.T, count int, authorization string) {
	t.Helper()
	conn, err := net.Dial("tcp", n.conn.Target())
	n.must(err)
	framer := http2.NewFramer(conn, conn)
	acked := make(chan struct{})
	var reading sync.WaitGroup
	t.Cleanup(func() { conn.Close(); reading.Wait() })
	_, err = io.WriteString(conn, http2.ClientPreface)
	n.must(err)
	n.must(framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize}))
	reading.Go(func() {
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
				close(acked)
			}
		}
	})
	for i := range uint32(count) {
		var block bytes.Buffer
		e := hpack.NewEncoder(&block)
		e.SetMaxDynamicTableSizeLimit(0)
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"},
			{":authority", "localhost"}, {":path", "/api/v1/submitters/alice"},
			{"authorization", authorization}} {
			n.must(e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
		}
		n.must(framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 2*i + 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
		}))
	}
	n.must(framer.WritePing(false, [8]byte{}))
	<-acked
}

package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// bareClient opens streams over one connection and keeps only the number of received messages: the
// memory of this process belongs to the server.
type bareClient struct {
	*harness
	conn     net.Conn
	framer   *http2.Framer
	head     bytes.Buffer
	fields   *hpack.Encoder
	next     uint32
	messages atomic.Int64
}

func (n *node) bare() *bareClient {
	n.t.Helper()
	conn, err := net.Dial("tcp", n.conn.Target())
	n.must(err)
	n.t.Cleanup(func() { conn.Close() })
	c := &bareClient{harness: n.harness, conn: conn, framer: http2.NewFramer(conn, conn), next: 1}
	c.fields = hpack.NewEncoder(&c.head)
	_, err = conn.Write([]byte(http2.ClientPreface))
	n.must(err)
	n.must(c.framer.WriteSettings())
	n.must(c.framer.WriteWindowUpdate(0, 1<<30))
	return c
}

// read counts messages until the connection ends. There are too few pings and settings here to need
// replies.
func (c *bareClient) read() {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		if data, ok := frame.(*http2.DataFrame); ok {
			for body := data.Data(); len(body) > 0; {
				body = body[5+binary.BigEndian.Uint32(body[1:]):]
				c.messages.Add(1)
			}
		}
	}
}

func (c *bareClient) watch(ask *pb.WatchTxRequest) {
	c.t.Helper()
	body, err := proto.Marshal(ask)
	c.must(err)
	c.head.Reset()
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", pb.TxService_WatchTx_FullMethodName},
		{":authority", "localhost"},
		{"content-type", "application/grpc"}, {"user-agent", "bare"}, {"te", "trailers"},
	} {
		c.must(c.fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID:      c.next,
		BlockFragment: c.head.Bytes(),
		EndHeaders:    true,
	}))
	c.must(
		c.framer.WriteData(c.next, true,
			append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)),
	)
	c.next += 2
}

// inUse returns the bytes of the process in stacks and heap.
func inUse() (stacks, heap float64) {
	for range 3 { // stacks are halved in each
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.StackInuse), float64(m.HeapAlloc)
}

// An idle stream holds 4 KB of stack and 6 KB of heap, most of it gRPC's, also after it received an
// event. If more of its work runs on its own goroutine, its stack stays at 8 KB. Not parallel: it
// measures the process.
func TestStream_Idle_LittleMemory(t *testing.T) {
	h := newHarness(t)
	n := h.serve()
	h.register("hot")
	c := n.bare()
	go c.read()
	const streams = 2000
	open := func(many int) {
		for range many {
			c.watch(&pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: "hot"}})
		}
	}
	open(1)
	h.eventually("the first stream has begun", func() bool { return c.messages.Load() == 1 })
	stacks, heap := inUse()
	most, mostHeap := 4700.0, 6800.0
	if raceEnabled {
		most = 12_000 // 17,000 if more of its work runs on its own goroutine
		mostHeap = 8000
	}
	// Memory of a working stream is freed once it waits again, under load with a delay.
	held := ""
	t.Cleanup(func() { t.Log(held) })
	check := func(when string) {
		t.Helper()
		h.eventually(when+" each stream holds little", func() bool {
			nowStacks, nowHeap := inUse()
			perStack, perHeap := (nowStacks-stacks)/streams, (nowHeap-heap)/streams
			held = fmt.Sprintf("%s a stream held %.0f bytes of stack and %.0f of heap", when,
				perStack, perHeap)
			return perStack <= most && perHeap <= mostHeap
		})
	}
	open(streams)
	h.eventually("all streams have begun", func() bool { return c.messages.Load() == streams+1 })
	check("after all have begun")
	n.create("hot", "one")
	h.eventually("all streams have the event",
		func() bool { return c.messages.Load() == 2*(streams+1) })
	check("after an event")
}

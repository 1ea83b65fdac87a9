package server

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"time"
	"weak"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/contract"
	"github.com/fencepost/fencepost/store"
)

// A stream whose client does not read holds several messages, so their buffers must not exceed them
// by much.
func TestCodec_Marshal_BufferFitsMessage(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 100, 2_000, 20_000, 33_000, 126 << 10, 2 << 20} {
		message := &pb.Payload{Data: bytes.Repeat([]byte("x"), size)}
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		text, err := contract.NewCodec().Marshal(message)
		if err != nil || !bytes.Equal(text.Materialize(), want) {
			t.Errorf("%d bytes are marshalled as %d (%v)", len(want), text.Len(), err)
		}
		held := 0
		for _, part := range text {
			held += cap(part.ReadOnlyData())
		}
		if held > max(contract.MaxPooledBytes, 2*len(want)) {
			t.Errorf("a message of %d bytes holds %d", len(want), held)
		}
		text.Free()
	}
}

// pageObserver sends a weak pointer to the first row of each page.
type pageObserver struct {
	Store
	first chan weak.Pointer[byte]
}

func (p pageObserver) Txs(ctx context.Context, filter store.TxFilter) ([]store.TxInfo, error) {
	infos, err := p.Store.Txs(ctx, filter)
	if len(infos) > 2 {
		p.first <- weak.Make(&infos[0].Payload.Data[0])
	}
	return infos, err
}

// A stream whose client does not read holds only the rows of a page that are still to be sent.
func TestSnapshots_Sent_Released(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := pageObserver{h.store, make(chan weak.Pointer[byte], 100)}
	n := h.serve(func(o *Options) { o.Store = p })
	n.fillPage()
	stream, err := n.ownConn().conn.NewStream(h.ctx, &grpc.StreamDesc{ServerStreams: true},
		pb.TxService_WatchTx_FullMethodName)
	h.must(err)
	h.must(stream.SendMsg(watchAll()))
	h.must(stream.CloseSend())
	first := <-p.first
	for limit := time.After(testTimeout); first.Value() != nil; runtime.GC() {
		select {
		case <-limit:
			t.Fatal("the first of a page is still held")
		default:
		}
	}
	if n.server.limiter.Watches() != 1 {
		t.Error("the stream has ended")
	}
}

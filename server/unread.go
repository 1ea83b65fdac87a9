package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/fencepost/fencepost/internal/clock"
)

// To gRPC's transport a call has ended as soon as its answer was handed over. The answer itself waits there until the caller opens a window for it, or until the
// connection ends, and of neither is anybody told. So each answer is marshalled into a buffer of its own, which the transport gives back once it has sent it all. A
// call keeps its room until then (seat); a connection has no more than unreadBytes of such answers before its next calls are refused, and no more than its share of
// lists; and one that leaves an answer unread for longer than a call may take is ended.

// unreadBytes is how much of answers may wait for the reader of one connection before it is let call no more: that of eight pages of a list.
const unreadBytes = 16 << 20

// pooled is more than what the transport does not count references of.
const pooled = 1<<10 + 1

// seat is the room of a call: taken until the call has ended, and what it answered has been sent.
type seat struct {
	link  *link
	rooms []room

	mu    sync.Mutex
	holds int
}

func (s *seat) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds++; s.holds == 1 { // the caller went away while it was answered
		for _, r := range s.rooms {
			r.count.Add(r.weight)
		}
	}
}

func (s *seat) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds--; s.holds == 0 {
		for _, r := range s.rooms {
			r.count.Add(-r.weight)
		}
	}
}

type seatKey struct{}

// parcel is an answer on its way. It is the pool that the buffer of the answer goes back to.
type parcel struct {
	seat  *seat
	bytes int
	since time.Time
}

// Get is not asked for.
func (p *parcel) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put tells that the answer is sent, or never will be.
func (p *parcel) Put(*[]byte) {
	if p.seat.link.remove(p) {
		p.seat.release()
	}
}

// packed is an answer, and the seat of the call that it is of.
type packed struct {
	proto.Message
	seat *seat
}

// pack is the outermost interceptor of the outer server.
func pack(ctx context.Context, request any, _ *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	response, err := handler(ctx, request)
	message, isMessage := response.(proto.Message)
	seat, sits := ctx.Value(seatKey{}).(*seat)
	if err != nil || !isMessage || !sits {
		return response, err
	}
	return &packed{message, seat}, nil
}

// packer is the codec of the outer server.
type packer struct {
	decoder
	clock clock.Clock
}

func newPacker(c clock.Clock) packer { return packer{newDecoder(), c} }

// Marshal writes a message.
func (c packer) Marshal(v any) (mem.BufferSlice, error) {
	answer, ok := v.(*packed)
	if !ok {
		return c.decoder.Marshal(v)
	}
	size := proto.Size(answer.Message)
	text, err := proto.MarshalOptions{
		UseCachedSize: true,
	}.MarshalAppend(make([]byte, 0, max(size, pooled)), answer.Message)
	if err != nil {
		return nil, err
	}
	p := &parcel{seat: answer.seat, bytes: cap(text), since: c.clock.Now()}
	p.seat.hold()
	if !p.seat.link.add(p) { // its connection is gone, and the transport tells no more
		p.seat.release()
	}
	return mem.BufferSlice{mem.NewBuffer(&text, p)}, nil
}

package limit

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/fencepost/fencepost/internal/clock"
)

// To the transport of grpc-go a call has ended as soon as the handler has returned a response. The
// response waits in the transport until the client opens a flow-control window for it, or until the
// connection ends, and there is no hook for either. So each response is marshalled into a buffer of
// its own, which the transport frees once it has sent all of it. A call keeps its slot until then.
// A connection has at most MaxUnreadBytes of such responses before its next calls are rejected, and
// no more than its share of lists; and a connection that leaves a response unread for longer than a
// call may take is closed.

// refCounted is the smallest buffer whose references the transport counts.
const refCounted = 1<<10 + 1

// Slot is the room of a call. It is taken until the call has ended and its response has been sent.
type Slot struct {
	limiter *Limiter
	conn    *ConnState
	caller  string // "" if it has no name

	mu     sync.Mutex
	shares []share
	holds  int
}

// Hold counts the bytes of a response until the slot is released. The error has a status with the
// reason NODE_BUSY or CALLER_LIMITED: the client, or others, left too many bytes unread.
func (s *Slot) Hold(bytes int) error {
	if bytes <= smallResponse {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeLocked(s.limiter.unreadShares(keyOf(s.conn, s.caller), int64(bytes)))
}

// Build waits until the caller may build a long response, and returns the end of the build. If ctx
// has not ended after wait, the error has a status with the reason NODE_BUSY.
func (s *Slot) Build(ctx context.Context, wait time.Duration) (done func(), err error) {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	own := buildsOfCaller
	if s.caller == "" {
		own = buildsOfSource
	}
	done, err = s.limiter.builds.take(limited, keyOf(s.conn, s.caller), own)
	if err != nil && ctx.Err() == nil {
		return nil, s.limiter.reject(errManyBuilds)
	}
	return done, err
}

// takeLocked takes shares, of which some stay taken after an error.
func (s *Slot) takeLocked(shares []share) error {
	for _, one := range shares {
		switch one.of.Take(one.key, one.weight) {
		case RoomFull:
			return s.limiter.reject(one.full)
		case ShareFull:
			s.limiter.counters.Limited(s.caller, one.limit)
			return one.limited
		}
		s.shares = append(s.shares, one)
	}
	return nil
}

func (s *Slot) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds++; s.holds == 1 { // the client went away before there was a response
		for _, one := range s.shares {
			one.of.Add(one.key, one.weight)
		}
	}
}

// Release gives up one hold of the slot.
func (s *Slot) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds--; s.holds == 0 {
		for _, one := range s.shares {
			one.of.Add(one.key, -one.weight)
		}
	}
}

type slotKey struct{}

// pendingResponse is a response that the client has not read yet. It is the pool that the buffer of
// the response is returned to.
type pendingResponse struct {
	slot  *Slot
	bytes int
	since time.Time
}

// Get implements mem.BufferPool; the transport does not call it.
func (p *pendingResponse) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put is called when the response is sent, or never will be.
func (p *pendingResponse) Put(*[]byte) {
	if p.slot.conn.remove(p) {
		p.slot.Release()
	}
}

// slotted is a response together with the slot of its call.
type slotted struct {
	proto.Message
	slot *Slot
}

// ServerOptions are the options of a grpc.Server with Tap whose responses are counted. Its
// interceptor must come before all others. codec marshals the messages.
func (l *Limiter) ServerOptions(codec encoding.CodecV2) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(attachSlot),
		grpc.ForceServerCodecV2(countingCodec{codec, l.clock}),
		grpc.StatsHandler(connTagger{}),
	}
}

// attachSlot brings the slot of a call to the codec.
func attachSlot(ctx context.Context, request any, _ *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	response, err := handler(ctx, request)
	message, isMessage := response.(proto.Message)
	slot, ok := ctx.Value(slotKey{}).(*Slot)
	if err != nil || !isMessage || !ok {
		return response, err
	}
	return &slotted{message, slot}, nil
}

// countingCodec marshals responses into buffers that are counted until they are sent.
type countingCodec struct {
	encoding.CodecV2
	clock clock.Clock
}

// Marshal implements encoding.CodecV2.
func (c countingCodec) Marshal(v any) (mem.BufferSlice, error) {
	response, ok := v.(*slotted)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	size := max(proto.Size(response.Message), refCounted)
	text, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(
		make([]byte, 0, size), response.Message)
	if err != nil {
		return nil, err
	}
	p := &pendingResponse{slot: response.slot, bytes: cap(text), since: c.clock.Now()}
	p.slot.hold()
	if !p.slot.conn.add(p) { // the connection is gone, and the transport will not call Put
		p.slot.Release()
	}
	return mem.BufferSlice{mem.NewBuffer(&text, p)}, nil
}

package server

import (
	"bytes"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
)

// decoder is the codec of both servers. To grpc-go bytes that are no message are INTERNAL, without a reason, and no interceptor is asked. So such a request is let
// through as an empty one with a mark, and check refuses it.
type decoder struct{ encoding.CodecV2 }

func newDecoder() decoder { return decoder{encoding.GetCodecV2(grpcproto.Name)} }

// pooledMost is the longest message that is written into a buffer of the transport's pool: the next size that it has is 1 MiB, and a stream whose caller does not read
// holds three messages, of which a snapshot can have 126 KiB.
const pooledMost = 32 << 10

// Marshal writes a message.
func (d decoder) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(proto.Message)
	if !ok {
		return d.CodecV2.Marshal(v)
	}
	size, options := proto.Size(message), proto.MarshalOptions{UseCachedSize: true}
	if mem.IsBelowBufferPoolingThreshold(size) || size > pooledMost {
		text, err := options.Marshal(message)
		return mem.BufferSlice{mem.SliceBuffer(text)}, err
	}
	pool := mem.DefaultBufferPool()
	text := pool.Get(size)
	if _, err := options.MarshalAppend((*text)[:0], message); err != nil {
		pool.Put(text)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(text, pool)}, nil
}

// malformed is what a request has in place of unknown fields if it could not be read. It is no field itself, so no request that could be read has it.
var malformed = []byte{0}

// Unmarshal reads a message.
func (d decoder) Unmarshal(text mem.BufferSlice, v any) error {
	if _, isBatch := v.(*pb.BatchCreateTxRequest); isBatch {
		whole := text.MaterializeToBuffer(mem.DefaultBufferPool())
		defer whole.Free()
		text = mem.BufferSlice{mem.SliceBuffer(firstItems(whole.ReadOnlyData()))}
	}
	err := d.CodecV2.Unmarshal(text, v)
	message, ok := v.(proto.Message)
	if err == nil || !ok ||
		message.ProtoReflect().Descriptor().ParentFile().Package() != pb.File_fencepost_v1_tx_proto.Package() {
		return err
	}
	proto.Reset(message)
	message.ProtoReflect().SetUnknown(malformed)
	return nil
}

// batchItems is the most that a batch may have, as the contract says.
const batchItems = 1000

// firstItems is a batch without what follows the first item that is too many, for which it is refused: a request of two bytes becomes one of a hundred.
func firstItems(text []byte) []byte {
	items := 0
	for at := 0; at < len(text); {
		number, _, length := protowire.ConsumeField(text[at:])
		if length < 0 {
			break // for the codec to say
		}
		if at += length; number == batchItem {
			items++
		}
		if items > batchItems {
			return text[:at]
		}
	}
	return text
}

// batchItem is the number of BatchCreateTxRequest.requests.
const batchItem = 1

// checkRead refuses a request that could not be read.
func checkRead(request proto.Message) error {
	if !bytes.Equal(request.ProtoReflect().GetUnknown(), malformed) {
		return nil
	}
	return status.InvalidField("request",
		"is not the protobuf of its message, whose texts are UTF-8; write it as proto/fencepost/v1 describes it")
}

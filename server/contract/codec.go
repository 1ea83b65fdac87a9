package contract

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

// Codec is the protobuf codec of the servers. For bytes that are not a message grpc-go returns
// INTERNAL without a reason and calls no interceptor. Codec instead returns an empty message with a
// mark, which Check rejects.
type Codec struct{ encoding.CodecV2 }

// NewCodec returns a codec.
func NewCodec() Codec { return Codec{encoding.GetCodecV2(grpcproto.Name)} }

// MaxPooledBytes is the longest message marshalled into a pooled buffer. The next pool size is 1
// MiB, and a stream whose client does not read holds three messages, with snapshots of up to 126
// KiB.
const MaxPooledBytes = 32 << 10

// Marshal writes a message.
func (d Codec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(proto.Message)
	if !ok {
		return d.CodecV2.Marshal(v)
	}
	size, options := proto.Size(message), proto.MarshalOptions{UseCachedSize: true}
	if mem.IsBelowBufferPoolingThreshold(size) || size > MaxPooledBytes {
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

// malformed marks a message that could not be decoded, in place of its unknown fields. It is not a
// valid field, so no decoded message has it.
var malformed = []byte{0}

// Unmarshal reads a message.
func (d Codec) Unmarshal(text mem.BufferSlice, v any) error {
	if _, isBatch := v.(*pb.BatchCreateTxRequest); isBatch {
		whole := text.MaterializeToBuffer(mem.DefaultBufferPool())
		defer whole.Free()
		text = mem.BufferSlice{mem.SliceBuffer(firstItems(whole.ReadOnlyData()))}
	}
	err := d.CodecV2.Unmarshal(text, v)
	message, ok := v.(proto.Message)
	if err == nil || !ok ||
		message.ProtoReflect().Descriptor().ParentFile().Package() !=
			pb.File_fencepost_v1_tx_proto.Package() {
		return err
	}
	proto.Reset(message)
	message.ProtoReflect().SetUnknown(malformed)
	return nil
}

// MaxBatchItems is the limit of a batch in the contract.
const MaxBatchItems = 1000

// firstItems cuts a batch after the first item above the limit, for which it is rejected anyway: a
// request of two bytes takes a hundred in memory.
func firstItems(text []byte) []byte {
	items := 0
	for at := 0; at < len(text); {
		number, _, length := protowire.ConsumeField(text[at:])
		if length < 0 {
			break // the codec reports it
		}
		if at += length; number == batchItem {
			items++
		}
		if items > MaxBatchItems {
			return text[:at]
		}
	}
	return text
}

// batchItem is the number of BatchCreateTxRequest.requests.
const batchItem = 1

// checkDecoded rejects a request that could not be decoded.
func checkDecoded(request proto.Message) error {
	if !bytes.Equal(request.ProtoReflect().GetUnknown(), malformed) {
		return nil
	}
	return status.InvalidField("request",
		"is not a valid protobuf message, with UTF-8 strings; encode it as in proto/fencepost/v1")
}

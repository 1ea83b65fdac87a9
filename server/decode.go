package server

import (
	"bytes"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// decoder is the codec of both servers. To grpc-go bytes that are no message are INTERNAL, without a reason, and no interceptor is asked. So such a request is let
// through as an empty one with a mark, and check refuses it.
type decoder struct{ encoding.CodecV2 }

func newDecoder() decoder { return decoder{encoding.GetCodecV2(grpcproto.Name)} }

// malformed is what a request has in place of unknown fields if it could not be read. It is no field itself, so no request that could be read has it.
var malformed = []byte{0}

// Unmarshal reads a message.
func (d decoder) Unmarshal(text mem.BufferSlice, v any) error {
	err := d.CodecV2.Unmarshal(text, v)
	message, ok := v.(proto.Message)
	if err == nil || !ok || message.ProtoReflect().Descriptor().ParentFile().Package() != pb.File_fencepost_v1_tx_proto.Package() {
		return err
	}
	proto.Reset(message)
	message.ProtoReflect().SetUnknown(malformed)
	return nil
}

// checkRead refuses a request that could not be read.
func checkRead(request proto.Message) error {
	if !bytes.Equal(request.ProtoReflect().GetUnknown(), malformed) {
		return nil
	}
	return invalidField("request", "is not the protobuf of its message, whose texts are UTF-8; write it as proto/fencepost/v1 describes it")
}

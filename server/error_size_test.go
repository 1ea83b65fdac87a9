package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/contract"
)

// unknowns returns count distinct unknown fields.
func unknowns(count int) (fields []byte) {
	for i := range count {
		fields = protowire.AppendVarint(
			protowire.AppendTag(fields, protowire.Number(1000+i), protowire.VarintType), 0)
	}
	return fields
}

// However many violations a request has and however long its names are, the error fits into the
// trailers that clients read and names the first violation. The connection and its other streams
// continue.
func TestError_HugeInvalidRequest_FitsTrailers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	stream := n.watch(watchAll())
	_, err := stream.Recv()
	h.must(err)
	labelled := func(count, length int) *pb.CreateTxRequest {
		a := createRequest("alice", "r", "1")
		a.Labels = map[string]string{}
		for i := range count {
			a.Labels[strings.Repeat("Ä", length)+fmt.Sprint(i)] = "x"
		}
		return a
	}
	strange := createRequest("alice", "r", "1")
	strange.ProtoReflect().SetUnknown(unknowns(500_000))
	create := func(a *pb.CreateTxRequest) func() error {
		return func() error { _, err := n.txs.CreateTx(h.ctx, a); return err }
	}
	for name, one := range map[string]struct {
		call            func() error
		reason, message string
	}{
		"unknown fields": {create(strange), "UNKNOWN_FIELD", "CreateTxRequest has no field 1000"},
		"labels": {create(labelled(100_000, 1)), "INVALID_FIELD",
			"labels: has 100000 entries"},
		"some labels": {create(labelled(60, 60)), "INVALID_FIELD", "further violations"},
		"a long label": {create(labelled(1, 1_000_000)), "INVALID_FIELD",
			"must have a key of 1 to 63"},
		"states": {func() error {
			_, err := n.txs.ListTxs(h.ctx,
				&pb.ListTxsRequest{States: slices.Repeat([]pb.TxState{99}, 1_000_000)})
			return err
		}, "INVALID_FIELD", "states: has 1000000 items"},
		"a mask": {func() error {
			_, err := n.subs.UpdateSubmitter(h.ctx, &pb.UpdateSubmitterRequest{Submitter: "alice",
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{strings.Repeat("x",
					1_000_000)}}})
			return err
		}, "INVALID_FIELD", "update_mask: contains"},
	} {
		s := wantStatus(t, one.call(), codes.InvalidArgument, one.reason)
		if !strings.Contains(s.Message(), one.message) {
			t.Errorf("%s: message %q lacks %q", name, s.Message(), one.message)
		}
		if size := len(s.Message()) + proto.Size(s.Proto())*4/3; size > 6<<10 {
			t.Errorf("%s: the error is %d bytes long", name, size)
		}
	}
	n.create("alice", "after")
	if m, err := stream.Recv(); err != nil || m.GetEvent() == nil {
		t.Errorf("a stream of the same connection: %v, %v", m, err)
	}
}

// The decoder keeps no items beyond the limit.
func TestBatch_TooManyItems_RejectedWithoutReading(t *testing.T) {
	t.Parallel()
	n := newHarness(t).serve()
	var read pb.BatchCreateTxRequest
	for count, want := range map[int]int{0: 0, 1: 1, contract.MaxBatchItems: contract.MaxBatchItems,
		contract.MaxBatchItems + 1: contract.MaxBatchItems + 1, 1_000_000: contract.MaxBatchItems +
			1} {
		proto.Reset(&read)
		n.must(
			contract.NewCodec().Unmarshal(
				mem.BufferSlice{mem.SliceBuffer(strings.Repeat("\x0a\x00", count))}, &read),
		)
		if len(read.GetRequests()) != want {
			t.Errorf("of %d requests %d are read, want %d", count, len(read.GetRequests()), want)
		}
	}
	_, err := n.txs.BatchCreateTx(n.ctx,
		&pb.BatchCreateTxRequest{Requests: slices.Repeat([]*pb.CreateTxRequest{{}}, 100_000)})
	s := wantStatus(t, err, codes.InvalidArgument, "INVALID_FIELD")
	a := n.http("POST", "/api/v1/tx/batch", `{"requests":[{}`+strings.Repeat(",{}", 100_000)+`]}`)
	received := a.wantError(t, http.StatusBadRequest, codes.InvalidArgument, "INVALID_FIELD")
	if received.Message() != s.Message() {
		t.Errorf("gRPC returns %q and JSON %q", s.Message(), received.Message())
	}
}

package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// texts are what the fields of a request may hold, on either side of each rule.
var texts = []string{
	"", "0", "7", "00", "07", "1a", "-1", "a", "A", "0x", "alice", "a-b_c.d/e", "1a-b", "line\nbreak", "nul\x00", "tab\t", "del\x7f", "\x01", "ü", "\u0085", " ",
	"0x7f5eb5bb5cf88cfcee9613368636f458800e62cb", "0x7F5EB5bB5cF88cfcEe9613368636f458800e62CB", "0X7f5eb5bb5cf88cfcee9613368636f458800e62cb",
	"0x7f5eb5bb5cf88cfcee9613368636f458800e62c", "0x7f5eb5bb5cf88cfcee9613368636f458800e62cbb", "0xgf5eb5bb5cf88cfcee9613368636f458800e62cb", "0x7f5eb5bb5cf88cfcee9613368636f458800e62cb\n",
	strings.Repeat("9", 78), strings.Repeat("9", 79), strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("ü", 128), strings.Repeat("ü", 129),
}

// soundRequest has each field that a request can have.
func soundRequest() *pb.CreateTxRequest {
	return &pb.CreateTxRequest{
		Submitter: "alice", RequestId: "3", Payload: &pb.Payload{To: texts[21], Value: "1", Data: []byte{1}, GasLimit: 21000}, Labels: map[string]string{"team": "Zürich", "empty": ""},
		Terms: &pb.Terms{Speed: pb.TxSpeed_TX_SPEED_FAST, MaxFee: "100", NotAfter: &timestamppb.Timestamp{Seconds: 1}, CancelLate: true},
	}
}

// requestsOfAllKinds are sound but for one field, which holds in turn whatever a field may hold.
func requestsOfAllKinds() (all []*pb.CreateTxRequest) {
	vary := func(change func(r *pb.CreateTxRequest)) {
		r := soundRequest()
		change(r)
		all = append(all, r)
	}
	for _, text := range texts {
		vary(func(r *pb.CreateTxRequest) { r.Submitter = text })
		vary(func(r *pb.CreateTxRequest) { r.RequestId = text })
		vary(func(r *pb.CreateTxRequest) { r.Payload.To = text })
		vary(func(r *pb.CreateTxRequest) { r.Payload.Value = text })
		vary(func(r *pb.CreateTxRequest) { r.Terms.MaxFee = text })
		vary(func(r *pb.CreateTxRequest) { r.Labels[text] = "x" })
		vary(func(r *pb.CreateTxRequest) { r.Labels["x"] = text })
	}
	for n := range 18 {
		vary(func(r *pb.CreateTxRequest) {
			for i := range n {
				r.Labels[fmt.Sprint("label-", i)] = "x"
			}
		})
		vary(func(r *pb.CreateTxRequest) { r.Terms.Speed = pb.TxSpeed(n - 2) })
	}
	for _, part := range []func(r *pb.CreateTxRequest) proto.Message{
		func(r *pb.CreateTxRequest) proto.Message { return r }, func(r *pb.CreateTxRequest) proto.Message { return r.GetPayload() },
		func(r *pb.CreateTxRequest) proto.Message { return r.GetTerms() }, func(r *pb.CreateTxRequest) proto.Message { return r.GetTerms().GetNotAfter() },
	} {
		for _, unknown := range [][]byte{protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1), malformed} {
			vary(func(r *pb.CreateTxRequest) { part(r).ProtoReflect().SetUnknown(unknown) })
		}
	}
	vary(func(r *pb.CreateTxRequest) { r.Payload = nil })
	vary(func(r *pb.CreateTxRequest) { r.Terms = nil })
	vary(func(r *pb.CreateTxRequest) { r.Terms.NotAfter = nil })
	return all
}

// What is plain breaks no rule. A field that is new needs a word from plain, and a place among the requests of all kinds.
func TestPlainIsStricterThanTheRules(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Store: named{}})
	if err != nil {
		t.Fatal(err)
	}
	sound, plains := 0, 0
	for _, r := range requestsOfAllKinds() {
		f := &finder{}
		f.walk(r.ProtoReflect(), "")
		err := s.checkRules(r, f.unfit)
		if err == nil && len(f.unknown) == 0 {
			sound++
		}
		if !plain(r) {
			continue
		}
		plains++
		if err != nil || len(f.unknown) > 0 || checkRead(r) != nil {
			t.Errorf("%v is plain, and yet %v, %v", r, err, f.unknown)
		}
	}
	if plains*10 < sound*9 { // texts of many bytes and few characters are left to the rules, and submitters with line breaks
		t.Errorf("of %d that are sound %d are plain", sound, plains)
	}
	known := []string{}
	for _, m := range []proto.Message{&pb.CreateTxRequest{}, &pb.Payload{}, &pb.Terms{}} {
		for i := range m.ProtoReflect().Descriptor().Fields().Len() {
			known = append(known, string(m.ProtoReflect().Descriptor().Fields().Get(i).Name()))
		}
	}
	if got := strings.Join(known, " "); got != "submitter request_id payload terms labels to value data gas_limit speed max_fee not_after cancel_late" {
		t.Errorf("the fields are %s: does plain look at each?", got)
	}
}

func TestWhatCallersSendIsPlain(t *testing.T) {
	t.Parallel()
	for _, r := range []*pb.CreateTxRequest{
		{Submitter: "alice", RequestId: "order-1", Payload: &pb.Payload{To: texts[21], Value: "1000000000000000000"}},
		{Submitter: "eip155:1:" + texts[22], RequestId: "bestellung für 2 €", Payload: &pb.Payload{To: texts[22], GasLimit: 21000}},
		soundRequest(),
	} {
		if !plain(r) {
			t.Errorf("%v", r)
		}
	}
	if i := slices.IndexFunc(texts, isAddress); i != 21 {
		t.Errorf("the first address is text %d", i)
	}
}

func BenchmarkCheck(b *testing.B) {
	s, err := New(Options{Store: named{}})
	if err != nil {
		b.Fatal(err)
	}
	r := &pb.CreateTxRequest{Submitter: "alice", RequestId: "order-123456", Payload: &pb.Payload{To: texts[22], Value: "1", GasLimit: 21000}}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.check(r); err != nil {
			b.Fatal(err)
		}
	}
}

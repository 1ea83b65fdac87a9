package web

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/contract"
	"github.com/fencepost/fencepost/server/status"
)

// wantFault checks that a status has a violation of a field whose text contains message.
func wantFault(t testing.TB, s *grpcstatus.Status, field, message string) {
	t.Helper()
	for _, d := range s.Details() {
		b, ok := d.(*errdetails.BadRequest)
		for _, v := range b.GetFieldViolations() {
			if ok && v.GetField() == field && strings.Contains(v.GetDescription(), message) {
				return
			}
		}
	}
	t.Errorf("%v: no violation of %s with %q", s.Proto(), field, message)
}

func newMessage(t testing.TB, of protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return kind.New().Interface()
}

func TestCheckJSON_HexInAnyBytesField_Rejected(t *testing.T) {
	t.Parallel()
	found := []string{}
	var check func(protoreflect.MessageDescriptor, func(string) string, string,
		protoreflect.MessageDescriptor)
	check = func(of protoreflect.MessageDescriptor, wrap func(string) string, path string,
		top protoreflect.MessageDescriptor) {
		for i := range of.Fields().Len() {
			field := of.Fields().Get(i)
			at, inside := contract.Join(path, string(field.Name())), func(value string) string {
				switch {
				case field.IsList():
					value = "[" + value + "]"
				case field.IsMap():
					value = `{"k":` + value + "}"
				}
				return wrap(`{"` + field.JSONName() + `":` + value + "}")
			}
			switch {
			case field.IsList():
				at += "[0]"
			case field.IsMap():
				at, field = at+`["k"]`, field.MapValue()
			}
			switch {
			case field.Kind() == protoreflect.BytesKind:
				found = append(found, string(top.Name())+"."+at)
				rejected := status.From(checkJSON([]byte(inside(`"0xabcd"`)), top), "")
				wantFault(t, rejected, at, "hex")
			case field.Message() != nil:
				check(field.Message(), inside, at, top)
			}
		}
	}
	for _, request := range contract.Requests() {
		of := request.ProtoReflect().Descriptor()
		check(of, func(value string) string { return value }, "", of)
	}
	for _, known := range []string{"CreateTxRequest.payload.data",
		"BatchCreateTxRequest.requests[0].payload.data"} {
		if !slices.Contains(found, known) {
			t.Errorf("%s is not among %v", known, found)
		}
	}
}

func TestCheckJSON_Value_AcceptedIfProtojsonAccepts(t *testing.T) {
	t.Parallel()
	values := []string{
		`null`, `true`, `"true"`, `0`, `-0`, `1`, `-1`, `1.0`, `1.5`, `2e4`, `"2e4"`, `"1"`, `" 1"`,
		`"1 "`, `""`, `"x"`, `2147483647`, `2147483648`, `-2147483648`, `4294967295`, `4294967296`,
		`9223372036854775808`, `"18446744073709551615"`, `18446744073709551616`, `1e400`,
		`"2026-01-02T15:04:05Z"`, `"2026-01-02T15:04:05+02:00"`, `"2026-01-02 15:04:05Z"`,
		`"0000-01-02T15:04:05Z"`, `"1s"`, `"0.5s"`, `"1m"`, `"1"`, `"maxFee"`, `"max_fee"`,
		`"AQI="`, `{}`, `[]`, `"TX_STATE_STUCK"`, `"TX_VIEW_BASIC"`, `"SPEED_FAST"`, `99`,
	}
	checked := 0
	var check func(of, top protoreflect.MessageDescriptor, wrap func(string) string)
	check = func(of, top protoreflect.MessageDescriptor, wrap func(string) string) {
		for i := range of.Fields().Len() {
			field := of.Fields().Get(i)
			inside := func(value string) string {
				return wrap(`{"` + field.JSONName() + `":` + value + "}")
			}
			if field.IsList() || field.IsMap() {
				continue
			}
			if field.Message() != nil &&
				field.Message().ParentFile().Package() != "google.protobuf" {
				check(field.Message(), top, inside)
				continue
			}
			for _, value := range values {
				if checked++; field.Kind() == protoreflect.BytesKind &&
					strings.HasPrefix(value, `"`) {
					continue // checkBase64 rejects more than protojson
				}
				text := []byte(inside(value))
				mine, whole := checkJSON(text, top), protojson.Unmarshal(text, newMessage(t, top))
				if (mine == nil) != (whole == nil) {
					t.Errorf("%s of %s: %v, and protojson: %v", text, top.Name(), mine, whole)
				}
			}
		}
	}
	for _, request := range contract.Requests() {
		of := request.ProtoReflect().Descriptor()
		check(of, of, func(value string) string { return value })
	}
	if checked < 1000 {
		t.Errorf("only %d values checked", checked)
	}
}

func TestCheckJSON_BatchAboveLimit_Rejected(t *testing.T) {
	t.Parallel()
	of := (&pb.BatchCreateTxRequest{}).ProtoReflect().Descriptor()
	for count, rejected := range map[int]bool{
		contract.MaxBatchItems: false, contract.MaxBatchItems + 1: true,
	} {
		text := `{"requests":[{}` + strings.Repeat(",{}", count-1) + `]}`
		if err := checkJSON([]byte(text), of); (err != nil) != rejected {
			t.Errorf("%d requests: %v", count, err)
		}
	}
}

package server

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/contract"
	"github.com/fencepost/fencepost/txn"
)

// Kinds and actions of commands are strings in the contract, so only its comments list them.
func TestContract_CommandComments_NameEveryKind(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../proto/fencepost/v1/submitter.proto")
	if err != nil {
		t.Fatal(err)
	}
	_, command, _ := strings.Cut(string(text), "\nmessage Command {")
	comment := func(field string) string {
		before, _, found := strings.Cut(command, "string "+field+" = ")
		if !found {
			t.Fatalf("no field %s", field)
		}
		return before[strings.LastIndex(before, ";\n")+1:]
	}
	names := func(field, name string) {
		t.Helper()
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(comment(field)) {
			t.Errorf("the comment on %s does not name %s", field, name)
		}
	}
	for _, kind := range txn.CommandKinds {
		names("kind", string(kind))
	}
	for prefix, enum := range map[string]protoreflect.EnumDescriptor{
		"STUCK_DECISION_":      pb.StuckDecision(0).Descriptor(),
		"PROTECTION_DECISION_": pb.ProtectionDecision(0).Descriptor(),
	} {
		for i := 1; i < enum.Values().Len(); i++ { // skips UNSPECIFIED
			names("action", strings.TrimPrefix(string(enum.Values().Get(i).Name()), prefix))
		}
	}
}

// Payloads must not reach logs. debug_redact is all that the contract can do; docs/clients.md lists
// the languages that honor it.
func TestPayload_Fields_DebugRedact(t *testing.T) {
	t.Parallel()
	marked := func(f protoreflect.FieldDescriptor) bool {
		options, _ := f.Options().(*descriptorpb.FieldOptions)
		return options.GetDebugRedact()
	}
	payload := (&pb.Payload{}).ProtoReflect().Descriptor()
	for i := range payload.Fields().Len() {
		if f := payload.Fields().Get(i); marked(f) == (f.Name() == "gas_limit") {
			t.Errorf("%s: debug_redact is %v", f.FullName(), marked(f))
		}
	}
	for _, file := range []protoreflect.FileDescriptor{pb.File_fencepost_v1_tx_proto,
		pb.File_fencepost_v1_submitter_proto, pb.File_fencepost_v1_errors_proto} {
		for i := range file.Messages().Len() {
			fields := file.Messages().Get(i).Fields()
			for j := range fields.Len() {
				if f := fields.Get(j); f.Kind() == protoreflect.BytesKind && !marked(f) {
					t.Errorf("%s holds bytes and is not marked debug_redact", f.FullName())
				}
			}
		}
	}
	if shown := (&pb.Payload{To: "0xabc"}).String(); !strings.Contains(shown, "0xabc") {
		t.Errorf("Go honors debug_redact now (%s): update docs/clients.md", shown)
	}
}

// Validation reports only the length of a list above contract.MaxItems and skips its items, so
// every list that the contract allows must be shorter.
func TestMaxItems_AboveContractLimits(t *testing.T) {
	t.Parallel()
	longest := uint64(0)
	var look func(protoreflect.MessageDescriptor)
	look = func(of protoreflect.MessageDescriptor) {
		for i := range of.Fields().Len() {
			field := of.Fields().Get(i)
			if (field.IsList() || field.IsMap()) && field.FullName() != contract.BatchRequests {
				rules, err := protovalidate.ResolveFieldRules(field)
				if err != nil {
					t.Fatal(err)
				}
				most := max(rules.GetRepeated().GetMaxItems(), rules.GetMap().GetMaxPairs())
				if most == 0 || most > contract.MaxItems {
					t.Errorf(
						"%s may have %d items; a request may have %d of anything, and 0 is no "+
							"limit",
						field.FullName(), most, contract.MaxItems)
				}
				longest = max(longest, most)
			}
			if field.Message() != nil &&
				field.Message().ParentFile().Package() == of.ParentFile().Package() {
				look(field.Message())
			}
		}
	}
	for _, request := range contract.Requests() {
		look(request.ProtoReflect().Descriptor())
	}
	if longest == 0 {
		t.Error("no list was checked")
	}
}

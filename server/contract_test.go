package server

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// Kinds and actions of commands are texts in the contract, so only its comments tell callers which there are.
func TestTheContractNamesEveryCommand(t *testing.T) {
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
		"STUCK_DECISION_": pb.StuckDecision(0).Descriptor(), "PROTECTION_DECISION_": pb.ProtectionDecision(0).Descriptor(),
	} {
		for i := 1; i < enum.Values().Len(); i++ { // without the one that is unspecified
			names("action", strings.TrimPrefix(string(enum.Values().Get(i).Name()), prefix))
		}
	}
}

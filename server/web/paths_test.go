package web

import (
	"net/url"
	"regexp"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/contract"
)

// methods returns all methods of the contract by "Service/Method".
func methods() map[string]protoreflect.MethodDescriptor {
	all := map[string]protoreflect.MethodDescriptor{}
	for _, file := range []protoreflect.FileDescriptor{
		pb.File_fencepost_v1_tx_proto, pb.File_fencepost_v1_submitter_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				all[string(service.Name())+"/"+string(m.Name())] = m
			}
		}
	}
	return all
}

var pathVariable = regexp.MustCompile(`\{([a-z_]+)\}`)

func TestNameIn_EveryPathOfContract(t *testing.T) {
	t.Parallel()
	for name, m := range methods() {
		rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
		for _, r := range append(rule.GetAdditionalBindings(), rule) {
			path := r.GetGet() + r.GetPost() + r.GetPatch() + r.GetPut() + r.GetDelete()
			u, err := url.Parse(pathVariable.ReplaceAllString(path, "a%2Fb:c"))
			if err != nil || path == "" {
				t.Fatalf("%s: path %q, %v", name, path, err)
			}
			got, want := nameIn(u), pathVariable.FindStringSubmatch(path)
			switch {
			case want != nil && (got.field != want[1] || got.value != "a/b:c"):
				t.Errorf("%s: %s names %+v", name, path, got)
			case want == nil && got.field != "" && got.value != "by-request":
				t.Errorf("%s: %s names nothing, and is taken for %+v", name, path, got)
			}
			if body := r.GetBody(); body != "*" && body != "" ||
				(body == "") != (r.GetGet() != "") {
				t.Errorf("%s: %s has the body %q: see checkParameters", name, path, body)
			}
		}
	}
}

func TestCheckURL_RepeatedParameter_OnlyLists(t *testing.T) {
	t.Parallel()
	lists := 0
	var look func(protoreflect.MessageDescriptor, string)
	look = func(of protoreflect.MessageDescriptor, path string) {
		for i := range of.Fields().Len() {
			field := of.Fields().Get(i)
			at := contract.Join(path, string(field.Name()))
			if field.Message() != nil &&
				field.Message().ParentFile().Package() == of.ParentFile().Package() {
				look(field.Message(), at)
				continue
			}
			for _, name := range []string{at, contract.Join(path, field.JSONName())} {
				if err := checkURL(&url.URL{Path: "/api/v1/tx", RawQuery: name + "=a&" + name +
					"=b"}); (err == nil) != field.IsList() {
					t.Errorf("%s, of %s, given twice: %v", name, field.FullName(), err)
				}
			}
			if field.IsList() {
				lists++
			}
		}
	}
	for _, m := range methods() {
		rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
		if rule.GetGet() != "" {
			look(m.Input(), "")
		}
	}
	if lists != 6 {
		t.Errorf("%d lists of parameters, want 6: labels and states of two methods, tx_ids, and "+
			"conditions", lists)
	}
}

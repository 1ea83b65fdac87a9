package server

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/contract"
)

// files are the proto files of the contract.
func files() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		pb.File_fencepost_v1_tx_proto,
		pb.File_fencepost_v1_submitter_proto,
		pb.File_fencepost_v1_status_proto,
		pb.File_fencepost_v1_errors_proto,
	}
}

// methods returns all RPCs by "service/method", as refusals name them.
func methods() map[string]protoreflect.MethodDescriptor {
	all := map[string]protoreflect.MethodDescriptor{}
	for _, file := range files() {
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

// faults returns the kinds of bad input that a request can contain, by the fields of its message.
func faults(m protoreflect.MessageDescriptor, path string) map[string]string {
	need := map[string]string{"unknown field": "UNKNOWN_FIELD "}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		at := contract.Join(path, string(f.Name()))
		switch {
		case f.IsMap() || f.FullName() == contract.BatchRequests:
		case f.Kind() == protoreflect.EnumKind:
			need["enum "+at] = "INVALID_FIELD " + at
		case f.Kind() == protoreflect.StringKind && f.Name() == "submitter" && path == "":
			need["unknown submitter"] = "SUBMITTER_NOT_FOUND "
		case f.Kind() == protoreflect.StringKind && f.Name() == "tx_id":
			need["malformed tx_id"] = "INVALID_FIELD tx_id"
			need["unknown transaction"] = "TX_NOT_FOUND "
		case f.Kind() == protoreflect.StringKind && f.Name() == "tx_ids":
			need["ids "+at] = "INVALID_FIELD " + at
		case f.Kind() == protoreflect.StringKind &&
			(f.Name() == "page_token" || f.Name() == "resume_token"):
			need["token"] = "INVALID_FIELD " + at
		case f.Kind() == protoreflect.StringKind &&
			(f.Name() == "reason" || f.Name() == "operator"):
			need["text "+at] = "INVALID_FIELD " + at
		case f.Kind() == protoreflect.Int32Kind && f.Name() == "page_size":
			need["page size"] = "INVALID_FIELD page_size"
		case f.Message() != nil && f.Message().ParentFile().Package() == "fencepost.v1" &&
			f.Message().Fields().Len() > 0:
			for kind, row := range faults(f.Message(), at) {
				if kind != "unknown field" {
					need[kind] = row
				}
			}
		case f.Message() != nil && f.Message().Fields().Len() > 0 && path == "":
			need["message "+at] = "INVALID_FIELD " + at
		}
	}
	return need
}

// checkCoverage fails for an RPC without a row for a kind of bad input that its request can
// contain: a new RPC, or a new field, needs rows.
func checkCoverage(t *testing.T, refusals []refusal) {
	t.Helper()
	rows := map[string][]string{}
	for _, r := range refusals {
		rows[r.method] = append(rows[r.method], r.reason+" "+r.field)
	}
	for name, m := range methods() {
		if len(rows[name]) == 0 {
			t.Errorf("%s has no rows", name)
			continue
		}
		for kind, want := range faults(m.Input(), "") {
			found := false
			for _, row := range rows[name] {
				fields := strings.Fields(row)
				wanted := strings.Fields(want)
				if fields[0] != wanted[0] {
					continue
				}
				found = found || len(wanted) == 1
				for _, field := range fields[1:] {
					found = found ||
						len(wanted) == 2 &&
							(field == wanted[1] || strings.HasPrefix(field, wanted[1]+"[") ||
								strings.HasPrefix(field, wanted[1]+"."))
				}
			}
			if !found {
				t.Errorf("%s has no row for this kind of bad input: %s (%s)", name, kind, want)
			}
		}
	}
}

// Command validateproto writes the proto files of other projects that our contract imports into a
// folder: the validation rules (buf/validate/validate.proto), the HTTP mapping (google/api), and
// the error status (google/rpc/status.proto).
//
// The source of the rules is published only in Buf's registry, which a build should not depend on.
// Their compiled descriptors are part of Go modules that the server links anyway. This program
// prints the sources from the descriptors, compiles them again, and writes them only if the result
// is the same. The rules enforced by the server and those in the contract therefore cannot differ.
// Only comments are lost.
//
// Keep the versions of these modules in go.mod equal to the main module's.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	validatepb "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/bufbuild/protocompile"
	"github.com/jhump/protoreflect/desc"
	"github.com/jhump/protoreflect/desc/protoprint"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// header keeps the notice that the licence of the original asks for, and states
// the change that was made, as its section 4 demands.
const header = `// Copyright %s
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//      http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// Changed from the original: printed from its compiled descriptor by
// tools/validateproto, which loses the comments and nothing else.

`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: validateproto FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "validateproto:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	texts := map[string]string{} // for files that import each other
	for _, s := range sources() {
		text, err := render(s)
		if err != nil {
			return err
		}
		texts[s.file.Path()] = text
		if err := checkSame(s.file, texts); err != nil {
			return err
		}
		path := filepath.Join(folder, filepath.FromSlash(s.file.Path()))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// source is a file to be written, and who has the copyright of it.
type source struct {
	file  protoreflect.FileDescriptor
	owner string
}

// sources are in the order of their imports.
func sources() []source {
	return []source{
		{validatepb.File_buf_validate_validate_proto, "2023-2026 Buf Technologies, Inc."},
		{annotations.File_google_api_http_proto, "2026 Google LLC"},
		{annotations.File_google_api_annotations_proto, "2026 Google LLC"},
		{status.File_google_rpc_status_proto, "2026 Google LLC"},
	}
}

func render(s source) (string, error) {
	file := s.file
	wrapped, err := desc.WrapFile(file)
	if err != nil {
		return "", fmt.Errorf("read the descriptor of %s: %w", file.Path(), err)
	}
	text, err := new(protoprint.Printer).PrintProtoToString(wrapped)
	if err != nil {
		return "", fmt.Errorf("print %s: %w", file.Path(), err)
	}
	return fmt.Sprintf(header, s.owner) + text, nil
}

// checkSame compiles the text of a file and compares the result with the
// descriptor that it was printed from.
func checkSame(file protoreflect.FileDescriptor, texts map[string]string) error {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: protocompile.SourceAccessorFromMap(texts),
		}),
	}
	compiled, err := compiler.Compile(context.Background(), file.Path())
	if err != nil {
		return fmt.Errorf("compile the printed %s: %w", file.Path(), err)
	}
	want, err := canonical(file)
	if err != nil {
		return err
	}
	got, err := canonical(compiled[0])
	if err != nil {
		return err
	}
	if !proto.Equal(want, got) {
		return fmt.Errorf("the printed %s means something else than its descriptor; do not use it",
			file.Path())
	}
	return nil
}

// canonical sends the descriptor once over the wire form. Both sides then hold
// the options, which are extensions, in the same representation.
func canonical(file protoreflect.FileDescriptor) (proto.Message, error) {
	descriptor := protodesc.ToFileDescriptorProto(file)
	descriptor.SourceCodeInfo = nil
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(descriptor)
	if err != nil {
		return nil, fmt.Errorf("encode the descriptor of %s: %w", file.Path(), err)
	}
	decoded := descriptor.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(bytes, decoded); err != nil {
		return nil, fmt.Errorf("decode the descriptor of %s: %w", file.Path(), err)
	}
	return decoded, nil
}

// Command validateproto writes buf/validate/validate.proto, the definition of
// the validation rules that our contract imports, under the folder that it is
// given.
//
// The text of that file is published through Buf's own registry only, which a
// build should not have to reach. The compiled descriptor, however, is part of a
// Go module that the server links anyway. So the text is printed from the
// descriptor, compiled again, and written only if that gives the same descriptor:
// what the server enforces and what the generated clients declare cannot differ.
// Comments are the one thing that a descriptor lacks.
//
// Keep the version of the protovalidate module in go.mod equal to the one in the
// main module's go.mod.
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
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// header keeps the notice that the licence of the original asks for, and states
// the change that was made, as its section 4 demands.
const header = `// Copyright 2023-2026 Buf Technologies, Inc.
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
	file := validatepb.File_buf_validate_validate_proto
	text, err := render(file)
	if err != nil {
		return err
	}
	if err := checkSame(file, text); err != nil {
		return err
	}
	path := filepath.Join(folder, filepath.FromSlash(file.Path()))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func render(file protoreflect.FileDescriptor) (string, error) {
	wrapped, err := desc.WrapFile(file)
	if err != nil {
		return "", fmt.Errorf("read the descriptor of %s: %w", file.Path(), err)
	}
	text, err := new(protoprint.Printer).PrintProtoToString(wrapped)
	if err != nil {
		return "", fmt.Errorf("print %s: %w", file.Path(), err)
	}
	return header + text, nil
}

// checkSame compiles the text and compares the result with the descriptor that
// it was printed from.
func checkSame(file protoreflect.FileDescriptor, text string) error {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: protocompile.SourceAccessorFromMap(map[string]string{file.Path(): text}),
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
		return fmt.Errorf("the printed %s means something else than its descriptor; do not use it", file.Path())
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

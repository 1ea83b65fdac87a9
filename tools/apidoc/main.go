// Command apidoc is a protoc plugin that writes the API reference (api.md) and the error reasons
// (errors.md) from the comments of the contract.
package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	protogen.Options{}.Run(func(p *protogen.Plugin) error {
		p.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
		d := &document{}
		for _, file := range p.Files {
			if file.Generate && file.Desc.Package() == "fencepost.v1" {
				d.add(file)
			}
		}
		if _, err := p.NewGeneratedFile("api.md", "").Write([]byte(d.api())); err != nil {
			return err
		}
		reasons, err := d.reasons()
		if err != nil {
			return err
		}
		_, err = p.NewGeneratedFile("errors.md", "").Write([]byte(reasons))
		return err
	})
}

// document holds the contract, in its order.
type document struct {
	services []*protogen.Service
	messages []*protogen.Message
	enums    []*protogen.Enum
}

func (d *document) add(file *protogen.File) {
	d.services = append(d.services, file.Services...)
	d.messages = append(d.messages, file.Messages...)
	d.enums = append(d.enums, file.Enums...)
}

// generated marks a document that must not be edited.
const generated = "<!-- Generated from proto by `make generate`; do not edit. -->\n\n"

//go:embed api.md
var apiHead string

//go:embed errors.md
var reasonsHead string

func (d *document) api() string {
	b := &strings.Builder{}
	b.WriteString(generated + apiHead)
	for _, s := range d.services {
		fmt.Fprintf(b, "\n## %s\n\n%s\n", s.GoName, prose(s.Comments))
		for _, m := range s.Methods {
			stream := ""
			if m.Desc.IsStreamingServer() {
				stream = "stream of "
			}
			fmt.Fprintf(b, "\n### %s\n\n%s → %s%s\n\n", m.GoName, link(m.Input.Desc), stream,
				link(m.Output.Desc))
			for _, path := range paths(m) {
				fmt.Fprintf(b, "    %s\n", path)
			}
			fmt.Fprintf(b, "\n%s\n", prose(m.Comments))
		}
	}
	b.WriteString("\n## Messages\n")
	for _, m := range d.messages {
		writeMessage(b, m)
	}
	b.WriteString("\n## Enums\n")
	for _, e := range d.enums {
		writeEnum(b, e)
	}
	return b.String()
}

// paths returns the HTTP methods and paths of an RPC in the JSON API.
func paths(m *protogen.Method) (list []string) {
	rule, _ := proto.GetExtension(m.Desc.Options(), annotations.E_Http).(*annotations.HttpRule)
	if rule == nil {
		return nil
	}
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		switch p := r.GetPattern().(type) {
		case *annotations.HttpRule_Get:
			list = append(list, "GET "+p.Get)
		case *annotations.HttpRule_Post:
			list = append(list, "POST "+p.Post)
		case *annotations.HttpRule_Patch:
			list = append(list, "PATCH "+p.Patch)
		}
	}
	return list
}

func writeMessage(b *strings.Builder, m *protogen.Message) {
	fmt.Fprintf(b, "\n### %s\n", m.GoIdent.GoName)
	if text := prose(m.Comments); text != "" {
		fmt.Fprintf(b, "\n%s\n", text)
	}
	if len(m.Fields) == 0 {
		return
	}
	b.WriteString("\n| field | type | |\n|---|---|---|\n")
	for _, f := range m.Fields {
		text := cell(prose(f.Comments))
		if f.Oneof != nil && !f.Oneof.Desc.IsSynthetic() {
			text = strings.TrimSpace(fmt.Sprintf("One of `%s`. %s", f.Oneof.Desc.Name(), text))
		}
		if rule := rules(f); rule != "" {
			text = strings.TrimSpace(text + " Rule: `" + cell(rule) + "`")
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", f.Desc.Name(), typeOf(f.Desc), text)
	}
}

var spaces = regexp.MustCompile(`\s+`)

// rules returns the validation rules of a field. Those in CEL are left out: their message is in
// the comment.
func rules(f *protogen.Field) string {
	r, _ := proto.GetExtension(f.Desc.Options(), validate.E_Field).(*validate.FieldRules)
	if r == nil {
		return ""
	}
	if len(r.GetCel()) > 0 {
		r = proto.CloneOf(r)
		r.Cel = nil
	}
	return spaces.ReplaceAllString(strings.TrimSpace(prototext.MarshalOptions{}.Format(r)), " ")
}

func writeEnum(b *strings.Builder, e *protogen.Enum) {
	fmt.Fprintf(b, "\n### %s\n", e.GoIdent.GoName)
	if text := prose(e.Comments); text != "" {
		fmt.Fprintf(b, "\n%s\n", text)
	}
	b.WriteString("\n| value | number | |\n|---|---|---|\n")
	for _, v := range e.Values {
		fmt.Fprintf(b, "| %s | %d | %s |\n", v.Desc.Name(), v.Desc.Number(),
			cell(prose(v.Comments)))
	}
}

func typeOf(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return fmt.Sprintf("map of %s to %s", typeOf(f.MapKey()), typeOf(f.MapValue()))
	case f.IsList():
		return "list of " + single(f)
	case f.HasOptionalKeyword():
		return "optional " + single(f)
	}
	return single(f)
}

func single(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return link(f.Message())
	case f.Enum() != nil:
		return link(f.Enum())
	}
	return f.Kind().String()
}

// link returns a link to one of our types, and the name of any other type.
func link(d protoreflect.Descriptor) string {
	if !strings.HasPrefix(string(d.FullName()), "fencepost.") {
		return string(d.FullName())
	}
	return fmt.Sprintf("[%s](#%s)", d.Name(), strings.ToLower(string(d.Name())))
}

// prose returns a comment as one paragraph.
func prose(c protogen.CommentSet) string {
	return strings.TrimSpace(spaces.ReplaceAllString(string(c.Leading), " "))
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// httpCodes maps the gRPC codes of the reasons to HTTP.
var httpCodes = map[string]int{
	"INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "ALREADY_EXISTS": 409,
	"FAILED_PRECONDITION": 400, "OUT_OF_RANGE": 400, "UNAVAILABLE": 503,
	"DEADLINE_EXCEEDED": 504, "INTERNAL": 500, "ABORTED": 409, "RESOURCE_EXHAUSTED": 429,
	"PERMISSION_DENIED": 403, "UNAUTHENTICATED": 401, "UNIMPLEMENTED": 501,
}

func (d *document) reasons() (string, error) {
	b := &strings.Builder{}
	b.WriteString(generated + reasonsHead +
		"\n| reason | code | HTTP | when, and what to do |\n|---|---|---|---|\n")
	for _, e := range d.enums {
		if e.Desc.Name() != "ErrorReason" {
			continue
		}
		for _, v := range e.Values[1:] {
			code, text, found := strings.Cut(prose(v.Comments), ": ")
			if !found || httpCodes[code] == 0 {
				return "", fmt.Errorf("the comment on %s does not begin with the code of the error",
					v.Desc.Name())
			}
			name := strings.TrimPrefix(string(v.Desc.Name()), "ERROR_REASON_")
			fmt.Fprintf(b, "| %s | %s | %d | %s |\n", name, code, httpCodes[code],
				cell(strings.ToUpper(text[:1])+text[1:]))
		}
	}
	return b.String(), nil
}

// Command apidoc is a plugin of protoc that writes the reference of the API (api.md) and the table of the reasons of errors (errors.md) from the comments of
// the contract.
package main

import (
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
			if file.Generate && strings.HasPrefix(string(file.Desc.Package()), "fencepost.") {
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

// document is what the contract has, in its order.
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

const apiHead = `<!-- Generated from proto by ` + "`make generate`" + `; do not edit. -->

# API

Every RPC is there as gRPC, gRPC-Web and Connect, and as JSON over HTTP under the paths that are given with it; all on one port. In JSON the names of fields are
in lowerCamelCase, 64-bit numbers are strings, bytes are in base64, and times are in RFC 3339. [openapi.yaml](openapi.yaml) says the same for machines, and
[errors.md](errors.md) lists the reasons of errors.

A watch over HTTP is a stream of JSON objects, a line each. Whoever accepts ` + "`text/event-stream`" + ` gets server-sent events, whose id is the resume token. An error
after the first message is the last line, ` + "`{\"error\": ...}`" + `, or the last event, of the type ` + "`error`" + `.

A body is UTF-8, plain or packed with gzip, and has grpc.ping_interval (30 s) to arrive. The head of a call, its
path and its token included, has 64 KiB at most. For plain JSON its Content-Type is ` + "`application/json`" + `. The methods of Connect are at
` + "`POST /fencepost.v1.TxService/CreateTx`" + ` and the like; the header Connect-Protocol-Version may be left out of calls that are not streams.

The first request of a connection of HTTP/2 decides whether all of it is gRPC. A proxy that puts several callers on one connection needs one upstream for gRPC
and another for all else, or HTTP/1.1 for all else.

With curl, against the node that ` + "`make run`" + ` starts: create a transaction, look at it by its key, watch it to its end, and with TX_ID set to the ` + "`txId`" + ` of an answer look at
one and cancel it:

` + "```sh" + `
curl -sS -H 'Content-Type: application/json' -d '{"submitter": "alice", "requestId": "curl-1", "payload": {"to": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "value": "1", "data": "0J3gig=="}}' http://127.0.0.1:9090/api/v1/tx
curl -sS 'http://127.0.0.1:9090/api/v1/tx/by-request?submitter=alice&request_id=curl-1'
curl -sSN 'http://127.0.0.1:9090/api/v1/tx/by-request/events?submitter=alice&request_id=curl-1&until_final=true'
curl -sS "http://127.0.0.1:9090/api/v1/tx/$TX_ID"
curl -sS -X POST -H 'Content-Type: application/json' -d '{"reason": "not needed any more"}' "http://127.0.0.1:9090/api/v1/tx/$TX_ID/cancel"
` + "```" + `

Several transactions are watched on one stream by their ids, 100 at most, here until both are final (OTHER_ID is the ` + "`txId`" + ` of another answer):

    curl -sSN "http://127.0.0.1:9090/api/v1/tx/by-ids/events?tx_ids=$TX_ID&tx_ids=$OTHER_ID&until_final=true"

Bytes are base64: the ` + "`data`" + ` there is the call data 0xd09de08a, as ` + "`printf d09de08a | xxd -r -p | base64 -w0`" + ` writes it. Hex is refused.

CreateTx answers 202 when it has queued the transaction, and 200 when the request came before and the transaction is there already; all else that succeeds is 200. Without
` + "`Content-Type: application/json`" + ` (curl sends ` + "`application/x-www-form-urlencoded`" + ` by itself) a body is refused with 415. Where the node asks for tokens each line needs
` + "`-H \"authorization: Bearer $TOKEN\"`" + `, or is refused with 401.

What a path names, such as the transaction of ` + "`tx/{tx_id}/cancel`" + `, is named there alone: a parameter that names it too is refused, and so is a body that names another.
Whatever has a body takes no parameters.
`

func (d *document) api() string {
	b := &strings.Builder{}
	b.WriteString(apiHead)
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

// paths are where an RPC is in the JSON API.
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

// rules are those that are checked of a field, as the contract writes them. Those in CEL have a sentence of their own.
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

// link leads to a type of ours; one of others has its name alone.
func link(d protoreflect.Descriptor) string {
	if !strings.HasPrefix(string(d.FullName()), "fencepost.") {
		return string(d.FullName())
	}
	return fmt.Sprintf("[%s](#%s)", d.Name(), strings.ToLower(string(d.Name())))
}

// prose is a comment as one paragraph.
func prose(c protogen.CommentSet) string {
	return strings.TrimSpace(spaces.ReplaceAllString(string(c.Leading), " "))
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

const reasonsHead = `<!-- Generated from proto by ` + "`make generate`" + `; do not edit. -->

# Errors

An error is a google.rpc.Status. Its message is a sentence that names the thing, the reason and the remedy. Its details hold a google.rpc.ErrorInfo of the domain
` + "`fencepost.dev`" + ` with one of these reasons; a google.rpc.BadRequest with the fields that are at fault (as many as fit, 16 at most; the message says if there are more);
a google.rpc.RetryInfo where the same call will do later, which over HTTP is the header Retry-After as well; and a google.rpc.RequestInfo where the log has more. Over
HTTP the body is the status as JSON. Of a body of the JSON API that is no JSON by its head (415), the field at fault is the header, Content-Type or Content-Encoding.

A call that the caller itself ended has no reason: CANCELLED (499), or DEADLINE_EXCEEDED (504) when its own deadline passed. Nor has what the transport of gRPC,
gRPC-Web or Connect refuses by itself, before anything of the node's sees it: a message that says of itself that it is larger than payload.max_bytes and 4 MiB more
(RESOURCE_EXHAUSTED; do not repeat it), or a frame that is none. What is asked for over HTTP that is no path of the API gets 404 and a sentence; a method
that is called in a form that is not spoken (the text form of gRPC-Web, or no Content-Type) gets 415 and a sentence that says which forms are, and a GET of Connect or
gRPC-Web gets 405. These are plain text and have no reason either.

| reason | code | HTTP | when, and what to do |
|---|---|---|---|
`

// httpCodes are those of the codes that reasons have.
var httpCodes = map[string]int{
	"INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "ALREADY_EXISTS": 409, "FAILED_PRECONDITION": 400, "OUT_OF_RANGE": 400, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504,
	"INTERNAL": 500, "ABORTED": 409, "RESOURCE_EXHAUSTED": 429, "PERMISSION_DENIED": 403, "UNAUTHENTICATED": 401, "UNIMPLEMENTED": 501,
}

func (d *document) reasons() (string, error) {
	b := &strings.Builder{}
	b.WriteString(reasonsHead)
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

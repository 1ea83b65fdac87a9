// Package schema describes delivered events for their receivers: as a JSON Schema of the CloudEvent
// in structured mode, and as an AsyncAPI document. Both are made from the contract.
package schema

import (
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

//go:generate go run ./write ../../docs

const typePattern = `^dev\.fencepost\.((tx|account)\.[a-z_]+|ledger\.restored)$`

type object = map[string]any

// JSON returns the JSON Schema of a structured event.
func JSON() ([]byte, error) {
	definitions := object{}
	define(definitions, (&pb.SinkEvent{}).ProtoReflect().Descriptor())
	text := func(about string) object { return object{"type": "string", "description": about} }
	return indent(object{
		"$schema":  "https://json-schema.org/draft/2020-12/schema",
		"title":    "An event of Fencepost",
		"type":     "object",
		"required": []string{"specversion", "id", "source", "type", "time", "data"},
		"properties": object{
			"specversion":     object{"const": "1.0"},
			"id":              text("<subject>/<seq>: the same in each delivery of the event"),
			"source":          text("the ledger"),
			"type":            object{"type": "string", "pattern": typePattern},
			"subject":         text("tx_id, or the id of the account's events"),
			"time":            object{"type": "string", "format": "date-time"},
			"datacontenttype": object{"const": "application/json"},
			"submitter":       text("name of the account"),
			"requestid":       text("the caller's idempotency key"),
			"sequence":        object{"type": "string", "pattern": "^[0-9]{20}$"},
			"partitionkey":    text("the subject"),
			"data":            reference("SinkEvent"),
		},
		"additionalProperties": false,
		"$defs":                definitions,
	})
}

func reference(name string) object { return object{"$ref": "#/$defs/" + name} }

// define adds the schema of a message and of those in it.
func define(definitions object, m protoreflect.MessageDescriptor) {
	name := string(m.Name())
	if definitions[name] != nil {
		return
	}
	properties := object{}
	definitions[name] = object{"type": "object", "properties": properties,
		"additionalProperties": false}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		properties[f.JSONName()] = schemaOf(definitions, f)
	}
}

func schemaOf(definitions object, f protoreflect.FieldDescriptor) object {
	switch {
	case f.IsMap():
		return object{"type": "object",
			"additionalProperties": single(definitions, f.MapValue())}
	case f.IsList():
		return object{"type": "array", "items": single(definitions, f)}
	}
	return single(definitions, f)
}

// single is the schema of one value in the JSON mapping of Protocol Buffers.
func single(definitions object, f protoreflect.FieldDescriptor) object {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Sint32Kind:
		return object{"type": "integer"}
	case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Sint64Kind:
		return object{"type": "string", "pattern": "^-?[0-9]+$"}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return object{"type": "number"}
	case protoreflect.EnumKind:
		names := []string{}
		for i := range f.Enum().Values().Len() {
			names = append(names, string(f.Enum().Values().Get(i).Name()))
		}
		return object{"enum": names}
	case protoreflect.MessageKind:
		if f.Message().FullName() == "google.protobuf.Timestamp" {
			return object{"type": "string", "format": "date-time"}
		}
		define(definitions, f.Message())
		return reference(string(f.Message().Name()))
	}
	return object{"type": "string"}
}

// channel is a way by which events reach a receiver.
type channel struct {
	about     string
	operation string
	attribute string            // prefix of a CloudEvents attribute among the headers
	headers   map[string]string // descriptions of others, by name in lower case
	formats   []string
}

var channels = map[string]channel{
	"webhook": {"POST to sinks.*.webhook.url, signed as Standard Webhooks define",
		"receiveByWebhook", "ce-", map[string]string{
			"webhook-id":        "id of the event",
			"webhook-timestamp": "time of the attempt, in seconds since 1970",
			"webhook-signature": "a signature by each secret, separated by spaces",
		}, allFormats},
	"kafka": {"Records of sinks.*.kafka.topic", "receiveFromKafka", "ce_", nil, allFormats},
	"nats": {"Messages of sinks.*.nats.subject", "receiveFromNATS", "ce-",
		map[string]string{"nats-msg-id": "id of the event"}, allFormats},
	"log": {"Lines on standard output", "readFromLog", "", nil, []string{"structured"}},
}

var allFormats = []string{"structured", "binary", "protobuf"}

// attributes are the ones of CloudEvents that the modes binary and protobuf have among the headers.
var attributes = map[string]bool{ // whether each event has it
	"specversion": true, "id": true, "source": true, "type": true, "time": true,
	"subject": false, "submitter": false, "requestid": false, "sequence": false,
	"partitionkey": false,
}

// message describes the messages of a format. Names of headers are in lower case.
func (c channel) message(format string) object {
	properties, required := object{}, []string{}
	for name, about := range c.headers {
		properties[name] = object{"type": "string", "description": about}
		required = append(required, name)
	}
	m := object{}
	switch format {
	case "structured":
		m["summary"], m["contentType"] = "A CloudEvent in JSON", "application/cloudevents+json"
		m["payload"] = object{"$ref": "./event.schema.json"}
	case "binary":
		m["summary"] = "CloudEvents attributes as headers, and the content in JSON"
		m["contentType"] = "application/json"
		m["payload"] = object{"$ref": "./event.schema.json#/$defs/SinkEvent"}
	case "protobuf":
		m["summary"] = "CloudEvents attributes as headers, and a fencepost.v1.SinkEvent"
		m["contentType"] = "application/protobuf"
		m["payload"] = object{
			"schemaFormat": "application/vnd.google.protobuf;version=3",
			"schema":       object{"$ref": "../proto/fencepost/v1/sink.proto"},
		}
	}
	if format != "structured" {
		for name, always := range attributes {
			properties[c.attribute+name] = object{"type": "string"}
			if always {
				required = append(required, c.attribute+name)
			}
		}
	}
	if len(properties) > 0 {
		slices.Sort(required)
		m["headers"] = object{"type": "object", "properties": properties, "required": required}
	}
	return m
}

// AsyncAPI returns the description of the channels, which refers to the JSON Schema.
func AsyncAPI() ([]byte, error) {
	described, operations := object{}, object{}
	messages := object{}
	for name, c := range channels {
		references := object{}
		for _, format := range c.formats {
			full := name + "-" + format
			messages[full] = c.message(format)
			references[format] = object{"$ref": "#/components/messages/" + full}
		}
		described[name] = object{"description": c.about, "messages": references}
		operations[c.operation] = operation(name)
	}
	return indent(object{
		"asyncapi": "3.0.0",
		"info": object{"title": "Events of Fencepost", "version": "v1",
			"description": "State changes of transactions and events of accounts, at least " +
				"once and in order per transaction and account."},
		"defaultContentType": "application/cloudevents+json",
		"channels":           described,
		"operations":         operations,
		"components":         object{"messages": messages},
	})
}

func operation(channel string) object {
	return object{"action": "send", "channel": object{"$ref": "#/channels/" + channel}}
}

func indent(o object) ([]byte, error) {
	text, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("sink: write a schema: %w", err)
	}
	return append(text, '\n'), nil
}

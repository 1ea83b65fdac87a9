// Package schema describes delivered events for their receivers: as a JSON Schema of the CloudEvent
// in structured mode, and as an AsyncAPI document. Both are made from the contract.
package schema

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

//go:generate go run ./write ../../docs

const typePattern = `^dev\.fencepost\.(tx\.[a-z_]+|ledger\.restored)$`

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
			"id":              text("<tx_id>/<seq>: the same in each delivery of the event"),
			"source":          text("the ledger"),
			"type":            object{"type": "string", "pattern": typePattern},
			"subject":         text("tx_id"),
			"time":            object{"type": "string", "format": "date-time"},
			"datacontenttype": object{"const": "application/json"},
			"submitter":       text("name of the account"),
			"requestid":       text("the caller's idempotency key"),
			"sequence":        object{"type": "string", "pattern": "^[0-9]{20}$"},
			"partitionkey":    text("tx_id"),
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

// AsyncAPI returns the description of the channels, which refers to the JSON Schema.
func AsyncAPI() ([]byte, error) {
	message := func(about, contentType string, payload object) object {
		return object{"summary": about, "contentType": contentType, "payload": payload}
	}
	schema := object{"$ref": "./event.schema.json"}
	data := object{"$ref": "./event.schema.json#/$defs/SinkEvent"}
	messages := object{
		"structured": message("A CloudEvent in JSON", "application/cloudevents+json", schema),
		"binary": message("CloudEvents attributes as headers, and the content in JSON",
			"application/json", data),
	}
	references := object{}
	for name := range messages {
		references[name] = object{"$ref": "#/components/messages/" + name}
	}
	channel := func(about string) object {
		return object{"description": about, "messages": references}
	}
	return indent(object{
		"asyncapi": "3.0.0",
		"info": object{"title": "Events of Fencepost", "version": "v1",
			"description": "State changes of transactions, at least once and in order per " +
				"transaction."},
		"defaultContentType": "application/cloudevents+json",
		"channels": object{
			"webhook": channel("POST to sinks.*.webhook.url, signed as Standard Webhooks define"),
			"kafka":   channel("Records of sinks.*.kafka.topic"),
			"nats":    channel("Messages of sinks.*.nats.subject"),
		},
		"operations": object{
			"receiveByWebhook": operation("webhook"), "receiveFromKafka": operation("kafka"),
			"receiveFromNATS": operation("nats"),
		},
		"components": object{"messages": messages},
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

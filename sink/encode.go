package sink

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// Format is how an event is written.
type Format string

// The formats. Binary and Protobuf carry the CloudEvents attributes beside the content.
const (
	Structured Format = "structured" // CloudEvents 1.0 in JSON
	Binary     Format = "binary"     // CloudEvents 1.0 attributes, and the content in JSON
	Protobuf   Format = "protobuf"   // CloudEvents 1.0 attributes, and a fencepost.v1.SinkEvent
)

// Content types of the formats.
const (
	typeStructured = "application/cloudevents+json; charset=UTF-8"
	typeJSON       = "application/json"
	typeProtobuf   = "application/protobuf"
)

// Encoder writes events in a format.
type Encoder struct {
	Format Format
	Source string // CloudEvents source: a URI reference that names this ledger
}

// Message is an encoded event.
type Message struct {
	ID          string
	ContentType string
	// Attributes are the CloudEvents attributes of the binary mode, by name; nil in structured
	// mode.
	Attributes []Attribute
	Body       []byte
}

// Attribute is a CloudEvents attribute.
type Attribute struct{ Name, Value string }

// envelope is a CloudEvent in JSON.
type envelope struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Submitter       string          `json:"submitter,omitempty"`
	RequestID       string          `json:"requestid,omitempty"`
	Sequence        string          `json:"sequence,omitempty"`
	PartitionKey    string          `json:"partitionkey,omitempty"`
	Data            json.RawMessage `json:"data"`
}

// jsonContent writes content as the API does: all fields by their JSON names, zero values left out.
var jsonContent = protojson.MarshalOptions{}

// TypeOf is the CloudEvents type of an event.
func TypeOf(e *Event) string {
	if e.Content.GetRestored() != nil {
		return TypeRestored
	}
	if e.Content.GetAccountEvent() != nil {
		return "dev.fencepost.account." + strings.ToLower(string(e.Kind))
	}
	return "dev.fencepost.tx." + strings.ToLower(string(e.Kind))
}

// Encode writes an event.
func (c Encoder) Encode(e *Event) (Message, error) {
	m := Message{ID: e.Content.GetId()}
	env := c.envelope(e)
	switch c.Format {
	case Protobuf:
		body, err := proto.Marshal(e.Content)
		if err != nil {
			return m, fmt.Errorf("sink: encode event %s: %w", m.ID, err)
		}
		env.DataContentType = typeProtobuf
		m.ContentType, m.Body = typeProtobuf, body
		m.Attributes = env.attributes()
		return m, nil
	case Binary:
		body, err := contentJSON(e.Content)
		if err != nil {
			return m, err
		}
		m.ContentType, m.Body = typeJSON, body
		m.Attributes = env.attributes()
		return m, nil
	}
	data, err := contentJSON(e.Content)
	if err != nil {
		return m, err
	}
	env.Data = data
	if m.Body, err = json.Marshal(env); err != nil {
		return m, fmt.Errorf("sink: encode event %s: %w", m.ID, err)
	}
	m.ContentType = typeStructured
	return m, nil
}

func contentJSON(content *pb.SinkEvent) ([]byte, error) {
	body, err := jsonContent.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("sink: encode event %s: %w", content.GetId(), err)
	}
	return body, nil
}

func (c Encoder) envelope(e *Event) envelope {
	env := envelope{
		SpecVersion: "1.0", ID: e.Content.GetId(), Source: c.Source, Type: TypeOf(e),
		Time: e.At.UTC().Format(time.RFC3339Nano), DataContentType: typeJSON,
		Submitter: e.Name, RequestID: e.Content.GetRequestId(),
	}
	if e.Content.GetRestored() == nil {
		env.Subject = e.Tx.String()
		env.PartitionKey = env.Subject
		env.Sequence = fmt.Sprintf("%020d", e.Seq) // sorts as text
	}
	return env
}

// attributes are the attributes of the binary mode. They may hold any text, so each transport
// encodes them as its headers allow.
func (v envelope) attributes() []Attribute {
	all := []Attribute{
		{"specversion", v.SpecVersion}, {"id", v.ID}, {"source", v.Source}, {"type", v.Type},
		{"time", v.Time},
	}
	for _, a := range []Attribute{{"subject", v.Subject}, {"submitter", v.Submitter},
		{"requestid", v.RequestID}, {"sequence", v.Sequence}, {"partitionkey", v.PartitionKey}} {
		if a.Value != "" {
			all = append(all, a)
		}
	}
	return all
}

// percentEncoded writes a value for an HTTP header, as the CloudEvents HTTP binding requires.
func percentEncoded(value string) string {
	var b strings.Builder
	for _, r := range value {
		if r > ' ' && r < 0x7f && r != '"' && r != '%' {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(string(r)) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

package schema_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/sink"
)

// sent is a message as a receiver gets it.
type sent struct {
	contentType string
	headers     map[string]any // by name in lower case
	body        []byte
}

// document is the part of docs/asyncapi.json that this test follows.
type document struct {
	Channels map[string]struct {
		Messages map[string]struct {
			Ref string `json:"$ref"`
		}
	}
	Operations map[string]struct {
		Channel struct {
			Ref string `json:"$ref"`
		}
	}
	Components struct{ Messages map[string]message }
}

type message struct {
	ContentType string
	Headers     json.RawMessage
	Payload     json.RawMessage
}

// TestAsyncAPI_SentMessages_Valid: each kind of sink sends the messages of its channel in
// docs/asyncapi.json, in each format: content type, headers and payload.
func TestAsyncAPI_SentMessages_Valid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/asyncapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]func(*testing.T, sink.Format) []sent{
		"webhook": byWebhook, "kafka": byKafka, "nats": byNATS, "log": byLog,
	}
	if got, want := slices.Sorted(maps.Keys(d.Channels)), slices.Sorted(maps.Keys(kinds)); !slices.
		Equal(got, want) {
		t.Fatalf("the channels are %q, want %q", got, want)
	}
	for kind, send := range kinds {
		operations := 0
		for _, o := range d.Operations {
			if o.Channel.Ref == "#/channels/"+kind {
				operations++
			}
		}
		if operations != 1 {
			t.Errorf("channel %s has %d operations", kind, operations)
		}
		for format, reference := range d.Channels[kind].Messages {
			t.Run(kind+" "+format, func(t *testing.T) {
				t.Parallel()
				name := strings.TrimPrefix(reference.Ref, "#/components/messages/")
				m, found := d.Components.Messages[name]
				if !found {
					t.Fatalf("there is no message %q", reference.Ref)
				}
				all := send(t, sink.Format(format))
				if len(all) != len(events()) {
					t.Fatalf("%d messages", len(all))
				}
				for _, one := range all {
					m.check(t, kind, one)
				}
			})
		}
	}
}

// check compares a message with its description.
func (m message) check(t *testing.T, kind string, one sent) {
	t.Helper()
	contentType, _, err := mime.ParseMediaType(one.contentType)
	if kind != "log" && (err != nil || contentType != m.ContentType) { // lines have none
		t.Errorf("content type %q, want %q", one.contentType, m.ContentType)
	}
	if m.Headers != nil {
		rules := compile(t, m.Headers)
		if err := rules.Validate(one.headers); err != nil {
			t.Errorf("headers: %v", err)
		}
		var described struct {
			Properties map[string]any
			Required   []string
		}
		if err := json.Unmarshal(m.Headers, &described); err != nil {
			t.Fatal(err)
		}
		for name := range one.headers {
			if _, is := described.Properties[name]; !is {
				t.Errorf("header %q is not described", name)
			}
		}
		for _, name := range described.Required {
			without := maps.Clone(one.headers)
			delete(without, name)
			if rules.Validate(without) == nil {
				t.Errorf("header %q may be missing", name)
			}
		}
	} else if len(one.headers) > 0 {
		t.Errorf("headers %v are not described", one.headers)
	}
	if m.ContentType == "application/protobuf" {
		content := &pb.SinkEvent{}
		if err := proto.Unmarshal(one.body, content); err != nil || content.GetId() == "" {
			t.Errorf("payload %x: %v", one.body, err)
		}
		return
	}
	var payload map[string]any
	if err := json.Unmarshal(one.body, &payload); err != nil {
		t.Fatal(err)
	}
	rules := compile(t, m.Payload)
	if err := rules.Validate(payload); err != nil {
		t.Errorf("payload: %v", err)
	}
	payload["other"] = 1
	if rules.Validate(payload) == nil {
		t.Error("an unknown field is valid")
	}
}

// compile resolves references to docs/event.schema.json.
func compile(t *testing.T, text json.RawMessage) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	for name, read := range map[string]func() ([]byte, error){
		"event.schema.json": func() ([]byte, error) {
			return os.ReadFile("../../docs/event.schema.json")
		},
		"part.json": func() ([]byte, error) { return text, nil },
	} {
		raw, err := read()
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(name, parsed); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := c.Compile("part.json")
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func encoder(f sink.Format) sink.Encoder { return sink.Encoder{Format: f, Source: "urn:test"} }

// sendLimit is for a busy machine.
const sendLimit = time.Minute

func deliver(t *testing.T, s sink.Sink) {
	t.Helper()
	defer s.Close()
	for i, result := range s.Deliver(t.Context(), events()) {
		if result.Verdict != sink.Done {
			t.Fatalf("event %d: %+v", i, result)
		}
	}
}

func byLog(t *testing.T, _ sink.Format) (all []sent) {
	var out bytes.Buffer
	deliver(t, sink.NewLog(&out, "urn:test"))
	for line := range bytes.Lines(out.Bytes()) {
		all = append(all, sent{body: line})
	}
	return all
}

// ofHTTP are the headers that HTTP itself has.
var ofHTTP = []string{"content-type", "content-length", "accept-encoding", "user-agent"}

func byWebhook(t *testing.T, format sink.Format) (all []sent) {
	got := make(chan sent, len(events()))
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		headers := map[string]any{}
		for name := range r.Header {
			if lower := strings.ToLower(name); !slices.Contains(ofHTTP, lower) {
				headers[lower] = r.Header.Get(name)
			}
		}
		got <- sent{r.Header.Get("Content-Type"), headers, body}
	}))
	defer server.Close()
	w, err := sink.NewWebhook(sink.WebhookOptions{URL: server.URL, Encoder: encoder(format),
		Timeout: sendLimit, Concurrency: 1, AllowPrivate: true, Clock: clock.Real{},
		Secrets: func() ([]string, error) {
			return []string{"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	deliver(t, w)
	close(got)
	for one := range got {
		all = append(all, one)
	}
	return all
}

func byKafka(t *testing.T, format sink.Format) (all []sent) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "events"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	k, err := sink.OpenKafka(t.Context(), sink.KafkaOptions{Brokers: cluster.ListenAddrs(),
		Topic: "events", Encoder: encoder(format), Timeout: sendLimit})
	if err != nil {
		t.Fatal(err)
	}
	deliver(t, k)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...),
		kgo.ConsumeTopics("events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), sendLimit)
	defer cancel()
	for len(all) < len(events()) && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			one := sent{headers: map[string]any{}, body: r.Value}
			for _, h := range r.Headers {
				if h.Key == "content-type" {
					one.contentType = string(h.Value)
				} else {
					one.headers[h.Key] = string(h.Value)
				}
			}
			all = append(all, one)
		})
	}
	return all
}

func byNATS(t *testing.T, format sink.Format) (all []sent) {
	s, err := server.NewServer(&server.Options{Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: t.TempDir(), NoSigs: true, Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(sendLimit) {
		t.Fatal("nats-server is not ready")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS",
		Subjects: []string{"events"}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := sink.OpenNATS(t.Context(), sink.NATSOptions{Servers: []string{s.ClientURL()},
		Subject: "events", Stream: "EVENTS", Encoder: encoder(format), Timeout: sendLimit})
	if err != nil {
		t.Fatal(err)
	}
	deliver(t, n)
	for i := range events() {
		m, err := stream.GetMsg(t.Context(), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		one := sent{headers: map[string]any{}, body: m.Data}
		for name := range m.Header {
			switch lower := strings.ToLower(name); lower {
			case "content-type":
				one.contentType = m.Header.Get(name)
			case "nats-expected-stream": // between client and server
			default:
				one.headers[lower] = m.Header.Get(name)
			}
		}
		all = append(all, one)
	}
	return all
}

package sink_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/txn"
)

func cluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.SeedTopics(4, "events"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func kafkaOptions(c *kfake.Cluster) sink.KafkaOptions {
	return sink.KafkaOptions{Brokers: c.ListenAddrs(), Topic: "events", Timeout: 5 * time.Second,
		Encoder: sink.Encoder{Format: sink.Structured, Source: "urn:test"}}
}

// brokerSettings are of a sink that opens a broker.
func brokerSettings(name string, open func(context.Context) (sink.Sink, error)) sink.Settings {
	return sink.Settings{Name: name, Kind: name, RetryMin: 5 * time.Millisecond,
		RetryMax: 100 * time.Millisecond, RetryFor: time.Hour, Open: open}
}

// consume records what a topic has, per key in order.
func consume(t testing.TB, ctx context.Context, brokers []string, r *receiver) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics("events"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
				r.recordJSON(record.Value)
			})
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		client.Close()
	})
}

// recordJSON records a structured CloudEvent.
func (r *receiver) recordJSON(body []byte) {
	var e struct {
		ID       string
		Subject  string
		Sequence string
		Type     string
	}
	if err := json.Unmarshal(body, &e); err != nil {
		r.t.Errorf("%s: %v", body, err)
		return
	}
	id, err := txn.ParseTxID(e.Subject)
	if err != nil {
		r.t.Errorf("%s: %v", body, err)
		return
	}
	seq := int64(0)
	if _, err := fmt.Sscan(e.Sequence, &seq); err != nil {
		r.t.Errorf("%s: %v", body, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.got[e.ID]++; r.got[e.ID] > 1 {
		return
	}
	if seq != r.last[id]+1 {
		r.disorder = append(r.disorder, fmt.Sprintf("%s after %d", e.ID, r.last[id]))
	}
	r.last[id] = seq
}

// TestKafka_BrokerDown_EveryEventInOrder: connections break while events are produced.
func TestKafka_BrokerDown_EveryEventInOrder(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	var produced atomic.Int64
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if produced.Add(1)%4 == 0 {
			return nil, errors.New("down"), true
		}
		return nil, nil, false
	})
	l, r := newLedger(t), newReceiver(t)
	a := l.run("a", brokerSettings("kafka", func(ctx context.Context) (sink.Sink, error) {
		return sink.OpenKafka(ctx, kafkaOptions(c))
	}))
	l.await(a.Store, "kafka")
	consume(t, l.ctx, c.ListenAddrs(), r)
	l.create(a.Store, 20)
	for seq := 2; seq < 5; seq++ {
		l.grow(seq)
	}
	l.awaitAll(r)
	if parked, dead, err := a.CountParked(l.ctx, "kafka"); err != nil || parked+dead > 0 {
		t.Errorf("%d parked, %d dead, %v", parked, dead, err)
	}
}

// TestKafka_OldEvent_Delivered: the delivery timeout does not count from the time of the event.
func TestKafka_OldEvent_Delivered(t *testing.T) {
	t.Parallel()
	k, err := sink.OpenKafka(t.Context(), kafkaOptions(cluster(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	old := &sink.Event{Tx: txn.TxID{1}, Seq: 1, At: time.Now().Add(-time.Hour),
		Content: &pb.SinkEvent{Id: "old/1"}}
	if got := k.Deliver(t.Context(), []*sink.Event{old}); got[0].Verdict != sink.Done {
		t.Errorf("%+v", got)
	}
}

func TestKafka_Open_ChecksTopicAndLogin(t *testing.T) {
	t.Parallel()
	c := cluster(t, kfake.EnableSASL(), kfake.User("SCRAM-SHA-256", "app", "secret"))
	for name, tweak := range map[string]func(*sink.KafkaOptions){
		"": func(*sink.KafkaOptions) {},
		"wrong password": func(o *sink.KafkaOptions) {
			o.Password = func() string { return "wrong" }
		},
		"no login":      func(o *sink.KafkaOptions) { o.Mechanism = "" },
		"missing topic": func(o *sink.KafkaOptions) { o.Topic = "missing" },
	} {
		o := kafkaOptions(c)
		o.Mechanism, o.Username = "SCRAM-SHA-256", "app"
		o.Password = func() string { return "secret" }
		o.Timeout = time.Second
		tweak(&o)
		k, err := sink.OpenKafka(t.Context(), o)
		if (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
		if err == nil {
			k.Close()
		}
	}
}

func jetStream(t testing.TB) (*server.Server, jetstream.JetStream) {
	t.Helper()
	s := natsServer(t, &server.Options{Port: server.RANDOM_PORT, StoreDir: t.TempDir()})
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS",
		Subjects: []string{"fencepost.>"}, Duplicates: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s, js
}

func natsServer(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	o.JetStream, o.NoSigs = true, true
	o.Host = "127.0.0.1"
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	return s
}

func natsOptions(s *server.Server) sink.NATSOptions {
	return sink.NATSOptions{Servers: []string{s.ClientURL()}, Subject: "fencepost.events",
		Stream: "EVENTS", Timeout: 2 * time.Second,
		Encoder: sink.Encoder{Format: sink.Structured, Source: "urn:test"}}
}

// TestNATS_Delivery_OncePerID: a second delivery of an event is dropped by its message id.
func TestNATS_Delivery_OncePerID(t *testing.T) {
	t.Parallel()
	s, js := jetStream(t)
	l, r := newLedger(t), newReceiver(t)
	a := l.run("a", brokerSettings("nats", func(ctx context.Context) (sink.Sink, error) {
		return sink.OpenNATS(ctx, natsOptions(s))
	}))
	l.await(a.Store, "nats")
	consumer, err := js.OrderedConsumer(l.ctx, "EVENTS", jetstream.OrderedConsumerConfig{})
	l.must(err)
	consuming, err := consumer.Consume(func(m jetstream.Msg) { r.recordJSON(m.Data()) })
	l.must(err)
	defer consuming.Stop()
	l.create(a.Store, 10)
	l.grow(2)
	l.awaitAll(r)
	from, err := a.PositionFrom(l.ctx, time.Now().Add(-time.Hour))
	l.must(err)
	l.must(a.ReplaySink(l.ctx, storeDecision("nats"), from))
	l.grow(3)
	l.awaitAll(r)
	stream, err := js.Stream(l.ctx, "EVENTS")
	l.must(err)
	info, err := stream.Info(l.ctx)
	l.must(err)
	if got := int(info.State.Msgs); got != len(l.events) {
		t.Errorf("%d messages, want %d", got, len(l.events))
	}
}

func TestNATS_Open_ChecksStream(t *testing.T) {
	t.Parallel()
	s, _ := jetStream(t)
	for name, tweak := range map[string]func(*sink.NATSOptions){
		"":              func(*sink.NATSOptions) {},
		"other stream":  func(o *sink.NATSOptions) { o.Stream = "OTHER" },
		"other subject": func(o *sink.NATSOptions) { o.Subject = "other" },
		"no server":     func(o *sink.NATSOptions) { o.Servers = []string{"nats://127.0.0.1:1"} },
	} {
		o := natsOptions(s)
		tweak(&o)
		n, err := sink.OpenNATS(t.Context(), o)
		if (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
		if err == nil {
			n.Close()
		}
	}
}

// TestNATS_EventLargerThanStreamTakes_OthersFlow: one event that the stream never takes delays only
// its own transaction.
func TestNATS_EventLargerThanStreamTakes_OthersFlow(t *testing.T) {
	t.Parallel()
	s, js := jetStream(t)
	_, err := js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS",
		Subjects: []string{"fencepost.>"}, Duplicates: time.Minute, MaxMsgSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	n, err := sink.OpenNATS(t.Context(), natsOptions(s))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	got := n.Deliver(t.Context(), []*sink.Event{sizedEvent(1, 1, 8000), sizedEvent(1, 2, 1),
		sizedEvent(2, 1, 1)})
	for i, want := range []sink.Verdict{sink.Retry, sink.Retry, sink.Done} {
		if got[i].Verdict != want {
			t.Errorf("event %d: %+v, want verdict %d", i, got[i], want)
		}
	}
}

// TestNATS_NoAcknowledgement_PlacesFreed: the client limits the messages that may be
// unacknowledged. One that is never acknowledged must not keep its place.
func TestNATS_NoAcknowledgement_PlacesFreed(t *testing.T) {
	t.Parallel()
	s, _ := jetStream(t)
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	o := natsOptions(s)
	o.Timeout = 200 * time.Millisecond
	n, err := sink.OpenNATS(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	s.DisableJetStream()
	// A subscriber that never answers stands for the stream, or nobody would be reported.
	silent, err := conn.SubscribeSync("fencepost.>")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Unsubscribe()
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		var events []*sink.Event
		for tx := range 200 {
			events = append(events, sizedEvent(byte(tx+1), int64(i+1), 1))
		}
		for _, result := range n.Deliver(t.Context(), events) {
			if result.Verdict != sink.Unavailable {
				t.Fatalf("%+v", result)
			}
		}
	}
	await(t, "no message keeps its place", func() bool { return n.Outstanding() == 0 })
}

// TestNATS_CredentialsRejectedForAWhile_Recovers: the client tries again for ever.
func TestNATS_CredentialsRejectedForAWhile_Recovers(t *testing.T) {
	t.Parallel()
	s, _ := jetStream(t)
	o := natsOptions(s)
	o.Servers = []string{"nats://app:secret@" + s.Addr().String()}
	o.Timeout = 500 * time.Millisecond
	n, err := sink.OpenNATS(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	// a new server each time: nats-server races with clients when it reloads its users
	accept := func(password string) {
		t.Helper()
		o := server.Options{
			Port: s.Addr().(*net.TCPAddr).Port, StoreDir: filepath.Dir(s.StoreDir()),
			Users: []*server.User{{Username: "app", Password: password}},
		}
		s.Shutdown()
		s.WaitForShutdown()
		s = natsServer(t, &o)
	}
	accept("other")
	before := connections(t, s)
	await(t, "it was rejected twice", func() bool { return connections(t, s) >= before+2 })
	accept("secret")
	await(t, "it delivers again", func() bool {
		got := n.Deliver(t.Context(), []*sink.Event{sizedEvent(1, 1, 1)})
		return got[0].Verdict == sink.Done
	})
}

// connections is how many a server has got.
func connections(t testing.TB, s *server.Server) uint64 {
	t.Helper()
	state, err := s.Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	return state.TotalConnections
}

func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within 20s: %s", what)
		}
	}
}

// TestKafka_RecordThatBrokersReject_OthersFlow: brokers reject the batch of an old event for ever.
func TestKafka_RecordThatBrokersReject_OthersFlow(t *testing.T) {
	t.Parallel()
	for _, code := range []int16{kerr.InvalidTimestamp.Code, kerr.InvalidRecord.Code,
		kerr.MessageTooLarge.Code} {
		c := cluster(t)
		c.ControlKey(int16(kmsg.Produce), func(k kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			request := k.(*kmsg.ProduceRequest)
			response := request.ResponseKind().(*kmsg.ProduceResponse)
			for _, topic := range request.Topics {
				out := kmsg.NewProduceResponseTopic()
				out.Topic, out.TopicID = topic.Topic, topic.TopicID
				for _, p := range topic.Partitions {
					part := kmsg.NewProduceResponseTopicPartition()
					part.Partition, part.ErrorCode = p.Partition, code
					out.Partitions = append(out.Partitions, part)
				}
				response.Topics = append(response.Topics, out)
			}
			return response, nil, true
		})
		k, err := sink.OpenKafka(t.Context(), kafkaOptions(c))
		if err != nil {
			t.Fatal(err)
		}
		got := k.Deliver(t.Context(), []*sink.Event{sizedEvent(1, 1, 1)})
		if got[0].Verdict != sink.Retry {
			t.Errorf("code %d: %+v", code, got[0])
		}
		k.Close()
	}
}

// sizedEvent is an event with a label of this length.
func sizedEvent(tx byte, seq int64, length int) *sink.Event {
	id := txn.TxID{15: tx}
	return &sink.Event{Tx: id, Seq: seq, Name: "alice", Kind: txn.EventIncluded, At: time.Now(),
		Content: &pb.SinkEvent{Id: fmt.Sprintf("%s/%d", id, seq),
			Labels: map[string]string{"note": strings.Repeat("x", length)},
			Content: &pb.SinkEvent_Event{Event: &pb.TxEvent{TxId: id.String(),
				Submitter: "alice", Seq: uint64(seq)}}}}
}

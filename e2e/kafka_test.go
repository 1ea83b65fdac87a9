package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/txn"
)

const kafkaProperties = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=%[3]s
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
`

// kafkaBroker is Apache Kafka in KRaft mode.
type kafkaBroker struct {
	t          *testing.T
	classes    string
	properties string
	address    string
	process    *exec.Cmd
}

// TestKafka_ApacheBrokerKilled_EveryEventInOrder: the records of a real broker are complete and in
// order after it was killed among them. `make e2e` provides its class path.
func TestKafka_ApacheBrokerKilled_EveryEventInOrder(t *testing.T) {
	t.Parallel()
	classes, err := os.ReadFile("kafka/target/classpath")
	if err != nil {
		t.Fatalf("no class path of Kafka (%v); run \"make e2e/kafka/target/classpath\"", err)
	}
	b := newKafkaBroker(t, strings.TrimSpace(string(classes)))
	b.start()
	b.createTopic("events")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	k, err := sink.OpenKafka(ctx, sink.KafkaOptions{Brokers: []string{b.address}, Topic: "events",
		Timeout: 10 * time.Second, Encoder: sink.Encoder{Format: sink.Binary, Source: "urn:test"}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	const transactions, each = 50, 20
	for seq := range each {
		if seq == each/2 {
			b.kill()
			b.start()
		}
		var events []*sink.Event
		for tx := range transactions {
			events = append(events, kafkaEvent(tx, int64(seq+1)))
		}
		for len(events) > 0 {
			results := k.Deliver(ctx, events)
			var rest []*sink.Event
			for i, r := range results {
				if r.Verdict != sink.Done {
					rest = append(rest, events[i])
				}
			}
			if events = rest; ctx.Err() != nil {
				t.Fatalf("%d events are not delivered: %+v", len(rest), results[0])
			}
		}
	}
	b.checkRecords(ctx, transactions*each)
}

func kafkaEvent(tx int, seq int64) *sink.Event {
	id := txn.TxID{14: byte(tx >> 8), 15: byte(tx)}
	return &sink.Event{Tx: id, Seq: seq, Kind: txn.EventIncluded, At: time.Unix(seq, 0),
		Content: &pb.SinkEvent{Id: fmt.Sprintf("%s/%d", id, seq),
			Content: &pb.SinkEvent_Event{Event: &pb.TxEvent{TxId: id.String(), Seq: uint64(seq)}}}}
}

func newKafkaBroker(t *testing.T, classes string) *kafkaBroker {
	t.Helper()
	dir := t.TempDir()
	ports := [2]int{}
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = l.Addr().(*net.TCPAddr).Port
		defer l.Close()
	}
	b := &kafkaBroker{t: t, classes: classes, properties: filepath.Join(dir, "server.properties"),
		address: fmt.Sprint("127.0.0.1:", ports[0])}
	text := fmt.Sprintf(kafkaProperties, ports[0], ports[1], filepath.Join(dir, "log"))
	if err := os.WriteFile(b.properties, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	format := b.java("kafka.tools.StorageTool", "format", "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qk",
		"--config", b.properties)
	if out, err := format.CombinedOutput(); err != nil {
		t.Fatalf("format the storage: %v\n%s", err, out)
	}
	t.Cleanup(b.kill)
	return b
}

func (b *kafkaBroker) java(args ...string) *exec.Cmd {
	c := exec.Command("java", append([]string{"-Xmx384m", "-cp", b.classes}, args...)...)
	c.Dir = filepath.Dir(b.properties)
	return c
}

func (b *kafkaBroker) start() {
	b.t.Helper()
	b.process = b.java("kafka.Kafka", b.properties)
	if err := b.process.Start(); err != nil {
		b.t.Fatal(err)
	}
	limit := time.After(time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := net.Dial("tcp", b.address)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			b.t.Fatal("Kafka does not listen")
		}
	}
}

func (b *kafkaBroker) kill() {
	if b.process != nil {
		_ = b.process.Process.Kill()
		_ = b.process.Wait()
		b.process = nil
	}
}

func (b *kafkaBroker) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.address))...)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func (b *kafkaBroker) createTopic(name string) {
	b.t.Helper()
	c := b.client()
	defer c.Close()
	request := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions = name, 3
	topic.ReplicationFactor = 1
	request.Topics = append(request.Topics, topic)
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	if _, err := request.RequestWith(ctx, c); err != nil {
		b.t.Fatal(err)
	}
}

// checkRecords reads all records: every event is there, and the first of each id in order.
func (b *kafkaBroker) checkRecords(ctx context.Context, want int) {
	b.t.Helper()
	c := b.client(kgo.ConsumeTopics("events"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	got := map[string]bool{}
	last := map[string]string{}
	for len(got) < want && ctx.Err() == nil {
		c.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			attributes := map[string]string{}
			for _, h := range r.Headers {
				attributes[h.Key] = string(h.Value)
			}
			id, sequence := attributes["ce_id"], attributes["ce_sequence"]
			if got[id] {
				return
			}
			got[id] = true
			if key := string(r.Key); last[key] >= sequence {
				b.t.Errorf("%s follows %s", id, last[key])
			} else {
				last[key] = sequence
			}
		})
	}
	if len(got) != want {
		b.t.Errorf("%d events, want %d", len(got), want)
	}
}

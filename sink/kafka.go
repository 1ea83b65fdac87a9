package sink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// KafkaOptions configure a Kafka topic as a sink.
type KafkaOptions struct {
	Brokers     []string // host:port
	Topic       string
	BySubmitter bool // key of the records: the submitter, not the transaction
	Encoder     Encoder
	Timeout     time.Duration      // of one batch
	TLS         func() *tls.Config // called for each connection; nil: plain text
	Mechanism   string             // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty: no SASL
	Username    string
	Password    func() string // called for each login
}

// Kafka produces a record for each event. Records with the same key are in one partition, in
// order.
type Kafka struct {
	o      KafkaOptions
	client *kgo.Client
}

// maxRecord bounds a record, in bytes: the default of Kafka's brokers for a batch, with room for
// its headers.
const maxRecord = 1_000_000

// OpenKafka connects, and fails unless the topic exists.
func OpenKafka(ctx context.Context, o KafkaOptions) (*Kafka, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...), kgo.ClientID("fencepost"), kgo.DefaultProduceTopic(o.Topic),
		kgo.RequiredAcks(kgo.AllISRAcks()), // with idempotent writes, which are the default
		kgo.ProducerBatchMaxBytes(maxRecord + 12),
		kgo.RecordDeliveryTimeout(o.Timeout),
		kgo.ProducerBatchCompression(kgo.Lz4Compression(), kgo.NoCompression()),
		kgo.ProducerLinger(0),
	}
	if o.TLS != nil {
		options = append(options, kgo.Dialer(o.dialTLS))
	}
	if mechanism := o.sasl(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("sink: configure the Kafka client: %w", err)
	}
	k := &Kafka{o: o, client: client}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := k.check(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return k, nil
}

// dialLimit bounds the time to connect to a broker.
const dialLimit = 10 * time.Second

func (o *KafkaOptions) dialTLS(ctx context.Context, network, host string) (net.Conn, error) {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialLimit}, Config: o.TLS()}
	return d.DialContext(ctx, network, host)
}

func (o *KafkaOptions) sasl() sasl.Mechanism {
	login := func(context.Context) (scram.Auth, error) {
		return scram.Auth{User: o.Username, Pass: o.Password()}, nil
	}
	switch o.Mechanism {
	case "PLAIN":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			return plain.Auth{User: o.Username, Pass: o.Password()}, nil
		})
	case "SCRAM-SHA-256":
		return scram.Sha256(login)
	case "SCRAM-SHA-512":
		return scram.Sha512(login)
	}
	return nil
}

// check looks for the topic, which is never created.
func (k *Kafka) check(ctx context.Context) error {
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &k.o.Topic
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, k.client)
	if err != nil {
		return fmt.Errorf("sink: read the metadata of topic %q: %s; check the brokers", k.o.Topic,
			kafkaCause(err))
	}
	for _, t := range response.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("sink: topic %q: %s; create it, or grant access", k.o.Topic,
				kafkaCause(err))
		}
	}
	return nil
}

// Close ends the connections.
func (k *Kafka) Close() { k.client.Close() }

// Deliver produces the events, and waits until all in-sync replicas have them.
func (k *Kafka) Deliver(ctx context.Context, events []*Event) []Result {
	ctx, cancel := context.WithTimeout(ctx, k.o.Timeout)
	defer cancel()
	return inWaves(events, func(wave []int) []Result {
		results := make([]Result, len(wave))
		records := make([]*kgo.Record, 0, len(wave))
		at := make(map[*kgo.Record]int, len(wave))
		for n, i := range wave {
			record, err := k.record(events[i])
			if err != nil {
				results[n] = Result{Verdict: Refused, Cause: err.Error()}
				continue
			}
			at[record] = n
			records = append(records, record)
		}
		for _, produced := range k.client.ProduceSync(ctx, records...) {
			if produced.Err == nil {
				continue
			}
			result := Result{Verdict: Unavailable, Cause: kafkaCause(produced.Err)}
			if ofRecord(produced.Err) {
				result.Verdict = Retry
			}
			results[at[produced.Record]] = result
		}
		return results
	})
}

// ofRecord reports whether brokers reject a batch because of a record in it: another batch may be
// accepted, and a retry of this one has other neighbours.
func ofRecord(err error) bool {
	for _, is := range []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord,
		kerr.InvalidTimestamp} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// record is an event as the Kafka binding of CloudEvents defines it.
func (k *Kafka) record(e *Event) (*kgo.Record, error) {
	m, err := k.o.Encoder.Encode(e)
	if err != nil {
		return nil, err
	}
	// Without the event's time as timestamp, from which the client counts the delivery timeout.
	r := &kgo.Record{Value: m.Body,
		Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte(m.ContentType)}}}
	size := len(m.Body)
	for _, a := range m.Attributes {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_" + a.Name,
			Value: []byte(a.Value)})
		size += len(a.Name) + len(a.Value)
	}
	if e.Content.GetEvent() != nil {
		r.Key = []byte(e.Tx.String())
		if k.o.BySubmitter {
			r.Key = []byte(e.Name)
		}
	}
	if size > maxRecord-1024 {
		return nil, fmt.Errorf("event of %d bytes is too large for a record", size)
	}
	return r, nil
}

// kafkaCause names the cause of an error without addresses.
func kafkaCause(err error) string {
	if is, ok := errors.AsType[*kerr.Error](err); ok {
		return is.Message
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrRecordTimeout):
		return "no answer of the brokers in time"
	case errors.Is(err, context.Canceled):
		return "stopping"
	}
	return "no connection to the brokers"
}

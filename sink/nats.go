package sink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATSOptions configure a stream of NATS JetStream as a sink.
type NATSOptions struct {
	Servers         []string // nats:// or tls:// URLs
	Subject         string
	Stream          string
	Encoder         Encoder
	Timeout         time.Duration      // of one batch
	TLS             func() *tls.Config // for each connection; nil: as URLs and server require
	CredentialsFile string             // read for each connection; empty: none
}

// NATS publishes a message for each event. The server drops repetitions by message id within the
// duplicate window of the stream.
type NATS struct {
	o    NATSOptions
	conn *nats.Conn
	js   jetstream.JetStream
}

// OpenNATS connects, and fails unless the stream exists and has the subject.
func OpenNATS(ctx context.Context, o NATSOptions) (*NATS, error) {
	options := []nats.Option{nats.Name("fencepost"), nats.MaxReconnects(-1),
		nats.Timeout(o.Timeout), nats.ReconnectBufSize(-1),
		nats.IgnoreAuthErrorAbort(), // those that were rejected may be accepted later
	}
	if o.TLS != nil {
		options = append(options, nats.Secure(o.TLS()), o.rereadTLS)
	}
	if o.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(o.CredentialsFile))
	}
	conn, err := nats.Connect(strings.Join(o.Servers, ","), options...)
	if err != nil {
		return nil, fmt.Errorf("sink: connect to NATS: %s; check servers and credentials",
			natsCause(err))
	}
	n := &NATS{o: o, conn: conn}
	// Without a limit an acknowledgement that never comes takes a place among those that may be
	// outstanding, until there is none.
	n.js, err = jetstream.New(conn, jetstream.WithPublishAsyncTimeout(o.Timeout))
	if err == nil {
		err = n.check(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return n, nil
}

// rereadTLS makes each connection use the certificates of that time.
func (o *NATSOptions) rereadTLS(of *nats.Options) error {
	of.RootCAsCB = func() (*x509.CertPool, error) { return o.TLS().RootCAs, nil }
	of.TLSCertCB = func() (tls.Certificate, error) {
		if own := o.TLS().Certificates; len(own) > 0 {
			return own[0], nil
		}
		return tls.Certificate{}, nil // none
	}
	return nil
}

// check looks for the stream, which is never created.
func (n *NATS) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.o.Timeout)
	defer cancel()
	stream, err := n.js.StreamNameBySubject(ctx, n.o.Subject)
	if err != nil {
		return fmt.Errorf("sink: find the stream of subject %q: %s; create stream %q with it",
			n.o.Subject, natsCause(err), n.o.Stream)
	}
	if stream != n.o.Stream {
		return fmt.Errorf("sink: subject %q belongs to stream %q; name that stream, or another "+
			"subject", n.o.Subject, stream)
	}
	return nil
}

// Close ends the connection.
func (n *NATS) Close() { n.conn.Close() }

// Deliver publishes the events, and waits until the stream has them.
func (n *NATS) Deliver(ctx context.Context, events []*Event) []Result {
	ctx, cancel := context.WithTimeout(ctx, n.o.Timeout)
	defer cancel()
	return inWaves(events, func(wave []int) []Result {
		results := make([]Result, len(wave))
		acks := make([]jetstream.PubAckFuture, len(wave))
		for i, at := range wave {
			acks[i], results[i] = n.publish(events[at])
		}
		for i, ack := range acks {
			if ack == nil {
				continue
			}
			select {
			case <-ack.Ok():
			case err := <-ack.Err():
				results[i] = natsResult(err)
			case <-ctx.Done():
				results[i] = Result{Verdict: Unavailable, Cause: "no answer of the server in time"}
			}
		}
		return results
	})
}

// publish sends an event as the NATS binding of CloudEvents defines it.
func (n *NATS) publish(e *Event) (jetstream.PubAckFuture, Result) {
	m, err := n.o.Encoder.Encode(e)
	if err != nil {
		return nil, Result{Verdict: Refused, Cause: err.Error()}
	}
	message := nats.NewMsg(n.o.Subject)
	message.Data = m.Body
	message.Header.Set("content-type", m.ContentType)
	for _, a := range m.Attributes {
		message.Header.Set("ce-"+a.Name, percentEncoded(a.Value))
	}
	ack, err := n.js.PublishMsgAsync(message, jetstream.WithMsgID(m.ID),
		jetstream.WithExpectStream(n.o.Stream))
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, Result{Verdict: Refused, Cause: "event is too large for a message"}
	case err != nil:
		return nil, Result{Verdict: Unavailable, Cause: natsCause(err)}
	}
	return ack, Result{}
}

// natsHeadersTooLarge is an error of JetStream about one message.
const natsHeadersTooLarge jetstream.ErrorCode = 10097

// natsResult is the result of a message that was not stored.
func natsResult(err error) Result {
	r := Result{Verdict: Unavailable, Cause: natsCause(err)}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok &&
		(api.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum ||
			api.ErrorCode == natsHeadersTooLarge) {
		r.Verdict = Retry // the limit of the stream may be raised
	}
	return r
}

// natsCause names the cause of an error without addresses or credentials.
func natsCause(err error) string {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return fmt.Sprintf("JetStream error %d", api.ErrorCode)
	}
	for is, text := range map[error]string{
		nats.ErrAuthorization: "the server rejects the credentials",
		nats.ErrNoResponders:  "JetStream does not respond", nats.ErrTimeout: "no answer in time",
		jetstream.ErrNoStreamResponse: "no stream answers", nats.ErrNoServers: "no server answers",
		jetstream.ErrStreamNotFound: "there is no such stream",
		context.DeadlineExceeded:    "no answer in time",

		jetstream.ErrAsyncPublishTimeout: "no answer in time",
	} {
		if errors.Is(err, is) {
			return text
		}
	}
	return "the connection is lost"
}

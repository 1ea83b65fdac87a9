package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sink"
)

func kafkaOpener(s config.SinkKafka, encoder sink.Encoder) (
	func(context.Context) (sink.Sink, error), error) {
	o := sink.KafkaOptions{Brokers: s.Brokers, Topic: s.Topic, Encoder: encoder,
		BySubmitter: s.Key == "submitter", Timeout: s.Timeout, Username: s.Username}
	if s.SASL != "none" {
		o.Mechanism = s.SASL
		var err error
		if o.Password, err = reread(func() (string, error) {
			password, err := os.ReadFile(s.PasswordFile)
			return strings.TrimRight(string(password), "\r\n"), err
		}); err != nil {
			return nil, fmt.Errorf("read the password for Kafka: %w", err)
		}
	}
	if s.TLS.Enabled {
		var err error
		o.TLS, err = reread(func() (*tls.Config, error) { return brokerTLS(s.TLS) })
		if err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) (sink.Sink, error) { return sink.OpenKafka(ctx, o) }, nil
}

func natsOpener(s config.SinkNATS, encoder sink.Encoder) (
	func(context.Context) (sink.Sink, error), error) {
	o := sink.NATSOptions{Servers: s.Servers, Subject: s.Subject, Stream: s.Stream,
		Encoder: encoder, Timeout: s.Timeout, CredentialsFile: s.CredentialsFile}
	if s.CredentialsFile != "" {
		if _, err := os.Stat(s.CredentialsFile); err != nil {
			return nil, fmt.Errorf("read the credentials for NATS: %w", err)
		}
	}
	if s.TLS.Enabled {
		var err error
		o.TLS, err = reread(func() (*tls.Config, error) { return brokerTLS(s.TLS) })
		if err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) (sink.Sink, error) { return sink.OpenNATS(ctx, o) }, nil
}

// reread reads files, and returns how to read them again. A read that fails, for example while
// they are replaced, returns what the last one did.
func reread[T any](read func() (T, error)) (func() T, error) {
	last, err := read()
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	return func() T {
		mu.Lock()
		defer mu.Unlock()
		if now, err := read(); err == nil {
			last = now
		}
		return last
	}, nil
}

// brokerTLS reads the certificates of an encrypted connection.
func brokerTLS(s config.SinkTLS) (*tls.Config, error) {
	roots, err := certificates(s.CAFile)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if s.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

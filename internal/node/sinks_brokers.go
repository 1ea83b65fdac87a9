package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sink"
)

func kafkaOpener(s config.SinkKafka, encoder sink.Encoder) (
	func(context.Context) (sink.Sink, error), error) {
	o := sink.KafkaOptions{Brokers: s.Brokers, Topic: s.Topic, Encoder: encoder,
		BySubmitter: s.Key == "submitter", Timeout: s.Timeout, Username: s.Username}
	if s.SASL != "none" {
		o.Mechanism = s.SASL
		password, err := os.ReadFile(s.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("read the password for Kafka: %w", err)
		}
		o.Password = strings.TrimRight(string(password), "\r\n")
	}
	var err error
	if o.TLS, err = brokerTLS(s.TLS); err != nil {
		return nil, err
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
	var err error
	if o.TLS, err = brokerTLS(s.TLS); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (sink.Sink, error) { return sink.OpenNATS(ctx, o) }, nil
}

// brokerTLS returns nil for plain text.
func brokerTLS(s config.SinkTLS) (*tls.Config, error) {
	if !s.Enabled {
		return nil, nil
	}
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

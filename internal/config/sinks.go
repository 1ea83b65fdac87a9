package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/hosts"
)

// Sink is another system that events are delivered to.
type Sink struct {
	Name       string
	Kind       string // log, webhook, kafka or nats
	States     []string
	Submitters []string
	Labels     []string // key=value
	Format     string
	Retry      SinkRetry
	Webhook    SinkWebhook
	Kafka      SinkKafka
	NATS       SinkNATS
}

// SinkRetry configures attempts to deliver an event again.
type SinkRetry struct {
	Min time.Duration
	Max time.Duration
	For time.Duration
}

// SinkWebhook configures a sink of kind webhook.
type SinkWebhook struct {
	URL          Secret
	SecretsFile  string
	Timeout      time.Duration
	Concurrency  int
	AllowPrivate bool
	CAFile       string
}

func sinkSection() field[Config] {
	return list(
		"sinks",
		"Other systems that receive the events: see docs/events.md. One node at a time delivers "+
			"for each sink. Without any, clients use WatchTx or poll GetTx.",
		func(c *Config) *[]Sink { return &c.Sinks },
		sinkFields()...)
}

func sinkFields() []field[Sink] {
	return []field[Sink]{
		value("name", label(), "",
			"Name of the sink. Its position in the feed is kept in the ledger under this name.",
			func(s *Sink) *string { return &s.Name }).must().inFile(),
		value("kind", oneOf(sinkKinds...), "", "log: one JSON line per event on standard output; "+
			"webhook: signed HTTP requests; kafka: a topic of Apache Kafka; nats: a stream of "+
			"NATS JetStream.",
			func(s *Sink) *string { return &s.Kind }).must(),
		values("states", oneOf("QUEUED", "ALLOCATED", "TRACKING", "CONFIRMED", "FAILED_FINAL",
			"CANCELLED", "STUCK"),
			"Only events that lead to one of these states. Empty: all.",
			func(s *Sink) *[]string { return &s.States }),
		values("submitters", label(), "Only events of these submitters. Empty: all.",
			func(s *Sink) *[]string { return &s.Submitters }),
		values("labels", matching("key=value", `[a-z][a-z0-9._/-]{0,62}=[^,]{0,128}`),
			"Only events of transactions with all of these labels. Empty: all.",
			func(s *Sink) *[]string { return &s.Labels }),
		value("format", oneOf("structured", "binary", "protobuf"), "structured",
			"structured: a CloudEvent in JSON; binary: CloudEvents attributes as headers, and "+
				"the content in JSON; protobuf: the same with a fencepost.v1.SinkEvent. A log is "+
				"always structured.",
			func(s *Sink) *string { return &s.Format }),
		section("retry", "Attempts to deliver an event again.",
			func(s *Sink) *SinkRetry { return &s.Retry },
			value("min", span(100*time.Millisecond, time.Hour), "1s",
				"Delay after the first failed attempt. It doubles with each one, with jitter.",
				func(r *SinkRetry) *time.Duration { return &r.Min }),
			value("max", span(time.Second, 24*time.Hour), "1h", "Longest delay.",
				func(r *SinkRetry) *time.Duration { return &r.Max }),
			value("for", span(time.Second, 30*24*time.Hour), "72h",
				"How long an event that the receiver does not accept is retried. Then its "+
					"transaction is dead: later events of it wait until an operator decides.",
				func(r *SinkRetry) *time.Duration { return &r.For }),
		),
		section("webhook", "Settings of the kind webhook.",
			func(s *Sink) *SinkWebhook { return &s.Webhook }, webhookFields()...),
		section("kafka", "Settings of the kind kafka. Writes are idempotent, and wait for all "+
			"in-sync replicas.",
			func(s *Sink) *SinkKafka { return &s.Kafka }, kafkaFields()...),
		section("nats", "Settings of the kind nats.",
			func(s *Sink) *SinkNATS { return &s.NATS }, natsFields()...),
	}
}

var sinkKinds = []string{"log", "webhook", "kafka", "nats"}

func webhookFields() []field[SinkWebhook] {
	return []field[SinkWebhook]{
		value("url", webURL(), "", "URL of the receiver.",
			func(w *SinkWebhook) *Secret { return &w.URL }),
		file("secrets_file",
			"File with the signing secrets (Standard Webhooks, \"whsec_...\"), one per line. "+
				"Each signs, so that they can be rotated: add the new one, change the "+
				"receiver, remove the old one. The file is read again every ten seconds.",
			func(w *SinkWebhook) *string { return &w.SecretsFile }),
		value("timeout", span(100*time.Millisecond, time.Minute), "10s",
			"Longest time for one request.",
			func(w *SinkWebhook) *time.Duration { return &w.Timeout }),
		value("concurrency", whole(1, 1000), "16",
			"Requests at once for new events, and again as many for retries. The events of one "+
				"transaction are delivered one after the other.",
			func(w *SinkWebhook) *int { return &w.Concurrency }),
		value("allow_private", yesNo(), "false",
			"Allows private, link-local and loopback addresses. They are refused by default, "+
				"after names are resolved.",
			func(w *SinkWebhook) *bool { return &w.AllowPrivate }),
		file("ca_file", "PEM file with the certificates to trust instead of the system's.",
			func(w *SinkWebhook) *string { return &w.CAFile }),
	}
}

// webURL parses the URL of a webhook, which may contain a credential. Errors never quote the input.
func webURL() kind[Secret] {
	return kind[Secret]{"http or https URL", func(text string) (Secret, error) {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return bad[Secret]("write the URL of the receiver, for example "+
				"https://example.com/events", "not an http or https URL with a host")
		}
		return NewSecret(text), nil
	}}
}

// relateSinks requires what the kind of each sink needs.
func relateSinks(r *reader, c *Config) {
	for i, s := range c.Sinks {
		path := c.Path("sinks", i)
		if !r.good(path+".kind", path+".webhook.url", path+".webhook.secrets_file",
			path+".retry.min", path+".retry.max") {
			continue
		}
		if s.Retry.Min > s.Retry.Max {
			r.broken(path+".retry.min", path+".retry.max", "lower retry.min, or raise retry.max",
				"the shortest delay, %s, exceeds the longest, %s", short(s.Retry.Min),
				short(s.Retry.Max))
		}
		r.relateBroker(path, s)
		if s.Kind != "webhook" {
			continue
		}
		if s.Webhook.URL.Reveal() == "" {
			r.lacks(path, "webhook.url", "give the URL of the receiver")
		}
		if s.Webhook.SecretsFile == "" {
			r.lacks(path, "webhook.secrets_file",
				"write a secret to a file (whsec_ and 32 random bytes in base64) and name it")
		}
	}
}

// lacks reports a key that the kind of a sink requires, at the kind.
func (r *reader) lacks(path, key, remedy string) {
	r.problem(r.origins[path+".kind"], path+"."+key, "it is missing", remedy)
}

// Secrets returns the files with secrets that other users should not read, by key below the sink.
func (s Sink) Secrets() map[string]string {
	files := map[string]string{}
	switch s.Kind {
	case "webhook":
		files["webhook.secrets_file"] = s.Webhook.SecretsFile
	case "kafka":
		files["kafka.password_file"] = s.Kafka.PasswordFile
		files["kafka.tls.key_file"] = s.Kafka.TLS.KeyFile
	case "nats":
		files["nats.credentials_file"] = s.NATS.CredentialsFile
		files["nats.tls.key_file"] = s.NATS.TLS.KeyFile
	}
	return files
}

// LabelSet returns the labels of the filter by key.
func (s Sink) LabelSet() map[string]string {
	set := make(map[string]string, len(s.Labels))
	for _, text := range s.Labels {
		key, value, _ := strings.Cut(text, "=")
		set[key] = value
	}
	return set
}

// sinkRisks names sinks without encryption, and those that deliver nothing.
func (c *Config) sinkRisks() (risks []Risk) {
	for i, s := range c.Sinks {
		key, what := "", "events cross the network without encryption"
		remedy := "set it to true"
		switch {
		case s.Kind == "webhook" && !s.Webhook.AllowPrivate && private(s.Webhook.URL):
			key, what = "webhook.url", "the address is private, so nothing is delivered"
			remedy = "set webhook.allow_private: true, or correct the URL"
		case s.Kind == "webhook" && !s.Webhook.AllowPrivate && schemeOf(s.Webhook.URL) == "http":
			key, remedy = "webhook.url", "use https"
		case s.Kind == "kafka" && !s.Kafka.TLS.Enabled && !allLocal(s.Kafka.Brokers):
			key = "kafka.tls.enabled"
		case s.Kind == "nats" && !s.NATS.TLS.Enabled && !allLocal(plainServers(s.NATS.Servers)):
			key = "nats.tls.enabled"
		default:
			continue
		}
		risks = append(risks, Risk{c.Path("sinks", i) + "." + key, what, remedy, false})
	}
	return risks
}

// private reports whether a URL names an address that is not public, without resolving names.
func private(s Secret) bool {
	u, err := url.Parse(s.Reveal())
	if err != nil {
		return false
	}
	if at, err := netip.ParseAddr(u.Hostname()); err == nil {
		return !hosts.Public(at)
	}
	host := strings.ToLower(u.Hostname())
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// plainServers returns host:port of the servers whose URLs do not require TLS.
func plainServers(urls []string) (hosts []string) {
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil && u.Scheme == "nats" {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}

// allLocal reports whether all hosts, with or without a port, are this machine.
func allLocal(hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(text string) bool {
		if host, _, err := net.SplitHostPort(text); err == nil {
			text = host
		}
		return !local(text)
	})
}

func schemeOf(s Secret) string {
	scheme, _, _ := strings.Cut(s.Reveal(), ":")
	return strings.ToLower(scheme)
}

package config

import (
	"net/url"
	"slices"
	"time"
)

// SinkKafka configures a sink of kind kafka.
type SinkKafka struct {
	Brokers      []string
	Topic        string
	Key          string
	Timeout      time.Duration
	TLS          SinkTLS
	SASL         string
	Username     string
	PasswordFile string
}

// SinkNATS configures a sink of kind nats.
type SinkNATS struct {
	Servers         []string
	Subject         string
	Stream          string
	Timeout         time.Duration
	TLS             SinkTLS
	CredentialsFile string
}

// SinkTLS configures encryption to a broker.
type SinkTLS struct {
	Enabled  bool
	CAFile   string
	CertFile string
	KeyFile  string
}

func kafkaFields() []field[SinkKafka] {
	return []field[SinkKafka]{
		values("brokers", listener(), "Brokers to connect to first, as host:port.",
			func(k *SinkKafka) *[]string { return &k.Brokers }),
		value("topic", matching(`1 to 249 of letters, digits, ".", "_" and "-"`,
			`[A-Za-z0-9._-]{1,249}`), "",
			"Topic, which must exist.", func(k *SinkKafka) *string { return &k.Topic }),
		value("key", oneOf("transaction", "submitter"), "transaction",
			"Key of the records: records with the same key are in one partition, in order.",
			func(k *SinkKafka) *string { return &k.Key }),
		value("timeout", span(time.Second, 5*time.Minute), "30s", "Longest time for one batch.",
			func(k *SinkKafka) *time.Duration { return &k.Timeout }),
		section("tls", tlsText, func(k *SinkKafka) *SinkTLS { return &k.TLS },
			sinkTLSFields()...),
		value("sasl", oneOf("none", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), "none",
			"Login mechanism. PLAIN requires tls.",
			func(k *SinkKafka) *string { return &k.SASL }),
		value("username", matching("1 to 255 characters", `.{1,255}`), "", "Name for the login.",
			func(k *SinkKafka) *string { return &k.Username }),
		file("password_file", "File with the password for the login. It is read for each "+
			"connection.",
			func(k *SinkKafka) *string { return &k.PasswordFile }),
	}
}

func natsFields() []field[SinkNATS] {
	return []field[SinkNATS]{
		values("servers", natsServer(), "Servers, as nats://host:port or tls://host:port.",
			func(n *SinkNATS) *[]string { return &n.Servers }),
		value("subject", matching("a subject without wildcards", `[^\s*>]{1,255}`), "",
			"Subject of the messages.", func(n *SinkNATS) *string { return &n.Subject }),
		value("stream", matching("name of a stream", `[^\s.*>/\\]{1,255}`), "",
			"JetStream stream, which must exist and have the subject. It drops repetitions "+
				"within its duplicate window.",
			func(n *SinkNATS) *string { return &n.Stream }),
		value("timeout", span(time.Second, 5*time.Minute), "30s", "Longest time for one batch.",
			func(n *SinkNATS) *time.Duration { return &n.Timeout }),
		section("tls", tlsText, func(n *SinkNATS) *SinkTLS { return &n.TLS },
			sinkTLSFields()...),
		file("credentials_file", "File with the credentials of a user (.creds). It is read for "+
			"each connection.",
			func(n *SinkNATS) *string { return &n.CredentialsFile }),
	}
}

const tlsText = "Encryption. The files are read for each connection, so certificates can be " +
	"replaced without a restart."

func sinkTLSFields() []field[SinkTLS] {
	return []field[SinkTLS]{
		value("enabled", yesNo(), "false", "Uses TLS.",
			func(t *SinkTLS) *bool { return &t.Enabled }),
		file("ca_file", "PEM file with the certificates to trust instead of the system's.",
			func(t *SinkTLS) *string { return &t.CAFile }),
		file("cert_file", "PEM file with the client certificate.",
			func(t *SinkTLS) *string { return &t.CertFile }),
		file("key_file", "PEM file with the key of cert_file.",
			func(t *SinkTLS) *string { return &t.KeyFile }),
	}
}

func natsServer() kind[string] {
	return kind[string]{"nats or tls URL", func(text string) (string, error) {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.User != nil ||
			!slices.Contains([]string{"nats", "tls"}, u.Scheme) {
			return bad[string]("write nats://host:port, and logins to a credentials file",
				"not a nats or tls URL without a login")
		}
		return text, nil
	}}
}

// relateBroker requires what the kinds kafka and nats need.
func (r *reader) relateBroker(path string, s Sink) {
	secured := s.Kafka.TLS
	switch s.Kind {
	case "kafka":
		if len(s.Kafka.Brokers) == 0 {
			r.lacks(path, "kafka.brokers", "name at least one broker")
		}
		if s.Kafka.Topic == "" {
			r.lacks(path, "kafka.topic", "name an existing topic")
		}
		if s.Kafka.SASL != "none" && (s.Kafka.Username == "" || s.Kafka.PasswordFile == "") {
			r.lacks(path, "kafka.username", "give username and password_file, or set sasl: none")
		}
		if s.Kafka.SASL == "PLAIN" && !s.Kafka.TLS.Enabled {
			r.lacks(path, "kafka.tls.enabled", "set it to true, or use a SCRAM mechanism")
		}
	case "nats":
		secured = s.NATS.TLS
		if len(s.NATS.Servers) == 0 {
			r.lacks(path, "nats.servers", "name at least one server")
		}
		if s.NATS.Subject == "" {
			r.lacks(path, "nats.subject", "name a subject of the stream")
		}
		if s.NATS.Stream == "" {
			r.lacks(path, "nats.stream", "name an existing stream")
		}
	default:
		return
	}
	if (secured.CertFile == "") != (secured.KeyFile == "") {
		r.lacks(path, s.Kind+".tls.key_file", "give cert_file and key_file, or neither")
	}
}

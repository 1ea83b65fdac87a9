package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSecured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, want string }{
		"another machine": {"postgres://u@db/d", "postgres://u@db/d?sslmode=verify-full"},
		"one of two hosts": {"postgres://u@localhost:1,db:2/d",
			"postgres://u@localhost:1,db:2/d?sslmode=verify-full"},
		"host as parameter": {
			"postgres:///d?host=db", "postgres:///d?host=db&sslmode=verify-full",
		},
		"verification given up": {
			"postgres://u@db/d?sslmode=require",
			"postgres://u@db/d?require_auth=scram-sha-256&sslmode=require",
		},
		"authentication chosen": {
			"postgres://u@db/d?require_auth=none&sslmode=disable",
			"postgres://u@db/d?require_auth=none&sslmode=disable",
		},
		"loopback": {"postgres://u@127.0.0.1/d", "postgres://u@127.0.0.1/d"},
		"IPv6 loopback": {
			"postgres://u@[::1]/d?sslmode=disable", "postgres://u@[::1]/d?sslmode=disable",
		},
		"Unix socket": {"postgres:///d?host=/run/postgresql", "postgres:///d?host=/run/postgresql"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := postgres().parse(c.given)
			if err != nil || got.Reveal() != c.want {
				t.Errorf("%s became %s, %v; want %s", c.given, got.Reveal(), err, c.want)
			}
		})
	}
}

func TestRisks(t *testing.T) {
	t.Parallel()
	const tokens = "grpc.tokens_file=t"
	tls := []string{"grpc.tls.cert_file=c", "grpc.tls.key_file=k", tokens}
	for name, c := range map[string]struct {
		set     []string
		key     string // of the risk; empty: none
		refused bool
	}{
		"defaults":                     {nil, "", false},
		"listener without credentials": {[]string{"grpc.listen=0.0.0.0:9090"}, "grpc.listen", true},
		"listener with tokens":         {append(tls, "grpc.listen=:9090"), "", false},
		"any origin": {[]string{"grpc.allowed_origins=*"}, "grpc.allowed_origins",
			true},
		"any origin with tokens": {append(tls, "grpc.allowed_origins=*"),
			"grpc.allowed_origins", false},
		"any host": {[]string{"grpc.allowed_hosts=*"}, "grpc.allowed_hosts",
			false},
		"any host with tokens":       {append(tls, "grpc.allowed_hosts=*"), "", false},
		"any host of metrics":        {[]string{"ops.allowed_hosts=*"}, "ops.allowed_hosts", false},
		"metrics for other machines": {[]string{"ops.listen=:9091"}, "ops.listen", false},
		"plain text to the database": {
			[]string{"database.url=postgres://u@db/d?sslmode=prefer"}, "database.url", true,
		},
		"database that is not verified": {
			[]string{"database.url=postgres://u@db/d?sslmode=require"}, "database.url", false,
		},
		"verified database":      {[]string{"database.url=postgres://u@db/d"}, "", false},
		"endpoint in plain text": {[]string{"chains.dev.rpc=http://node"}, "chains.dev.rpc", false},
		"encrypted endpoint":     {[]string{"chains.dev.rpc=https://node"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := Source{File: write(t, example)}
			for _, set := range c.set { // secrets come from the environment
				key, value, _ := strings.Cut(set, "=")
				variable := Prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
				source.Environ = append(source.Environ, variable+"="+value)
			}
			_, err := Load(source)
			var problems Problems
			errors.As(err, &problems)
			refused := slices.ContainsFunc(problems, func(p Problem) bool { return p.Key == c.key })
			if refused != c.refused || err != nil && !refused {
				t.Errorf("refused: %v, %v", refused, err)
			}
			source.Set = []string{"insecure=true"}
			cfg, err := Load(source)
			if err != nil {
				t.Fatalf("insecure: true is refused: %v", err)
			}
			var keys []string
			for _, risk := range cfg.Risks() {
				keys = append(keys, risk.Key)
				if strings.Contains(risk.What+risk.Remedy, "u@db") {
					t.Errorf("the risk quotes a secret: %v", risk)
				}
			}
			if want := strings.Fields(c.key); !slices.Equal(keys, want) {
				t.Errorf("risks of %v, want of %v", keys, want)
			}
		})
	}
}

func TestRisks_SinksWithoutEncryption(t *testing.T) {
	t.Parallel()
	tls := SinkTLS{Enabled: true}
	for name, c := range map[string]struct {
		sink Sink
		key  string // of the risk, below the sink; empty: none
	}{
		"webhook": {Sink{Kind: "webhook", Webhook: SinkWebhook{
			URL: NewSecret("http://shop.example/events")}}, "webhook.url"},
		"webhook over TLS": {Sink{Kind: "webhook", Webhook: SinkWebhook{
			URL: NewSecret("https://shop.example/events")}}, ""},
		"webhook to this machine": {Sink{Kind: "webhook", Webhook: SinkWebhook{
			URL: NewSecret("https://LOCALHOST:8080/events")}}, "webhook.url"},
		"webhook to a private address": {Sink{Kind: "webhook", Webhook: SinkWebhook{
			URL: NewSecret("https://10.0.0.7/events")}}, "webhook.url"},
		"webhook to a private address of IPv6": {Sink{Kind: "webhook", Webhook: SinkWebhook{
			URL: NewSecret("https://[fd00::7]:8443/events")}}, "webhook.url"},
		"webhook to a public address": {Sink{Kind: "webhook", Webhook: SinkWebhook{
			URL: NewSecret("https://8.8.8.8/events")}}, ""},
		"webhook to an allowed address": {Sink{Kind: "webhook", Webhook: SinkWebhook{
			URL: NewSecret("http://127.0.0.1:8080/events"), AllowPrivate: true}}, ""},
		"Kafka": {Sink{Kind: "kafka", Kafka: SinkKafka{
			Brokers: []string{"127.0.0.1:9092", "kafka:9092"}}}, "kafka.tls.enabled"},
		"Kafka over TLS": {Sink{Kind: "kafka", Kafka: SinkKafka{
			Brokers: []string{"kafka:9092"}, TLS: tls}}, ""},
		"Kafka on this machine": {Sink{Kind: "kafka", Kafka: SinkKafka{
			Brokers: []string{"[::1]:9092", "localhost:9092"}}}, ""},
		"NATS": {Sink{Kind: "nats", NATS: SinkNATS{
			Servers: []string{"tls://a:4222", "nats://b:4222"}}}, "nats.tls.enabled"},
		"NATS without a port": {Sink{Kind: "nats", NATS: SinkNATS{
			Servers: []string{"nats://b"}}}, "nats.tls.enabled"},
		"NATS over TLS": {Sink{Kind: "nats", NATS: SinkNATS{
			Servers: []string{"tls://a:4222"}}}, ""},
		"log": {Sink{Kind: "log"}, ""},
	} {
		risks := (&Config{Sinks: []Sink{c.sink}}).sinkRisks()
		switch {
		case c.key == "" && len(risks) > 0:
			t.Errorf("%s: %v", name, risks)
		case c.key != "" && (len(risks) != 1 || !strings.HasSuffix(risks[0].Key, "."+c.key) ||
			risks[0].Refused):
			t.Errorf("%s: %v, want %s", name, risks, c.key)
		}
	}
}

func TestRisks_WritableFiles_AreRefused(t *testing.T) {
	t.Parallel()
	file := write(t, example)
	keys := filepath.Join(filepath.Dir(file), "keys")
	if err := os.Mkdir(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, key := range map[string]string{keys: "signers.local.keystore.dir",
		file: "configuration"} {
		was, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		_, err = Load(Source{File: file, Set: []string{"signers.local.keystore.dir=" + keys}})
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s with mode 0777: %v", path, err)
		}
		if err := os.Chmod(path, was.Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

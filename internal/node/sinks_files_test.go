package node

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/config"
)

// TestCheckFiles_Sinks: a file without which a node would not start is reported, and so is a secret
// that other users can read.
func TestCheckFiles_Sinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	put(t, file("secret"), "whsec_"+strings.Repeat("QUJD", 8))
	put(t, file("malformed"), "hunter2")
	put(t, file("pem"), "no certificate")
	webhook := func(secrets string) config.Sink {
		return config.Sink{Kind: "webhook", Webhook: config.SinkWebhook{
			URL: config.NewSecret("https://shop.example/events"), SecretsFile: secrets}}
	}
	kafka := config.Sink{Kind: "kafka", Kafka: config.SinkKafka{SASL: "PLAIN",
		PasswordFile: file("none"), TLS: config.SinkTLS{Enabled: true}}}
	nats := config.Sink{Kind: "nats", NATS: config.SinkNATS{CredentialsFile: file("none")}}
	certificates := config.Sink{Kind: "nats",
		NATS: config.SinkNATS{TLS: config.SinkTLS{Enabled: true, CAFile: file("pem")}}}
	for name, c := range map[string]struct {
		sink config.Sink
		key  string // of the problem; empty: none
	}{
		"log":                      {config.Sink{Kind: "log"}, ""},
		"webhook":                  {webhook(file("secret")), ""},
		"no secrets":               {webhook(file("none")), "sinks[0].webhook"},
		"malformed secret":         {webhook(file("malformed")), "sinks[0].webhook"},
		"missing key, reported":    {webhook(""), ""},
		"Kafka without password":   {kafka, "sinks[0].kafka"},
		"NATS without credentials": {nats, "sinks[0].nats"},
		"no certificates":          {certificates, "sinks[0].nats"},
	} {
		cfg := &config.Config{Sinks: []config.Sink{c.sink}}
		_, err := CheckFiles(t.Context(), cfg, slog.New(slog.DiscardHandler), true)
		var got config.Problems
		errors.As(err, &got)
		switch {
		case c.key == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.key != "" && (len(got) != 1 || got[0].Key != c.key):
			t.Errorf("%s: %v, want a problem of %s", name, err, c.key)
		case strings.Contains(textOf(err), "hunter2"):
			t.Errorf("%s: the secret is quoted: %v", name, err)
		}
	}
	if err := os.Chmod(file("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	warnOfReaders(&config.Config{Sinks: []config.Sink{webhook(file("secret"))}},
		slog.New(slog.NewTextHandler(&log, nil)))
	if !strings.Contains(log.String(), "webhook.secrets_file") {
		t.Errorf("a secret that others can read: logged %q", log.String())
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// The remedy of a file that does not exist is not to make it readable.
func TestCheckFiles_MissingFile_CreateIt(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none")
	for name, cfg := range map[string]*config.Config{
		"secrets of a sink": {Sinks: []config.Sink{{Kind: "webhook", Webhook: config.SinkWebhook{
			URL: config.NewSecret("https://shop.example/events"), SecretsFile: missing}}}},
		"password of Kafka": {Sinks: []config.Sink{{Kind: "kafka",
			Kafka: config.SinkKafka{SASL: "PLAIN", PasswordFile: missing}}}},
		"certificates of a broker": {Sinks: []config.Sink{{Kind: "nats", NATS: config.SinkNATS{
			TLS: config.SinkTLS{Enabled: true, CAFile: missing}}}}},
		"headers of tracing": {Tracing: config.Tracing{HeadersFile: missing}},
		"ABI":                {Chains: []config.Chain{{ABIFiles: []string{missing}}}},
		"certificates of a database": {Database: config.Database{URL: config.NewSecret(
			"postgres://h/d?sslmode=verify-full&sslrootcert=" + missing)}},
	} {
		_, err := CheckFiles(t.Context(), cfg, slog.New(slog.DiscardHandler), true)
		var got config.Problems
		if !errors.As(err, &got) || len(got) != 1 ||
			got[0].Remedy != "create it, or name another" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Package telemetry provides a node's logs, metrics and health endpoints.
//
// Nothing here is global. A program creates a logger and [Metrics], passes them down, and serves
// [Handler] on its ops listener:
//
//	/metrics   all metrics, for Prometheus
//	/healthz   200 while the process responds: restart it otherwise
//	/readyz    200 while every check passes, else 503: send no clients
//
// Metrics are named fencepost_<noun>_<unit>. Labels have few values: no account, transaction or
// address is a label, because there may be many thousands.
//
// Secrets end up in logs by accident. The rule is not to log them; [NewLogger] is the safety net:
// it replaces byte strings, and attributes whose name suggests a secret.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
)

// NewLogger returns a logger that writes to w at the level (debug, info, warn, error) and above, in
// the format text or json.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("telemetry: log level %q is none of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: least, ReplaceAttr: redact}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	default:
		return nil, fmt.Errorf("telemetry: log format %q is neither text nor json", format)
	}
}

// redacted replaces secrets.
const redacted = "[redacted]"

// redact replaces attributes that contain, or may contain, a secret.
func redact(_ []string, a slog.Attr) slog.Attr {
	kind := a.Value.Kind()
	if secretName(a.Key) &&
		(kind == slog.KindString || kind == slog.KindAny) { // not "payload_bytes", a number
		return slog.String(a.Key, redacted)
	}
	switch v := a.Value.Any().(type) {
	case []byte: // signed bytes, keys, payloads: never needed in a log
		return slog.String(a.Key, fmt.Sprintf("[%d bytes]", len(v)))
	case *url.URL: // its path may be a provider's key
		return slog.String(a.Key, v.Scheme+"://"+redacted)
	}
	return a
}

// secretName reports whether a name suggests a secret: "password", "rpc_url", "rawTx". It compares
// whole words, so "withdrawal" does not match.
func secretName(name string) bool {
	for _, word := range words(name) {
		switch word {
		case "password",
			"passphrase",
			"secret",
			"mnemonic",
			"payload",
			"raw",
			"url",
			"urls",
			"dsn",
			"authorization":
			return true
		}
	}
	return strings.Contains(strings.ToLower(name), "private")
}

// words splits a name in snake_case, kebab-case or camelCase.
func words(name string) []string {
	var b strings.Builder
	for i, c := range name {
		if c >= 'A' && c <= 'Z' && i > 0 && name[i-1] >= 'a' && name[i-1] <= 'z' {
			b.WriteByte(' ')
		}
		b.WriteRune(c)
	}
	return strings.FieldsFunc(strings.ToLower(b.String()),
		func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') })
}

// Package telemetry is what a node tells about itself: logs, metrics, and whether it is well.
//
// Nothing here is global. A program makes a logger and a [Metrics], hands them down, and serves [Handler] on its listener for operators:
//
//	/metrics   everything that is counted, for Prometheus
//	/healthz   200 while the process can answer at all: restart it when it cannot
//	/readyz    200 while every check passes, else 503: send no callers
//
// Metrics are named fencepost_<noun>_<unit>, and labels take few values: no account, transaction or address is a label, because there may be many thousands.
//
// Logs are a place where secrets end up by accident. The rule is not to log them; [NewLogger] is the net below it: attributes that are called like a secret,
// and all byte strings, are replaced before they are written.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
)

// NewLogger writes to w what is at least of the level (debug, info, warn, error), in the format text or json.
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

// redacted stands for what must not be written.
const redacted = "[redacted]"

// redact replaces attributes that hold, or may hold, a secret.
func redact(_ []string, a slog.Attr) slog.Attr {
	kind := a.Value.Kind()
	if secretName(a.Key) &&
		(kind == slog.KindString || kind == slog.KindAny) { // "payload_bytes", a number, is none
		return slog.String(a.Key, redacted)
	}
	switch v := a.Value.Any().(type) {
	case []byte: // signed bytes, keys, payloads: nothing that a log needs
		return slog.String(a.Key, fmt.Sprintf("[%d bytes]", len(v)))
	case *url.URL: // its path may be a provider's key
		return slog.String(a.Key, v.Scheme+"://"+redacted)
	}
	return a
}

// secretName tells whether something is called like a secret: "password", "rpc_url", "rawTx". Each word of the name counts, so "withdrawal" is none.
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

// words takes a name in snake_case, kebab-case or camelCase apart.
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

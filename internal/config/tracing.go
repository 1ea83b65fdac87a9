package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// Tracing configures the export of traces.
type Tracing struct {
	Endpoint    string // of an OTLP collector; empty: no traces
	SampleRatio float64
	Headers     Secret // name=value, separated by commas
	HeadersFile string
	CAFile      string
	CertFile    string
	KeyFile     string
}

func tracingFields() []field[Tracing] {
	return []field[Tracing]{
		value("endpoint", collector(), "",
			"The OTLP/gRPC collector that receives traces, such as http://127.0.0.1:4317; https "+
				"uses TLS. If it is not set, the node exports no traces and stores no trace "+
				"contexts. Configure all nodes alike.",
			func(t *Tracing) *string { return &t.Endpoint }),
		value("sample_ratio", number(0, 1), "1",
			"The share of requests without a trace context (traceparent) that start a trace. A "+
				"request with a context follows the decision of its client.",
			func(t *Tracing) *float64 { return &t.SampleRatio }),
		value("headers", traceHeaders(), "",
			"Headers of each export, such as a token of the collector: name=value, separated by "+
				"commas, with special characters percent-encoded. They are secret: set them by "+
				"variable, or use headers_file.",
			func(t *Tracing) *Secret { return &t.Headers }),
		file("headers_file",
			"A file with the headers instead, for secrets mounted into containers; lines "+
				"separate like commas. It is read at start.",
			func(t *Tracing) *string { return &t.HeadersFile }),
		file("ca_file",
			"PEM file with the certificates to trust instead of the system's.",
			func(t *Tracing) *string { return &t.CAFile }),
		file("cert_file", "PEM file with the client's certificate, for mutual TLS.",
			func(t *Tracing) *string { return &t.CertFile }),
		file("key_file", "PEM file with the private key of cert_file.",
			func(t *Tracing) *string { return &t.KeyFile }),
	}
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// ParseHeaders parses headers as name=value, separated by commas or line ends. Errors never quote
// the input.
func ParseHeaders(text string) (map[string]string, error) {
	all := map[string]string{}
	for i, part := range strings.FieldsFunc(text,
		func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, found := strings.Cut(part, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !found || err != nil || !headerName.MatchString(name) || value == "" ||
			strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) ||
			strings.HasPrefix(name, "grpc-") {
			return nil, fmt.Errorf("header %d is not name=value; percent-encode commas, percent "+
				"signs and spaces", i+1)
		}
		all[name] = value
	}
	return all, nil
}

func traceHeaders() kind[Secret] {
	return kind[Secret]{"name=value, separated by commas", func(text string) (Secret, error) {
		if _, err := ParseHeaders(text); err != nil {
			return bad[Secret]("write name=value, for example authorization=Bearer%20TOKEN",
				"not a list of headers")
		}
		return NewSecret(text), nil
	}}
}

// relateTracing keeps headers from a connection that others can read, and requires an endpoint.
func relateTracing(r *reader, c *Config) {
	const at = "tracing."
	t := c.Tracing
	if !r.good(at+"endpoint", at+"headers") {
		return
	}
	if t.Headers.Reveal() != "" && t.HeadersFile != "" {
		r.broken(at+"headers", at+"headers_file", "remove one", "headers are set twice")
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		r.broken(at+"cert_file", at+"key_file", "set both or none",
			"one of cert_file and key_file is missing")
	}
	u, err := url.Parse(t.Endpoint)
	if err != nil {
		return
	}
	for key, set := range map[string]bool{
		"headers": t.Headers.Reveal() != "", "headers_file": t.HeadersFile != "",
		"ca_file": t.CAFile != "", "cert_file": t.CertFile != "",
	} {
		ip := net.ParseIP(u.Hostname())
		local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
		secret := strings.HasPrefix(key, "headers")
		if set && u.Scheme != "https" && !(secret && local) {
			r.broken(at+key, at+"endpoint", "write an https endpoint, or remove "+key,
				"%s requires an https endpoint", key)
		}
	}
}

// collector parses the URL of a collector. It may hold no secret, because it is shown.
func collector() kind[string] {
	return kind[string]{"http or https URL", func(text string) (string, error) {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Port() == "" ||
			u.User != nil || u.RawQuery != "" || u.Path != "" && u.Path != "/" {
			return bad[string]("write http://host:port or https://host:port, for example "+
				"http://127.0.0.1:4317", "not the URL of a collector")
		}
		return text, nil
	}}
}

package config

import "net/url"

// Tracing configures the export of traces.
type Tracing struct {
	Endpoint    string // of an OTLP collector; empty: no traces
	SampleRatio float64
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

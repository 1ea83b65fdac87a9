package config

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestParseHeaders(t *testing.T) {
	t.Parallel()
	got, err := ParseHeaders("Authorization=Bearer%20a%2Cb, x-scope=7\n\nx-other=c=d\r\n")
	want := map[string]string{"authorization": "Bearer a,b", "x-scope": "7", "x-other": "c=d"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("headers %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"a", "=b", "a=", "a b=c", "a=%zz", "a=%0a", "grpc-timeout=1"} {
		if got, err := ParseHeaders(text); err == nil {
			t.Errorf("%q is accepted as %v", text, got)
		}
	}
}

func TestTracing_Relations(t *testing.T) {
	t.Parallel()
	const secret = "FENCEPOST_TRACING_HEADERS=authorization=hidden"
	for name, c := range map[string]struct {
		set  []string
		want []string // keys of the problems
	}{
		"https":    {[]string{"tracing.endpoint=https://otlp:4317", secret}, nil},
		"loopback": {[]string{"tracing.endpoint=http://127.0.0.1:4317", secret}, nil},
		"plain text": {[]string{"tracing.endpoint=http://otlp:4317", secret},
			[]string{"endpoint"}},
		"no endpoint": {[]string{secret}, []string{"headers"}},
		"CA, plain text": {[]string{"tracing.endpoint=http://localhost:1", "tracing.ca_file=x"},
			[]string{"ca_file"}},
		"twice": {[]string{"tracing.endpoint=https://otlp:4317", secret, "tracing.headers_file=x"},
			[]string{"headers_file"}},
		"no key": {[]string{"tracing.endpoint=https://otlp:4317", "tracing.cert_file=x"},
			[]string{"cert_file"}},
	} {
		t.Run(name, func(t *testing.T) {
			source := Source{Set: c.set}
			if i := slices.Index(c.set, secret); i >= 0 {
				source = Source{Set: slices.Delete(c.set, i, i+1), Environ: []string{secret}}
			}
			_, problems, err := Survey(source)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range problems {
				if key, is := strings.CutPrefix(p.Key, "tracing."); is {
					got = append(got, key)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("problems with %v, want %v: %v", got, c.want, problems)
			}
		})
	}
}

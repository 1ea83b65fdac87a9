package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLogger_Redacts(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		log, err := telemetry.NewLogger(&b, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse("https://hush.example/hush")
		if err != nil {
			t.Fatal(err)
		}
		log.With("rawTx", "hush").WithGroup(
			"g").Info("said", "password", "hush", "rpc_url", "hush", "privateKey", "hush", "bytes",
			[]byte("hush"), "u", u, slog.Group("inner", "payload", "hush"), "withdrawal", "seen",
			"payload_bytes", 7)
		log.Debug("not said")
		text := b.String()
		if strings.Contains(text, "hush") || strings.Contains(text, "aHVzaA") {
			t.Errorf("%s: a secret was logged: %s", format, text)
		}
		for _, want := range []string{"said", "seen", "7", "[redacted]", "[4 bytes]"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in %s", format, want, text)
			}
		}
		if strings.Contains(text, "not said") {
			t.Errorf("%s: below the level: %s", format, text)
		}
	}
	for _, c := range [][2]string{{"loud", "text"}, {"info", "yaml"}} {
		if _, err := telemetry.NewLogger(io.Discard, c[0], c[1]); err == nil {
			t.Errorf("%q was taken", c)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m, err := telemetry.NewMetrics("node-a", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	counter, err := m.Meter("engine").Int64Counter("fencepost_lease",
		metric.WithDescription("leases"))
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 3, metric.WithAttributes(attribute.String("result", "renew")))
	many, err := m.Provider().Meter("any").Int64Counter("fencepost_many")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		many.Add(t.Context(), 1, metric.WithAttributes(attribute.Int("i", i)))
	}
	status, text := get(t, telemetry.Handler(m.Handler(), quiet()), "/metrics")
	if status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	for _, want := range []string{
		`fencepost_lease_total{result="renew"} 3`, "# HELP fencepost_lease_total leases",
		"go_goroutines ", "process_start_time_seconds ",
		`service_instance_id="node-a"`, `service_version="v1.2.3"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the metrics", want)
		}
	}
	if n := strings.Count(text, "fencepost_many_total{"); n > 1000 {
		t.Errorf("one instrument has %d series", n)
	}
	if err := m.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOps_HealthAndReadiness(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	h := telemetry.Handler(http.NotFoundHandler(), log,
		telemetry.Check{Name: "database", Probe: func(context.Context) error {
			if down.Load() {
				return errors.New("hush")
			}
			return nil
		}},
		telemetry.Check{Name: "chain dev", Probe: func(context.Context) error { return nil }},
	)
	expect := func(path string, status int, body string) {
		t.Helper()
		if gotStatus, got := get(t, h, path); gotStatus != status || got != body {
			t.Errorf("%s: %d %q, want %d %q", path, gotStatus, got, status, body)
		}
	}
	expect("/healthz", 200, "ok\n")
	expect("/readyz", 200, "database ok\nchain dev ok\nready\n")
	down.Store(true)
	expect("/readyz", 503, "database failing\nchain dev ok\nnot ready\n")
	expect("/readyz", 503, "database failing\nchain dev ok\nnot ready\n")
	expect("/healthz", 200, "ok\n")
	down.Store(false)
	expect("/readyz", 200, "database ok\nchain dev ok\nready\n")
	if text := b.String(); strings.Count(text, "not ready") != 1 ||
		strings.Count(text, "ready again") != 1 ||
		strings.Count(text, "\n") != 2 {
		t.Errorf("each change is to be logged once: %s", text)
	}
	expect("/other", 404,
		"nothing at GET /other; use GET /metrics, /healthz, /readyz or /chains, or the API at "+
			"grpc.listen\n")
}

func TestOps_Readiness_Timeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		h := telemetry.Handler(
			http.NotFoundHandler(),
			slog.New(slog.NewTextHandler(&b, nil)),
			telemetry.Check{
				Name:  "slow",
				Probe: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
			},
		)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		h.ServeHTTP(httptest.NewRecorder(),
			httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
		if b.Len() > 0 {
			t.Errorf("a question that was taken back changed the state: %s", b.String())
		}
		begin := time.Now()
		if status, _ := get(t, h, "/readyz"); status != 503 || time.Since(begin) != 2*time.Second {
			t.Errorf("status %d after %s", status, time.Since(begin))
		}
		if !strings.Contains(b.String(), "no result within 2s") {
			t.Errorf("logged %s", b.String())
		}
	})
}

func TestServe_ContextCancelled_Stops(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- telemetry.Serve(ctx, listener,
			telemetry.Handler(http.NotFoundHandler(), quiet()))
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + listener.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != 200 {
		t.Errorf("status %d, %v", response.StatusCode, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if err := telemetry.Serve(t.Context(), listener, http.NotFoundHandler()); err == nil ||
		!strings.Contains(err.Error(), listener.Addr().String()) {
		t.Errorf("on a closed listener: %v", err)
	}
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

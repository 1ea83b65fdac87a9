package telemetry_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/telemetry"
)

// TestReady_OneOfGroup_Enough: of a group of checks one is enough, and the response lists all.
func TestReady_OneOfGroup_Enough(t *testing.T) {
	t.Parallel()
	passes := func(context.Context) error { return nil }
	fails := func(context.Context) error { return errors.New("down") }
	for name, c := range map[string]struct {
		first, second, alone func(context.Context) error
		want                 int
	}{
		"all":         {passes, passes, passes, http.StatusOK},
		"one of two":  {fails, passes, passes, http.StatusOK},
		"none of two": {fails, fails, passes, http.StatusServiceUnavailable},
		"the other":   {passes, passes, fails, http.StatusServiceUnavailable},
	} {
		h := telemetry.Handler(http.NotFoundHandler(), slog.New(slog.DiscardHandler),
			telemetry.Check{Name: "ledger eu1", OneOf: "ledgers", Probe: c.first},
			telemetry.Check{Name: "ledger us1", OneOf: "ledgers", Probe: c.second},
			telemetry.Check{Name: "disk", Probe: c.alone})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code != c.want || strings.Count(w.Body.String(), "ledger ") != 2 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestMetrics_OfLedgers_Labelled: the metrics of ledgers have a label, and those of the node none.
func TestMetrics_OfLedgers_Labelled(t *testing.T) {
	t.Parallel()
	m, err := telemetry.NewMetrics("n", "v")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Shutdown(context.Background()) })
	of := []*telemetry.Metrics{m}
	for _, name := range []string{"eu1", "us1"} {
		one, err := m.OfLedger(name)
		if err != nil {
			t.Fatal(err)
		}
		of = append(of, one)
	}
	for i, one := range of {
		count, err := one.Meter("test").Int64Counter("fencepost.rows")
		if err != nil {
			t.Fatal(err)
		}
		count.Add(t.Context(), int64(i+1))
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{"fencepost_rows_total 1\n",
		`fencepost_rows_total{ledger="eu1"} 2` + "\n",
		`fencepost_rows_total{ledger="us1"} 3` + "\n"} {
		if !strings.Contains(w.Body.String(), line) {
			t.Errorf("the metrics lack %q", line)
		}
	}
}

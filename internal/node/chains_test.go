package node

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/internal/telemetry"
)

// The page and the metrics show an endpoint that fails, without its address.
func TestChains_UnhealthyEndpoint_Shown(t *testing.T) {
	t.Parallel()
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "maintenance", http.StatusServiceUnavailable)
	}))
	t.Cleanup(down.Close)
	client, err := chain.Dial(t.Context(), chain.Options{Name: "dev", ChainID: 5,
		Endpoints: []string{down.URL}, BatchLimit: 7})
	if err != nil {
		t.Fatal(err)
	}
	if client.Verify(t.Context()) == nil {
		t.Fatal("verified")
	}
	metrics, err := telemetry.NewMetrics("n", "v")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = metrics.Shutdown(context.Background()) })
	n := &Node{metrics: metrics,
		ledgers: []*ledger{{chains: []*boundChain{{Client: client, name: "dev"}}}}}
	if err := n.measureChains(); err != nil {
		t.Fatal(err)
	}
	pages := n.operators(telemetry.Handler(metrics.Handler(), slog.New(slog.DiscardHandler)))
	get := func(path string) string {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), down.URL) {
			t.Errorf("%s: status %d, %s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	var shown []chainStatus
	if err := json.Unmarshal([]byte(get("/chains")), &shown); err != nil {
		t.Fatal(err)
	}
	e := shown[0].Endpoints[0]
	if shown[0].Chain != "dev" || shown[0].ChainID != 5 || e.Healthy || e.Reason == "" ||
		e.Batch != 7 {
		t.Errorf("%+v", shown)
	}
	text := get("/metrics")
	for _, line := range []string{
		`fencepost_rpc_endpoint_up{chain="dev",endpoint="endpoint 1"} 0`,
		`fencepost_rpc_batch_limit{chain="dev",endpoint="endpoint 1"} 7`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	get("/healthz")
}

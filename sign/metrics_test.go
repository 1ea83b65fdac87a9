package sign_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/sign"
)

func TestBook_Metrics(t *testing.T) {
	t.Parallel()
	key := testKey("key")
	book, err := sign.NewBook(sign.Entry{Name: "hot", Holder: sign.NewMemory(key)})
	if err != nil {
		t.Fatal(err)
	}
	all, err := telemetry.NewMetrics("a", "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Measure(all.Meter("sign")); err != nil {
		t.Fatal(err)
	}
	if _, err := book.Sign(t.Context(), "hot", request(address(key))); err != nil {
		t.Fatal(err)
	}
	if _, err := book.Sign(t.Context(), "hot", request(address(testKey("other")))); err == nil {
		t.Fatal("signed without the key")
	}
	response := httptest.NewRecorder()
	all.Handler().ServeHTTP(response, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`fencepost_sign_total{result="ok",signer="hot"} 1`,
		`fencepost_sign_total{result="key_missing",signer="hot"} 1`,
		`fencepost_sign_seconds_count{signer="hot"} 2`,
	} {
		if !strings.Contains(response.Body.String(), line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
}

package sign_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
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
		`fencepost_sign_total{result="fault",signer="hot"} 0`,
		`fencepost_sign_seconds_count{signer="hot"} 2`,
	} {
		if !strings.Contains(response.Body.String(), line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
}

// TestBook_Metrics_NotNeeded_NotCounted: signatures that were cancelled because one before them
// failed are no failures of the signer.
func TestBook_Metrics_NotNeeded_NotCounted(t *testing.T) {
	t.Parallel()
	const count = 16
	var pending sync.WaitGroup
	pending.Add(count)
	h := holder{sign: func(ctx context.Context, u txn.Unsigned) ([]byte, error) {
		pending.Done()
		if u.Nonce > 0 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		pending.Wait()
		return nil, errors.New("busy")
	}}
	book, err := sign.NewBook(sign.Entry{Name: "busy", Holder: h, Timeout: time.Hour})
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
	requests := make([]txn.Unsigned, count)
	for i := range requests {
		requests[i] = request(txn.Address{1})
		requests[i].Nonce = txn.Nonce(i)
	}
	book.SignInOrder(t.Context(), "busy", requests)
	response := httptest.NewRecorder()
	all.Handler().ServeHTTP(response, httptest.NewRequest("GET", "/metrics", nil))
	if line := `fencepost_sign_total{result="unavailable",signer="busy"} 1`; !strings.Contains(
		response.Body.String(), line+"\n") {
		t.Errorf("%s is missing", line)
	}
}

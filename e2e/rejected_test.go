package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// TestRejected_ManyCalls_Bounded makes tens of thousands of calls without a token, half of them
// over gRPC. They cost the node neither memory nor log.
func TestRejected_ManyCalls_Bounded(t *testing.T) {
	const calls, workers = 60_000, 16
	n := newNode(t, embedded(t, time.Second, 1), nodeOptions{
		confirmations: 1, poll: time.Second,
		secure: secure{tokens: writeToken(t, t.TempDir())},
	})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	t.Cleanup(client.CloseIdleConnections)
	rejected := func(i int) error {
		if i%2 == 0 {
			_, err := n.GetTx(t.Context(), &fencepostv1.GetTxRequest{})
			if status.Code(err) != codes.Unauthenticated {
				return fmt.Errorf("gRPC: %w", err)
			}
			return nil
		}
		response, err := client.Get("http://" + n.addr + "/api/v1/submitters")
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		if response.Body.Close(); response.StatusCode != http.StatusUnauthorized {
			return fmt.Errorf("HTTP: %s", response.Status)
		}
		return nil
	}
	many := func(count int) {
		t.Helper()
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range count / workers {
					if err := rejected(w + i); err != nil {
						t.Errorf("call %d: %v", i, err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	many(calls / 20)
	since := time.Now()
	memory, log := n.resident(t), n.logSize(t)
	many(calls)
	took := time.Since(since)
	grown, logged := n.resident(t)-memory, n.logSize(t)-log
	t.Logf("%d rejected calls in %s: memory grew by %d MB, the log by %d bytes", calls,
		took.Round(time.Second), grown>>20, logged)
	if grown > memoryBound {
		t.Errorf("memory grew by %d MB; want at most %d MB", grown>>20, memoryBound>>20)
	}
	// A line for each kind of call in each interval of 10 s, and one for the node.
	if most := 1000 * (2 + 3*int(took/(10*time.Second))); logged > most {
		t.Errorf("the log grew by %d bytes; want at most %d", logged, most)
	}
	if counted := n.counter(t, "fencepost_calls_unauthenticated_total"); counted < calls {
		t.Errorf("/metrics counts %v of %d calls", counted, calls)
	}
}

// counter returns the sum of a metric over the series that contain all these labels.
func (n *node) counter(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	_, metrics := n.getOps(t, "/metrics")
	for line := range strings.Lines(metrics) {
		line = strings.TrimSpace(line)
		end := strings.LastIndexByte(line, ' ')
		series, value := line[:max(end, 0)], line[end+1:]
		metric, _, _ := strings.Cut(series, "{")
		if metric != name || slices.ContainsFunc(labels,
			func(label string) bool { return !strings.Contains(series, label) }) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += number
	}
	return sum
}

// logSize returns the size of the node's log, in bytes.
func (n *node) logSize(t *testing.T) int {
	t.Helper()
	info, err := os.Stat(filepath.Join(n.dir, "node.log"))
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Size())
}

package e2e

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"
)

// TestConnections_Idle_ServiceContinues opens more connections than the process may have files, and
// makes many calls without a token.
func TestConnections_Idle_ServiceContinues(t *testing.T) {
	c := embedded(t, time.Second, 1)
	n := newNode(t, c, nodeOptions{
		confirmations: 1, poll: time.Second, openFiles: 200,
		secure: secure{tokens: writeToken(t, t.TempDir())},
	})
	for range 400 {
		conn, err := net.Dial("tcp", n.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	for range 20 {
		if code, body := n.secureCurl(false, "/api/v1/submitters",
			"--header", "Authorization: Bearer "+token); code != "200" {
			t.Fatalf("an authenticated call gets %q %s", code, body)
		}
		if code, body := n.getOps(t, "/readyz"); code != http.StatusOK {
			t.Fatalf("/readyz returns %d %s", code, body)
		}
	}
	if _, err := grpc_health_v1.NewHealthClient(n.conn).Check(t.Context(),
		&grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("health over gRPC: %v", err)
	}
	_, metrics := n.getOps(t, "/metrics")
	for _, name := range []string{`fencepost_connections{`,
		`fencepost_connections_refused_total{`} {
		if !strings.Contains(metrics, "\n"+name) {
			t.Errorf("/metrics has no %s", name)
		}
	}
	for range 1000 {
		response, err := http.Get("http://" + n.addr + "/api/v1/submitters")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		if response.Body.Close(); response.StatusCode != http.StatusUnauthorized {
			t.Fatalf("a call without a token: %s", response.Status)
		}
	}
	log, err := os.ReadFile(filepath.Join(n.dir, "node.log"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(log), "call refused"); lines == 0 || lines > 50 {
		t.Errorf("the log has %d lines of 1,000 rejected calls", lines)
	}
}

var opsListen = regexp.MustCompile(`ops: \{listen: "([^"]+)"`)

// getOps makes a request to the operators' listener.
func (n *node) getOps(t *testing.T, path string) (code int, body string) {
	t.Helper()
	text, err := os.ReadFile(n.config)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: 10 * time.Second}
	response, err := client.Get("http://" + opsListen.FindStringSubmatch(string(text))[1] + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(all)
}

package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// collector is an OTLP collector that keeps all spans.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer
	url   string
	files string // folder with the certificates

	mu    sync.Mutex
	spans []received
}

// received is a span with the name of the node that sent it.
type received struct {
	*tracepb.Span
	node string
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	c := &collector{url: "https://localhost:" + port, files: t.TempDir()}
	secure := certificatesFor(t, c.files, "localhost") // requires a client certificate
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(secure)))
	collectorpb.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return c
}

// collectorToken is required by the collector in the header authorization.
const collectorToken = "Bearer collector-secret-0123456789"

// Export keeps spans.
func (c *collector) Export(ctx context.Context,
	r *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	if got := metadata.ValueFromIncomingContext(ctx, "authorization"); !slices.Equal(got,
		[]string{collectorToken}) {
		return nil, status.Error(codes.Unauthenticated, "unknown token")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range r.GetResourceSpans() {
		node, _, _ := strings.Cut(attribute(of.GetResource().GetAttributes(),
			"service.instance.id"), "/")
		for _, scope := range of.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, received{span, node})
			}
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

func attribute(all []*commonpb.KeyValue, key string) string {
	for _, a := range all {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// of returns the spans of a trace.
func (c *collector) of(trace string) []received {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []received
	for _, s := range c.spans {
		if hex.EncodeToString(s.GetTraceId()) == trace {
			found = append(found, s)
		}
	}
	return found
}

// tracedNode prepares a node that exports traces. Its token is in its configuration, or else in a
// file.
func tracedNode(t *testing.T, c *testChain, o nodeOptions, url string, to *collector,
	inFile bool) *node {
	t.Helper()
	n := prepareNode(t, c, o, url)
	text, err := os.ReadFile(n.config)
	if err != nil {
		t.Fatal(err)
	}
	header := "authorization=" + strings.ReplaceAll(collectorToken, " ", "%20")
	setting := fmt.Sprintf("headers: %q", header)
	if inFile {
		path := filepath.Join(t.TempDir(), "headers")
		writeFile(t, path, header+"\n")
		setting = fmt.Sprintf("headers_file: %q", path)
	}
	writeFile(t, n.config, string(text)+fmt.Sprintf("tracing: {endpoint: %q, ca_file: %q, "+
		"cert_file: %q, key_file: %q, %s}\n", to.url, filepath.Join(to.files, "ca.pem"),
		filepath.Join(to.files, "client.pem"), filepath.Join(to.files, "client-key.pem"),
		setting))
	return n
}

// TestTraces_TwoNodes_OneTrace creates a transaction on one node that another node owns, and
// expects one trace of all: the call, the owner's steps, signer, chain, and outcome.
func TestTraces_TwoNodes_OneTrace(t *testing.T) {
	t.Parallel()
	c := embedded(t, 100*time.Millisecond, 1)
	collector, url := startCollector(t), freshDatabase(t)
	keys := filepath.Join(t.TempDir(), "keys")
	saveKeys(t, keys, c)
	o := nodeOptions{confirmations: 2, poll: 50 * time.Millisecond, keys: keys, name: "owner"}
	owner := tracedNode(t, c, o, url, collector, true)
	owner.migrate(t)
	owner.start(t)
	owner.await(t, owner.create(t, owner.names[0], "first", transfer).GetTxId(), time.Minute)
	o.name = "api"
	api := tracedNode(t, c, o, url, collector, false)
	api.start(t)

	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent",
		"00-"+trace+"-"+parent+"-01")
	payload := &fencepostv1.Payload{
		To: transfer.GetTo(), Value: "1", Data: []byte("data of the payload"),
	}
	answer, err := api.CreateTx(ctx, &fencepostv1.CreateTxRequest{
		Submitter: api.names[0], RequestId: "traced", Payload: payload,
	})
	if err != nil {
		t.Fatal(err)
	}
	final := api.await(t, answer.GetTx().GetTxId(), time.Minute)
	var raw string
	if err := owner.pool.QueryRow(t.Context(),
		"SELECT encode(raw_tx, 'hex') FROM tx_attempt WHERE tx_id = $1",
		final.GetTxId()).Scan(&raw); err != nil {
		t.Fatal(err)
	}
	secrets := []string{raw, c.url, hex.EncodeToString(payload.GetData()), password,
		"collector-secret"}
	eventually(t, time.Minute, "the trace is complete", func() error {
		return completeTrace(collector.of(trace), parent, final, secrets)
	})
}

// wantedSpan is a span of the trace: its node, and the name of its parent.
type wantedSpan struct{ name, node, parent string }

func completeTrace(spans []received, client string, tx *fencepostv1.Tx, secrets []string) error {
	const call = "fencepost.v1.TxService/CreateTx"
	names := map[string]string{client: "client"}
	for _, s := range spans {
		names[hex.EncodeToString(s.GetSpanId())] = s.GetName()
		for _, secret := range secrets {
			if strings.Contains(s.String(), secret) {
				return fmt.Errorf("span %s has a secret: %s", s.GetName(), s)
			}
		}
	}
	for _, want := range []wantedSpan{
		{call, "api", "client"},
		{"fencepost.allocate", "owner", call},
		{"fencepost.rpc.quote", "owner", "fencepost.allocate"},
		{"fencepost.sign", "owner", "fencepost.allocate"},
		{"fencepost.submit", "owner", call},
		{"fencepost.rpc.send", "owner", "fencepost.submit"},
		{"fencepost.rpc.receipt", "owner", call},
		{"fencepost.move ALLOCATED", "owner", call},
		{"fencepost.move SUBMITTED", "owner", call},
		{"fencepost.move INCLUDED", "owner", call},
		{"fencepost.move CONFIRMED", "owner", call},
		{"fencepost.transaction", "owner", call},
	} {
		if !hasSpan(spans, names, want, tx.GetTxId()) {
			return fmt.Errorf("no span %v in %d spans: %v", want, len(spans), names)
		}
	}
	return nil
}

func hasSpan(spans []received, names map[string]string, want wantedSpan, id string) bool {
	for _, s := range spans {
		name := s.GetName()
		if event := attribute(s.GetAttributes(), "fencepost.event"); name == "fencepost.move" {
			name += " " + event
		}
		if got := attribute(s.GetAttributes(), "fencepost.tx_id"); got != "" && got != id {
			continue
		}
		if name == want.name && s.node == want.node &&
			names[hex.EncodeToString(s.GetParentSpanId())] == want.parent {
			return true
		}
	}
	return false
}

package server

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
)

// counted returns a counter by one attribute; points without it are under "".
func counted(t *testing.T, reader *sdk.ManualReader, name, label string) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == name {
				for _, p := range sum.DataPoints {
					is, _ := p.Attributes.Value(attribute.Key(label))
					found[is.AsString()] += p.Value
				}
			}
		}
	}
	return found
}

// Transitions that clients cause are counted, alone and in batches, and logged like the transitions
// of owners.
func TestMetrics_ClientWrites_CountedAndLogged(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	reader, log := sdk.NewManualReader(), &buffer{}
	proxy := newProxy(t, h.db.TCPAddr())
	s, err := store.Open(h.ctx,
		store.Config{URL: h.db.Through(proxy.address()), Schema: h.db.Schema, Node: "b/boot"})
	h.must(err)
	t.Cleanup(s.Close)
	n := h.serve(func(o *Options) {
		o.Store, o.MeterProvider = s, sdk.NewMeterProvider(sdk.WithReader(reader))
		o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for name, label := range map[string]string{"fencepost.feed.polls": "",
		"fencepost.watch.ledger_reads": "", "fencepost.watch.streams": "",
		"fencepost.tx.create": "result"} {
		if got := counted(t, reader, name, label); len(got) == 0 {
			t.Errorf("%s is not there from the start", name)
		}
	}
	h.register("alice")
	first := n.create("alice", "r1")
	n.create("alice", "r1")
	wantStatus(t, n.call(createTx, createRequest("nobody", "r1", "0")), codes.NotFound,
		"SUBMITTER_NOT_FOUND")
	wantStatus(t, n.call(createTx, createRequest("alice", "", "0")), codes.InvalidArgument,
		"INVALID_FIELD")
	second := n.batch(createRequest("alice", "r2", "0"), createRequest("alice", "r1", "77"),
		createRequest("alice", "", "0"), createRequest("alice", "r2", "0"))[0].GetTx()
	cancelled, err := n.txs.CancelTx(h.ctx, &pb.CancelTxRequest{TxId: second.GetTxId()})
	h.must(err)
	proxy.setDown(true)
	wantStatus(t, n.call(createTx, createRequest("alice", "r3", "0")), codes.Unavailable,
		"STORE_UNAVAILABLE")
	two := batchOf(createRequest("alice", "r3", "0"), createRequest("alice", "r4", "0"))
	wantStatus(t, n.call(batchCreate, two), codes.Unavailable, "STORE_UNAVAILABLE")
	want := map[string]int64{"created": 2, "repeated": 2, "refused": 4, "unavailable": 3}
	h.eventually("all are counted",
		func() bool {
			return maps.Equal(counted(t, reader, "fencepost.tx.create", "result"),
				want)
		})
	for event, tx := range map[string]*pb.Tx{"QUEUED": first, "QUEUED ": second,
		"CANCELLED": cancelled.GetTx()} {
		line := "submitter=alice tx_id=" + tx.GetTxId() + " fencing_token=0 event=" +
			strings.TrimSpace(
				event)
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%d lines with %q in\n%s", n, line, log)
		}
	}
}

// A method name from an unauthenticated client must not become an attribute: each would be a
// series, and one that is not UTF-8 would make all metrics unreadable.
func TestMetrics_UnknownMethods_OneSeries(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	reader := sdk.NewManualReader()
	n := h.serve(
		func(o *Options) { o.MeterProvider = sdk.NewMeterProvider(sdk.WithReader(reader)) })
	for _, method := range []string{"/grpc.health.v1.Health/\xff\xfe", "/grpc.health.v1.Health/" +
		strings.Repeat("x", 5000), "/fencepost.v1.TxService/Nothing"} {
		err := n.conn.Invoke(h.ctx, method, &emptypb.Empty{}, &emptypb.Empty{})
		wantStatus(t, err, codes.Unimplemented, "UNKNOWN_METHOD")
	}
	_, err := n.txs.ListTxs(h.ctx, &pb.ListTxsRequest{})
	h.must(err)
	methods := func() map[string]bool {
		all, found := metricdata.ResourceMetrics{}, map[string]bool{}
		h.must(reader.Collect(h.ctx, &all))
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				calls, is := m.Data.(metricdata.Histogram[float64])
				if !is || !strings.HasPrefix(m.Name, "rpc.") {
					continue
				}
				for _, point := range calls.DataPoints {
					method, _ := point.Attributes.Value("rpc.method")
					found[method.AsString()] = true
				}
			}
		}
		return found
	}
	h.eventually("the calls are counted", func() bool { return len(methods()) >= 2 })
	if got := slices.Sorted(maps.Keys(methods())); !slices.Equal(got,
		[]string{"_OTHER", "fencepost.v1.TxService/ListTxs"}) {
		t.Errorf("calls are counted as %q", got)
	}
}

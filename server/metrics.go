package server

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/limit"
	"github.com/fencepost/fencepost/server/status"
)

// metrics are the server's own measurements. The transport's instrumentation counts and times the
// calls.
type metrics struct {
	meter    metric.Meter
	creates  metric.Int64Counter
	refusals metric.Int64Counter
	limited  metric.Int64Counter
	denials  metric.Int64Counter

	connectionsRefused, handshakesFailed, unauthenticated metric.Int64Counter
}

func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	meter := provider.Meter("github.com/fencepost/fencepost/server")
	creates, err1 := meter.Int64Counter(
		"fencepost.tx.create",
		metric.WithDescription(
			"Transactions requested by clients, by result: "+
				"created, repeated (already existed), refused, unavailable"),
		metric.WithUnit("{transaction}"),
	)
	refusals, err2 := meter.Int64Counter(
		"fencepost.refusals",
		metric.WithDescription(
			"Calls and batch items rejected for lack of capacity, by reason "+
				"(QUEUE_FULL, NODE_BUSY, CALLER_LIMITED)"),
		metric.WithUnit("{call}"),
	)
	limited, err3 := meter.Int64Counter(
		"fencepost.caller.refusals",
		metric.WithDescription(
			"Calls rejected because their caller exceeds its share of the node or its rate, by "+
				"caller and limit (calls, streams, rate)"),
		metric.WithUnit("{call}"),
	)
	connections, err4 := meter.Int64Counter(
		"fencepost.connections.refused",
		metric.WithDescription("Connections closed for lack of room, by reason: node_full, "+
			"source_full, evicted (without an admitted call, in favor of a new one)"),
		metric.WithUnit("{connection}"),
	)
	handshakes, err5 := meter.Int64Counter(
		"fencepost.tls.handshakes.failed",
		metric.WithDescription("Failed TLS handshakes of clients"),
		metric.WithUnit("{handshake}"),
	)
	unauthenticated, err6 := meter.Int64Counter(
		"fencepost.calls.unauthenticated",
		metric.WithDescription("Calls rejected because their credentials are missing or unknown"),
		metric.WithUnit("{call}"),
	)
	denials, err7 := meter.Int64Counter(
		"fencepost.policy.denials",
		metric.WithDescription("Transactions that violate the policy of their caller, by caller, "+
			"rule and mode (enforced; dry_run: accepted nevertheless)"),
		metric.WithUnit("{transaction}"),
	)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		return nil, err
	}
	m := &metrics{
		meter: meter, creates: creates, refusals: refusals, limited: limited,
		connectionsRefused: connections, handshakesFailed: handshakes,
		unauthenticated: unauthenticated, denials: denials,
	}
	handshakes.Add(context.Background(), 0)
	unauthenticated.Add(context.Background(), 0)
	for _, reason := range []string{limit.ReasonNodeFull, limit.ReasonSourceFull,
		limit.ReasonEvicted} {
		m.refuseConnection(reason, 0)
	}
	for _, limit := range []string{limit.LimitCalls, limit.LimitStreams} {
		m.limitCaller("", limit, 0)
	}
	for _, result := range []string{created, repeated, refused, unavailable} {
		m.create(context.Background(), result, 0)
	}
	for _, reason := range []pb.ErrorReason{pb.ErrorReason_ERROR_REASON_QUEUE_FULL,
		pb.ErrorReason_ERROR_REASON_NODE_BUSY,
		pb.ErrorReason_ERROR_REASON_CALLER_LIMITED} {
		refusals.Add(context.Background(), 0,
			metric.WithAttributes(attribute.String("reason", status.ReasonName(reason))))
	}
	return m, nil
}

// Results of a requested transaction.
const (
	created     = "created"
	repeated    = "repeated"
	refused     = "refused"
	unavailable = "unavailable"
)

func (m *metrics) create(ctx context.Context, result string, n int) {
	m.creates.Add(ctx, int64(n), metric.WithAttributes(attribute.String("result", result)))
}

// countCreates counts the results of the transactions that a call requested, if any.
func (m *metrics) countCreates(ctx context.Context, request, response any, err error) {
	switch r := request.(type) {
	case *pb.CreateTxRequest:
		created, _ := response.(*pb.CreateTxResponse)
		m.create(ctx, resultOf(created.GetCreated(), grpcstatus.Code(err)), 1)
	case *pb.BatchCreateTxRequest:
		if err != nil {
			m.create(ctx, resultOf(false, grpcstatus.Code(err)), len(r.GetRequests()))
			return
		}
		results := map[string]int{}
		for _, one := range response.(*pb.BatchCreateTxResponse).GetResults() {
			results[resultOf(one.GetCreated(), codes.Code(one.GetError().GetCode()))]++
		}
		for result, n := range results {
			m.create(ctx, result, n)
		}
	}
}

func resultOf(isNew bool, code codes.Code) string {
	switch code {
	case codes.OK:
		if isNew {
			return created
		}
		return repeated
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Unknown:
		return unavailable
	}
	return refused
}

// limitCaller counts calls that are rejected because of a limit of their caller.
func (m *metrics) limitCaller(caller, limit string, n int64) {
	m.limited.Add(context.Background(), n, metric.WithAttributes(
		attribute.String("caller", caller), attribute.String("limit", limit)))
}

// refuseConnection counts connections that are closed for lack of room.
func (m *metrics) refuseConnection(reason string, n int64) {
	m.connectionsRefused.Add(context.Background(), n,
		metric.WithAttributes(attribute.String("reason", reason)))
}

func (m *metrics) failHandshake() { m.handshakesFailed.Add(context.Background(), 1) }

// observeConnections exports the open connections.
func (m *metrics) observeConnections(states func() (proven, strangers int)) error {
	_, err := m.meter.Int64ObservableGauge(
		"fencepost.connections",
		metric.WithDescription("Open connections of clients, by state: proven (a call was "+
			"admitted), stranger"),
		metric.WithUnit("{connection}"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			proven, strangers := states()
			o.Observe(int64(proven), metric.WithAttributes(attribute.String("state", "proven")))
			o.Observe(int64(strangers),
				metric.WithAttributes(attribute.String("state", "stranger")))
			return nil
		}))
	return err
}

// observeCallers exports the room that callers use, as the limiter reports it.
func (m *metrics) observeCallers(used func(limit string) map[string]int64) error {
	_, err := m.meter.Int64ObservableGauge(
		"fencepost.caller.used",
		metric.WithDescription("Room of the node that a caller uses, by caller and limit "+
			"(calls, where BatchCreateTx and ListTxs count as 16; streams)"),
		metric.WithUnit("{call}"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for _, limit := range []string{limit.LimitCalls, limit.LimitStreams} {
				for caller, n := range used(limit) {
					o.Observe(n, metric.WithAttributes(
						attribute.String("caller", caller), attribute.String("limit", limit)))
				}
			}
			return nil
		}))
	return err
}

// refuse counts a call that is rejected for lack of capacity.
func (m *metrics) refuse(reason pb.ErrorReason) {
	m.refusals.Add(context.Background(), 1,
		metric.WithAttributes(attribute.String("reason", status.ReasonName(reason))))
}

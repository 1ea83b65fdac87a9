package server

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/txn"
)

const shopToken = "a-token-of-the-shop"

// policed serves a node with one caller, which has a policy, and returns its context.
func policed(h *harness, policy *txn.CallerPolicy, reader metric.Reader) (*node, context.Context) {
	h.t.Helper()
	h.register("alice")
	n := h.serve(func(o *Options) {
		o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
		o.Callers = shop(policy)
	})
	return n, metadata.AppendToOutgoingContext(h.ctx, "authorization", "Bearer "+shopToken)
}

func shop(policy *txn.CallerPolicy) []auth.Caller {
	return []auth.Caller{{Name: "shop", Tokens: []string{shopToken},
		Submitters: []string{"alice"}, Policy: policy}}
}

// denials counts the violations of a rule.
func denials(t testing.TB, reader *metric.ManualReader, rule txn.Rule, mode string) (n int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if m.Name != "fencepost.policy.denials" || !ok {
				continue
			}
			for _, point := range sum.DataPoints {
				of, _ := point.Attributes.Value("rule")
				as, _ := point.Attributes.Value("mode")
				if of.AsString() == string(rule) && as.AsString() == mode {
					n += point.Value
				}
			}
		}
	}
	return n
}

// TestPolicy_Tightened_NewDeniedRetryFound: a tightened policy denies new transactions on every
// protocol, and still returns those that it accepted.
func TestPolicy_Tightened_NewDeniedRetryFound(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	reader := metric.NewManualReader()
	n, as := policed(h, nil, reader)
	first, err := n.txs.CreateTx(as, createRequest("alice", "first", "5"))
	h.must(err)
	n.server.SetCallers(nil, shop(&txn.CallerPolicy{MaxValue: uint256.NewInt(4)}))

	again, err := n.txs.CreateTx(as, createRequest("alice", "first", "5"))
	h.must(err)
	if again.GetCreated() || again.GetTx().GetTxId() != first.GetTx().GetTxId() {
		t.Errorf("a retry returns %v", again)
	}
	_, err = n.txs.CreateTx(as, createRequest("alice", "second", "5"))
	wantStatus(t, err, codes.PermissionDenied, "POLICY_DENIED")
	n.http("POST", "/api/v1/tx", `{"submitter":"alice","requestId":"third","payload":`+
		`{"to":"0x0000000000000000000000000000000000000001","value":"5"}}`,
		"Authorization", "Bearer "+shopToken).
		wantError(t, http.StatusForbidden, codes.PermissionDenied, "POLICY_DENIED")
	batch, err := n.txs.BatchCreateTx(as, &pb.BatchCreateTxRequest{
		Requests: []*pb.CreateTxRequest{createRequest("alice", "first", "5"),
			createRequest("alice", "second", "5"), createRequest("alice", "small", "4")}})
	h.must(err)
	if r := batch.GetResults(); r[0].GetTx() == nil || r[1].GetError() == nil ||
		codes.Code(r[1].GetError().GetCode()) != codes.PermissionDenied || !r[2].GetCreated() {
		t.Errorf("batch: %v", r)
	}
	if got := denials(t, reader, txn.RuleMaxValue, enforced); got != 3 {
		t.Errorf("%d denials are counted", got)
	}
}

func TestPolicy_DryRun_AcceptedAndCounted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	reader := metric.NewManualReader()
	n, as := policed(h, &txn.CallerPolicy{DryRun: true, MaxValue: uint256.NewInt(4),
		Quota: txn.Quota{DayValue: uint256.NewInt(6)}}, reader)
	for _, id := range []string{"first", "second"} {
		created, err := n.txs.CreateTx(as, createRequest("alice", id, "5"))
		h.must(err)
		if !created.GetCreated() {
			t.Errorf("%s is not created", id)
		}
	}
	batch, err := n.txs.BatchCreateTx(as, &pb.BatchCreateTxRequest{
		Requests: []*pb.CreateTxRequest{createRequest("other", "third", "5")}})
	h.must(err)
	if got := batch.GetResults()[0].GetError().GetCode(); got != int32(codes.PermissionDenied) {
		t.Errorf("another account: code %d", got)
	}
	// a rejected request is not counted
	if got := denials(t, reader, txn.RuleMaxValue, dryRun); got != 2 {
		t.Errorf("%d violations of the value of a transaction are counted", got)
	}
	if got := denials(t, reader, txn.RuleDayValue, dryRun); got != 1 {
		t.Errorf("%d violations of the value of a day are counted", got)
	}
}

func TestPolicy_Rate_Retryable(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n, as := policed(h, &txn.CallerPolicy{Quota: txn.Quota{Rate: 0.001}},
		metric.NewManualReader())
	_, err := n.txs.CreateTx(as, createRequest("alice", "first", "5"))
	h.must(err)
	_, err = n.txs.CreateTx(as, createRequest("alice", "second", "5"))
	wantRetry(t, wantStatus(t, err, codes.ResourceExhausted, "CALLER_LIMITED"),
		1000*time.Second, 1500*time.Second)
}

func TestSimulateTx_PolicyVerdict(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n, as := policed(h, &txn.CallerPolicy{MaxValue: uint256.NewInt(4),
		Quota: txn.Quota{DayValue: uint256.NewInt(6)}}, metric.NewManualReader())
	verdict := func(value string) string {
		t.Helper()
		r, err := n.txs.SimulateTx(as, &pb.SimulateTxRequest{Submitter: "alice",
			Payload: createRequest("alice", "x", value).GetPayload()})
		h.must(err)
		return r.GetDeniedBy()
	}
	if got := verdict("5"); got != string(txn.RuleMaxValue) {
		t.Errorf("too much for a transaction: %q", got)
	}
	if got := verdict("4"); got != "" {
		t.Errorf("allowed: %q", got)
	}
	_, err := n.txs.CreateTx(as, createRequest("alice", "first", "4"))
	h.must(err)
	if got := verdict("4"); got != string(txn.RuleDayValue) {
		t.Errorf("too much for the day: %q", got)
	}
}

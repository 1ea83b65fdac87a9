package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

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
	s := wantStatus(t, err, codes.ResourceExhausted, "CALLER_LIMITED")
	wantRetry(t, s, 1000*time.Second, 1500*time.Second)
	if m := metadataOf(s); m["rule"] != string(txn.RuleRate) || m["limit"] != "0.001" {
		t.Errorf("metadata %v", m)
	}
}

// TestSimulateTx_NeedsApproval: as CreateTx would decide.
func TestSimulateTx_NeedsApproval(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	policy := &txn.CallerPolicy{ApproveAbove: uint256.NewInt(4), ApprovalTime: time.Hour}
	n, as := policed(h, policy, metric.NewManualReader())
	for name, c := range map[string]struct {
		value string
		dry   bool
		want  bool
	}{
		"at the limit": {"4", false, false}, "above": {"5", false, true},
		"dry run": {"5", true, false},
	} {
		changed := *policy
		changed.DryRun = c.dry
		n.server.SetCallers(nil, shop(&changed))
		r, err := n.txs.SimulateTx(as, &pb.SimulateTxRequest{Submitter: "alice",
			Payload: createRequest("alice", "x", c.value).GetPayload()})
		h.must(err)
		made, err := n.txs.CreateTx(as, createRequest("alice", name, c.value))
		h.must(err)
		waits := made.GetTx().GetSubState() == pb.TxSubState_TX_SUB_STATE_AWAITING_APPROVAL
		if r.GetNeedsApproval() != c.want || waits != c.want {
			t.Errorf("%s: %v, and awaits an approval: %v", name, r, waits)
		}
	}
}

// TestPolicy_Denied_ExplainsLimit: the error has the rule, the limit and the caller's own use, and
// says what to do.
func TestPolicy_Denied_ExplainsLimit(t *testing.T) {
	t.Parallel()
	value := txn.Quota{DayValue: uint256.NewInt(20)}
	gas := txn.Quota{DayGas: 50_000}
	for name, c := range map[string]struct {
		policy   txn.CallerPolicy
		value    string
		gas      uint64
		says     []string
		metadata map[string]string // "*" is any value
	}{
		"rest of the day": {txn.CallerPolicy{Quota: value}, "5", 0,
			[]string{"value_per_day allows 20 wei a day", "18 are used", "5 are requested",
				"retry unchanged after 20"},
			map[string]string{"limit": "20", "used": "18", "requested": "5", "reset_time": "*"}},
		"more than a day": {txn.CallerPolicy{Quota: value}, "21", 0,
			[]string{"value_per_day allows 20 wei a day", "21 are requested", "request less"},
			map[string]string{"limit": "20", "requested": "21"}},
		"gas of the day": {txn.CallerPolicy{Quota: gas}, "0", 21_000,
			[]string{"gas_per_day allows 50000 gas", "30000 are used", "21000 are requested"},
			map[string]string{"limit": "50000", "used": "30000", "requested": "21000",
				"reset_time": "*"}},
		"no gas limit": {txn.CallerPolicy{Quota: gas}, "0", 0,
			[]string{"gas_per_day counts gas limits", "set payload.gas_limit"},
			map[string]string{"limit": "50000", "requested": "0"}},
		"more than a transaction": {txn.CallerPolicy{MaxValue: uint256.NewInt(4)}, "5", 0,
			[]string{"value_per_tx allows 4 wei a transaction", "5 are requested", "request less"},
			map[string]string{"limit": "4", "requested": "5"}},
		"rule without an amount": {txn.CallerPolicy{Recipients: []txn.Address{{1}}}, "0", 0,
			[]string{"rule recipients", "change the transaction"}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			n, as := policed(h, nil, metric.NewManualReader())
			n.server.SetCallers(nil, shop(&txn.CallerPolicy{Quota: txn.Quota{Rate: 100}}))
			first := createRequest("alice", "first", "18")
			first.Payload.GasLimit = 30_000
			_, err := n.txs.CreateTx(as, first) // counts, whatever the policy is
			h.must(err)
			n.server.SetCallers(nil, shop(&c.policy))
			request := createRequest("alice", "second", c.value)
			request.Payload.GasLimit = c.gas
			_, err = n.txs.CreateTx(as, request)
			s := wantStatus(t, err, codes.PermissionDenied, "POLICY_DENIED")
			for _, part := range c.says {
				if !strings.Contains(s.Message(), part) {
					t.Errorf("%q lacks %q", s.Message(), part)
				}
			}
			metadata := metadataOf(s)
			if metadata["rule"] == "" || len(metadata) != len(c.metadata)+1 {
				t.Errorf("metadata %v", metadata)
			}
			for key, want := range c.metadata {
				if got := metadata[key]; got != want && (want != "*" || got == "") {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
		})
	}
}

// metadataOf returns the metadata of the ErrorInfo of a status.
func metadataOf(s *grpcstatus.Status) map[string]string {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetMetadata()
		}
	}
	return nil
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

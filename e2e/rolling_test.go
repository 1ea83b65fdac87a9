package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// retryUnavailable is the client's gRPC service configuration for several nodes: use any of them,
// and another when one is unavailable.
const retryUnavailable = `{
	"loadBalancingConfig": [{"round_robin": {}}],
	"methodConfig": [{
		"name": [{"service": "fencepost.v1.TxService"}],
		"retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "1s",
		"backoffMultiplier": 2,
		"retryableStatusCodes": ["UNAVAILABLE"]}
	}]
}`

// TestRollingRestart stops and starts one node after the other under load, twice. Clients notice
// nothing, and each lease is released: no submitter with work waits until a lease would have
// expired. It runs before the parallel tests, because it compares times.
func TestRollingRestart(t *testing.T) {
	const submitters, rounds = 30, 2
	c := embedded(t, 250*time.Millisecond, submitters+1)
	cl := newCluster(t, c, 3, nodeOptions{confirmations: 3, poll: 100 * time.Millisecond},
		freshDatabase(t))
	contract := cl.members[0].deploy(t, c)
	w := watchAll(t, func() *node { return cl.any().node })
	calls := &callers{each: make([]int, submitters)}
	client := cl.retryingClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	calls.end = cancel
	t.Cleanup(func() { cancel(); calls.wg.Wait() })
	for i := range submitters {
		calls.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				limited, done := context.WithTimeout(context.Background(), 10*time.Second)
				request := &fencepostv1.CreateTxRequest{
					Submitter: cl.members[0].names[i],
					RequestId: fmt.Sprintf("call-%d", n),
					Payload:   &fencepostv1.Payload{To: contract.Hex()},
				}
				answer, err := client.CreateTx(limited, request)
				done()
				if err != nil {
					t.Errorf("%s of submitter %d: %v", request.GetRequestId(), i, err)
					return
				}
				calls.accepted(i, answer.GetTx().GetTxId())
				<-time.After(500 * time.Millisecond)
			}
		})
	}
	var stops []time.Duration
	begun := time.Now()
	for range rounds {
		for _, m := range cl.members {
			calls.more(t, submitters)
			at := time.Now()
			m.proc.stop(t)
			stops = append(stops, time.Since(at))
			m.start(t)
		}
	}
	cl.drain(t, contract, calls, []*watcher{w}, 0, 2*time.Minute)
	cl.reportOrphans(t, begun, leaseDuration)
	t.Logf("%d transactions; a stop took %s, at most %s", len(calls.ids), median(stops),
		slices.Max(stops))
	cl.stopAll(t)
}

// retryingClient is one client of all nodes.
func (cl *cluster) retryingClient(t *testing.T) fencepostv1.TxServiceClient {
	t.Helper()
	nodes := manual.NewBuilderWithScheme("cluster")
	var state resolver.State
	for _, m := range cl.members {
		state.Endpoints = append(state.Endpoints,
			resolver.Endpoint{Addresses: []resolver.Address{{Addr: m.addr}}})
	}
	nodes.InitialState(state)
	conn, err := grpc.NewClient("cluster:///", grpc.WithResolvers(nodes),
		grpc.WithDefaultServiceConfig(retryUnavailable),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return fencepostv1.NewTxServiceClient(conn)
}

// reportOrphans reports how long submitters with work had no owner. It fails if one had none for
// longer than the limit, or the median is above a tenth of it.
func (cl *cluster) reportOrphans(t *testing.T, since time.Time, limit time.Duration) {
	t.Helper()
	var spans []time.Duration
	for _, history := range readLeaseHistory(t, cl.pool) {
		for _, a := range history {
			if a.At.Before(since) || a.WorkSince == nil {
				continue
			}
			span := a.timeWithoutOwner()
			spans = append(spans, span)
			if span > limit {
				t.Errorf(
					"submitter %d had work and no owner for %s before %s took it (from %q, "+
						"released: %v)",
					a.Submitter, span, a.Owner, a.Before, a.Released)
			}
		}
	}
	if len(spans) == 0 {
		t.Fatal("no submitter changed hands")
	}
	if m := median(spans); m > limit/10 {
		t.Errorf("median time without owner %s, more than %s", m, limit/10)
	}
	t.Logf("%d changes of hands with work: without an owner for %s in the median, at most %s",
		len(spans), median(spans), slices.Max(spans))
}

package engine

import (
	"fmt"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestTrace_Range_EachInItsOwnTrace expects every transaction of a range to have the steps in its
// own trace, linked to the span that has the calls.
func TestTrace_Range_EachInItsOwnTrace(t *testing.T) {
	t.Parallel()
	const calls = 8
	r, c := pipelinedChain(t, calls, chaintest.Options{})
	var ids []txn.TxID
	traces := map[string]string{} // trace by transaction
	for i := range calls {
		traceID := fmt.Sprintf("0af7651916cd43dd8448eb211c8031%02x", i)
		info, _, err := r.admin.CreateTx(t.Context(), store.Intent{
			Submitter: r.submitters[0], RequestID: fmt.Sprint("traced", i), Payload: transfer(),
			TraceParent: "00-" + traceID + "-b7ad6b7169203331-01",
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, info.ID)
		traces[info.ID.String()] = traceID
	}
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	n := r.startOn(c, "a", func(o *Options) {
		o.Tracer = provider.Tracer("test")
	})
	r.awaitExecuted(c, ids)
	n.stop()

	have, byID := map[string]bool{}, map[trace.SpanID]sdktrace.ReadOnlySpan{}
	accounts, linked := 0, 0
	for _, s := range spans.Ended() {
		byID[s.SpanContext().SpanID()] = s
	}
	for _, s := range spans.Ended() {
		id := txIn(s)
		if got := s.SpanContext().TraceID().String(); got != traces[id] {
			t.Errorf("%s of %s is in trace %s, want %s", s.Name(), id, got, traces[id])
		}
		have[s.Name()+" "+id] = true
		if s.Name() == "fencepost.read_account" {
			accounts++
		}
		for _, link := range s.Links() {
			linked++
			to := byID[link.SpanContext.SpanID()]
			if to == nil || to.Name() != s.Name() ||
				to.SpanContext().TraceID() == s.SpanContext().TraceID() {
				t.Errorf("%s of %s is linked to %v", s.Name(), id, to)
			}
		}
	}
	for id := range traces {
		for _, name := range []string{"allocate", "submit", "rpc.receipt", "transaction"} {
			if !have["fencepost."+name+" "+id] {
				t.Errorf("transaction %s has no span %s", id, name)
			}
		}
	}
	if accounts == 0 || linked == 0 {
		t.Errorf("%d reads of the account and %d links, want some", accounts, linked)
	}
}

func txIn(s sdktrace.ReadOnlySpan) string {
	for _, a := range s.Attributes() {
		if a.Key == "fencepost.tx_id" {
			return a.Value.AsString()
		}
	}
	return ""
}

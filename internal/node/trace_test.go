package node

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/txn"
)

// failingChain answers every call with a failure; the error has an address.
type failingChain struct{ engine.Chain }

var errOfChain = errors.New("http://user:secret@endpoint")

func (failingChain) SendInOrder(_ context.Context, all []txn.Signed) []txn.Outcome {
	return []txn.Outcome{{Class: txn.Accepted}, {Class: txn.Underpriced}}[:len(all)]
}

func (failingChain) QuoteInOrder(context.Context, []txn.Draft) []txn.Quoted {
	return []txn.Quoted{{Outcome: txn.Outcome{Class: txn.InsufficientFunds}}}
}

func (failingChain) Account(context.Context, txn.Address, uint64) (txn.Account, error) {
	return txn.Account{}, errOfChain
}

func (failingChain) Consumer(context.Context, txn.Address, txn.Nonce) (*txn.Consumer, error) {
	return nil, errOfChain
}

// TestTracedChain_Failures_ClassWithoutText expects a span for each call of a traced transaction,
// none for others, and no text of an error.
func TestTracedChain_Failures_ClassWithoutText(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	c := traceChain(failingChain{}, tracer)
	calls := func(ctx context.Context) {
		c.SendInOrder(ctx, make([]txn.Signed, 2))
		c.QuoteInOrder(ctx, make([]txn.Draft, 2))
		_, _ = c.Account(ctx, txn.Address{}, 1)
		_, _ = c.Consumer(ctx, txn.Address{}, 1)
	}
	calls(t.Context())
	if n := len(spans.Ended()); n > 0 {
		t.Errorf("%d spans of calls for no traced transaction", n)
	}
	ctx, step := tracer.Start(t.Context(), "step")
	calls(ctx)
	step.End()
	want := map[string]string{
		"fencepost.rpc.send": string(txn.Underpriced), "fencepost.rpc.account": "not read",
		"fencepost.rpc.quote": string(txn.InsufficientFunds), "fencepost.rpc.consumer": "not read",
		"step": "",
	}
	for _, s := range spans.Ended() {
		text, known := want[s.Name()]
		if !known || s.Status().Description != text || (text != "") !=
			(s.Status().Code == codes.Error) || len(s.Events()) > 0 {
			t.Errorf("span %s has status %v and events %v", s.Name(), s.Status(), s.Events())
		}
		delete(want, s.Name())
	}
	if len(want) > 0 {
		t.Errorf("no span of %v", want)
	}
}

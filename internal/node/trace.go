package node

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/txn"
)

// openTraces makes the export of traces, if it is configured.
func (n *Node) openTraces(ctx context.Context, name, version string) (err error) {
	if t := n.cfg.Tracing; t.Endpoint != "" {
		n.traces, err = telemetry.NewTraces(ctx, telemetry.TraceOptions{
			Endpoint: t.Endpoint, SampleRatio: t.SampleRatio, Node: name, Version: version,
			Log: n.log,
		})
	}
	return err
}

// tracedChain adds a span to the calls that are made for a traced transaction.
type tracedChain struct {
	engine.Chain
	tracer trace.Tracer
}

// traceChain returns a chain with spans; the chain itself without traces.
func traceChain(c engine.Chain, tracer trace.Tracer) engine.Chain {
	if tracer == nil {
		return c
	}
	return tracedChain{c, tracer}
}

// child starts a client span if the call is for a traced transaction.
func child(ctx context.Context, tracer trace.Tracer, name string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, parent
	}
	return tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
}

// endClass ends a span that child started, with the class of the response.
func endClass(ctx, outer context.Context, class txn.Class) {
	if ctx == outer {
		return
	}
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.String("fencepost.outcome", string(class)))
	if class != txn.Accepted {
		span.SetStatus(codes.Error, string(class))
	}
	span.End()
}

func (c tracedChain) Send(outer context.Context, signed txn.Signed) txn.Outcome {
	ctx, _ := child(outer, c.tracer, "fencepost.rpc.send")
	o := c.Chain.Send(ctx, signed)
	endClass(ctx, outer, o.Class)
	return o
}

func (c tracedChain) Quote(outer context.Context, d txn.Draft) (txn.Quote, txn.Outcome) {
	ctx, _ := child(outer, c.tracer, "fencepost.rpc.quote")
	q, o := c.Chain.Quote(ctx, d)
	endClass(ctx, outer, o.Class)
	return q, o
}

func (c tracedChain) Fees(outer context.Context, r txn.FeeRequest) (txn.Fees, txn.Outcome) {
	ctx, _ := child(outer, c.tracer, "fencepost.rpc.fees")
	fees, o := c.Chain.Fees(ctx, r)
	endClass(ctx, outer, o.Class)
	return fees, o
}

// tracedSigner adds a span to signatures for a traced transaction.
type tracedSigner struct {
	engine.Signer
	tracer trace.Tracer
}

func traceSigner(s engine.Signer, tracer trace.Tracer) engine.Signer {
	if tracer == nil {
		return s
	}
	return tracedSigner{s, tracer}
}

func (s tracedSigner) Sign(outer context.Context, signer string,
	unsigned txn.Unsigned) (txn.Signed, error) {
	ctx, span := child(outer, s.tracer, "fencepost.sign")
	signed, err := s.Signer.Sign(ctx, signer, unsigned)
	if ctx == outer {
		return signed, err
	}
	span.SetAttributes(attribute.String("fencepost.signer", signer))
	if err != nil {
		span.SetStatus(codes.Error, "not signed")
	}
	span.End()
	return signed, err
}

// SignInOrder adds one span for all signatures.
func (s tracedSigner) SignInOrder(outer context.Context, signer string,
	unsigned []txn.Unsigned) []txn.SignResult {
	ctx, span := child(outer, s.tracer, "fencepost.sign")
	results := s.Signer.SignInOrder(ctx, signer, unsigned)
	if ctx == outer {
		return results
	}
	span.SetAttributes(attribute.String("fencepost.signer", signer))
	if n := len(results); n > 0 && results[n-1].Err != nil {
		span.SetStatus(codes.Error, "not signed")
	}
	span.End()
	return results
}

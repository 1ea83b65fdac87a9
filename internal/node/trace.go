package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/txn"
)

// openTraces makes the export of traces, if it is configured.
func (n *Node) openTraces(ctx context.Context, name, version string) (err error) {
	t := n.cfg.Tracing
	if t.Endpoint == "" {
		return nil
	}
	o := telemetry.TraceOptions{
		Endpoint: t.Endpoint, SampleRatio: t.SampleRatio, Node: name, Version: version, Log: n.log,
	}
	if o.Headers, o.TLS, err = collectorAccess(t); err != nil {
		return err
	}
	n.traces, err = telemetry.NewTraces(ctx, o)
	return err
}

// collectorAccess returns the headers and the encryption of a collector; nil without TLS files.
func collectorAccess(t config.Tracing) (map[string]string, *tls.Config, error) {
	text := t.Headers.Reveal()
	if t.HeadersFile != "" {
		content, err := os.ReadFile(t.HeadersFile)
		if err != nil {
			return nil, nil, fmt.Errorf("read tracing.headers_file: %w", err)
		}
		text = string(content)
	}
	headers, err := config.ParseHeaders(text)
	if err != nil {
		return nil, nil, fmt.Errorf("read tracing.headers_file: %w", err)
	}
	if t.CAFile == "" && t.CertFile == "" {
		return headers, nil, nil
	}
	secure, err := brokerTLS(config.SinkTLS{
		CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile,
	})
	return headers, secure, err
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

func (c tracedChain) SendInOrder(outer context.Context, signed []txn.Signed) []txn.Outcome {
	ctx, span := child(outer, c.tracer, "fencepost.rpc.send")
	outcomes := c.Chain.SendInOrder(ctx, signed)
	span.SetAttributes(attribute.Int("fencepost.transactions", len(signed)))
	endClass(ctx, outer, worst(outcomes))
	return outcomes
}

func (c tracedChain) QuoteInOrder(outer context.Context, drafts []txn.Draft) []txn.Quoted {
	ctx, span := child(outer, c.tracer, "fencepost.rpc.quote")
	quoted := c.Chain.QuoteInOrder(ctx, drafts)
	outcomes := make([]txn.Outcome, len(quoted))
	for i := range quoted {
		outcomes[i] = quoted[i].Outcome
	}
	span.SetAttributes(attribute.Int("fencepost.transactions", len(quoted)))
	endClass(ctx, outer, worst(outcomes))
	return quoted
}

// worst returns the first class that is not ACCEPTED; ACCEPTED if there is none.
func worst(outcomes []txn.Outcome) txn.Class {
	for _, o := range outcomes {
		if o.Class != txn.Accepted {
			return o.Class
		}
	}
	return txn.Accepted
}

func (c tracedChain) Gas(outer context.Context, d txn.Draft) (uint64, txn.Outcome) {
	ctx, _ := child(outer, c.tracer, "fencepost.rpc.gas")
	gas, o := c.Chain.Gas(ctx, d)
	endClass(ctx, outer, o.Class)
	return gas, o
}

// endRead ends the span of a read. Errors are not recorded: they may have an address.
func endRead(ctx, outer context.Context, err error) {
	if ctx == outer {
		return
	}
	span := trace.SpanFromContext(ctx)
	if err != nil {
		span.SetStatus(codes.Error, "not read")
	}
	span.End()
}

func (c tracedChain) Account(outer context.Context, address txn.Address,
	settled uint64) (txn.Account, error) {
	ctx, _ := child(outer, c.tracer, "fencepost.rpc.account")
	account, err := c.Chain.Account(ctx, address, settled)
	endRead(ctx, outer, err)
	return account, err
}

func (c tracedChain) Consumer(outer context.Context, address txn.Address,
	nonce txn.Nonce) (*txn.Consumer, error) {
	ctx, _ := child(outer, c.tracer, "fencepost.rpc.consumer")
	found, err := c.Chain.Consumer(ctx, address, nonce)
	endRead(ctx, outer, err)
	return found, err
}

func (c tracedChain) Pooled(outer context.Context, address txn.Address, nonce txn.Nonce,
	hashes []txn.Hash) (txn.Diagnosis, error) {
	ctx, _ := child(outer, c.tracer, "fencepost.rpc.pool")
	found, err := c.Chain.Pooled(ctx, address, nonce, hashes)
	endRead(ctx, outer, err)
	return found, err
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

package engine

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Spans of an owner join the trace of the request that created the transaction, which may have been
// served by another node. Their attributes are ids, states and classes: no payload, signed bytes,
// URL or message.

// traceStep starts the span of a step with an external effect; end takes the result of its commit.
// Calls in the returned context are children of the span.
func (a *actor) traceStep(ctx context.Context, s txn.Step) (in context.Context,
	end func(store.Outcome, error)) {
	tx := txOf(s)
	if tx == nil || tx.TraceParent == "" {
		return ctx, func(store.Outcome, error) {}
	}
	in, span := a.e.Tracer.Start(inTrace(ctx, tx), "fencepost."+opOf(s),
		trace.WithAttributes(a.traceAttributes(tx)...))
	return in, func(o store.Outcome, err error) {
		span.SetAttributes(attribute.String("fencepost.commit", o.String()),
			attribute.Bool("fencepost.failed", err != nil))
		span.End()
	}
}

// traceMove records a committed move as a span without duration. A final move also records the
// whole life of the transaction.
func (a *actor) traceMove(tx *txn.Tx, w *txn.Write) {
	if tx.TraceParent == "" {
		return
	}
	attributes := append(a.traceAttributes(tx),
		attribute.String("fencepost.event", string(w.Kind)),
		attribute.String("fencepost.state", string(tx.State)),
		attribute.String("fencepost.sub_state", string(tx.Sub)),
		attribute.String("fencepost.reason", tx.Reason))
	if tx.TxHash != (txn.Hash{}) {
		attributes = append(attributes, attribute.String("fencepost.tx_hash", tx.TxHash.Hex()))
	}
	if r := tx.Receipt; r != nil {
		attributes = append(attributes, attribute.Int64("fencepost.block", int64(r.BlockNumber)))
	}
	ctx, now := inTrace(context.Background(), tx), trace.WithTimestamp(a.e.Clock.Now())
	record := func(name string, start trace.SpanStartEventOption) {
		_, span := a.e.Tracer.Start(ctx, name, start, trace.WithAttributes(attributes...))
		span.End(now)
	}
	record("fencepost.move", now)
	if tx.State.Final() {
		record("fencepost.transaction", trace.WithTimestamp(tx.CreatedAt))
	}
}

func (a *actor) traceAttributes(tx *txn.Tx) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		attribute.String("fencepost.tx_id", tx.ID.String()),
		attribute.String("fencepost.submitter", a.ledger.Submitter.Name),
		attribute.Int64("fencepost.chain_id", int64(a.ledger.Submitter.Chain)),
		attribute.Int64("fencepost.fencing_token", int64(a.lease.Token())),
	}
	if tx.Nonce != nil {
		attributes = append(attributes, attribute.Int64("fencepost.nonce", int64(*tx.Nonce)))
	}
	return attributes
}

// inTrace returns a context in the trace of a transaction. A context that cannot be parsed starts a
// new trace.
func inTrace(ctx context.Context, tx *txn.Tx) context.Context {
	return propagation.TraceContext{}.Extract(ctx,
		propagation.MapCarrier{"traceparent": tx.TraceParent})
}

// txOf returns the transaction of a step that calls a chain or a signer; nil if it is about none.
func txOf(s txn.Step) *txn.Tx {
	switch s := s.(type) {
	case txn.Prepare:
		return s.Tx
	case txn.PrepareRange:
		return s.Items[0].Tx
	case txn.Broadcast:
		return s.Tx
	case txn.BroadcastRange:
		return s.Items[0].Tx
	case *txn.Replace:
		return s.Tx
	}
	return nil
}

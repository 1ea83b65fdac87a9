package engine

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Spans of an owner join the trace of the request that created the transaction, which may have been
// served by another node. Their attributes are ids, states and classes: no payload, signed bytes,
// URL or message.

// traceStep starts the span of a step with an external effect, in the trace of each transaction
// that it is for; end takes the result of its commit. Calls in the returned context are children of
// the first, which the others are linked to.
func (a *actor) traceStep(ctx context.Context, v *txn.View, s txn.Step) (in context.Context,
	end func(store.Outcome, error)) {
	txs := slices.DeleteFunc(txsOf(v, s),
		func(tx *txn.Tx) bool { return tx == nil || tx.TraceParent == "" })
	if len(txs) == 0 {
		return ctx, func(store.Outcome, error) {}
	}
	var first trace.Link
	var spans []trace.Span
	for i, tx := range txs {
		options := []trace.SpanStartOption{trace.WithAttributes(a.traceAttributes(tx)...)}
		if i > 0 {
			options = append(options, trace.WithLinks(first))
		}
		own, span := a.e.Tracer.Start(inTrace(ctx, tx), "fencepost."+spanOf(s), options...)
		spans = append(spans, span)
		if i == 0 {
			in, first = own, trace.LinkFromContext(own)
		}
	}
	return in, func(o store.Outcome, err error) {
		for _, span := range spans {
			span.SetAttributes(attribute.String("fencepost.commit", o.String()),
				attribute.Bool("fencepost.failed", err != nil))
			span.End()
		}
	}
}

// traceReceipt records the call that found the receipt of a transaction. It looked up those of
// others too, so it has no span of its own while it runs.
func (a *actor) traceReceipt(tx *txn.Tx, w *txn.Write) {
	if tx.TraceParent == "" || w.Kind != txn.EventIncluded || tx.Receipt == nil {
		return
	}
	r, known := a.track.LastReading(tx.Receipt.TxHash)
	if !known {
		return
	}
	_, span := a.e.Tracer.Start(inTrace(context.Background(), tx), "fencepost.rpc.receipt",
		trace.WithTimestamp(r.Began), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(append(a.traceAttributes(tx),
			attribute.Int("fencepost.hashes", r.Hashes))...))
	span.End(trace.WithTimestamp(r.Ended))
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

// spanOf names the span of a step.
func spanOf(s txn.Step) string {
	switch s.(type) {
	case txn.ReadAccount:
		return "read_account"
	case txn.FindConsumer:
		return "find_consumer"
	}
	return opOf(s)
}

// txsOf returns the transactions that a step calls a chain or a signer for. An account is read for
// the lowest nonce in flight, or else for the head of the queue, if no transaction is named.
func txsOf(v *txn.View, s txn.Step) (txs []*txn.Tx) {
	switch s := s.(type) {
	case txn.ReadAccount:
		switch {
		case s.Tx != nil:
			return []*txn.Tx{s.Tx}
		case len(v.Open) > 0:
			return []*txn.Tx{&v.Open[0]}
		case len(v.Queue) > 0:
			return []*txn.Tx{&v.Queue[0]}
		}
	case txn.FindConsumer:
		return []*txn.Tx{s.Tx}
	case txn.Prepare:
		return []*txn.Tx{s.Tx}
	case txn.PrepareRange:
		for i := range s.Items {
			txs = append(txs, s.Items[i].Tx)
		}
	case txn.Broadcast:
		return []*txn.Tx{s.Tx}
	case txn.BroadcastRange:
		for i := range s.Items {
			txs = append(txs, s.Items[i].Tx)
		}
	case *txn.Replace:
		return []*txn.Tx{s.Tx}
	}
	return txs
}

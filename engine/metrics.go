package engine

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// metrics count what an operator watches. Submitters are not labels: there may be many thousands.
type metrics struct {
	acquires   metric.Int64Counter
	renewals   metric.Int64Counter
	fences     metric.Int64Counter
	commits    metric.Int64Counter
	sends      metric.Int64Counter
	handOvers  metric.Int64Counter
	wedged     metric.Int64Counter
	replaced   metric.Int64Counter
	decisions  metric.Int64Counter
	reorged    metric.Int64Counter
	forks      metric.Int64Counter
	receipts   metric.Int64Counter
	resubmits  metric.Int64Counter
	finals     metric.Int64Counter
	takeovers  metric.Float64Histogram
	lookUps    metric.Float64Histogram
	lifetimes  metric.Float64Histogram
	nodes      metric.Int64Gauge
	queued     metric.Int64Gauge
	oldest     metric.Float64Gauge
	inFlight   metric.Int64Gauge
	stuck      metric.Int64Gauge
	submitters metric.Int64Gauge

	outcomes, classes, looks, states, kinds labels // of what every transaction counts
}

// labels are the values that a label has, made once: to make one takes longer, and is deeper, than to count.
type labels struct {
	key  string
	made map[string]metric.MeasurementOption
}

func (l labels) of(value string) metric.MeasurementOption {
	if made, ok := l.made[value]; ok {
		return made
	}
	return labelled(l.key, value)
}

// takeoverBounds reach from a hand-over to a lease of ten minutes, in seconds.
var takeoverBounds = []float64{
	.01,
	.025,
	.05,
	.1,
	.25,
	.5,
	1,
	2,
	3,
	5,
	7.5,
	10,
	12.5,
	15,
	20,
	30,
	60,
	120,
	300,
	600,
}

// lookUpBounds reach from a node next door to all endpoints of a chain timing out, lifetimeBounds from a fast chain to a queue of days, in seconds.
var (
	lookUpBounds   = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	lifetimeBounds = []float64{
		.5,
		1,
		2,
		5,
		10,
		20,
		30,
		60,
		120,
		300,
		600,
		1200,
		1800,
		3600,
		7200,
		21600,
		86400,
		259200,
	}
)

func newMetrics(m metric.Meter) (metrics, error) {
	if m == nil {
		m = noop.NewMeterProvider().Meter("")
	}
	i := instruments{meter: m}
	all := metrics{
		acquires: i.counter("fencepost_lease_acquire",
			"leases asked for, by result: first, released, takeover (of a lease that lapsed), own (anew), not_owner, error"),
		renewals: i.counter("fencepost_lease_renew",
			"renewals of leases, by result: ok, error (asked again), lost"),
		fences: i.counter("fencepost_lease_fenced",
			"changes that were refused because the lease is another's, by what they were for"),
		commits: i.counter("fencepost_commit", "fenced commits, by outcome"),
		sends: i.counter("fencepost_tx_submit",
			"hand-overs of signed bytes to a chain, repeated ones and those of replacements too, by the class of the answer"),
		handOvers: i.counter("fencepost_lease_handover",
			"submitters that were handed over to the node that should own them"),
		wedged: i.counter("fencepost_lease_wedged",
			"leases given up because their owner was stuck inside one step"),
		replaced: i.counter("fencepost_tx_replaced",
			"signed forms that were recorded beside an earlier one of the same nonce, by kind: BUMP, CANCEL"),
		decisions: i.counter("fencepost_stuck_decision",
			"answers of the policy for stuck transactions, by action; WAIT also stands for no answer"),
		reorged: i.counter("fencepost_tx_reorged_final",
			"transactions that were final and are not any more: their block left the chain, or what never ran is on it"),
		forks: i.counter("fencepost_confirmations_fork",
			"times that blocks which were told as confirmations were taken back"),
		receipts: i.counter("fencepost_receipt_check",
			"receipts that were asked for, by result: hit, miss (there is none), error (no answer)"),
		resubmits: i.counter("fencepost_tx_resubmit",
			"hand-overs of bytes that had been handed over before, by result: ok (a node has them), error (anything else)"),
		finals: i.counter("fencepost_tx_final",
			"transactions that an owner ended, by state; once more for each time that an end was taken back"),
		nodes: i.gauge("fencepost_nodes", "nodes that live, this one included"),
		queued: i.gauge("fencepost_queue_depth",
			"transactions without a nonce of the submitters that this node owns"),
		inFlight: i.gauge("fencepost_tx_in_flight",
			"transactions with a nonce that are not final, of the submitters that this node owns"),
		stuck: i.gauge("fencepost_tx_stuck",
			"transactions that need a decision, of the submitters that this node owns"),
		submitters: i.gauge("fencepost_submitters",
			"submitters that this node owns, by state: owned (all of them), paused, unfunded (something of it has the sub-state UNFUNDED: the account could not pay for it when it was last tried); wedged are owners that do not end; protected are those of the whole ledger"),
	}
	all.takeovers = i.histogram("fencepost_takeover", takeoverBounds,
		"time that a submitter with something to do had no owner, from the end of one lease until the next owner knows the ledger")
	all.lookUps = i.histogram("fencepost_receipt_lookup", lookUpBounds,
		"time that one look-up of receipts took, of however many")
	all.lifetimes = i.histogram("fencepost_tx_lifetime", lifetimeBounds,
		"time from the acceptance of a transaction to its end, of those that an owner ended")
	var err error
	if all.oldest, err = m.Float64Gauge("fencepost_queue_oldest_age", metric.WithUnit("s"),
		metric.WithDescription("age of the oldest transaction without a nonce of the submitters that this node owns")); err != nil {
		i.fail("fencepost_queue_oldest_age", err)
	}
	if i.err == nil {
		all.begin()
	}
	return all, i.err
}

// begin has every counter there from the start, at zero, for each value that its label can have: what appears only with its first event has not increased by it,
// as far as a query of increases can see.
func (m *metrics) begin() {
	zero(m.acquires, "result", "first", "released", "takeover", "own", "not_owner", "error")
	zero(m.renewals, "result", "ok", "error", "lost")
	zero(m.fences, "op", "allocate", "replace", "submit", "start", "protect", "record")
	m.outcomes = zero(m.commits, "outcome", store.Done, store.Fenced, store.Conflict,
		store.Unsettled, store.Refused, store.Unreached)
	m.classes = zero(m.sends, "class", txn.Classes...)
	m.looks = zero(m.receipts, "result", "hit", "miss", "error")
	zero(m.resubmits, "result", "ok", "error")
	m.states = zero(m.finals, "state", txn.Confirmed, txn.Failed, txn.Cancelled)
	m.kinds = zero(m.replaced, "kind", txn.Bump, txn.Cancel)
	zero(m.decisions, "action", txn.StuckWait, txn.StuckRetry, txn.StuckBump, txn.StuckCancel)
	for _, plain := range []metric.Int64Counter{m.handOvers, m.wedged, m.reorged, m.forks} {
		plain.Add(context.Background(), 0)
	}
}

func zero[V any](c metric.Int64Counter, label string, values ...V) labels {
	made := map[string]metric.MeasurementOption{}
	for _, v := range values {
		value := fmt.Sprint(v)
		made[value] = labelled(label, value)
		c.Add(context.Background(), 0, made[value])
	}
	return labels{label, made}
}

// instruments makes instruments until one fails.
type instruments struct {
	meter metric.Meter
	err   error
}

func (i *instruments) fail(name string, err error) {
	i.err = fmt.Errorf("engine: metric %s: %w", name, err)
}

func (i *instruments) counter(name, what string) metric.Int64Counter {
	c, err := i.meter.Int64Counter(name, metric.WithDescription(what))
	if err != nil {
		i.fail(name, err)
	}
	return c
}

func (i *instruments) gauge(name, what string) metric.Int64Gauge {
	g, err := i.meter.Int64Gauge(name, metric.WithDescription(what))
	if err != nil {
		i.fail(name, err)
	}
	return g
}

func (i *instruments) histogram(name string, bounds []float64,
	what string) metric.Float64Histogram {
	h, err := i.meter.Float64Histogram(name, metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(bounds...), metric.WithDescription(what))
	if err != nil {
		i.fail(name, err)
	}
	return h
}

func labelled(key, value string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String(key, value))
}

// acquired counts leases by how they were got, or not.
func (m *metrics) acquired(ctx context.Context, result string, n int) {
	if n > 0 {
		m.acquires.Add(ctx, int64(n), labelled("result", result))
	}
}

// how names the way to a lease by what was before it.
func how(b store.Before, self string) string {
	switch {
	case b.Owner == "":
		return "first"
	case b.Owner == self:
		return "own"
	case b.Released:
		return "released"
	}
	return "takeover"
}

func (m *metrics) renewed(ctx context.Context, result string, n int) {
	if n > 0 {
		m.renewals.Add(ctx, int64(n), labelled("result", result))
	}
}

// sent counts a hand-over, and whether the same bytes had been handed over before.
func (m *metrics) sent(ctx context.Context, c txn.Class, again bool) {
	m.sends.Add(ctx, 1, m.classes.of(string(c)))
	if again {
		result := map[bool]string{true: "ok", false: "error"}[c == txn.Accepted || c == txn.AlreadyKnown]
		m.resubmits.Add(ctx, 1, labelled("result", result))
	}
}

// lookedUp counts what one look-up of receipts has told.
func (m *metrics) lookedUp(ctx context.Context, answers []txn.ReceiptResult, took time.Duration) {
	m.lookUps.Record(ctx, took.Seconds())
	for _, a := range answers {
		switch {
		case a.Err != nil:
			m.receipts.Add(ctx, 1, m.looks.of("error"))
		case a.Receipt == nil:
			m.receipts.Add(ctx, 1, m.looks.of("miss"))
		default:
			m.receipts.Add(ctx, 1, m.looks.of("hit"))
		}
	}
}

// tellCommit counts the fate of a change, and logs each that is not written. What is written is told by whoever applies it.
func (a *actor) tellCommit(ctx context.Context, step txn.Step, c *txn.Change, o store.Outcome) {
	a.e.metrics.commits.Add(ctx, 1, a.e.metrics.outcomes.of(o.String()))
	if o == store.Done {
		return
	}
	op := opOf(step)
	log := a.log
	if len(c.Writes) > 0 {
		log = log.With("tx_id", c.Writes[0].Tx.String())
	}
	if own := a.e.keeper.stopping.Load() && ctx.Err() != nil; own ||
		o != store.Fenced { // a node that stops has given its leases back itself
		log.Debug("a change was not written, as far as is known", "op", op, "outcome", o.String())
		return
	}
	a.e.metrics.fences.Add(ctx, 1, labelled("op", op))
	log.Warn("a change was refused: the lease is another's now", "op", op)
}

// opOf names what a change is for.
func opOf(s txn.Step) string {
	switch s.(type) {
	case txn.Prepare:
		return "allocate"
	case *txn.Replace:
		return "replace"
	case txn.Broadcast:
		return "submit"
	case txn.ReadAccount:
		return "start"
	case txn.Investigate:
		return "protect"
	}
	return "record"
}

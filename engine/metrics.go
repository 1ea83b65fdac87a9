package engine

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/fencepost/fencepost/engine/track"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// metrics are the instruments of the engine. Submitters are not labels: there may be thousands.
type metrics struct {
	acquires   metric.Int64Counter
	renewals   metric.Int64Counter
	fences     metric.Int64Counter
	commits    metric.Int64Counter
	sends      metric.Int64Counter
	moves      metric.Int64Counter
	wedged     metric.Int64Counter
	replaced   metric.Int64Counter
	decisions  metric.Int64Counter
	reorged    metric.Int64Counter
	unverified metric.Int64Counter
	forks      metric.Int64Counter
	accounts   metric.Int64Counter
	receipts   metric.Int64Counter
	resubmits  metric.Int64Counter
	finals     metric.Int64Counter
	nonces     metric.Int64Counter
	reorgs     metric.Int64Counter
	takeovers  metric.Float64Histogram
	lookUps    metric.Float64Histogram
	lifetimes  metric.Float64Histogram
	waits      metric.Float64Histogram
	nodes      metric.Int64Gauge
	queued     metric.Int64Gauge
	oldest     metric.Float64Gauge
	inFlight   metric.Int64Gauge
	stuck      metric.Int64Gauge
	undecided  metric.Int64Gauge
	submitters metric.Int64Gauge
	chainUp    metric.Int64Gauge
	backlog    metric.Int64Gauge

	outcomes, classes, looks, reads, states, kinds labels // of counters that every transaction uses
}

// labels caches the options of a label's values: creating one costs more time and stack than
// counting.
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

// takeoverBounds, in seconds, range from a planned transfer to a lease of ten minutes.
var takeoverBounds = []float64{
	.01, .025, .05, .1, .25, .5, 1, 2, 3, 5, 7.5, 10, 12.5, 15, 20, 30, 60, 120, 300, 600,
}

// lookUpBounds, in seconds, range from a local node to timeouts of all endpoints;
// lifetimeBounds from a fast chain to a queue of days; waitBounds from an idle account to that.
var (
	lookUpBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	waitBounds   = []float64{
		.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21600, 86400,
	}
	lifetimeBounds = []float64{
		.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600, 86400, 259200,
	}
)

func newMetrics(m metric.Meter) (metrics, error) {
	if m == nil {
		m = noop.NewMeterProvider().Meter("")
	}
	i := instruments{meter: m}
	all := metrics{
		acquires: i.counter("fencepost_lease_acquire",
			"lease acquisitions, by result: first, released, takeover (of an expired lease), "+
				"own (reacquired), not_owner, error"),
		renewals: i.counter("fencepost_lease_renew",
			"lease renewals, by result: ok, error (retried), lost"),
		fences: i.counter("fencepost_lease_fenced",
			"commits rejected because another node holds the lease, by operation"),
		commits: i.counter("fencepost_commit", "fenced commits, by outcome"),
		sends: i.counter("fencepost_tx_submit",
			"broadcasts to a chain, including rebroadcasts and replacements, by outcome class"),
		moves: i.counter("fencepost_lease_handover",
			"submitters released to their preferred node"),
		wedged: i.counter("fencepost_lease_wedged",
			"leases dropped because their owner was stuck in one step"),
		replaced: i.counter("fencepost_tx_replaced",
			"replacement attempts recorded, by kind: BUMP, CANCEL"),
		decisions: i.counter("fencepost_stuck_decision",
			"decisions of the stuck policy, by action; WAIT includes failures of the policy"),
		reorged: i.counter("fencepost_tx_reorged_final",
			"final outcomes revoked: the block left the chain, or a transaction "+
				"reported as not executed is on chain"),
		unverified: i.counter("fencepost_tx_unverified",
			"transactions that began to wait because they do not match their authentication code"),
		forks: i.counter("fencepost_confirmations_fork",
			"reported blocks that left the chain: a transaction's own, or a confirmation"),
		reorgs: i.counter("fencepost_chain_reorg", "reorgs of a chain: heads that replace blocks"),
		accounts: i.counter("fencepost_account_read",
			"account reads by owners, by result: ok, error"),
		receipts: i.counter("fencepost_receipt_check",
			"receipt checks, by result: hit, miss (no receipt), error (no response)"),
		resubmits: i.counter("fencepost_tx_resubmit",
			"rebroadcasts, by result: ok (a node has the transaction), error (anything else)"),
		finals: i.counter("fencepost_tx_final",
			"transactions finalized by an owner, by state; counted again after a revoked outcome"),
		nonces: i.counter("fencepost_nonce_move",
			"changes of the nonces of clients, by new state: RESERVED, PENDING, ACCEPTED, "+
				"RECYCLABLE; NEEDS_OPERATOR: a PENDING one began to need a decision"),
		chainUp: i.gauge("fencepost_chain_up",
			"whether the head of a chain can be read: 1, or 0 while no endpoint returns it"),
		backlog: i.gauge("fencepost_receipt_backlog",
			"attempts whose receipt must be read, or read again, after the last update of a chain"),
		nodes: i.gauge("fencepost_nodes", "live nodes, including this one"),
		queued: i.gauge("fencepost_queue_depth",
			"transactions without a nonce, of submitters owned by this node"),
		inFlight: i.gauge("fencepost_tx_in_flight",
			"transactions with a nonce that are not final, of submitters owned by this node"),
		stuck: i.gauge("fencepost_tx_stuck",
			"transactions that need a decision, of submitters owned by this node"),
		undecided: i.gauge("fencepost_nonces_undecided",
			"nonces of clients that need an operator, of the whole ledger"),
		submitters: i.gauge("fencepost_submitters",
			"submitters owned by this node, by state: owned (all), paused, "+
				"unfunded (has an UNFUNDED transaction), wedged (owner lost its lease but has "+
				"not ended); "+
				"protected counts the whole ledger"),
	}
	all.takeovers = i.histogram("fencepost_takeover", takeoverBounds,
		"time that a submitter with work had no owner, from the end of one lease "+
			"until the next owner has read the ledger")
	all.lookUps = i.histogram("fencepost_receipt_lookup", lookUpBounds,
		"duration of one receipt lookup, of any number of receipts")
	all.lifetimes = i.histogram("fencepost_tx_lifetime", lifetimeBounds,
		"time from acceptance of a transaction until it is final, for those finalized by an owner")
	all.waits = i.histogram("fencepost_queue_wait", waitBounds,
		"time from acceptance of a transaction until its first broadcast")
	var err error
	all.oldest, err = m.Float64Gauge("fencepost_queue_oldest_age", metric.WithUnit("s"),
		metric.WithDescription(
			"age of the oldest transaction without a nonce, of submitters owned by this node"))
	if err != nil {
		i.fail("fencepost_queue_oldest_age", err)
	}
	if i.err == nil {
		all.begin()
	}
	return all, i.err
}

// nonceNeedsOperator is the state of a PENDING nonce that an operator must decide on.
const nonceNeedsOperator = "NEEDS_OPERATOR"

// begin adds zero to every counter, for each value of its label. A series that appeared only with
// its first event would not show that event as an increase.
func (m *metrics) begin() {
	zero(m.acquires, "result", "first", "released", "takeover", "own", "not_owner", "error")
	zero(m.renewals, "result", "ok", "error", "lost")
	zero(m.fences, "op", "allocate", "replace", "submit", "start", "protect", "nonce", "record")
	m.outcomes = zero(m.commits, "outcome", store.Done, store.Fenced, store.Conflict,
		store.Unsettled, store.Refused, store.Unreached)
	m.classes = zero(m.sends, "class", txn.Classes...)
	m.looks = zero(m.receipts, "result", "hit", "miss", "error")
	m.reads = zero(m.accounts, "result", "ok", "error")
	zero(m.resubmits, "result", "ok", "error")
	zero(m.nonces, "state", txn.NonceReserved, txn.NoncePending, txn.NonceAccepted,
		txn.NonceRecyclable, nonceNeedsOperator)
	m.states = zero(m.finals, "state", txn.Confirmed, txn.Failed, txn.Cancelled)
	m.kinds = zero(m.replaced, "kind", txn.Bump, txn.Cancel)
	zero(m.decisions, "action", txn.StuckWait, txn.StuckRetry, txn.StuckBump, txn.StuckCancel)
	for _, plain := range []metric.Int64Counter{
		m.moves, m.wedged, m.reorged, m.unverified, m.forks,
	} {
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

// instruments creates instruments and keeps the last error.
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

// acquired counts acquisitions by result.
func (m *metrics) acquired(ctx context.Context, result string, n int) {
	if n > 0 {
		m.acquires.Add(ctx, int64(n), labelled("result", result))
	}
}

// how returns the result of a successful acquisition.
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

// sent counts a broadcast; again is for a rebroadcast.
func (m *metrics) sent(ctx context.Context, c txn.Class, again bool) {
	m.sends.Add(ctx, 1, m.classes.of(string(c)))
	if again {
		result := "error"
		if c == txn.Accepted || c == txn.AlreadyKnown {
			result = "ok"
		}
		m.resubmits.Add(ctx, 1, labelled("result", result))
	}
}

// ofChain records the updates of a chain.
func (m *metrics) ofChain(c ChainOptions) func(context.Context, track.Progress) {
	name := c.Name
	if name == "" {
		name = fmt.Sprint(uint64(c.Chain.ID()))
	}
	label := labelled("chain", name)
	m.reorgs.Add(context.Background(), 0, label)
	return func(ctx context.Context, p track.Progress) {
		up := int64(0)
		if p.Up {
			up = 1
		}
		m.chainUp.Record(ctx, up, label)
		m.backlog.Record(ctx, int64(p.Backlog), label)
		if p.Removed > 0 {
			m.reorgs.Add(ctx, 1, label)
		}
	}
}

// lookedUp counts the results of one receipt lookup.
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

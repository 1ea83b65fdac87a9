package server

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc/credentials"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/txn"
)

// Options are what a server is made of. Only Store is required.
type Options struct {
	Store  Store
	Tail   feed.Reader  // for the feed that all streams share; nil: Store
	Logger *slog.Logger // nil: quiet
	Clock  clock.Clock  // nil: the machine's
	Limits Limits       // zero fields: the defaults
	// nil: plain text. HTTP/1.1 needs "http/1.1" among the protocols of a TLS configuration
	Credentials credentials.TransportCredentials

	// AllowedOrigins are the web sites whose pages may call from a browser, as in
	// "https://example.com"; "*" is any. Empty: none.
	AllowedOrigins []string

	// Tokens let a caller in who sends one of them as "authorization: Bearer TOKEN", and may do
	// everything. Empty: everybody may call.
	Tokens []string
	// Callers are let in, each with rights of its own; then Tokens count for nothing.
	Callers []auth.Caller

	MeterProvider  metric.MeterProvider // nil: no metrics
	TracerProvider trace.TracerProvider // nil: no traces

	// Chains and Signers are those of the configuration. A submitter that names another is refused:
	// no node would ever work for it. Empty: all are taken.
	Chains  []txn.ChainID
	Signers []string
}

// Limits bound what callers can make a node hold or wait for.
type Limits struct {
	// PayloadBytes is the most call data of a transaction. Default 126 KiB.
	PayloadBytes int
	// StreamsPerConnection is how many calls of one connection are answered at once; more wait in
	// the client. Default 10,000.
	StreamsPerConnection uint32
	// Calls is how many calls are answered at once, of all connections; those with megabytes to
	// carry (BatchCreateTx, ListTxs) count as 16. Default 1,024.
	Calls int
	// Watches is how many WatchTx streams are served at once. Default 20,000.
	Watches int
	// Grace is how long calls under way may take once the node stops. Default 5 s.
	Grace time.Duration
	// PingAfter is how long a connection may be silent before it is pinged, default 30 s;
	// PingTimeout is how long the answer may take, default 10 s.
	PingAfter, PingTimeout time.Duration

	// Answer is how long the database may take for one read, and for one call as a whole but for
	// CommandWait. Default 15 s, a little more than the database allows itself: it is for a
	// database that has fallen silent.
	Answer time.Duration
	// CommandWait is the longest that calls wait for the owner to decide on a command, default 30
	// s; CommandPoll is how often they look, default 100 ms.
	CommandWait, CommandPoll time.Duration

	// RingEvents is how many of the newest events all watchers share in memory. Default 16,384.
	RingEvents int
	// PageEvents is the most events, or snapshots, that a stream reads at once and holds while its
	// client is slow. Default 100. The tailer reads eight times as many.
	PageEvents int
	// FeedPoll is how often the feed is read when nothing says that there is news (another node's
	// commits say nothing). Default 200 ms.
	FeedPoll time.Duration
	// FeedGap is the least time between two reads of the feed. Default 5 ms.
	FeedGap time.Duration
	// Outage is how long a stream waits for a database that is down. Default 30 s.
	Outage time.Duration
}

// messageSlack is how much a message may exceed the payload limit before the transport refuses it,
// without a reason: what is over the limit by less gets the sentence that names the limit.
const messageSlack = 4 << 20

// messageBytes is the largest message that is read.
func (l *Limits) messageBytes() int { return l.PayloadBytes + messageSlack }

// bodyBytes is the largest body that is read over HTTP, packed or not: base64 and escapes make it
// longer than the message.
func (l *Limits) bodyBytes() int { return 2 * l.messageBytes() }

// lightSlack is for all of a request but its call data: labels and names, with escapes.
const lightSlack = 256 << 10

// lightBody is that of a call that counts as one.
func (l *Limits) lightBody() int { return 2*l.PayloadBytes + lightSlack }

func (o *Options) complete() {
	if o.Tail == nil {
		o.Tail = o.Store
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.MeterProvider == nil {
		o.MeterProvider = noopmetric.NewMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = nooptrace.NewTracerProvider()
	}
	o.Limits.complete()
}

func (l *Limits) complete() {
	setDefault(&l.PayloadBytes, 126<<10)
	setDefault(&l.StreamsPerConnection, 10_000)
	setDefault(&l.Calls, 1024)
	setDefault(&l.Watches, 20_000)
	setDefault(&l.Grace, 5*time.Second)
	setDefault(&l.PingAfter, 30*time.Second)
	setDefault(&l.PingTimeout, 10*time.Second)
	setDefault(&l.Answer, 15*time.Second)
	setDefault(&l.CommandWait, 30*time.Second)
	setDefault(&l.CommandPoll, 100*time.Millisecond)
	setDefault(&l.RingEvents, 16_384)
	setDefault(&l.PageEvents, 100)
	setDefault(&l.FeedPoll, 200*time.Millisecond)
	setDefault(&l.FeedGap, 5*time.Millisecond)
	setDefault(&l.Outage, 30*time.Second)
}

// wholeCall is the longest that a call holds anything: until its request is there, until it is
// answered, and until the caller has read that.
func (l *Limits) wholeCall() time.Duration {
	return l.PingAfter + l.Answer + l.CommandWait + l.PingAfter
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (l *Limits) check() error {
	for _, d := range []time.Duration{l.Grace, l.PingAfter, l.PingTimeout, l.Answer, l.CommandWait,
		l.CommandPoll, l.FeedPoll, l.FeedGap, l.Outage} {
		if d < 0 {
			return fmt.Errorf(
				"server: limit of %v is negative; use a positive duration, or 0 for the default", d)
		}
	}
	if l.PayloadBytes < 0 || l.RingEvents < 0 || l.PageEvents < 0 || l.Calls < 0 || l.Watches < 0 {
		return errors.New(
			"server: a limit is negative; use a positive number, or 0 for the default")
	}
	if l.FeedGap > l.FeedPoll {
		return fmt.Errorf(
			"server: FeedGap (%v) is longer than FeedPoll (%v); lower it",
			l.FeedGap, l.FeedPoll)
	}
	return nil
}

// feed returns the options of the event feed.
func (o *Options) feed() feed.Options {
	l := &o.Limits
	return feed.Options{
		Store:  o.Store,
		Tail:   o.Tail,
		Clock:  o.Clock,
		Logger: o.Logger,
		Limits: feed.Limits{
			RingEvents:  l.RingEvents,
			PageEvents:  l.PageEvents,
			Poll:        l.FeedPoll,
			MinGap:      l.FeedGap,
			Outage:      l.Outage,
			ReadTimeout: l.Answer,
		},
		MeterProvider: o.MeterProvider,
	}
}

// known is what the configuration knows.
type known struct {
	chains  []txn.ChainID
	signers []string
}

func (o *Options) known() known {
	return known{chains: slices.Clone(o.Chains), signers: slices.Clone(o.Signers)}
}

func (k known) chain(id txn.ChainID) bool {
	return len(k.chains) == 0 || slices.Contains(k.chains, id)
}
func (k known) signer(name string) bool {
	return len(k.signers) == 0 || slices.Contains(k.signers, name)
}

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/holiman/uint256"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/hosts"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/txn"
)

// Options configure a server. Only Store or Ledgers is required.
type Options struct {
	Store Store
	Tail  feed.Reader // for the shared feed; nil: Store
	// Ledgers are several, instead of Store and Tail. The first gets new accounts and pools.
	Ledgers []Ledger
	Logger  *slog.Logger // nil: discards
	Clock   clock.Clock  // nil: the system clock
	Limits  Limits       // zero fields: the defaults
	// TLS configures the listener; nil: plain text. NextProtos default to "h2" and "http/1.1".
	TLS *tls.Config

	// Certificate returns the certificate in force, whose names are allowed as hosts over HTTP.
	// nil: none.
	Certificate func() *x509.Certificate
	// AllowedHosts are further names that clients over HTTP may use for this node, in lower case;
	// "*" allows any. IP addresses and localhost always are allowed.
	AllowedHosts []string

	// AllowedOrigins are the web sites whose pages may call from a browser, such as
	// "https://example.com"; "*" allows any. Empty: none.
	AllowedOrigins []string

	// Console serves the web console at console.Path.
	Console bool

	// Tokens authenticate clients that send one as "authorization: Bearer TOKEN", with all rights.
	// Empty: no authentication.
	Tokens []string
	// Callers authenticate clients with individual rights. If set, Tokens are ignored.
	Callers []auth.Caller
	// Issuers verify the tokens of callers with claims. The caller of New runs them.
	Issuers []*auth.Issuer

	MeterProvider  metric.MeterProvider // nil: no metrics
	TracerProvider trace.TracerProvider // nil: no traces
	traced         bool                 // a TracerProvider was given

	// Node is the name of the node, Version that of its program, as StatusService reports them.
	Node, Version string
	// ChainStatus returns the state of the configured chains; nil: none.
	ChainStatus func() []ChainStatus
	// Balances reads balances on a chain; nil: no chain is known.
	Balances Balances
	// Simulate simulates a transaction on a chain; nil: no chain is known.
	Simulate Simulate

	Nonces NonceOptions // NonceService; zero: off

	// Chains and Signers are the configured ones. A submitter with another one is rejected, since
	// no node could work for it. Empty: all are accepted.
	Chains  []txn.ChainID
	Signers []string
}

// Limits bound the memory and the time that clients can use on a node.
type Limits struct {
	// PayloadBytes is the most call data of a transaction. Default 126 KiB.
	PayloadBytes int
	// StreamsPerConnection bounds the concurrent calls of one connection; more wait in the client.
	// Default 10,000.
	StreamsPerConnection uint32
	// Calls bounds the concurrent calls of all connections. Calls that may carry megabytes
	// (BatchCreateTx, ListTxs) count as 16. Default 1,024.
	Calls int
	// Watches bounds the concurrent WatchTx streams. Default 20,000.
	Watches int
	// Connections is how many connections are open at once, default 65,536; ConnectionsPerSource
	// how many from one address, default half of that.
	Connections, ConnectionsPerSource int
	// Grace is the time that calls in progress have to finish when the node stops. Default 5 s.
	Grace time.Duration
	// PingAfter is the time without traffic after which a connection is pinged, default 30 s;
	// PingTimeout is the time that the reply may take, default 10 s.
	PingAfter, PingTimeout time.Duration

	// Answer is the time limit of one database read, and of one call without CommandWait. Default
	// 15 s, a little longer than the statement timeout of the database: it detects a database that
	// does not respond at all.
	Answer time.Duration
	// CommandWait is the longest time that calls wait for the owner's result of a command, default
	// 30 s; CommandPoll is the interval at which they read it, default 100 ms.
	CommandWait, CommandPoll time.Duration

	// RingEvents is the number of newest events kept in memory for all streams. Default 16,384.
	RingEvents int
	// PageEvents is the most events, or snapshots, that a stream reads at once and holds while its
	// client is slow. Default 100. The feed itself reads eight times as many.
	PageEvents int
	// FeedPoll is the interval at which the feed is read without a signal; commits of other nodes
	// send none. Default 200 ms.
	FeedPoll time.Duration
	// FeedGap is the shortest time between two reads of the feed. Default 5 ms.
	FeedGap time.Duration
	// Outage is the time that a stream waits for a database that is down. Default 30 s.
	Outage time.Duration
}

// messageSlack is how far a message may exceed the payload limit, in bytes, before the transport
// rejects it without a reason. Below that, the error names the limit.
const messageSlack = 4 << 20

// messageBytes is the size limit of a message.
func (l *Limits) messageBytes() int { return l.PayloadBytes + messageSlack }

// bodyBytes is the size limit of an HTTP body, compressed or not: base64 and escapes make it longer
// than the message.
func (l *Limits) bodyBytes() int { return 2 * l.messageBytes() }

// lightSlack is room for the parts of a request other than call data: labels and names, with
// escapes.
const lightSlack = 256 << 10

// lightBody is the size limit of the body of a call that counts as one.
func (l *Limits) lightBody() int { return 2*l.PayloadBytes + lightSlack }

// allowHost reports whether a Host header names this node.
func (o *Options) allowHost(header string) bool {
	if hosts.Names(o.AllowedHosts).Allow(header) {
		return true
	}
	if o.Certificate == nil {
		return false
	}
	leaf := o.Certificate()
	return leaf != nil && leaf.VerifyHostname(hosts.Host(header)) == nil
}

func (o *Options) complete() {
	if o.Tail == nil && o.Store != nil {
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
	o.traced = o.TracerProvider != nil
	if !o.traced {
		o.TracerProvider = nooptrace.NewTracerProvider()
	}
	if o.Simulate == nil {
		o.Simulate = noSimulation
	}
	if o.Balances == nil {
		o.Balances = func(context.Context, txn.ChainID, []txn.Address) ([]uint256.Int, error) {
			return nil, ErrUnknownChain
		}
	}
	if o.ChainStatus == nil {
		o.ChainStatus = func() []ChainStatus { return nil }
	}
	o.Limits.complete()
}

func (l *Limits) complete() {
	setDefault(&l.PayloadBytes, 126<<10)
	setDefault(&l.StreamsPerConnection, 10_000)
	setDefault(&l.Calls, 1024)
	setDefault(&l.Watches, 20_000)
	setDefault(&l.Connections, 65_536)
	setDefault(&l.ConnectionsPerSource, max(1, l.Connections/2))
	setDefault(&l.Grace, 5*time.Second)
	setDefault(&l.PingAfter, 30*time.Second)
	setDefault(&l.PingTimeout, 10*time.Second)
	setDefault(&l.Answer, 15*time.Second)
	setDefault(&l.CommandWait, 30*time.Second)
	setDefault(&l.CommandPoll, 100*time.Millisecond)
	setDefault(&l.RingEvents, 16_384)
	setDefault(&l.PageEvents, 256)
	setDefault(&l.FeedPoll, 200*time.Millisecond)
	setDefault(&l.FeedGap, 5*time.Millisecond)
	setDefault(&l.Outage, 30*time.Second)
}

// wholeCall is the longest time that a call can take: until its request has arrived, until it has a
// response, and until the client has read that.
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
	if l.PayloadBytes < 0 || l.RingEvents < 0 || l.PageEvents < 0 || l.Calls < 0 || l.Watches < 0 ||
		l.Connections < 0 || l.ConnectionsPerSource < 0 {
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

// known holds the configured chains and signers.
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

package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/server"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/sink"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// newSinks returns the runner of the configured sinks.
func (n *Node) newSinks(l *ledger) (*sink.Runner, error) {
	events := n.server.Feed()
	if l.name != "" {
		events = n.server.FeedOf(l.name)
	}
	o := sink.Options{
		Ledger: SinkLedger{l.store}, Feed: SinkFeed{events}, Clock: clock.Real{},
		Logger: l.log, MeterProvider: l.metrics.Provider(), LeaseDuration: n.cfg.Lease.Duration,
		RenewInterval: n.cfg.Lease.RenewInterval,
	}
	for _, s := range n.cfg.Sinks {
		settings := sink.Settings{
			Name: s.Name, Kind: s.Kind, RetryMin: s.Retry.Min, RetryMax: s.Retry.Max,
			RetryFor: s.Retry.For,
			Filter:   sink.Filter{Submitters: s.Submitters, Labels: s.LabelSet()},
		}
		for _, state := range s.States {
			settings.States = append(settings.States, txn.State(state))
		}
		open, err := sinkOpener(s)
		if err != nil {
			return nil, fmt.Errorf("sink %q: %w", s.Name, err)
		}
		settings.Open = open
		o.Sinks = append(o.Sinks, settings)
	}
	return sink.NewRunner(o)
}

// sinkOpener checks what can be checked without the receiver, and returns how to open the sink.
func sinkOpener(s config.Sink) (func(context.Context) (sink.Sink, error), error) {
	encoder := sink.Encoder{Format: sink.Format(s.Format), Source: sinkSource}
	switch s.Kind {
	case "webhook":
		return webhookOpener(s.Webhook, encoder)
	case "kafka":
		return kafkaOpener(s.Kafka, encoder)
	case "nats":
		return natsOpener(s.NATS, encoder)
	}
	return func(context.Context) (sink.Sink, error) {
		return sink.NewLog(os.Stdout, sinkSource), nil
	}, nil
}

// sinkSource is the CloudEvents source of all events.
const sinkSource = "urn:fencepost"

func webhookOpener(s config.SinkWebhook, encoder sink.Encoder) (
	func(context.Context) (sink.Sink, error), error) {
	o := sink.WebhookOptions{
		URL: s.URL.Reveal(), Encoder: encoder, Timeout: s.Timeout, Concurrency: s.Concurrency,
		AllowPrivate: s.AllowPrivate, Clock: clock.Real{},
		Secrets: (&secretsFile{path: s.SecretsFile, clock: clock.Real{}}).read,
	}
	var err error
	if o.Roots, err = certificates(s.CAFile); err != nil {
		return nil, err
	}
	if _, err := sink.NewWebhook(o); err != nil {
		return nil, err
	}
	return func(context.Context) (sink.Sink, error) { return sink.NewWebhook(o) }, nil
}

// certificates reads the certificates to trust; nil for no file.
func certificates(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificates to trust: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s; give a PEM file", file)
	}
	return pool, nil
}

// secretsFile reads signing secrets, one per line, and again when some time has passed. If that
// fails, the last ones stay in force.
type secretsFile struct {
	path  string
	clock clock.Clock
	mu    sync.Mutex
	at    time.Time
	last  []string
}

const secretsInterval = 10 * time.Second

func (f *secretsFile) read() ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if f.last != nil && now.Sub(f.at) < secretsInterval {
		return f.last, nil
	}
	text, err := os.ReadFile(f.path)
	f.at = now
	if err != nil {
		if f.last != nil {
			return f.last, nil
		}
		return nil, err
	}
	lines := []string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := sink.ParseSecret(line); err != nil {
			if f.last != nil { // half written
				return f.last, nil
			}
			return nil, err
		}
		lines = append(lines, line)
	}
	if len(lines) > 0 || f.last == nil {
		f.last = lines
	}
	return f.last, nil
}

// SinkFeed is the feed of a server as sinks follow it.
type SinkFeed struct{ *feed.Feed }

// Follow passes all events after a position to take.
func (f SinkFeed) Follow(ctx context.Context, position string, idle time.Duration,
	take func(sink.Page) error) error {
	at, err := store.ParsePosition(position)
	if position != "" && err != nil {
		return fmt.Errorf("%w: %w", sink.ErrPosition, err)
	}
	if position == "" {
		at = store.Position{}
	}
	err = f.Feed.Follow(ctx, at, idle, func(p feed.Page) error {
		page := sink.Page{Position: p.At.String(), Behind: p.Behind}
		for i := range p.Events {
			page.Events = append(page.Events, sinkEvent(&p.Events[i]))
		}
		return take(page)
	})
	if errors.Is(err, store.ErrTokenExpired) {
		// After a fail-over the cursor is read again, and its position continued.
		return sink.ErrPosition
	}
	return err
}

func sinkEvent(e *store.EventInfo) *sink.Event {
	if e.Tx.IsAccount() {
		return &sink.Event{
			Content: &pb.SinkEvent{
				Id: fmt.Sprintf("%s/%d", e.Tx, e.Seq),
				Content: &pb.SinkEvent_AccountEvent{
					AccountEvent: server.AccountEventMessage(e)},
			},
			Submitter: e.Submitter, Name: e.SubmitterName, Tx: e.Tx, Seq: e.Seq, Kind: e.Kind,
			At: e.At,
		}
	}
	message := server.EventMessage(e)
	return &sink.Event{
		Content: &pb.SinkEvent{
			Id:      fmt.Sprintf("%s/%d", message.GetTxId(), e.Seq),
			Content: &pb.SinkEvent_Event{Event: message},
		},
		Submitter: e.Submitter, Name: e.SubmitterName, Tx: e.Tx, Seq: e.Seq, State: e.State,
		Kind: e.Kind, At: e.At,
	}
}

// SinkLedger is the store as sinks use it.
type SinkLedger struct{ *store.Store }

// EventsOfTx reads events of a transaction.
func (l SinkLedger) EventsOfTx(ctx context.Context, id txn.TxID, first, last int64,
	limit int) ([]*sink.Event, error) {
	infos, err := l.Store.EventsOfTx(ctx, id, first-1, limit)
	if err != nil {
		return nil, err
	}
	var events []*sink.Event
	for i := range infos {
		if infos[i].Seq <= last {
			events = append(events, sinkEvent(&infos[i]))
		}
	}
	return events, nil
}

// CommitSink moves a cursor.
func (l SinkLedger) CommitSink(ctx context.Context, lease txn.SinkLease,
	p txn.SinkProgress) error {
	outcome, err := l.Store.CommitSink(ctx, lease, p)
	return sinkOutcome(outcome, err)
}

// CommitSinkRetries records retries.
func (l SinkLedger) CommitSinkRetries(ctx context.Context, lease txn.SinkLease,
	retries []txn.SinkRetry, keep time.Duration) (dead int64, err error) {
	outcome, dead, err := l.Store.CommitSinkRetries(ctx, lease, retries, keep)
	return dead, sinkOutcome(outcome, err)
}

func sinkOutcome(o store.Outcome, err error) error {
	switch {
	case err != nil:
		return err
	case o == store.Fenced:
		return sink.ErrLost
	case o == store.Conflict:
		return sink.ErrChanged
	}
	return nil
}

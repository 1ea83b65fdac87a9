package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Ledger is one of several ledgers that a server serves as one.
type Ledger struct {
	Name  string
	Store LedgerStore
	Tail  feed.Reader // for the feed; nil: Store
	// MeterProvider is for the metrics of its feed; nil: that of the server.
	MeterProvider metric.MeterProvider
}

// LedgerStore is a ledger of several.
type LedgerStore interface {
	Store

	// CheckSchema returns an error if the ledger does not respond, or cannot be used.
	CheckSchema(ctx context.Context) error
	// DirectoryNumber returns the number of the ledger in the directory, where it has this name.
	// The numbers of its submitters begin with it.
	DirectoryNumber(ctx context.Context, name string) (int32, error)
	// Accounts returns the submitters with higher numbers, in order.
	Accounts(ctx context.Context, after txn.SubmitterID, limit int) ([]txn.Submitter, error)
	// Arrival returns a position before the first event of an account from another ledger.
	Arrival(ctx context.Context, id txn.SubmitterID) (store.Position, error)
}

const (
	probeInterval = time.Second
	probeTimeout  = 2 * time.Second
	// failedProbes in a row mean that a ledger is down.
	failedProbes = 2
	// indexEvery is the number of probes between two reads of all accounts.
	indexEvery   = 60
	accountsPage = 10_000
)

// ledger is a ledger as the router uses it.
type ledger struct {
	services

	name  string
	store LedgerStore
	feed  *feed.Feed
	// slots bounds the calls in progress, so that a ledger that does not respond leaves room for
	// the calls of others.
	slots  chan struct{}
	number atomic.Int32 // in the directory; -1: not read yet

	mu     sync.Mutex
	reason error              // why it is down; nil: it is up
	up     context.Context    // ends when it goes down
	goDown context.CancelFunc // ends up
}

func newLedger(name string, s LedgerStore, f *feed.Feed, calls int) *ledger {
	l := &ledger{name: name, store: s, feed: f, slots: make(chan struct{}, calls)}
	l.number.Store(-1)
	l.up, l.goDown = context.WithCancel(context.Background())
	return l
}

// down returns why the ledger is down; nil if it is up.
func (l *ledger) down() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// set records whether the ledger is up, and reports a change.
func (l *ledger) set(reason error) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed = (reason == nil) != (l.reason == nil)
	l.reason = reason
	switch {
	case reason != nil:
		l.goDown()
	case changed:
		l.up, l.goDown = context.WithCancel(context.Background())
	}
	return changed
}

// do runs a call of the ledger. It ends the call when the ledger goes down.
func (l *ledger) do(ctx context.Context, call func(context.Context) error) error {
	l.mu.Lock()
	reason, up := l.reason, l.up
	l.mu.Unlock()
	if reason != nil {
		return l.missing()
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default:
		return status.NodeBusy(time.Second, "too many calls in progress for ledger %s; nothing "+
			"was processed; retry the call unchanged later", l.name)
	}
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(up, cancel)()
	err := call(bounded)
	if err != nil && ctx.Err() == nil && (bounded.Err() != nil || isMissing(err)) {
		return fmt.Errorf("%w: %w", l.missing(), store.ErrUnavailable)
	}
	return err
}

// missing is the error of a ledger that does not respond.
func (l *ledger) missing() error { return missingLedgers([]string{l.name}) }

func missingLedgers(names []string) error { return status.LedgerUnavailable(names) }

// isMissing reports whether an error means that the ledger did not respond.
func isMissing(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrSchema) ||
		errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	return status.From(err, "").Code() == codes.Unavailable &&
		!errors.Is(err, status.ErrDraining) && !errors.Is(err, store.ErrDirectory)
}

// run watches the ledger until ctx ends: whether it responds, and which accounts it has.
func (l *ledger) run(ctx context.Context, r *router) {
	failed, last := 0, txn.SubmitterID(0)
	for turn := 0; ctx.Err() == nil; turn++ {
		if turn%indexEvery == 0 {
			last = 0
		}
		err := l.probe(ctx)
		if err == nil {
			last, err = l.read(ctx, r, last)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if failed = 0; l.set(nil) {
				r.log.Info("ledger responds again", "ledger", l.name)
				r.broadcast()
			}
		default:
			if failed++; failed >= failedProbes && l.set(err) {
				r.log.Warn("ledger unavailable; its accounts are not served", "ledger", l.name,
					"error", err)
				r.broadcast()
			}
		}
		if clock.Sleep(ctx, r.clock, probeInterval) != nil {
			return
		}
	}
}

// probe asks the ledger whether it can be used.
func (l *ledger) probe(ctx context.Context) error {
	bounded, cancel := context.WithTimeoutCause(ctx, probeTimeout, store.ErrUnavailable)
	defer cancel()
	if err := l.store.CheckSchema(bounded); err != nil {
		return err
	}
	return l.readNumber(bounded)
}

// readNumber reads the number of the ledger, once.
func (l *ledger) readNumber(ctx context.Context) error {
	if l.number.Load() >= 0 {
		return nil
	}
	number, err := l.store.DirectoryNumber(ctx, l.name)
	if err == nil {
		l.number.Store(number)
	}
	return err
}

// read adds the accounts after a number to the index, and returns the last one.
func (l *ledger) read(ctx context.Context, r *router,
	last txn.SubmitterID) (txn.SubmitterID, error) {
	for {
		bounded, cancel := context.WithTimeoutCause(ctx, probeTimeout, store.ErrUnavailable)
		page, err := l.store.Accounts(bounded, last, accountsPage)
		cancel()
		if err != nil {
			return last, err
		}
		for _, s := range page {
			r.index.add(l, s)
			last = s.ID
		}
		if len(page) < accountsPage {
			return last, nil
		}
	}
}

// index knows which ledger has an account. It is a cache of the ledgers' own tables; the directory
// is not asked.
type index struct {
	mu    sync.RWMutex
	names map[string]*ledger // by the names of submitters
	// accounts has the names of submitters, by account id
	accounts map[string]string
	ids      map[string]string // the account ids of submitters, by name; they never change
	pools    map[string]*ledger
	// moved has the ledgers of submitters whose number is another's
	moved map[txn.SubmitterID]*ledger
}

func newIndex() *index {
	return &index{names: map[string]*ledger{}, accounts: map[string]string{},
		ids: map[string]string{}, pools: map[string]*ledger{}, moved: map[txn.SubmitterID]*ledger{}}
}

func (x *index) add(l *ledger, s txn.Submitter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.names[s.Name] = l
	id := txn.AccountID(s.Chain, s.Address)
	x.accounts[id], x.ids[s.Name] = s.Name, id
	if s.ID.Ledger() != l.number.Load() {
		x.moved[s.ID] = l
	} else {
		delete(x.moved, s.ID)
	}
}

// submitter returns the ledger of a submitter, by name or account id; nil if it is not known.
func (x *index) submitter(text string) *ledger {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.names[x.nameOf(text)]
}

// among reports whether an account id belongs to a submitter with one of these names, or else the
// names whose account ids are not known.
func (x *index) among(names []string, id string) (is bool, unknown []string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, name := range names {
		switch x.ids[name] {
		case id:
			return true, nil
		case "":
			unknown = append(unknown, name)
		}
	}
	return false, unknown
}

// nameOf returns the name of a submitter, by name or account id; an account id that is not known
// stays as it is.
func (x *index) nameOf(text string) string {
	if name, ok := x.accounts[text]; ok {
		return name
	}
	return text
}

// addName records the name of a submitter that a request may have named by its account id.
func (x *index) addName(text, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if text != name {
		x.accounts[text] = name
	}
}

func (x *index) id(id txn.SubmitterID) *ledger {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.moved[id]
}

func (x *index) pool(name string) *ledger {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.pools[name]
}

func (x *index) addPool(name string, l *ledger) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pools[name] = l
}

// move records that an account is in another ledger. Its number follows with the next read of that
// ledger's accounts.
func (x *index) move(name string, l *ledger) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if name != "" {
		x.names[x.nameOf(name)] = l
	}
}

func (x *index) moveID(id txn.SubmitterID, l *ledger) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.moved[id] = l
}

// forget removes what led to a ledger that does not have the account or the pool any more.
func (x *index) forget(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.names, x.nameOf(text))
	delete(x.accounts, text)
	delete(x.pools, text)
}

// router routes calls to the ledgers, and merges the responses of calls on all.
type router struct {
	ledgers []*ledger // as configured
	index   *index
	log     *slog.Logger
	clock   clock.Clock
	outage  time.Duration // how long a stream waits while no ledger responds

	mu      sync.Mutex
	changed chan struct{} // closed when a ledger goes down or comes back
}

// broadcast reports that a ledger went down or came back.
func (r *router) broadcast() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *router) changes() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// begin asks all ledgers once, before the server accepts calls. Those that do not respond are down.
func (r *router) begin(ctx context.Context) {
	var all sync.WaitGroup
	for _, l := range r.ledgers {
		all.Go(func() {
			err := l.probe(ctx)
			if err != nil && ctx.Err() == nil {
				r.log.Warn("ledger unavailable; its accounts are not served", "ledger", l.name,
					"error", err)
			}
			l.set(err)
		})
	}
	all.Wait()
}

func (r *router) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, l := range r.ledgers {
		all.Go(func() { l.run(ctx, r) })
	}
	all.Wait()
}

// named returns the ledger of that name; the first for an empty one.
func (r *router) named(field, name string) (*ledger, error) {
	if name == "" {
		return r.ledgers[0], nil
	}
	i := slices.IndexFunc(r.ledgers, func(l *ledger) bool { return l.name == name })
	if i < 0 {
		names := make([]string, len(r.ledgers))
		for n, l := range r.ledgers {
			names[n] = l.name
		}
		return nil, status.InvalidField(field, "unknown ledger %q; use one of %s, or omit it", name,
			strings.Join(names, ", "))
	}
	return r.ledgers[i], nil
}

// any returns a ledger that is up, for a call that every ledger refuses alike.
func (r *router) any() *ledger {
	for _, l := range r.ledgers {
		if l.down() == nil {
			return l
		}
	}
	return r.ledgers[0]
}

// LedgerHealth is the state of one of several ledgers.
type LedgerHealth struct {
	Name string
	Down error // nil: it responds
}

// Ledgers returns the state of several ledgers; none for a server with one.
func (s *Server) Ledgers() (all []LedgerHealth) {
	if s.router == nil {
		return nil
	}
	for _, l := range s.router.ledgers {
		all = append(all, LedgerHealth{l.name, l.down()})
	}
	return all
}

// FeedOf returns the feed of one of several ledgers.
func (s *Server) FeedOf(name string) *feed.Feed {
	for _, l := range s.router.ledgers {
		if l.name == name {
			return l.feed
		}
	}
	return nil
}

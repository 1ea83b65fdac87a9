// Package engine runs the submitters of a node: it holds their leases, decides the next step of
// each, performs it, and records it.
//
// # Parts
//
// The [keeper] renews all leases of the node in one statement on a dedicated connection. It cancels
// owners that lost their lease or are stuck. The [router] finds submitters with work and no owner,
// acquires them, and starts an [actor] for each. An actor caches the ledger of its submitter and
// repeats one step: read the facts, call [txn.Decide], perform at most one external effect, commit
// at most one [txn.Change] under the lease. A [track.Tracker] per chain follows the head and
// reports which hashes are in canonical blocks; actors read that as facts.
//
// # Ownership
//
// Nodes send heartbeats to the ledger and read the list of live nodes from it. In basic mode each
// node takes any free submitter. In worker-queue mode rendezvous hashing ([placement]) prefers one
// node per submitter. The other nodes leave the submitter to it for a while, and release those they
// own to it between two steps. Views may differ and wake-ups may be lost. Both cost only time,
// because every write needs a lease. A stopping node first announces that it accepts no more
// submitters. Its owners end between two steps, and all leases are released in one statement, which
// notifies the other nodes.
//
// # Failure
//
// There is no recovery mode. An owner that crashed, froze or lost its lease leaves a ledger from
// which its successor takes the next step. The outcome of a commit decides how an actor proceeds:
// done, continue; fenced, stop; conflict, read again; unknown, acquire the lease again before
// reading or sending anything. That acquisition waits for the old statement and creates a new
// token.
package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/fencepost/fencepost/engine/track"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// ChainOptions configures one chain of the node.
type ChainOptions struct {
	Name   string // in metrics; empty: the chain id
	Chain  Chain
	Policy txn.Policy
	// FinalTag is "safe" or "finalized": blocks above the chain's block of that name are not final,
	// however deep. Empty: depth alone decides.
	FinalTag string
	// PollInterval is the time between two reads of the head when the chain does not push heads.
	PollInterval time.Duration
}

// Options configures an engine. Zero durations and counts select the defaults.
type Options struct {
	Store         *store.Store
	Signer        Signer
	Chains        []ChainOptions
	LeaseDuration time.Duration
	RenewInterval time.Duration // at most LeaseDuration/3
	SweepInterval time.Duration // between two searches for unowned submitters; 1 s
	PollInterval  time.Duration // between two reads of owned queues and commands; 1 s
	IdleAfter     time.Duration // an owner without work releases its lease after this; 30 s
	// AccountMaxAge is how long a busy owner relies on one read of its account, which also shows
	// code that was set at the account meanwhile; 1 min
	AccountMaxAge time.Duration
	MaxSubmitters int // owned at a time; 10,000

	Mode Mode // Basic
	// ProgressTimeout is the longest that one step may take before the owner loses its lease;
	// 60 s, more than LeaseDuration.
	ProgressTimeout time.Duration
	AuditInterval   time.Duration // between two audits of an owned submitter; 1 min, negative: none
	NoListen        bool          // ignore notifications; polling finds everything, later
	SettleInterval  time.Duration // between two records of settled nonces; 5 s
	KeepSigned      bool          // do not erase signed bytes

	// Stuck decides on STUCK transactions. Nil: they are rebroadcast until an operator decides.
	Stuck        StuckPolicy
	StuckTimeout time.Duration // for one decision; 5 s, at most ProgressTimeout/2

	// Refuse returns why a queued transaction must not be signed. Nil: none is refused.
	Refuse func(*txn.Tx) txn.Refusal

	Clock  clock.Clock
	Logger *slog.Logger
	Meter  metric.Meter
	Tracer trace.Tracer // nil: no traces
	Gate   Gate         // nil: always open
}

// Engine runs the submitters of a node.
type Engine struct {
	Options
	chains   map[txn.ChainID]Chain
	trackers map[txn.ChainID]*track.Tracker // same keys as chains
	members  *members
	keeper   *keeper
	router   *router
	auditor  *auditor
	settler  *settler
	metrics  metrics
	rules    poolRules
	moves    *sampler // of the log about transactions
	owners   *sampler // of the log about owners
}

// NoAudit disables the auditor when set as AuditInterval.
const NoAudit = -1

// queueHead is the number of queued transactions an actor reads at a time. A strict submitter needs
// one; the rest saves reads.
const queueHead = 8

// New validates the options and returns an engine. Nothing starts before Run.
func New(o Options) (*Engine, error) {
	o, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("engine: new: %w", err)
	}
	e := &Engine{
		Options:  o,
		chains:   map[txn.ChainID]Chain{},
		trackers: map[txn.ChainID]*track.Tracker{},
		members:  newMembers(o.Store.Node(), o.LeaseDuration),
		moves:    newSampler(o.Clock),
		owners:   newSampler(o.Clock),
	}
	if e.metrics, err = newMetrics(o.Meter); err != nil {
		return nil, err
	}
	for _, c := range o.Chains {
		if e.trackers[c.Chain.ID()] != nil {
			return nil, fmt.Errorf("engine: new: duplicate chain %d", c.Chain.ID())
		}
		c.Policy.Stuck = o.Stuck != nil
		e.chains[c.Chain.ID()] = c.Chain
		e.trackers[c.Chain.ID()] = track.New(track.Options{
			Chain:        c.Chain,
			Policy:       c.Policy,
			FinalTag:     c.FinalTag,
			PollInterval: c.PollInterval,
			Clock:        o.Clock,
			Logger:       o.Logger,
			LookedUp:     e.metrics.lookedUp,
			Updated:      e.metrics.ofChain(c),
		})
	}
	e.keeper = newKeeper(e)
	e.settler = newSettler(e)
	e.Gate = o.Gate.orEnd(e.keeper.checkDeadline)
	e.router = newRouter(e)
	if e.auditor, err = newAuditor(e); err != nil {
		return nil, err
	}
	return e, nil
}

// complete validates the options and fills in defaults.
func (o Options) complete() (Options, error) {
	if o.Store == nil || o.Signer == nil || o.Clock == nil || o.Logger == nil ||
		len(o.Chains) == 0 {
		return o, errors.New("store, signer, clock, logger and at least one chain are required")
	}
	if o.RenewInterval <= 0 || o.RenewInterval*3 > o.LeaseDuration {
		return o, fmt.Errorf(
			"renew interval %s must be positive and at most a third of the lease duration %s",
			o.RenewInterval, o.LeaseDuration)
	}
	if o.Mode == "" {
		o.Mode = Basic
	}
	if o.Mode != Basic && o.Mode != WorkerQueue {
		return o, fmt.Errorf("mode %q is neither %q nor %q", o.Mode, Basic, WorkerQueue)
	}
	o.ProgressTimeout = orDefault(o.ProgressTimeout, max(time.Minute, 2*o.LeaseDuration))
	if o.ProgressTimeout <= o.LeaseDuration {
		return o, fmt.Errorf("progress timeout %s must be longer than the lease duration %s",
			o.ProgressTimeout, o.LeaseDuration)
	}
	o.StuckTimeout = min(orDefault(o.StuckTimeout, 5*time.Second), o.ProgressTimeout/2)
	if o.AuditInterval == 0 {
		o.AuditInterval = time.Minute
	}
	o.SweepInterval = orDefault(o.SweepInterval, time.Second)
	o.SettleInterval = orDefault(o.SettleInterval, 5*time.Second)
	o.PollInterval = orDefault(o.PollInterval, time.Second)
	o.IdleAfter = orDefault(o.IdleAfter, 30*time.Second)
	o.AccountMaxAge = orDefault(o.AccountMaxAge, time.Minute)
	if o.MaxSubmitters <= 0 {
		o.MaxSubmitters = 10_000
	}
	if o.Tracer == nil {
		o.Tracer = nooptrace.NewTracerProvider().Tracer("")
	}
	o.Logger = o.Logger.With("node_id", o.Store.Node())
	return o, nil
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}

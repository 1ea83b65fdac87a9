// Package engine does the work of a node: it owns submitters by lease, decides for each what comes next, does it, and records it.
//
// # Parts
//
// The [keeper] renews all leases of the node in one statement on a connection of its own and ends whoever lost one or is stuck. The [router] finds submitters
// with work and no owner, acquires them, and gives each an [actor]. An actor holds the ledger of its submitter in memory and repeats one step: look at what is
// known, let [txn.Decide] say the one thing to do, do at most one thing outside, commit at most one [txn.Change] under the lease. A [track.Tracker] per chain follows
// the head and tells which hashes are in canonical blocks; actors read that as facts.
//
// # Ownership
//
// Nodes say in the ledger that they live, and hear from it which others do. In basic mode each takes what it finds free. In worker-queue mode rendezvous
// hashing ([placement]) names one of them for each submitter, which takes it; the others leave it to that one for a while, and hand over, between two steps,
// what they have of its. Views may differ and wake-ups get lost: both cost time alone, since nobody writes but under a lease. A node that stops first says that
// it takes nothing more, lets its owners end between two steps, and gives all leases back in one statement, which the others hear of.
//
// # Failure
//
// There is no recovery mode. An owner that crashed, froze or lost its lease leaves a ledger from which its successor takes the next step. What a commit said
// decides what an actor may do: done, go on; fenced, stop; conflict, read again; unknown, acquire the lease anew (which waits out the old statement and makes
// a new token) before anything is read or sent.
package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/engine/track"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// ChainOptions is one chain that the node works on.
type ChainOptions struct {
	Chain        Chain
	Policy       txn.Policy
	FinalTag     string        // "safe" or "finalized": what is above the chain's block of that name is not final, however deep; empty: depth alone
	PollInterval time.Duration // between two looks at the head when the chain does not push
}

// Options is what an engine is made of. Zero durations and counts take the defaults.
type Options struct {
	Store         *store.Store
	Signer        Signer
	Chains        []ChainOptions
	LeaseDuration time.Duration
	RenewInterval time.Duration // at most LeaseDuration/3
	SweepInterval time.Duration // between two looks for submitters without an owner; 1 s
	PollInterval  time.Duration // between two looks at queues and commands of owned submitters; 1 s
	IdleAfter     time.Duration // an owner without work gives its lease back after this; 30 s
	MaxSubmitters int           // owned at a time; 10,000

	Mode            Mode          // Basic
	ProgressTimeout time.Duration // an owner that is inside one step for longer loses its lease; 60 s, more than LeaseDuration
	AuditInterval   time.Duration // between two audits of each owned submitter; 1 min, below 0 none
	NoListen        bool          // hear nothing of other nodes: polling finds everything, later

	Stuck        StuckPolicy   // asked about STUCK transactions; nil: they wait for an operator, and are handed over meanwhile
	StuckTimeout time.Duration // for one answer; 5 s, at most ProgressTimeout/2

	Clock  clock.Clock
	Logger *slog.Logger
	Meter  metric.Meter
	Gate   Gate // nil: always open
}

// Engine is the working part of a node.
type Engine struct {
	Options
	chains   map[txn.ChainID]Chain
	trackers map[txn.ChainID]*track.Tracker // the keys are those of chains
	members  *members
	keeper   *keeper
	router   *router
	auditor  *auditor
	metrics  metrics
}

// NoAudit as AuditInterval turns the auditor off.
const NoAudit = -1

// queueHead is how much of a queue an actor reads at a time. A strict submitter needs one; the rest saves reads.
const queueHead = 8

// New checks the options and makes an engine. It does nothing before Run.
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
	}
	if e.metrics, err = newMetrics(o.Meter); err != nil {
		return nil, err
	}
	for _, c := range o.Chains {
		if e.trackers[c.Chain.ID()] != nil {
			return nil, fmt.Errorf("engine: new: chain %d is given twice", c.Chain.ID())
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
		})
	}
	e.keeper = newKeeper(e)
	e.Gate = o.Gate.orEnd(e.keeper.overdue)
	e.router = newRouter(e)
	if e.auditor, err = newAuditor(e); err != nil {
		return nil, err
	}
	return e, nil
}

// complete checks how the options relate and fills in what is left out.
func (o Options) complete() (Options, error) {
	if o.Store == nil || o.Signer == nil || o.Clock == nil || o.Logger == nil ||
		len(o.Chains) == 0 {
		return o, errors.New("store, signer, clock, logger and at least one chain are needed")
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
	o.PollInterval = orDefault(o.PollInterval, time.Second)
	o.IdleAfter = orDefault(o.IdleAfter, 30*time.Second)
	if o.MaxSubmitters <= 0 {
		o.MaxSubmitters = 10_000
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

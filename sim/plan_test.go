package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/txn"
)

// Plan is the part of a run that is fixed before it begins.
type Plan struct {
	Seed       uint64
	Nodes      int
	Submitters int
	Limits     []int // nonces in flight of each submitter; 1: strict
	NewLimits  []LimitPlan
	GapsFail   bool // pools reject a nonce above one that they lack
	Watchers   int
	Mode       engine.Mode
	BlockTime  time.Duration
	Skews      []Skew
	Calls      []CallPlan
	Pauses     []PausePlan
	Protects   []PausePlan // requested by an operator; another decision ends them
	Requeue    bool        // the operator requeues transactions whose nonce was used elsewhere
	Faults     []Fault
	Sinks      bool          // the nodes deliver events to a receiver
	Restart    time.Duration // when PostgreSQL restarts; used with Move only
	Move       time.Duration // when the ledger begins to move to another server; 0: never
	Holds      []HoldPlan    // of nonces by clients that sign themselves, for one more submitter
	FillHoles  bool          // its owner fills holes
	Policies   bool          // every call has a Pay
	Drains     []DrainPlan   // of accounts; one more submitter tops them up
	Pooled     []PooledPlan  // only with Drains
	// of accounts between two ledgers; none: there is one ledger
	AccountMoves []AccountMovePlan
}

// Skew is the error of a node's clock.
type Skew struct {
	Offset time.Duration
	Rate   float64
}

// CallPlan is one transaction that a client asks for.
type CallPlan struct {
	No          int
	At          time.Duration
	Submitter   int
	Node        int
	Twin        int // node of a concurrent request with the same id; -1: none
	CancelAfter time.Duration
	Pay         *PayPlan // nil: nothing
}

// LimitPlan changes the nonces in flight of a submitter.
type LimitPlan struct {
	At        time.Duration
	Submitter int
	Limit     int // 1: strict
}

// PausePlan pauses a submitter for a while.
type PausePlan struct {
	At        time.Duration
	For       time.Duration
	Submitter int
}

// Phases of a run.
const (
	loadTime    = 60 * time.Second // clients send requests
	faultTime   = 90 * time.Second // faults strike
	restTime    = 10 * time.Minute // every transaction must be final by then
	confirms    = 3
	maxReorg    = confirms // a deeper reorg would revert final blocks
	resubmit    = 10 * time.Second
	resubmitMax = 20

	// bumpPermille is the fee factor of replacements: automatic (every other seed) or cancels.
	bumpPermille = 1125

	hardMaxAge = 20 * time.Second
)

func (p Plan) policy() txn.Policy {
	policy := txn.Policy{
		Confirmations: confirms, ReleaseDepth: 1, ResubmitInterval: resubmit,
		ResubmitMax: resubmitMax, AuditDepth: 2 * confirms, LagGrace: 20 * time.Second,
		BumpPermille: bumpPermille,
	}
	policy.Bump = txn.DefaultBumpPolicy{
		Enabled:     p.Seed%2 == 0,
		MinInterval: resubmit,
		MaxAttempts: resubmitMax,
	} // cancels are bumped in any case
	policy.External = txn.ExternalPolicy{ReconcileInterval: 5 * time.Second, HardMaxAge: hardMaxAge}
	if p.FillHoles {
		policy.External.FillAfter = hardMaxAge / 2
	}
	return policy
}

// Draw returns the plan of a seed.
func Draw(seed uint64) Plan {
	d := rand.New(rand.NewPCG(seed, 0x9a2))
	p := Plan{
		Seed:       seed,
		Nodes:      2 + d.IntN(2),
		Submitters: 1 + d.IntN(2),
		Watchers:   1 + d.IntN(2),
		BlockTime:  2 * time.Second,
	}
	p.Mode = engine.Basic
	if d.IntN(2) == 0 {
		p.Mode = engine.WorkerQueue
	}
	p.drawLimits()
	for range p.Nodes {
		p.Skews = append(p.Skews, drawSkew(d))
	}
	p.Calls = drawCalls(d, p)
	if d.IntN(4) == 0 {
		p.Pauses = append(
			p.Pauses,
			PausePlan{
				At:        between(d, 0, loadTime),
				For:       between(d, time.Second, 20*time.Second),
				Submitter: d.IntN(p.Submitters),
			},
		)
	}
	if d.IntN(4) == 0 {
		p.Protects = append(p.Protects,
			PausePlan{At: between(d, 0, loadTime), Submitter: d.IntN(p.Submitters)})
	}
	for range 4 + d.IntN(12) {
		p.Faults = append(p.Faults, drawFault(d, p))
	}
	if p.Requeue = d.IntN(2) == 0; d.IntN(4) == 0 {
		for range 1 + d.IntN(2) {
			p.Faults = append(
				p.Faults,
				Fault{
					Node: -1,
					At:   between(d, 3*time.Second, loadTime),
					Do:   doExternal,
					N:    d.IntN(2 * p.Submitters),
				},
			)
		}
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	for i := range p.Faults {
		p.Faults[i].No = i
	}
	return p
}

// drawLimits makes every second submitter pipelined. It has its own source, so that the other parts
// of a seed's plan do not depend on it.
func (p *Plan) drawLimits() {
	d := rand.New(rand.NewPCG(p.Seed, 0x9199))
	for range p.Submitters {
		limit := 1
		if d.IntN(2) == 0 {
			limit = []int{2, 3, 16}[d.IntN(3)]
		}
		p.Limits = append(p.Limits, limit)
	}
	p.GapsFail = d.IntN(2) == 0
	for i := range p.Submitters {
		if d.IntN(3) == 0 {
			p.NewLimits = append(p.NewLimits, LimitPlan{
				At: between(d, 0, loadTime), Submitter: i, Limit: []int{1, 2, 16}[d.IntN(3)],
			})
		}
	}
}

// highest is the highest limit that a submitter ever has.
func (p *Plan) highest(submitter int) int {
	if submitter >= len(p.Limits) {
		return 1 // the treasury
	}
	limit := p.Limits[submitter]
	for _, l := range p.NewLimits {
		if l.Submitter == submitter {
			limit = max(limit, l.Limit)
		}
	}
	return limit
}

func between(d *rand.Rand, from, to time.Duration) time.Duration {
	return (from + time.Duration(d.Int64N(int64(to-from)))).Round(100 * time.Millisecond)
}

// drawSkew returns mostly a few seconds and a little drift, and sometimes a clock that is far off
// or runs at half or double speed.
func drawSkew(d *rand.Rand) Skew {
	switch d.IntN(6) {
	case 0:
		return Skew{Offset: between(d, -400*24*time.Hour, 400*24*time.Hour), Rate: 1}
	case 1:
		return Skew{Offset: between(d, -time.Minute, time.Minute), Rate: 0.5 + 1.5*d.Float64()}
	}
	return Skew{Offset: between(d, -5*time.Second, 5*time.Second), Rate: 0.99 + 0.02*d.Float64()}
}

// drawCalls spreads the calls over the load time, or clusters them in bursts so that queues form.
func drawCalls(d *rand.Rand, p Plan) (calls []CallPlan) {
	var bursts []time.Duration
	if d.IntN(2) == 0 {
		for range 1 + d.IntN(3) {
			bursts = append(bursts, between(d, 0, loadTime))
		}
	}
	for i := range 8 + d.IntN(10) {
		at := between(d, 0, loadTime)
		if len(bursts) > 0 {
			at = bursts[d.IntN(len(bursts))] + between(d, 0, 2*time.Second)
		}
		calls = append(calls, drawCall(d, p, i, at))
	}
	return calls
}

func drawCall(d *rand.Rand, p Plan, no int, at time.Duration) CallPlan {
	c := CallPlan{No: no, At: at, Submitter: d.IntN(p.Submitters), Node: d.IntN(p.Nodes), Twin: -1}
	if d.IntN(4) == 0 {
		c.Twin = d.IntN(p.Nodes)
	}
	if d.IntN(5) == 0 {
		c.CancelAfter = between(d, 100*time.Millisecond, 20*time.Second)
	}
	return c
}

// menu lists the kinds of faults to draw from.
var menu = []func(d *rand.Rand, p Plan) Fault{
	func(d *rand.Rand, p Plan) Fault { // a frozen node, often for longer than its lease
		return Fault{
			Node: d.IntN(p.Nodes),
			Do:   doFreeze,
			For:  between(d, 2*time.Second, 30*time.Second),
		}
	},
	func(d *rand.Rand, p Plan) Fault {
		return Fault{
			Node: d.IntN(p.Nodes),
			Do:   one(d, doCrash, doQuit),
			For:  between(d, 500*time.Millisecond, 20*time.Second),
		}
	},
	func(d *rand.Rand, p Plan) Fault {
		return Fault{
			Node: -1 + d.IntN(p.Nodes+1),
			Do:   one(d, doCut, doCutSilent, doNoDatabase, doSilence),
			For:  between(d, time.Second, 20*time.Second),
		}
	},
	func(d *rand.Rand, p Plan) Fault {
		return Fault{
			Node: d.IntN(p.Nodes),
			Do:   one(d, doNoChain, doNoSigner),
			For:  between(d, time.Second, 20*time.Second),
		}
	},
	func(d *rand.Rand, p Plan) Fault {
		return Fault{
			Node: d.IntN(p.Nodes),
			Do:   doLag,
			N:    1 + d.IntN(4),
			For:  between(d, 2*time.Second, 30*time.Second),
		}
	},
	func(d *rand.Rand, p Plan) Fault {
		return Fault{
			Node: -1,
			Do:   one(d, doReorg, doReorgDrop, doReorgStale, doReorgKeep),
			N:    1 + d.IntN(maxReorg),
			For:  between(d, 5*time.Second, 20*time.Second),
		}
	},
	func(d *rand.Rand, p Plan) Fault { // often right after an inclusion was recorded
		return Fault{
			Node: -1, On: "gate:after-record", Count: 1 + d.IntN(8),
			Do: one(d, doReorg, doReorgDrop, doReorgDrop, doReorgStale), N: 1 + d.IntN(maxReorg),
			For: between(d, 5*time.Second, 20*time.Second),
		}
	},
	func(d *rand.Rand, p Plan) Fault {
		return Fault{
			Node: -1,
			Do:   one(d, doForgetPool, doStall),
			For:  between(d, 2*time.Second, 20*time.Second),
		}
	},
	func(d *rand.Rand, p Plan) Fault {
		return Fault{Node: d.IntN(p.Nodes), Do: doJump, For: between(d, -time.Minute, time.Minute)}
	},
	func(d *rand.Rand, p Plan) Fault {
		return Fault{Node: -1, Do: doStep, For: between(d, -time.Minute, time.Minute)}
	},
	func(d *rand.Rand, p Plan) Fault {
		return Fault{
			Node:  -1,
			On:    "sql:" + one(d, "Commit", "Take"),
			Count: 1 + d.IntN(3),
			Do:    one(d, doLock, doLockFreeze, doLockFreeze),
			N:     d.IntN(3),
			For:   between(d, 2*time.Second, 25*time.Second),
		}
	},
	func(d *rand.Rand, p Plan) Fault { // a commit that arrives after its lease has changed
		return Fault{
			Node:  -1,
			On:    "sql:" + one(d, "Commit", "Take"),
			Count: 1 + d.IntN(6),
			Do:    one(d, doArriveAnew, doArriveLapsed),
			For:   between(d, time.Second, 25*time.Second),
		}
	},
	drawOnSQL, drawOnSQL, drawOnSQL, drawOnGate, drawOnGate, drawOnChain, drawOnChain,
	func(d *rand.Rand, p Plan) Fault {
		return Fault{
			Node:  -1,
			On:    "sign",
			Count: 1 + d.IntN(4),
			Do:    one(d, doUnavailable, doSlow, doFreeze, doCrash),
			For:   between(d, time.Second, 20*time.Second),
		}
	},
}

// drawOnSQL draws a fault of one message to PostgreSQL.
func drawOnSQL(d *rand.Rand, p Plan) Fault {
	what := one(d, "Commit", "Commit", "Commit", "Take", "Take", "Take", "AcquireLeases",
		"AcquireLease", "RenewLeases", "ReleaseLeases", "InsertTxs", "CancelQueued", "OpenTxs",
		"Orphans")
	return Fault{
		Node: -1, On: "sql:" + what, Count: 1 + d.IntN(4),
		For: between(d, time.Second, 25*time.Second),
		Do: one(d, doLoseReply, doLoseReply, doCutBefore, doArriveLate, doReplyLate, doFreeze,
			doCrash, doCrashBefore),
	}
}

// drawOnGate draws a fault that stops a node at a point of a step.
func drawOnGate(d *rand.Rand, p Plan) Fault {
	point := engine.Points[d.IntN(len(engine.Points))]
	return Fault{
		Node:  -1,
		On:    "gate:" + string(point),
		Count: 1 + d.IntN(4),
		Do:    one(d, doFreeze, doFreeze, doCrashBefore, doSlow),
		For:   between(d, 2*time.Second, 30*time.Second),
	}
}

// drawOnChain draws a fault of one call to the chain.
func drawOnChain(d *rand.Rand, p Plan) Fault {
	f := Fault{Node: -1, Count: 1 + d.IntN(4), For: between(d, time.Second, 25*time.Second)}
	switch d.IntN(4) {
	case 0:
		f.On = "chain:" + one(d, "Head", "Receipts", "Account", "Quote", "BlockByHash")
		f.Do, f.N = one(d, doUnavailable, doSlow, doFreeze, doCrash, doBlocksBehind,
			doBlocksBehind), 1+d.IntN(
			3,
		)
	default:
		f.On = "chain:Send"
		f.Do = one(d, doLoseRequest, doLoseReply, doSwallow, doEvict, doFalseNonce, doLieAccepted,
			doUnavailable, doPoolFull, doSlow, doFreeze, doCrash, doCrashBefore)
	}
	return f
}

func one(d *rand.Rand, of ...string) string { return of[d.IntN(len(of))] }

func drawFault(d *rand.Rand, p Plan) Fault {
	f := menu[d.IntN(len(menu))](d, p)
	f.At = between(d, time.Second, faultTime)
	return f
}

// Without returns the plan without the faults of these numbers.
func (p Plan) Without(drop ...int) Plan {
	p.Faults = slices.DeleteFunc(slices.Clone(p.Faults),
		func(f Fault) bool { return slices.Contains(drop, f.No) })
	return p
}

// String returns the plan, one item per line.
func (p Plan) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "seed %d: %d nodes (%s), %d submitters, %d calls, %d watchers\n", p.Seed,
		p.Nodes, p.Mode, p.Submitters, len(p.Calls), p.Watchers)
	for i, limit := range p.Limits {
		if limit > 1 {
			fmt.Fprintf(&s, "  s%d has up to %d nonces in flight\n", i+1, limit)
		}
	}
	for _, l := range p.NewLimits {
		fmt.Fprintf(&s, "  at %.1fs s%d gets up to %d nonces in flight\n", l.At.Seconds(),
			l.Submitter+1, l.Limit)
	}
	for i, k := range p.Skews {
		fmt.Fprintf(&s, "  clock of %c: offset %v, rate %.3f\n", 'a'+i, k.Offset,
			k.Rate)
	}
	for _, c := range p.Calls {
		fmt.Fprintf(&s, "  at %.1fs call %d for s%d on %c", c.At.Seconds(), c.No, c.Submitter+1,
			'a'+c.Node)
		if c.Twin >= 0 {
			fmt.Fprintf(&s, ", twin on %c", 'a'+c.Twin)
		}
		if c.CancelAfter > 0 {
			fmt.Fprintf(&s, ", cancelled %.1fs later", c.CancelAfter.Seconds())
		}
		s.WriteString(c.Pay.String())
		s.WriteByte('\n')
	}
	for _, h := range p.Holds {
		fmt.Fprintf(&s, "  %s\n", h)
	}
	for _, k := range p.Pauses {
		fmt.Fprintf(&s, "  at %.1fs s%d is paused for %.1fs\n", k.At.Seconds(), k.Submitter+1,
			k.For.Seconds())
	}
	for _, k := range p.Protects {
		fmt.Fprintf(&s, "  at %.1fs s%d is protected\n", k.At.Seconds(), k.Submitter+1)
	}
	for _, m := range p.AccountMoves {
		fmt.Fprintf(&s, "  %s\n", m)
	}
	for _, f := range p.Faults {
		fmt.Fprintf(&s, "  fault %d: %s\n", f.No, f)
	}
	if p.Move > 0 {
		fmt.Fprintf(&s, "  at %.1fs PostgreSQL restarts\n  at %.1fs the ledger moves\n",
			p.Restart.Seconds(), p.Move.Seconds())
	}
	return s.String()
}

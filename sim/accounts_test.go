package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// AccountMovePlan moves an account from the ledger where it is registered to the other one.
type AccountMovePlan struct {
	At        time.Duration
	Submitter int
	Twin      time.Duration // another command for it begins so much later; 0: none
}

func (m AccountMovePlan) String() string {
	s := fmt.Sprintf("at %.1fs s%d moves to the other ledger", m.At.Seconds(), m.Submitter+1)
	if m.Twin > 0 {
		s += fmt.Sprintf(", again %.1fs later", m.Twin.Seconds())
	}
	return s
}

// DrawAccounts returns a plan with two ledgers, whose accounts move under load.
func DrawAccounts(seed uint64) Plan {
	p := Draw(seed)
	d := rand.New(rand.NewPCG(seed, 0xacc0))
	for i := range p.Submitters {
		if i > 0 && d.IntN(4) == 0 {
			continue
		}
		m := AccountMovePlan{At: between(d, 0, loadTime), Submitter: i}
		if d.IntN(3) == 0 {
			m.Twin = between(d, 100*time.Millisecond, 10*time.Second)
		}
		p.AccountMoves = append(p.AccountMoves, m)
	}
	for range 2 + d.IntN(4) {
		p.Faults = append(p.Faults, drawOnMove(d))
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	for i := range p.Faults {
		p.Faults[i].No = i
	}
	return p
}

// drawOnMove draws a fault of one message of a command that moves an account.
func drawOnMove(d *rand.Rand) Fault {
	return Fault{
		Node: -1, Count: 1 + d.IntN(2),
		On: "sql:" + one(d, "MoveOf", "MoveState", "BeginMove", "LockMove", "LockWriters",
			"LockSubmitter", "SealLease", "SealSubmitter", "SealMove", "AddArrival", "copy",
			"copy in", "copy in", "FinishMove", "commit", "commit", "commit"),
		For: between(d, time.Second, 25*time.Second),
		Do: one(d, doLoseReply, doLoseReply, doCutBefore, doArriveLate, doReplyLate, doFreeze,
			doCrash, doCrashBefore),
	}
}

// moveCommand is a command that moves an account, repeated until it succeeds.
type moveCommand struct {
	account int
	index   int // of its processes
	process *node
	boots   int
	done    bool  // under World.mu
	why     error // the last failure; under World.mu
}

// repeatEvery is how often an operator looks whether a command must be repeated.
const repeatEvery = 5 * time.Second

// beginMoves schedules the moves.
func (w *World) beginMoves() {
	for _, p := range w.plan.AccountMoves {
		starts := []time.Duration{p.At}
		if p.Twin > 0 {
			starts = append(starts, p.At+p.Twin)
		}
		for _, at := range starts {
			c := &moveCommand{account: p.Submitter, index: w.plan.Nodes + len(w.commands)}
			w.commands = append(w.commands, c)
			w.at(w.now()+at, "move", func() { w.repeatMove(c) })
		}
	}
}

// repeatMove runs a command, and again when it has ended without success.
func (w *World) repeatMove(c *moveCommand) {
	w.mu.Lock()
	done := c.done
	w.mu.Unlock()
	if done {
		return
	}
	if c.process == nil || c.process.isOver() {
		if err := w.startMove(c); err != nil {
			w.violated("sim", "%v", err)
		}
	}
	w.at(w.now()+repeatEvery, "move again", func() { w.repeatMove(c) })
}

func (n *node) isOver() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

// startMove starts a process that moves an account, as "fencepost submitter move" does.
func (w *World) startMove(c *moveCommand) error {
	n := w.process(c.index, c.boots, Skew{Rate: 1})
	c.process = n
	c.boots++
	directory, err := n.openDirectory()
	if err != nil {
		return err
	}
	for _, db := range w.dbs.ledgers {
		s, err := n.open(db, directory)
		if err != nil {
			return err
		}
		n.stores = append(n.stores, s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	w.nodes = append(w.nodes, n)
	go func() {
		defer close(n.ended)
		err := c.run(ctx, w, n)
		w.mu.Lock()
		c.done, c.why = err == nil, err
		w.mu.Unlock()
		for _, s := range append(n.stores, directory) {
			s.Close()
		}
	}()
	return nil
}

func (c *moveCommand) run(ctx context.Context, w *World, n *node) error {
	from := w.homes[w.submitters[c.account]]
	to := 1 - from
	m, err := store.PrepareMove(ctx, n.stores[from], n.stores[to], fmt.Sprintf("s%d", c.account),
		w.dbs.ledgers[to].name)
	if err != nil {
		return err
	}
	_, err = m.Run(ctx, time.Second, func(store.MoveProgress) {})
	return err
}

// isMoving reports whether a command for an account has not succeeded yet.
func (w *World) isMoving(id txn.SubmitterID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.commands, func(c *moveCommand) bool {
		return !c.done && w.submitters[c.account] == id
	})
}

// movesAccount reports whether the plan moves an account.
func (w *World) movesAccount(id txn.SubmitterID) bool {
	return slices.ContainsFunc(w.commands, func(c *moveCommand) bool {
		return w.submitters[c.account] == id
	})
}

// movesRested reports whether all commands have succeeded.
func (w *World) movesRested() bool {
	return !slices.ContainsFunc(w.submitters, w.isMoving)
}

func (w *World) unfinishedMoves() (s []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.commands {
		if !c.done {
			s = append(s, fmt.Sprintf("the move of s%d is not done: %v", c.account, c.why))
		}
	}
	return s
}

// Law M1: at most one ledger has an owner of an account, the new one has all that the old one had,
// and the old one has nothing later.

// judgeLeases checks at an acquisition that no account has an owner in two ledgers, or in one that
// it has left.
func (w *World) judgeLeases() {
	if len(w.commands) == 0 {
		return
	}
	owners := map[txn.SubmitterID]string{}
	for i, db := range w.dbs.ledgers {
		err := db.each(
			`SELECT submitter_id, owner_node FROM submitter_lease
			  WHERE NOT released AND expires_at > clock_timestamp()`,
			func(rows pgx.Rows) error {
				var id txn.SubmitterID
				var owner string
				err := rows.Scan(&id, &owner)
				if other, ok := owners[id]; ok {
					w.violated("M1", "s%d has the owners %s and %s in two ledgers", id, other,
						owner)
				}
				if i == w.homes[id] && w.movesAccount(id) && !w.isMoving(id) {
					w.violated("M1", "s%d has the owner %s in ledger %s, which it has left", id,
						owner, db.name)
				}
				owners[id] = owner
				return err
			})
		if err != nil {
			w.violated("sim", "%v", err)
		}
	}
}

// judgeMoves compares both ledgers of the accounts that have moved.
func (w *World) judgeMoves(l *ledger) {
	if len(w.commands) == 0 {
		return
	}
	past, err := w.readPast()
	if err != nil {
		w.violated("sim", "%v", err)
		return
	}
	for key, was := range past {
		is := l.rows[key.tx]
		if is == nil || int(key.seq) > len(is.events) {
			w.violated("M1", "event %d of %s is missing in the new ledger", key.seq, key.tx)
			continue
		}
		if e := is.events[key.seq-1]; e.kind != was.kind || e.state != was.state {
			w.violated("M1", "event %d of %s was %s %s and is %s %s", key.seq, is.request,
				was.kind, was.state, e.kind, e.state)
		}
	}
	w.judgeTokens()
}

// judgeTokens checks that the new ledger wrote later than the old one, under higher tokens.
func (w *World) judgeTokens() {
	type writes struct {
		ledger                int
		firstToken, lastToken int64
		firstAt, lastAt       float64
	}
	all := map[int32][]writes{}
	for i, db := range w.dbs.ledgers {
		err := db.each(
			`SELECT submitter_id, min(token), max(token), min(extract(EPOCH FROM at))::FLOAT8,
			        max(extract(EPOCH FROM at))::FLOAT8
			   FROM sim_write GROUP BY submitter_id`,
			func(rows pgx.Rows) error {
				var id int32
				is := writes{ledger: i}
				err := rows.Scan(&id, &is.firstToken, &is.lastToken, &is.firstAt, &is.lastAt)
				if i == w.homes[txn.SubmitterID(id)] {
					all[id] = append([]writes{is}, all[id]...)
				} else {
					all[id] = append(all[id], is)
				}
				return err
			})
		if err != nil {
			w.violated("sim", "%v", err)
		}
	}
	for id, of := range all {
		if len(of) == 2 && (of[0].lastToken >= of[1].firstToken || of[0].lastAt > of[1].firstAt) {
			w.violated("M1", "s%d was written in its old ledger up to token %d, and in the new "+
				"one from token %d", id, of[0].lastToken, of[1].firstToken)
		}
	}
}

// TestAccountSeeds runs simulations whose accounts move between two ledgers.
func TestAccountSeeds(t *testing.T) {
	t.Parallel()
	playSeeds(t, "accounts", DrawAccounts)
}

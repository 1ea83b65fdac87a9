package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/pgembed"
	"github.com/fencepost/fencepost/store"
)

// hosts are PostgreSQL servers of one run. Programs and servers are started and awaited outside of
// the bubble, whose time stands still meanwhile.
type hosts struct {
	t     *testing.T
	ctx   context.Context
	pg    *pgembed.Server // where the ledger is
	calls chan func()
	done  chan struct{}
}

// hostLimit bounds one change of the servers, in real time.
const hostLimit = 3 * time.Minute

const hostSchema = "ledger"

// Times of a plan whose database restarts and moves.
const (
	moveLasts    = 20 * time.Second // from the end of all nodes; leases lapse meanwhile
	receiverDown = 8 * time.Second  // before the nodes end, so that events wait
)

// moved returns the plan with a restart of the database, and a move of the ledger to another
// server. Resume tokens of watchers end with a move, so it has none.
func (p Plan) moved() Plan {
	d := rand.New(rand.NewPCG(p.Seed, 0x3013))
	p.Sinks, p.Watchers = true, 0
	p.Restart = between(d, 5*time.Second, 30*time.Second)
	p.Move = between(d, 40*time.Second, loadTime)
	return p
}

// openHosts creates the schema of one run on a server of its own.
func openHosts(t *testing.T) databases {
	t.Helper()
	h := &hosts{t: t, ctx: context.Background(), calls: make(chan func()),
		done: make(chan struct{})}
	pg, err := h.start()
	if err != nil {
		t.Fatal(err)
	}
	h.pg = pg
	if _, err := store.Migrate(h.ctx, pg.URL("postgres"), hostSchema); err != nil {
		t.Fatal(err)
	}
	go func() {
		for call := range h.calls {
			call()
			h.done <- struct{}{}
		}
	}()
	t.Cleanup(func() { close(h.calls) })
	d := &database{schema: hostSchema, hosts: h, ctx: h.ctx,
		base: time.Now().Add(time.Hour).Truncate(time.Second)}
	if err := d.at(pg.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	d.install(t, clockValuesSQL)
	return databases{ledgers: []*database{d}}
}

func (h *hosts) start() (*pgembed.Server, error) {
	ctx, cancel := context.WithTimeout(h.ctx, hostLimit)
	defer cancel()
	pg, err := pgembed.Start(ctx, pgembed.Options{Settings: pgembed.Disposable()})
	if err == nil {
		h.t.Cleanup(func() {
			if err := pg.Stop(h.ctx); err != nil {
				h.t.Error(err)
			}
		})
	}
	return pg, err
}

// outside runs a function outside of the bubble, and waits for it.
func (h *hosts) outside(do func(context.Context) error) (err error) {
	h.calls <- func() {
		ctx, cancel := context.WithTimeout(h.ctx, hostLimit)
		defer cancel()
		err = do(ctx)
	}
	<-h.done
	return err
}

// copied dumps the ledger, restores it on a new server, and adopts it there, as an operator does.
func (h *hosts) copied(ctx context.Context) (to *pgembed.Server, err error) {
	if to, err = h.start(); err != nil {
		return nil, err
	}
	file := filepath.Join(h.t.TempDir(), "dump")
	for _, args := range [][]string{
		{"pg_dump", "--format=custom", "--file", file, h.pg.URL("postgres")},
		{"pg_restore", "--exit-on-error", "--dbname", to.URL("postgres"), file},
	} {
		program := filepath.Join(h.pg.Programs().Dir, args[0])
		out, err := exec.CommandContext(ctx, program, args[1:]...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
	}
	url, err := scoped(to.URL("postgres"), hostSchema)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, store.Config{URL: url, Node: "operator/1",
		LeaseDuration: leaseDuration, Adopts: true})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	_, err = s.Move(ctx)
	return to, err
}

// armHosts schedules the restart and the move of the plan.
func (w *World) armHosts() {
	if w.plan.Move == 0 {
		return
	}
	w.at(w.now()+w.plan.Restart, "restart", w.restartDatabase)
	w.noReceiver = [2]time.Duration{w.now() + w.plan.Move - receiverDown,
		w.now() + w.plan.Move + moveLasts}
	w.at(w.now()+w.plan.Move, "nodes end", func() {
		w.moving = true
		for i := range w.plan.Nodes {
			if n := w.current(i); w.dice.IntN(2) == 0 {
				w.crash(n, moveLasts)
			} else {
				w.quit(n, moveLasts)
			}
		}
		w.at(w.now()+moveLasts, "move", w.moveLedger)
	})
}

// restartDatabase kills PostgreSQL and starts it again: every session ends, and what was not
// committed is gone.
func (w *World) restartDatabase() {
	w.remark("PostgreSQL restarts")
	w.faults["PostgreSQL restarts"]++
	w.loseSessions()
	h := w.db.hosts
	if err := h.outside(h.pg.Restart); err != nil {
		w.violated("sim", "%v", err)
		return
	}
	w.reconnect()
	until := w.now() + time.Duration(w.dice.Int64N(int64(5*time.Second)))
	for _, n := range w.nodes {
		n.noDatabase = max(n.noDatabase, until)
	}
}

// moveLedger continues on another server with a dump of the ledger, once no node works on it.
func (w *World) moveLedger() {
	for _, n := range w.nodes { // a frozen node, or one that takes too long to stop
		w.crash(n, 0)
	}
	w.loseSessions()
	if err := w.db.tick(); err != nil {
		w.violated("sim", "%v", err)
	}
	// The copy gives other numbers to events, and the oracles compare the order.
	if _, err := w.db.conn.Exec(w.db.ctx, `INSERT INTO sim_xid (tx_id, seq, xid)
		SELECT tx_id, seq, xid::TEXT::BIGINT FROM tx_event ON CONFLICT DO NOTHING`); err != nil {
		w.violated("sim", "%v", err)
	}
	h := w.db.hosts
	var to *pgembed.Server
	err := h.outside(func(ctx context.Context) (err error) {
		to, err = h.copied(ctx)
		return err
	})
	if errors.Is(err, store.ErrLedgerLive) { // the clock of the database was set back
		w.remark("leases have not lapsed")
		w.at(w.now()+5*time.Second, "move", w.moveLedger)
		return
	}
	if err == nil {
		h.pg = to
		err = w.db.at(to.URL("postgres"))
	}
	if err != nil {
		w.violated("sim", "the ledger cannot be moved: %v", err)
		return
	}
	w.reconnect()
	w.remark("the ledger was moved")
	w.faults["the ledger moves"]++
	w.moving, w.moved = false, true
}

// loseSessions ends all sessions of nodes and faults. Messages in transit are lost.
func (w *World) loseSessions() {
	for _, n := range w.nodes {
		w.cutAll(n, false)
		for _, l := range n.links {
			l.server.lost = true
			l.server.close()
		}
	}
	for _, x := range w.stuck {
		x.link.landed()
	}
	for _, k := range w.locks {
		k.lost = true
		_ = k.conn.Close(w.db.ctx)
	}
	w.stuck, w.locks = nil, nil
}

// reconnect connects the scheduler again.
func (w *World) reconnect() {
	d := w.db
	_ = d.conn.Close(d.ctx)
	conn, err := d.connect()
	if err != nil {
		w.violated("sim", "%v", err)
		return
	}
	d.conn, d.clock = conn, time.Time{}
	if err := errors.Join(d.jump(0), d.tick()); err != nil {
		w.violated("sim", "%v", err)
	}
}

// TestSinkSeeds_DatabaseRestartsAndMoves: PostgreSQL is killed and started again, and later the
// ledger is dumped and restored on another server, under all other faults. The receiver gets every
// event, in order and after its commit, and the news of the restored ledger.
func TestSinkSeeds_DatabaseRestartsAndMoves(t *testing.T) {
	t.Parallel()
	if *huntFlag != 0 || *seedFlag != 0 {
		return
	}
	for i := range max(2, *seedsFlag/20) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := Play(t, Draw(*firstFlag+uint64(i)).moved())
			t.Logf("seed %d: %d steps, %d deliveries, at rest after %.0fs, %v", r.Plan.Seed,
				r.Steps, r.deliveries, r.Rest.Seconds(), r.Faults)
			if len(r.Broken) > 0 {
				t.Errorf("broken: %q\n%s\n%s", r.Broken, r.Plan, r.tail)
			}
			if r.deliveries == 0 || r.Faults["the ledger moves"] == 0 {
				t.Errorf("%d deliveries, faults %v", r.deliveries, r.Faults)
			}
		})
	}
}

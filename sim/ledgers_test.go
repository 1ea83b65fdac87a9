package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// databases are the ledgers of a run, with their directory if there are several. Several are
// schemas on one server, with one clock.
type databases struct {
	ledgers   []*database
	directory *database
}

func (d *databases) open() error {
	for _, db := range d.ledgers {
		if err := db.open(); err != nil {
			return err
		}
	}
	return nil
}

func (d *databases) close() {
	for _, db := range d.ledgers {
		if db.conn != nil {
			db.close()
		}
	}
}

// number adds up what a query returns in all ledgers.
func (d *databases) number(query string, args ...any) (sum int64, err error) {
	for _, db := range d.ledgers {
		n, err := db.number(query, args...)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// each reads the rows of all ledgers.
func (d *databases) each(query string, row func(pgx.Rows) error) error {
	for _, db := range d.ledgers {
		if err := db.each(query, row); err != nil {
			return err
		}
	}
	return nil
}

// openLedgers creates two ledgers, and their directory in a schema of its own.
func openLedgers(t *testing.T) databases {
	t.Helper()
	first := openDatabase(t)
	first.name = "l1"
	var others []*database
	for _, name := range []string{"l2", "directory"} {
		d := &database{schema: dbtest.New(t, dbtest.WithoutGuard()).Schema, name: name,
			mark: "/" + name, ctx: first.ctx, base: first.base}
		d.network, d.address = first.network, first.address
		d.url = strings.Replace(first.url, first.schema, d.schema, 1)
		d.install(t, fmt.Sprintf(`
			CREATE VIEW sim_clock AS SELECT last_value FROM %[1]s.sim_clock;
			CREATE VIEW sim_step AS SELECT last_value FROM %[1]s.sim_step;`, first.schema))
		others = append(others, d)
	}
	dbs := databases{ledgers: []*database{first, others[0]}, directory: others[1]}
	for _, db := range dbs.ledgers {
		if err := dbs.join(db); err != nil {
			t.Fatal(err)
		}
	}
	return dbs
}

// join adds a ledger to the directory, as its owner does.
func (d *databases) join(db *database) error {
	config := store.Config{URL: d.directory.url, Node: "join/1"}
	directory, err := store.Open(db.ctx, config)
	if err != nil {
		return err
	}
	defer directory.Close()
	config.URL, config.Directory = db.url, directory
	s, err := store.Open(db.ctx, config)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.JoinDirectory(db.ctx, db.name)
	return err
}

// on runs a call on an account in the ledger that has it according to the node. If the account has
// left that ledger, it runs in the one that the refusal names, as the server's router does. One
// statement may refuse several calls, so each passes through the scheduler again.
func (n *node) on(ctx context.Context, id txn.SubmitterID,
	call func(*store.Store) error) (err error) {
	for range n.stores {
		n.w.mu.Lock()
		home, ok := n.homes[id]
		if !ok {
			home = n.w.homes[id]
		}
		n.w.mu.Unlock()
		err = call(n.stores[home])
		moved, ok := errors.AsType[*store.MovedError](err)
		if !ok {
			return err
		}
		n.w.mu.Lock()
		n.homes[id] = n.w.ledgerNamed(moved.Ledger)
		n.w.mu.Unlock()
		if who, ok := ctx.Value(clientKey{}).(string); ok && !n.mayCall(ctx, who) {
			return err
		}
	}
	return err
}

func (w *World) ledgerNamed(name string) int {
	return slices.IndexFunc(w.dbs.ledgers, func(db *database) bool { return db.name == name })
}

// release resumes the exchanges that waited for sessions whose connections were closed.
func (w *World) release() (ended bool) {
	if ended = w.awaitEnded(); ended {
		w.unstick()
	}
	return ended
}

// awaitEnded waits for the sessions whose connections were closed: their locks last as long. It
// returns false if there were none.
func (w *World) awaitEnded() (ended bool) {
	if w.dbs.directory == nil {
		return false
	}
	for _, n := range w.nodes {
		for _, l := range n.links {
			l.mu.Lock()
			s := l.server
			closed := s.closed && !s.ended
			s.ended = s.closed
			l.mu.Unlock()
			if !closed {
				continue
			}
			ended = true
			for giveUp := time.Now().Add(hangLimit); s.pid != 0 && w.db.lives(s.pid); {
				if time.Now().After(giveUp) {
					w.violated("sim", "a closed session does not end")
					break
				}
			}
		}
	}
	return ended
}

// refuseToWait cancels an exchange that waits for a lock and whose transaction does not wait for
// long. It returns false if it does.
func (w *World) refuseToWait(x *exchange) bool {
	if !x.link.server.impatient {
		return false
	}
	if !x.refused {
		x.refused = true
		_, err := w.db.conn.Exec(w.db.ctx, "SELECT pg_cancel_backend($1)", x.link.server.pid)
		if err != nil {
			w.violated("sim", "%v", err)
		}
	}
	return true
}

// lockNotAvailable turns the error of a cancelled statement into a lock that was not available.
func (s *server) lockNotAvailable() {
	const cancelled, timedOut = "57014", "55P03"
	if rest, ok := strings.CutPrefix(s.failure, cancelled); ok {
		s.failure = timedOut + rest
		s.answer = bytes.Replace(s.answer, []byte("C"+cancelled+"\x00"),
			[]byte("C"+timedOut+"\x00"), 1)
	}
}

// moveErrors are errors of the database that moves lead to: code, and part of the text.
var moveErrors = [][2]string{
	{"55000", "moved to ledger"},                     // an account that has left
	{"23503", "submitter_command_submitter_id_fkey"}, // one that has not arrived yet
	{"23505", "account_arrival"},                     // another command was first
	{"55P03", ""},                                    // a lock was not available for the tombstone
	{"57014", "COPY from stdin failed"},              // the connection to the other ledger was cut
}

func (w *World) refusedMove(failure string) bool {
	return len(w.commands) > 0 && slices.ContainsFunc(moveErrors, func(e [2]string) bool {
		return strings.HasPrefix(failure, e[0]) && strings.Contains(failure, e[1])
	})
}

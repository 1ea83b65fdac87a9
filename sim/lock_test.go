package sim

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// rowLock is an open transaction of another client that locks rows of the ledger: a migration, a
// backup tool, an operator's session.
type rowLock struct {
	conn *pgx.Conn
	lost bool // its session ended with the server
}

// lockable lists the rows of a submitter that a fault may lock. Each makes a fenced commit wait at
// a different guard.
var lockable = []string{
	"SELECT FROM managed_tx WHERE submitter_id = ANY($1) FOR UPDATE",
	"SELECT FROM submitter_nonce_cursor WHERE submitter_id = ANY($1) FOR UPDATE",
	"SELECT FROM submitter_lease WHERE submitter_id = ANY($1) FOR UPDATE",
}

// lock locks rows that a commit is about to need.
func (w *World) lock(db *database, m message, f Fault) {
	if m.commit == nil || len(m.commit.submitters) == 0 {
		return
	}
	conn, err := db.connect()
	if err == nil {
		_, err = conn.Exec(w.db.ctx, "BEGIN")
	}
	if err == nil {
		_, err = conn.Exec(w.db.ctx, "SET LOCAL lock_timeout = 1")
	}
	if err == nil {
		_, err = conn.Exec(w.db.ctx, lockable[f.N%len(lockable)], m.commit.submitters)
	}
	if err != nil {
		w.remark("not locked")
		if conn != nil {
			_ = conn.Close(w.db.ctx)
		}
		return
	}
	k := &rowLock{conn: conn}
	w.locks = append(w.locks, k)
	w.lapses = append(w.lapses, span{w.now(), w.now() + f.For})
	w.at(w.now()+f.For, "unlock", func() { w.unlock(k) })
}

func (w *World) unlock(k *rowLock) {
	if k.lost {
		return
	}
	w.locks = slices.DeleteFunc(w.locks, func(other *rowLock) bool { return other == k })
	if err := w.db.tick(); err != nil { // before the waiting sessions resume and read the clock
		w.violated("sim", "%v", err)
	}
	_ = k.conn.Close(w.db.ctx)
	pid, giveUp := int32(k.conn.PgConn().PID()), time.Now().Add(hangLimit)
	for w.db.lives(pid) && time.Now().Before(giveUp) { // its locks last as long as its session
	}
	w.unstick()
}

type span struct{ from, to time.Duration }

package sim

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"
)

// deliver delivers a message to PostgreSQL.
func (w *World) deliver(l *link, m message, it *item) {
	n := l.node
	if l.over() && !it.late && w.dice.IntN(2) == 0 {
		w.remark("lost in transit")
		l.landed()
		return
	}
	if l.server.lost {
		w.remark("lost: its session has ended")
		l.landed()
		return
	}
	if err := w.connect(l); err != nil {
		l.sever(false)
		l.landed()
		return
	}
	f, ok := w.trip(n, "sql:"+m.label)
	if !ok && m.commit != nil && m.commit.takes {
		f, _ = w.trip(n, "sql:Take")
	}
	switch f.Do {
	case doCutBefore:
		l.sever(false)
		l.landed()
		return
	case doArriveLate:
		l.sever(false)
		it.late, it.ready = true, w.now()+f.For
		w.waiting = append(w.waiting, it)
		return
	case doArriveAnew:
		l.sever(false)
		it.late, it.ready = true, w.now()+f.For
		w.waiting = append(w.waiting, it)
		w.ambushes = append(w.ambushes, ambush{it, l.db, m.commit})
		return
	case doArriveLapsed:
		if lapse, ok := w.lapseOf(l.db, m.commit); ok {
			it.late, it.ready = true, lapse
			n.frozenUntil = max(n.frozenUntil, lapse+f.For)
			w.waiting = append(w.waiting, it)
			return
		}
	case doCrashBefore:
		l.landed()
		w.crash(n, f.For)
		return
	}
	if f.Do == doLock || f.Do == doLockFreeze {
		w.lock(l.db, m, f)
		if f.Do == doLockFreeze {
			n.frozenUntil = max(n.frozenUntil, w.now()+f.For)
		}
	}
	if err := w.db.tick(); err != nil {
		w.violated("sim", "the clock of the database cannot be set: %v", err)
		return
	}
	x := &exchange{link: l, message: m, fault: f, since: w.now()}
	if x.err = l.server.send(m); x.err != nil {
		w.finish(x)
		return
	}
	if !w.advance(x) {
		w.remark("waiting for a lock")
		w.stuck = append(w.stuck, x)
		return
	}
	w.finish(x)
	w.unstick()
}

// exchange is a message that PostgreSQL is processing.
type exchange struct {
	link    *link
	message message
	fault   Fault
	done    bool
	err     error
	since   time.Duration
	refused bool // it would have waited for a lock for too long
}

// advance reads until the reply is complete and returns true, or returns false once the session is
// known to wait for a lock held by another session of the simulation.
func (w *World) advance(x *exchange) bool {
	for giveUp := time.Now().Add(hangLimit); !x.done; {
		if x.done, x.err = x.link.server.receive(lookAfter); x.done || x.err != nil {
			x.done = true
			break
		}
		if w.blocked(x) && !w.refuseToWait(x) {
			return false
		}
		if time.Now().After(giveUp) {
			x.done, x.err = true, errors.New("no answer")
		}
	}
	return true
}

func (w *World) blocked(x *exchange) bool {
	var ours []int32
	for _, n := range w.nodes {
		for _, l := range n.links {
			ours = append(ours, l.server.pid)
		}
	}
	for _, k := range w.locks {
		ours = append(ours, int32(k.conn.PgConn().PID()))
	}
	return w.db.blocked(x.link.server.pid, ours)
}

// unstick resumes the exchanges that no longer wait for a lock. PostgreSQL grants the locks in
// arrival order; all unblocked exchanges run before any node receives a reply.
func (w *World) unstick() {
	w.awaitEnded()
	for moved := true; moved; {
		moved = false
		for _, x := range w.stuck {
			if !x.done && !w.blocked(x) {
				moved = w.advance(x) || moved
			}
		}
	}
	var stuck, done []*exchange
	for _, x := range w.stuck {
		if x.done {
			done = append(done, x)
		} else {
			stuck = append(stuck, x)
		}
	}
	w.stuck = stuck
	for _, x := range done {
		w.remark("%s of %s got its lock", x.message.label, x.link.node.title())
		if len(w.commands) > 0 { // a lease can lapse while a move holds locks
			w.lapses = append(w.lapses, span{x.since, w.now()})
		}
		w.finish(x)
	}
}

// finish completes an exchange after PostgreSQL has replied or the session is gone.
func (w *World) finish(x *exchange) {
	l, m := x.link, x.message
	f, err := x.fault, x.err
	s, n := l.server, l.node
	defer l.landed()
	if x.refused {
		s.lockNotAvailable()
	}
	if s.failure != "" {
		w.remark("PostgreSQL error %s", s.failure)
		if !strings.HasPrefix(s.failure, "57P01") && !strings.HasPrefix(s.failure, "40") &&
			!w.refusedMove(s.failure) {
			w.violated("constraint", "a database constraint rejected %s: %s",
				m.label, s.failure)
		}
	}
	if err != nil && !strings.HasPrefix(s.failure, "57P01") {
		w.violated("sim", "%s on connection %d (%s): %v", m.label, l.no, l.role, err)
	}
	switch {
	case strings.HasPrefix(m.label, "AcquireLease"):
		w.acquired(n)
		w.spring(n)
	case m.label == "TerminateBlockers":
		w.terminated(s.rows)
	}
	switch f.Do {
	case doLoseReply:
		l.sever(false)
		return
	case doCrash:
		w.at(w.now(), "crash", func() { w.crash(n, f.For) })
		return
	case doFreeze, doFreezeBefore:
		n.frozenUntil = max(n.frozenUntil, w.now()+f.For)
	}
	w.answer(l, s.answer, f)
	if err != nil {
		l.sever(false)
	}
}

// ambush is a commit that its node has given up on. It is held until the node has reacquired the
// lease and has not written yet.
type ambush struct {
	item   *item
	db     *database
	commit *fencedCommit
}

// spring releases the ambushes of a node that has reacquired the lease.
func (w *World) spring(n *node) {
	w.ambushes = slices.DeleteFunc(w.ambushes, func(a ambush) bool {
		if a.item.node != n || a.commit == nil {
			return a.commit == nil
		}
		newer, err := a.db.number(
			`SELECT count(*)
			   FROM submitter_lease l
			   JOIN unnest($1::INT[], $2::BIGINT[]) AS c (id, token)
			     ON l.submitter_id = c.id AND l.fencing_token > c.token`,
			a.commit.submitters, a.commit.tokens)
		if err != nil || newer == 0 {
			return false
		}
		a.item.ready = w.now()
		return true
	})
}

// lapseOf returns a time just after all leases that a commit is written under have lapsed.
func (w *World) lapseOf(db *database, c *fencedCommit) (time.Duration, bool) {
	if c == nil {
		return 0, false
	}
	var lapse time.Time
	err := db.conn.QueryRow(db.ctx,
		"SELECT max(expires_at) FROM submitter_lease WHERE submitter_id = ANY($1)",
		c.submitters).Scan(
		&lapse,
	)
	return lapse.Sub(w.db.base) - w.db.step + w.db.began.Sub(w.began) + time.Millisecond, err == nil
}

// terminated waits until the sessions that a takeover has terminated are gone.
func (w *World) terminated(rows [][]byte) {
	for _, row := range rows {
		// Two bytes for the number of columns, four for the length of the first.
		pid := int32(binary.BigEndian.Uint32(row[6:]))
		w.remark("session terminated")
		w.locks = slices.DeleteFunc(w.locks,
			func(k *rowLock) bool { return k.conn.PgConn().PID() == uint32(pid) })
		for giveUp := time.Now().Add(hangLimit); w.db.lives(pid); {
			if time.Now().After(giveUp) {
				w.violated("sim", "a terminated session does not end")
				return
			}
		}
		w.loseSession(pid)
	}
}

// loseSession cuts the connection of a session that has ended while it was idle. Any other learns
// it from the reply.
func (w *World) loseSession(pid int32) {
	for _, n := range w.nodes {
		for _, l := range n.links {
			waits := slices.ContainsFunc(w.stuck, func(x *exchange) bool { return x.link == l })
			if l.server.pid == pid && !waits {
				l.server.lost = true
				l.sever(false)
			}
		}
	}
}

// answer sends a reply to the node.
func (w *World) answer(l *link, answer []byte, f Fault) {
	it := &item{node: l.node, kind: "reply", label: "@" + l.role + l.db.mark,
		inside: true}
	it.run = func() { l.receive(answer) }
	it.ready = w.now() + w.delay(it)
	if f.Do == doReplyLate {
		it.ready += f.For
	}
	if it.ready <= w.now() && !w.held(it) {
		l.receive(answer)
		return
	}
	it.serial = int(w.serial.Add(1))
	w.waiting = append(w.waiting, it)
}

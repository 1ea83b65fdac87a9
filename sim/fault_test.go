package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/txn"
)

// Fault is one thing that goes wrong. Without On it happens at its time. With On it waits, from its time on, until the Count-th of what it names passes on its
// node, and happens to that.
type Fault struct {
	No    int // within the plan of its seed
	At    time.Duration
	Node  int // -1: any
	On    string
	Count int
	Do    string
	For   time.Duration // how long, or after how long
	N     int           // how many, or which
}

// String is the fault in one line.
func (f Fault) String() string {
	s := fmt.Sprintf("at %.1fs", f.At.Seconds())
	if f.Node >= 0 {
		s += fmt.Sprintf(" node %c", 'a'+f.Node)
	}
	if f.On != "" {
		s += fmt.Sprintf(" on %s number %d", f.On, f.Count)
	}
	s += ": " + f.Do
	if f.For > 0 {
		s += fmt.Sprintf(" for %.1fs", f.For.Seconds())
	}
	if f.N != 0 {
		s += fmt.Sprintf(" (%d)", f.N)
	}
	return s
}

// Faults of the whole world or a node, at their time.
const (
	doFreeze     = "freeze"       // a node's process stands still; its connections stay
	doCrash      = "crash"        // a node is killed, and boots again after a while
	doQuit       = "stop"         // a node is told to end, and boots again after a while
	doCut        = "cut"          // all connections to PostgreSQL are cut
	doCutSilent  = "cut silently" // the same, and the node notices only when an answer does not come
	doNoDatabase = "no database"  // connections are cut and refused
	doSilence    = "database silent"
	doNoChain    = "no chain"
	doLag        = "provider lags" // N blocks
	doNoSigner   = "no signer"
	doReorg      = "reorg"                                           // N blocks; their transactions return to the pool
	doReorgDrop  = "reorg drops"                                     // N blocks; their transactions are forgotten
	doReorgKeep  = "reorg keeps"                                     // N blocks; the new blocks have them again
	doReorgStale = "reorg drops and providers show the old receipts" // N blocks
	doForgetPool = "pool forgotten"
	doStall      = "no blocks"
	doExternal   = "key used elsewhere" // N: the submitter, and whether it is the next nonce or the one after that
	doJump       = "clock jumps"
)

// Faults of one thing that passes. doFreeze and doCrash are among them: after it has happened.
const (
	doLoseReply    = "lose the reply" // done, and the connection is cut
	doCutBefore    = "cut before"     // not done, and the connection is cut
	doArriveLate   = "arrive late"    // the connection is cut, and it is done after a while
	doReplyLate    = "reply late"
	doLock         = "rows locked"            // that a commit needs; N says which
	doLockFreeze   = "rows locked and freeze" // and its node stands still meanwhile
	doFreezeBefore = "freeze before"
	doCrashBefore  = "crash before"
	doLoseRequest  = "lose the request"
	doSwallow      = "swallow"
	doEvict        = "evict"
	doFalseNonce   = "false nonce too low"
	doUnavailable  = "unavailable"
	doSlow         = "slow"
	doPoolFull     = "pool full"
	doLieAccepted  = "false nonce too low though taken"
	doBlocksBehind = "answer of some blocks ago"
)

// trigger is a fault that waits for its moment.
type trigger struct {
	fault Fault
	left  int
}

// arm sets up the faults of the plan.
func (w *World) arm() {
	for _, f := range w.plan.Faults {
		f.At += w.now()
		if f.On != "" {
			w.triggers = append(w.triggers, &trigger{fault: f, left: max(1, f.Count)})
			continue
		}
		w.at(f.At, "fault", func() { w.strike(f) })
	}
}

// trip finds the fault that waits for what passes now.
func (w *World) trip(n *node, what string) (Fault, bool) {
	if w.healed {
		return Fault{}, false
	}
	for i, t := range w.triggers {
		f := t.fault
		if f.At > w.now() || f.On != what || f.Node >= 0 && f.Node != n.index {
			continue
		}
		if t.left--; t.left > 0 {
			continue
		}
		w.triggers = slices.Delete(w.triggers, i, i+1)
		w.struck(f, n)
		if slices.Contains(worldly, f.Do) {
			w.strikeOne(f, n)
			return Fault{}, false
		}
		return f, true
	}
	return Fault{}, false
}

// worldly are the faults that happen to the chain, whichever node they are named with.
var worldly = []string{doReorg, doReorgDrop, doReorgStale, doReorgKeep, doForgetPool, doStall, doExternal}

func (w *World) struck(f Fault, n *node) {
	w.faults[f.Do]++
	w.remark("%s %s", n.title(), f)
}

// strike carries out a fault that has come to its time.
func (w *World) strike(f Fault) {
	if w.healed {
		return
	}
	n := w.current(max(f.Node, 0))
	w.struck(f, n)
	if f.Node >= 0 || slices.Contains(worldly, f.Do) {
		w.strikeOne(f, n)
		return
	}
	for i := range w.plan.Nodes {
		w.strikeOne(f, w.current(i))
	}
}

func (w *World) strikeOne(f Fault, n *node) {
	until := w.now() + f.For
	switch f.Do {
	case doFreeze:
		n.frozenUntil = max(n.frozenUntil, until)
	case doCrash:
		w.crash(n, f.For)
	case doQuit:
		w.quit(n, f.For)
	case doCut, doCutSilent:
		w.cutAll(n, f.Do == doCutSilent)
	case doNoDatabase:
		n.noDatabase = until
		w.cutAll(n, false)
	case doSilence:
		n.noAnswers = until
	case doNoChain:
		n.noChain = until
	case doLag:
		n.lag, n.lagUntil = uint64(f.N), until
	case doNoSigner:
		n.noSigner = until
	case doJump:
		n.clock.jump(f.For)
	default:
		w.bendChain(f, until)
	}
}

// bendChain carries out the faults of the chain itself.
func (w *World) bendChain(f Fault, until time.Duration) {
	fate := map[string]chaintest.Fate{doReorg: chaintest.Return, doReorgDrop: chaintest.Drop, doReorgStale: chaintest.Drop, doReorgKeep: chaintest.Keep}[f.Do]
	switch {
	case fate != "":
		if f.Do == doReorgStale {
			w.staleUntil = until
		}
		if err := w.chain.Reorg(f.N, fate); err != nil {
			w.remark("no reorg: the chain is too short")
		}
	case f.Do == doForgetPool:
		w.chain.ForgetPool()
	case f.Do == doStall:
		w.noBlocks = until
	case f.Do == doExternal:
		w.useKey(f.N)
	}
}

// useKey sends a transaction around Fencepost.
func (w *World) useKey(which int) {
	submitter := which % w.plan.Submitters
	account, err := w.chain.Account(w.db.ctx, chaintest.Address(submitter), 0)
	if err != nil {
		return
	}
	nonce := uint64(account.Latest) + uint64(which/w.plan.Submitters)
	to := txn.Address{0xee}
	chainID := chainBig(w.chain.ID())
	tx, err := types.SignNewTx(chaintest.Key(submitter), types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
		ChainID: chainID, Nonce: nonce, To: &to, Gas: 21_000, GasFeeCap: gwei(90), GasTipCap: gwei(80),
	})
	if err == nil {
		err = w.chain.Inject(tx)
	}
	if err != nil {
		w.remark("not injected: %v", err)
		return
	}
	w.external[w.submitters[submitter]] = true
	w.remark("nonce %d of s%d is used elsewhere", nonce, w.submitters[submitter])
}

// pass is what happens to something that a node asks for.
func (w *World) pass(it *item, what string) verdict {
	f, ok := w.trip(it.node, what)
	if !ok {
		return verdict{}
	}
	n := it.node
	switch f.Do {
	case doFreeze, doFreezeBefore: // the call is made when the node thaws
		n.frozenUntil = max(n.frozenUntil, w.now()+f.For)
		return w.askAgain(it)
	case doSlow:
		it.ready = w.now() + f.For
		return w.askAgain(it)
	case doCrashBefore:
		w.crash(n, f.For)
		return verdict{err: errCrashed}
	case doCrash:
		w.at(w.now(), "crash", func() { w.crash(n, f.For) })
		return verdict{fault: chaintest.Fault{}}
	case doUnavailable:
		return verdict{fault: chaintest.Unavailable(), err: errIf(what == "sign")}
	}
	return verdict{fault: sendFaults(f)}
}

func errIf(yes bool) error {
	if yes {
		return errSwitch
	}
	return nil
}

func sendFaults(f Fault) chaintest.Fault {
	switch f.Do {
	case doLoseRequest:
		return chaintest.LoseRequest()
	case doLoseReply:
		return chaintest.LoseReply()
	case doSwallow:
		return chaintest.Swallow()
	case doEvict:
		return chaintest.Evict()
	case doFalseNonce:
		return chaintest.FalseNonceTooLow()
	case doLieAccepted:
		return chaintest.Fault{Reply: chaintest.FalseNonceTooLow().Reply}
	case doPoolFull:
		return chaintest.Say("txpool is full")
	case doBlocksBehind:
		return chaintest.Lag(uint64(f.N))
	}
	return chaintest.Fault{}
}

// deliver is the arrival of a message at PostgreSQL.
func (w *World) deliver(l *link, m message, it *item) {
	n := l.node
	if l.over() && !it.late && w.dice.IntN(2) == 0 {
		w.remark("it is lost under way")
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
	case doCrashBefore:
		l.landed()
		w.crash(n, f.For)
		return
	}
	if f.Do == doLock || f.Do == doLockFreeze {
		w.lock(m, f)
		if f.Do == doLockFreeze {
			n.frozenUntil = max(n.frozenUntil, w.now()+f.For)
		}
	}
	if err := w.db.tick(); err != nil {
		w.violated("sim", "the clock of the database cannot be set: %v", err)
		return
	}
	x := &exchange{link: l, message: m, fault: f}
	if x.err = l.server.send(m); x.err != nil {
		w.finish(x)
		return
	}
	if !w.advance(x) {
		w.remark("it waits for a lock")
		w.stuck = append(w.stuck, x)
		return
	}
	w.finish(x)
	w.unstick()
}

// exchange is a message that PostgreSQL works on.
type exchange struct {
	link    *link
	message message
	fault   Fault
	done    bool
	err     error
}

// advance reads until the answer is there, or it is sure that the session waits for a lock that another session of the world holds.
func (w *World) advance(x *exchange) bool {
	for giveUp := time.Now().Add(hangLimit); !x.done; {
		if x.done, x.err = x.link.server.receive(lookAfter); x.done || x.err != nil {
			x.done = true
			break
		}
		if w.blocked(x) {
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

// unstick goes on with what waited for a lock and does not any more. PostgreSQL lets them go one after the other, in the order in which they came; all of that
// is let happen before any of it is told.
func (w *World) unstick() {
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
		w.remark("%s of %s does not wait any more", x.message.label, x.link.node.title())
		w.finish(x)
	}
}

// finish is the end of an exchange: PostgreSQL has answered, or the session is gone.
func (w *World) finish(x *exchange) {
	l, m, f, s, err := x.link, x.message, x.fault, x.link.server, x.err
	n := l.node
	defer l.landed()
	if s.failure != "" {
		w.remark("PostgreSQL says %s", s.failure)
		if !strings.HasPrefix(s.failure, "57P01") && !strings.HasPrefix(s.failure, "40") {
			w.violated("constraint", "PostgreSQL, the second line of defence, has to refuse %s: %s", m.label, s.failure)
		}
	}
	if err != nil && !strings.HasPrefix(s.failure, "57P01") {
		w.violated("sim", "%s on connection %d (%s): %v", m.label, l.no, l.role, err)
	}
	switch {
	case strings.HasPrefix(m.label, "AcquireLease"):
		w.acquired(n)
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

// terminated waits until the sessions that a takeover has ended are gone.
func (w *World) terminated(rows [][]byte) {
	for _, row := range rows {
		pid := int32(binary.BigEndian.Uint32(row[6:])) // two bytes for the number of columns, four for the length of the first
		w.remark("a session is ended")
		w.locks = slices.DeleteFunc(w.locks, func(k *rowLock) bool { return k.conn.PgConn().PID() == uint32(pid) })
		for giveUp := time.Now().Add(hangLimit); w.db.lives(pid); {
			if time.Now().After(giveUp) {
				w.violated("sim", "a session does not end")
				return
			}
		}
	}
}

// rowLock is somebody's open transaction that holds rows of the ledger locked: a migration, a backup tool, an operator's session.
type rowLock struct{ conn *pgx.Conn }

// lockable is what a fault may lock of a submitter, each so that a fenced commit has to wait for it at another of its guards.
var lockable = []string{
	"SELECT FROM managed_tx WHERE submitter_id = ANY($1) FOR UPDATE",
	"SELECT FROM submitter_nonce_cursor WHERE submitter_id = ANY($1) FOR UPDATE",
	"SELECT FROM submitter_lease WHERE submitter_id = ANY($1) FOR UPDATE",
}

// lock has somebody lock rows that a commit is about to need.
func (w *World) lock(m message, f Fault) {
	if m.commit == nil || len(m.commit.submitters) == 0 {
		return
	}
	conn, err := w.db.connect()
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
	k := &rowLock{conn}
	w.locks = append(w.locks, k)
	w.lapses = append(w.lapses, span{w.now(), w.now() + f.For})
	w.at(w.now()+f.For, "unlock", func() { w.unlock(k) })
}

func (w *World) unlock(k *rowLock) {
	w.locks = slices.DeleteFunc(w.locks, func(other *rowLock) bool { return other == k })
	if err := w.db.tick(); err != nil { // before whoever waits goes on, and looks at the clock
		w.violated("sim", "%v", err)
	}
	_ = k.conn.Close(w.db.ctx)
	for giveUp := time.Now().Add(hangLimit); w.db.lives(int32(k.conn.PgConn().PID())) && time.Now().Before(giveUp); { // its locks last until its end
	}
	w.unstick()
}

type span struct{ from, to time.Duration }

// answer sends a reply on its way.
func (w *World) answer(l *link, answer []byte, f Fault) {
	it := &item{node: l.node, kind: "reply", label: "@" + l.role, inside: true}
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

// askAgain puts an asker back into the row.
func (w *World) askAgain(it *item) verdict {
	w.waiting = append(w.waiting, it)
	return verdict{again: true}
}

// answer lets an asker go on, unless it has to wait once more.
func (it *item) answer(v verdict) {
	if !v.again {
		it.granted <- v
	}
}

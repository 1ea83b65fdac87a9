package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/core/types"

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
	if f.For != 0 {
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
	doStep       = "clock of the database jumps"
)

// Faults of one thing that passes. doFreeze and doCrash are among them: after it has happened.
const (
	doLoseReply    = "lose the reply" // done, and the connection is cut
	doCutBefore    = "cut before"     // not done, and the connection is cut
	doArriveLate   = "arrive late"    // the connection is cut, and it is done after a while
	doArriveAnew   = "arrive anew"    // the same, and it is done as soon as the node has the lease anew
	doArriveLapsed = "arrive lapsed"  // it is done right after its lease has lapsed, for which its node stands still
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

// worldly are the faults that happen to the chain or the database, whichever node they are named with.
var worldly = []string{
	doStep,
	doReorg,
	doReorgDrop,
	doReorgStale,
	doReorgKeep,
	doForgetPool,
	doStall,
	doExternal,
}

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
	case doStep:
		w.lapses = append(w.lapses,
			span{w.now(), w.now()}) // a lease can lapse while it is written under
		if err := w.db.jump(f.For); err != nil {
			w.violated("sim", "the clock of the database cannot be set: %v", err)
		}
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
	tx, err := types.SignNewTx(
		chaintest.Key(submitter),
		types.LatestSignerForChainID(chainID),
		&types.DynamicFeeTx{
			ChainID: chainID, Nonce: nonce, To: &to, Gas: 21_000, GasFeeCap: gwei(90), GasTipCap: gwei(80),
		},
	)
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

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/txn"
)

// Fault is one injected failure. Without On it strikes at time At. With On it waits, from At on,
// for the Count-th operation of that name on its node, and strikes that operation.
type Fault struct {
	No    int // within the plan of its seed
	At    time.Duration
	Node  int // -1: any node
	On    string
	Count int
	Do    string
	For   time.Duration // duration or delay
	N     int           // a count or an index
}

// String returns the fault in one line.
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

// Faults of the whole simulation or of a node, at a fixed time.
const (
	doFreeze     = "freeze"       // the node's process is suspended; its connections stay open
	doCrash      = "crash"        // the node is killed and restarts later
	doQuit       = "stop"         // the node shuts down and restarts later
	doCut        = "cut"          // all connections to PostgreSQL are cut
	doCutSilent  = "cut silently" // the same, noticed only when a reply is missing
	doNoDatabase = "no database"  // connections are cut and refused
	doSilence    = "database silent"
	doNoChain    = "no chain"
	doLag        = "provider lags" // N blocks
	doNoSigner   = "no signer"
	// N blocks; txs return to the pool
	doReorg      = "reorg"
	doReorgDrop  = "reorg drops"                                  // N blocks; txs are lost
	doReorgKeep  = "reorg keeps"                                  // N blocks; txs are mined again
	doReorgStale = "reorg drops, providers show the old receipts" // N blocks
	doForgetPool = "pool forgotten"
	doStall      = "no blocks"
	doExternal   = "key used elsewhere" // N: the submitter, and the next nonce or the one after
	doJump       = "clock jumps"
	doStep       = "clock of the database jumps"
)

// Faults of one operation. doFreeze and doCrash also apply here: after the operation.
const (
	doLoseReply    = "lose the reply" // executed, then the connection is cut
	doCutBefore    = "cut before"     // not executed; the connection is cut
	doArriveLate   = "arrive late"    // the connection is cut; executed after a delay
	doArriveAnew   = "arrive anew"    // the same, executed once the node has reacquired the lease
	doArriveLapsed = "arrive lapsed"  // executed just after the lease lapsed; the node is frozen
	doReplyLate    = "reply late"
	doLock         = "rows locked"            // rows a commit needs; N selects them
	doLockFreeze   = "rows locked and freeze" // and the node is frozen meanwhile
	doFreezeBefore = "freeze before"
	doCrashBefore  = "crash before"
	doLoseRequest  = "lose the request"
	doSwallow      = "swallow"
	doEvict        = "evict"
	doFalseNonce   = "false nonce too low"
	doUnavailable  = "unavailable"
	doSlow         = "slow"
	doPoolFull     = "pool full"
	doLieAccepted  = "false nonce too low though accepted"
	doBlocksBehind = "reply from an older block"
)

// trigger is a fault that waits for its operation.
type trigger struct {
	fault Fault
	left  int
}

// arm schedules the faults of the plan.
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

// trip returns the fault that is due for an operation, if any.
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

// worldly lists the faults of the chain or the database, whichever node they name.
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

// strike applies a fault that is due.
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
		// A lease can lapse during a write under it.
		w.lapses = append(w.lapses, span{w.now(), w.now()})
		if err := w.db.jump(f.For); err != nil {
			w.violated("sim", "the clock of the database cannot be set: %v", err)
		}
	default:
		w.bendChain(f, until)
	}
}

// bendChain applies the faults of the chain itself.
func (w *World) bendChain(f Fault, until time.Duration) {
	disposition := map[string]chaintest.Disposition{
		doReorg:      chaintest.Return,
		doReorgDrop:  chaintest.Drop,
		doReorgStale: chaintest.Drop,
		doReorgKeep:  chaintest.Keep,
	}[f.Do]
	switch {
	case disposition != "":
		if f.Do == doReorgStale {
			w.staleUntil = until
		}
		if err := w.chain.Reorg(f.N, disposition); err != nil {
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

// useKey sends a transaction that bypasses Fencepost.
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
			ChainID: chainID, Nonce: nonce, To: &to, Gas: 21_000,
			GasFeeCap: gwei(90), GasTipCap: gwei(80),
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

// pass returns the verdict on an operation of a node.
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

// askAgain puts a waiting caller back in the queue.
func (w *World) askAgain(it *item) verdict {
	w.waiting = append(w.waiting, it)
	return verdict{again: true}
}

// answer sends the verdict to the waiting caller, unless it was queued again.
func (it *item) answer(v verdict) {
	if !v.again {
		it.granted <- v
	}
}

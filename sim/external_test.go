package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// HoldPlan is one nonce that a client reserves, and what its process does with it.
type HoldPlan struct {
	No     int
	At     time.Duration
	Node   int
	Twin   int // node of a concurrent request with the same id; -1: none
	Script string
	Late   time.Duration // the pause of a script, mostly longer than the reservation
}

func (h HoldPlan) String() string {
	s := fmt.Sprintf("at %.1fs client %d on %c: %s", h.At.Seconds(), h.No, 'a'+h.Node, h.Script)
	if h.Twin >= 0 {
		s += fmt.Sprintf(", twin on %c", 'a'+h.Twin)
	}
	return fmt.Sprintf("%s (pause %.1fs)", s, h.Late.Seconds())
}

// Scripts of clients. A process that dies does nothing more.
const (
	holdSubmit       = "sign, submit"
	holdSubmitTwice  = "sign, submit, submit"
	holdSend         = "sign, send, report"
	holdReportTwice  = "sign, send, report, report"
	holdReportLate   = "sign, send, pause, report"
	holdSubmitLate   = "sign, pause, submit"
	holdSignLate     = "pause, sign, submit"
	holdSendLate     = "pause, sign, send, report"
	holdExtend       = "extend, pause, sign, submit"
	holdRelease      = "release"
	holdReleaseLate  = "pause, release"
	holdReleaseAgain = "release, pause, release" // a message that was delayed
	holdQuarantine   = "sign, quarantine"
	holdDies         = "die"
	holdDiesSigned   = "sign, die"
	holdDiesSent     = "sign, send, die"
	holdDiesHashed   = "sign, report, die"
)

var holdScripts = []string{
	holdSubmit, holdSubmit, holdSubmitTwice, holdSend, holdSend, holdReportTwice, holdReportLate,
	holdSubmitLate, holdSignLate, holdSendLate, holdExtend, holdRelease, holdReleaseLate,
	holdReleaseAgain, holdReleaseAgain, holdQuarantine, holdDies, holdDiesSigned, holdDiesSent,
	holdDiesHashed,
}

const (
	externalLimit = 16
	holdTTL       = 8 * time.Second
)

// accounts returns the number of submitters. The last one is external if clients reserve nonces, or
// the treasury.
func (p *Plan) accounts() int {
	if len(p.Holds)+len(p.Drains) > 0 {
		return p.Submitters + 1
	}
	return p.Submitters
}

// DrawExternal returns a plan whose load is mostly clients that reserve nonces.
func DrawExternal(seed uint64) Plan {
	p := Draw(seed)
	d := rand.New(rand.NewPCG(seed, 0xe77))
	p.Calls = p.Calls[:min(len(p.Calls), 3)]
	p.FillHoles = d.IntN(2) == 0
	for i := range 8 + d.IntN(8) {
		h := HoldPlan{
			No: i, At: between(d, 0, loadTime), Node: d.IntN(p.Nodes), Twin: -1,
			Script: holdScripts[d.IntN(len(holdScripts))],
			Late:   between(d, holdTTL/2, 5*holdTTL),
		}
		if d.IntN(4) == 0 {
			h.Twin = d.IntN(p.Nodes)
		}
		p.Holds = append(p.Holds, h)
	}
	for range 2 + d.IntN(4) {
		p.Faults = append(p.Faults, Fault{
			Node: -1, At: between(d, time.Second, faultTime), Count: 1 + d.IntN(4),
			On: "sql:" + one(d, "CommitNonces", "CommitNonces", "InsertNonceRequests",
				"InsertReserved", "InboxNonces"),
			For: between(d, time.Second, 25*time.Second),
			Do: one(d, doLoseReply, doLoseReply, doCutBefore, doArriveLate, doReplyLate, doFreeze,
				doCrash, doCrashBefore),
		})
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	for i := range p.Faults {
		p.Faults[i].No = i
	}
	return p
}

// hold is a reservation as its client sees it. All but plan is under World.mu.
type hold struct {
	plan   HoldPlan
	id     txn.ReservationID
	nonce  txn.Nonce
	has    bool        // it was told its nonce
	signed *txn.Signed // by its client
	twins  int         // requests that are not answered
	over   bool        // its process has ended
	last   string      // its last result or error
}

func (w *World) beginHolds() {
	for _, p := range w.plan.Holds {
		h := &hold{plan: p}
		w.holds = append(w.holds, h)
		w.at(w.now()+p.At, fmt.Sprintf("client %d", p.No), func() { go w.runHold(h) })
		if p.Twin >= 0 {
			h.twins++
			w.at(w.now()+p.At, fmt.Sprintf("twin of client %d", p.No), func() {
				go func() {
					w.reserve(h, "twin", p.Twin)
					w.mu.Lock()
					h.twins--
					w.mu.Unlock()
				}()
			})
		}
	}
}

// runHold is the process of a client.
func (w *World) runHold(h *hold) {
	defer func() {
		w.mu.Lock()
		h.over = true
		w.mu.Unlock()
	}()
	if !w.reserve(h, "client", h.plan.Node) {
		return
	}
	pause := func() { time.Sleep(h.plan.Late) }
	release := store.NonceAsk{Kind: txn.RequestRelease}
	switch h.plan.Script {
	case holdRelease:
		w.report(h, release)
	case holdReleaseLate:
		pause()
		w.report(h, release)
	case holdReleaseAgain:
		w.report(h, release)
		pause()
		w.report(h, release)
	case holdSubmit, holdSubmitTwice:
		w.signHold(h)
		w.submitHold(h)
		if h.plan.Script == holdSubmitTwice {
			w.submitHold(h)
		}
	case holdSubmitLate:
		w.signHold(h)
		pause()
		w.submitHold(h)
	case holdSignLate:
		pause()
		w.signHold(h)
		w.submitHold(h)
	case holdExtend:
		w.report(h, store.NonceAsk{Kind: txn.RequestExtend, TTL: 2 * h.plan.Late})
		pause()
		w.signHold(h)
		w.submitHold(h)
	case holdSend, holdReportTwice, holdReportLate, holdSendLate:
		w.sendAndReport(h, pause)
	case holdQuarantine:
		w.signHold(h)
		w.report(h, store.NonceAsk{Kind: txn.RequestQuarantine})
	case holdDiesSigned:
		w.signHold(h)
	case holdDiesSent:
		w.signHold(h)
		w.sendHold(h)
	case holdDiesHashed:
		w.signHold(h)
		w.reportHash(h)
	}
}

// sendAndReport broadcasts as a client does, until the chain has used the nonce.
func (w *World) sendAndReport(h *hold, pause func()) {
	if h.plan.Script == holdSendLate {
		pause()
	}
	w.signHold(h)
	w.sendHold(h)
	if h.plan.Script == holdReportLate {
		pause()
	}
	w.reportHash(h)
	if h.plan.Script == holdReportTwice {
		w.reportHash(h)
	}
	for !w.ended() && !w.sendHold(h) {
		time.Sleep(3 * time.Second)
	}
}

// reserve reserves a nonce until it has one, or the run ends.
func (w *World) reserve(h *hold, role string, first int) bool {
	w.retry(fmt.Sprintf("%s %d", role, h.plan.No), first, func(ctx context.Context, n *node) bool {
		asked, outcome, err := w.askOwner(ctx, n, h, store.NonceAsk{Kind: txn.RequestAllocate,
			RequestID: fmt.Sprintf("hold-%d", h.plan.No), TTL: holdTTL})
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil || outcome.Result != txn.Applied {
			return false
		}
		if h.has && (h.id != asked.Reservation || h.nonce != outcome.Nonce) {
			w.broken = append(w.broken, fmt.Sprintf("N1: client %d has nonce %d of %s and %d of %s",
				h.plan.No, h.nonce, h.id, outcome.Nonce, asked.Reservation))
		}
		if !h.has { // its process reads them without the lock
			h.has = true
			h.id, h.nonce = asked.Reservation, outcome.Nonce
		}
		return true
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	return h.has
}

func (w *World) askOwner(ctx context.Context, n *node, h *hold, ask store.NonceAsk) (
	asked store.NonceAsked, outcome store.NonceOutcome, err error) {
	ask.Submitter = w.submitters[w.plan.Submitters]
	if asked, err = n.store.AskNonce(ctx, ask); err == nil {
		outcome, err = n.store.AwaitNonce(ctx, asked)
	}
	if h != nil {
		w.mu.Lock()
		h.last = fmt.Sprintf("%s: %s %v", ask.Kind, outcome.Result, err)
		w.mu.Unlock()
	}
	return asked, outcome, err
}

// report asks for a change under a reservation until it is answered.
func (w *World) report(h *hold, ask store.NonceAsk) {
	ask.Reservation = h.id
	w.retry(fmt.Sprintf("client %d", h.plan.No), h.plan.Node,
		func(ctx context.Context, n *node) bool {
			_, _, err := w.askOwner(ctx, n, h, ask)
			return err == nil
		})
}

func (w *World) reportHash(h *hold) {
	w.report(h, store.NonceAsk{Kind: txn.RequestRecordHash, Hash: h.signed.Hash})
}

// clientStep lets a client take a step, in the order of the seed.
func (w *World) clientStep(h *hold, what string, do func()) {
	it := &item{kind: "client", label: fmt.Sprintf("%d %s", h.plan.No, what)}
	it.run = func() { do(); it.granted <- verdict{} }
	_ = w.ask(context.Background(), it)
}

// holdFees are the cap and the tip of what clients sign, in gwei.
var holdFees = [2]int64{90, 80}

const holdGas = 100_000

func (h *hold) payload() txn.Payload {
	to := counter
	return txn.Payload{To: &to, Data: fmt.Appendf(nil, "call by client %d", h.plan.No)}
}

// signHold signs for the nonce. No other client may have done so: see judgeHolds for the law.
func (w *World) signHold(h *hold) {
	w.clientStep(h, "signs", func() {
		if other := w.signers[h.nonce]; other != nil && other != h {
			w.violated("N1", "clients %d and %d sign for nonce %d", other.plan.No, h.plan.No,
				h.nonce)
		}
		w.signers[h.nonce] = h
		chainID, payload := chainBig(w.chain.ID()), h.payload()
		tx, err := types.SignNewTx(chaintest.Key(w.plan.Submitters),
			types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
				ChainID: chainID, Nonce: uint64(h.nonce), To: payload.To, Data: payload.Data,
				Gas: holdGas, GasFeeCap: gwei(holdFees[0]), GasTipCap: gwei(holdFees[1]),
			})
		var raw []byte
		if err == nil {
			raw, err = tx.MarshalBinary()
		}
		if err != nil {
			w.violated("sim", "client %d cannot sign: %v", h.plan.No, err)
		}
		w.signed(tx.Hash(), w.submitters[w.plan.Submitters])
		w.mu.Lock()
		h.signed = &txn.Signed{Hash: tx.Hash(), Raw: raw}
		w.byClient[tx.Hash()] = true
		w.mu.Unlock()
	})
}

// sendHold broadcasts without Fencepost, and reports whether the chain has used the nonce.
func (w *World) sendHold(h *hold) (used bool) {
	w.clientStep(h, "sends", func() {
		account, err := w.chain.Account(context.Background(),
			chaintest.Address(w.plan.Submitters), confirms)
		if used = err == nil && account.Settled > h.nonce; !used {
			_ = w.chain.Send(context.Background(), *h.signed)
		}
	})
	return used
}

// submitHold does what SubmitSigned does: it records the hash, then the bytes.
func (w *World) submitHold(h *hold) {
	w.reportHash(h)
	a := txn.Attempt{
		Kind: txn.Original, Nonce: h.nonce, Hash: h.signed.Hash, Raw: h.signed.Raw,
		GasLimit: holdGas,
		Fees: txn.Fees{Cap: *uint256.MustFromBig(gwei(holdFees[0])),
			Tip: *uint256.MustFromBig(gwei(holdFees[1]))},
	}
	w.retry(fmt.Sprintf("client %d", h.plan.No), h.plan.Node,
		func(ctx context.Context, n *node) bool {
			_, err := n.store.QueueReserved(ctx, store.ReservedTx{
				Reservation: h.id, Payload: h.payload(), Signed: &a})
			w.mu.Lock()
			defer w.mu.Unlock()
			h.last = fmt.Sprintf("submit: %v", err)
			return err == nil || errors.Is(err, store.ErrNotHeld)
		})
}

// decideNonces makes one decision that is left to an operator. It knows for certain whether a
// client that died has signed.
func (w *World) decideNonces(ctx context.Context, n *node, id txn.SubmitterID) error {
	if !w.isExternal(int32(id)) {
		return nil
	}
	blocking, _, _, err := n.store.Waiting(ctx, id)
	if err != nil {
		return err
	}
	// another transaction of the client was included; a cancel transaction ends on its own
	if blocking != nil && blocking.State == txn.Stuck && blocking.Signed {
		ask := askOf(txn.CommandResolve, txn.ActionFail)
		ask.Tx = &blocking.ID
		_, err := n.store.AddCommand(ctx, id, ask)
		return err
	}
	infos, err := n.store.ListNonces(ctx, store.NonceFilter{Submitter: id, Limit: 1000,
		States: []txn.NonceState{txn.NoncePending, txn.NonceRecyclable}})
	if err != nil {
		return err
	}
	above := false // a nonce that may be used
	for _, info := range infos {
		hole := info.State == txn.NonceRecyclable && above && w.healed && !w.plan.FillHoles
		above = above || info.State == txn.NoncePending
		if info.Tx != nil || !info.NeedsOperator && !hole {
			continue
		}
		return w.resolveNonce(ctx, n, info)
	}
	return nil
}

func (w *World) resolveNonce(ctx context.Context, n *node, info store.NonceInfo) error {
	action := txn.NonceFill
	w.mu.Lock()
	for _, h := range w.holds {
		if h.id == info.Reservation && h.over && h.signed == nil && h.plan.No%2 == 0 &&
			info.State == txn.NoncePending {
			action = txn.NonceNeverSigned
		}
	}
	w.mu.Unlock()
	_, outcome, err := w.askOwner(ctx, n, nil, store.NonceAsk{Kind: txn.RequestResolve,
		Reservation: info.Reservation, Action: action, Operator: "sim", Reason: "checked"})
	if err != nil || outcome.Result != txn.Applied || action != txn.NonceFill {
		return err
	}
	_, err = n.store.QueueReserved(ctx, store.ReservedTx{Reservation: info.Reservation,
		Payload: txn.CancelPayload(chaintest.Address(w.plan.Submitters))})
	if errors.Is(err, store.ErrNotHeld) {
		return nil
	}
	return err
}

func (w *World) isExternal(id int32) bool {
	i := slices.Index(w.submitters, txn.SubmitterID(id))
	return len(w.plan.Holds) > 0 && i >= 0 && i == w.plan.Submitters
}

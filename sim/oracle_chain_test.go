package sim

import (
	"bytes"
	"slices"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/txn"
)

// judgeChain checks L3, L4, L6 and L11 against the transactions that the chain received and
// executed.
func (w *World) judgeChain(l *ledger) {
	for _, got := range w.chain.Received() {
		if l.attempts[got.Hash] == nil && !w.byClient[got.Hash] {
			w.violated("L3", "the chain received nonce %d of %s, which is not recorded", got.Nonce,
				got.Sender.Hex())
		}
	}
	executed := map[string][]chaintest.Included{}
	next := map[txn.Address]txn.Nonce{}
	for _, in := range w.chain.Included() {
		if in.Nonce != next[in.Sender] {
			w.violated("L4", "the chain has nonce %d of %s where %d was next", in.Nonce,
				in.Sender.Hex(), next[in.Sender])
		}
		next[in.Sender] = in.Nonce + 1
		if r := l.attempts[in.Receipt.TxHash]; r != nil {
			executed[r.id] = append(executed[r.id], in)
		} else if w.byClient[in.Receipt.TxHash] {
			continue
		} else if w.external[w.submitterAt(in.Sender)] {
			w.judgeForeign(l, int32(w.submitterAt(in.Sender)), int64(in.Nonce))
		} else {
			w.violated("L3", "the chain executed nonce %d of %s, which is not in the ledger",
				in.Nonce, in.Sender.Hex())
		}
	}
	for id, c := range l.cursors {
		address := w.addressOf(txn.SubmitterID(id))
		if int64(next[address]) != c[1] && !w.isExternal(id) && !w.external[txn.SubmitterID(id)] {
			w.violated("L4", "the chain's next nonce of s%d is %d, and the cursor stands at %d", id,
				next[address], c[1])
		}
	}
	for _, r := range l.rows {
		if w.isExternal(r.submitter) || w.isTreasury(r.submitter) {
			continue
		}
		w.judgeOutcome(r, executed[r.id])
	}
	w.judgePayloads()
}

// judgeForeign checks L10. A nonce used outside Fencepost must be one that the ledger has given up
// by a decision, or has not reached yet.
func (w *World) judgeForeign(l *ledger, id int32, nonce int64) {
	if nonce >= l.cursors[id][1] || nonce < l.cursors[id][0] {
		return
	}
	if l.guarded[id] == 0 {
		w.violated("L10",
			"nonce %d of s%d, used elsewhere, is below the cursor without a protection",
			nonce, id)
	}
	for _, r := range l.bySub[id] {
		// A ledger that was moved cannot be sure, and neither can one where the account arrived.
		moved := w.moved || w.movesAccount(txn.SubmitterID(id))
		given := r.executed == string(txn.No) || moved && r.executed == string(txn.Unknown)
		if r.nonce != nil && *r.nonce == nonce && !given {
			w.violated("L10", "%s of s%d is %s %s with nonce %d, which was used elsewhere",
				r.request, id, r.state, r.executed, nonce)
		}
	}
}

func (w *World) addressOf(id txn.SubmitterID) txn.Address {
	return chaintest.Address(slices.Index(w.submitters, id))
}

// judgeOutcome compares a transaction's recorded outcome with the chain. An attempt without a
// call's payload is a cancel: it consumes the nonce and has no effect.
func (w *World) judgeOutcome(r *row, in []chaintest.Included) {
	if len(in) > 1 {
		w.violated("L6", "%s was included %d times", r.request, len(in))
	}
	ran := len(in) > 0 && bytes.HasPrefix(in[0].Payload.Data, []byte("call "))
	for _, a := range r.attempts {
		if len(in) > 0 && bytes.Equal(a.hash, in[0].Receipt.TxHash[:]) &&
			ran == (a.kind == string(txn.Cancel)) {
			w.violated("L6",
				"an attempt of %s recorded as %s is in a block; its call was executed: %v",
				r.request, a.kind, ran)
		}
	}
	switch txn.State(r.state) {
	case txn.Confirmed:
		if !ran || !in[0].Receipt.Success || !bytes.Equal(r.receipt, in[0].Receipt.TxHash[:]) {
			w.violated("L6", "%s claims success, and the chain has %d inclusions of it", r.request,
				len(in))
		}
	case txn.Failed:
		if ran != (r.executed == string(txn.Reverted)) {
			w.violated("L11", "%s is failed as %s (%s), and the chain has %d inclusions of it",
				r.request, r.executed, r.reason, len(in))
		}
		if r.nonce != nil && len(in) == 0 && !w.external[txn.SubmitterID(r.submitter)] {
			w.violated("L11",
				"%s is failed with nonce %d (%s) although its key was not used elsewhere",
				r.request, *r.nonce, r.reason)
		}
	case txn.Cancelled:
		if ran {
			w.violated("L6", "%s is cancelled, and the chain has executed it", r.request)
		}
		if (r.nonce != nil) != (len(in) > 0) && !w.external[txn.SubmitterID(r.submitter)] {
			w.violated("L6", "%s is cancelled, and the chain has %d inclusions of it", r.request,
				len(in))
		}
	}
}

// judgePayloads checks L6 without the ledger: the chain executes each call's payload at most once.
func (w *World) judgePayloads() {
	ran := map[string]int{}
	for _, in := range w.chain.Included() {
		if bytes.HasPrefix(in.Payload.Data, []byte("call ")) {
			ran[string(in.Payload.Data)]++
		}
	}
	for call, n := range ran {
		if n > 1 {
			w.violated("L6", "the payload of %s was executed %d times", call, n)
		}
	}
}

package sim

import (
	"bytes"
	"slices"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/txn"
)

// judgeChain: L3, L6, L11. What the chain was given and what it executed.
func (w *World) judgeChain(l *ledger) {
	for _, got := range w.chain.Received() {
		if l.attempts[got.Hash] == nil {
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
		} else if w.external[w.submitterAt(in.Sender)] {
			w.judgeForeign(l, int32(w.submitterAt(in.Sender)), int64(in.Nonce))
		} else {
			w.violated("L3", "the chain has executed nonce %d of %s, which is not in the ledger", in.Nonce, in.Sender.Hex())
		}
	}
	for id, c := range l.cursors {
		address := w.addressOf(txn.SubmitterID(id))
		if int64(next[address]) != c[1] && !w.external[txn.SubmitterID(id)] {
			w.violated("L4", "the chain's next nonce of s%d is %d, and the cursor stands at %d", id,
				next[address], c[1])
		}
	}
	for _, r := range l.rows {
		w.judgeOutcome(r, executed[r.id])
	}
	w.judgePayloads()
}

// judgeForeign: L10. A number that somebody else has used is one that the ledger has given up, by a decision, or has not come to yet.
func (w *World) judgeForeign(l *ledger, id int32, nonce int64) {
	if nonce >= l.cursors[id][1] || nonce < l.cursors[id][0] {
		return
	}
	if l.guarded[id] == 0 {
		w.violated("L10",
			"nonce %d of s%d was used elsewhere, the cursor is beyond it, and the submitter was never protected",
			nonce, id)
	}
	for _, r := range l.bySub[id] {
		if r.nonce != nil && *r.nonce == nonce && r.executed != string(txn.No) {
			w.violated("L10", "%s of s%d is %s %s with nonce %d, which somebody else has used",
				r.request, id, r.state, r.executed, nonce)
		}
	}
}

func (w *World) addressOf(id txn.SubmitterID) txn.Address {
	return chaintest.Address(slices.Index(w.submitters, id))
}

// judgeOutcome compares what a transaction claims with what the chain has done. What has no payload of a call is a cancel: it takes the nonce and does nothing.
func (w *World) judgeOutcome(r *row, in []chaintest.Included) {
	if len(in) > 1 {
		w.violated("L6", "%s was included %d times", r.request, len(in))
	}
	ran := len(in) > 0 && bytes.HasPrefix(in[0].Payload.Data, []byte("call "))
	for _, a := range r.attempts {
		if len(in) > 0 && bytes.Equal(a.hash, in[0].Receipt.TxHash[:]) &&
			ran == (a.kind == string(txn.Cancel)) {
			w.violated("L6",
				"a form of %s that the ledger calls %s is in a block, and the chain has executed its call: %v",
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
			w.violated("L11", "%s is failed with nonce %d (%s) although nobody else used its key",
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

// judgePayloads: L6 once more, without the ledger: each call's payload is executed at most once.
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

package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// The stream of several transactions that are named is one of many (watch_many.go): it has a place in the feed, so its token is as short for a hundred of them as for
// one. It differs in three things. It is found by the ids themselves, so what happens to others costs it nothing, live or behind. Its snapshots show also what is
// final: whoever names something wants to know of it. And it may end, once all are final.

// idSet are the transactions that a stream is asked for by their ids, in order. It never changes.
type idSet []txn.TxID

func compareIDs(a, b txn.TxID) int { return bytes.Compare(a[:], b[:]) }

func (set idSet) find(id txn.TxID) (at int, has bool) {
	return slices.BinarySearchFunc(set, id, compareIDs)
}

// digest tells them from others.
func (set idSet) digest() []byte {
	h := sha256.New()
	for _, id := range set {
		h.Write(id[:])
	}
	return h.Sum(nil)[:digestBytes]
}

// mostNamed is how many things are named in an error: what it says has to fit into trailers.
const mostNamed = 16

// txIDs reads ids, each of which the caller may know of, and none of which may be named twice, in whatever spelling.
func (s *txService) txIDs(ctx context.Context, texts []string) (*idSet, error) {
	ids, seen, none := make(idSet, 0, len(texts)), make(map[txn.TxID]bool, len(texts)), []string{}
	var twice []status.Violation
	for i, text := range texts {
		id, err := txn.ParseTxID(text)
		if err != nil { // which is told once all others have turned out to be the caller's
			none = append(none, text)
			continue
		}
		if seen[id] && len(twice) < mostNamed {
			twice = append(
				twice,
				status.Violation{
					Field:   fmt.Sprintf("txs.tx_ids[%d]", i),
					Message: fmt.Sprintf("names %s again; name each once", id),
				},
			)
		}
		if err := s.maySee(ctx, id); err != nil {
			return nil, err
		}
		seen[id], ids = true, append(ids, id)
	}
	switch {
	case len(twice) > 0:
		return nil, status.Invalid(twice...)
	case len(none) > 0:
		return nil, onTxs(none, store.ErrTxNotFound)
	}
	slices.SortFunc(ids, compareIDs)
	return &ids, nil
}

func onTxs(texts []string, err error) error {
	if len(texts) == 1 {
		return status.AboutTx(texts[0], err)
	}
	more := ""
	if len(texts) > mostNamed {
		texts, more = texts[:mostNamed], fmt.Sprintf(" and %d more", len(texts)-mostNamed)
	}
	return status.About("transactions "+strings.Join(texts, ", ")+more, err)
}

// standing reads how far the named ones have come, and refuses those that do not exist. If the stream ends with them, that is where it counts from.
//
// A stream that begins counts from what it shows, so this comes after it took its place, as its snapshots do. One that is resumed tells all that comes after its token:
// it may count from no more than what it has told when it has nothing left to tell, so this comes before it takes its place.
func (w *watch) standing() error {
	var now map[txn.TxID]store.Standing
	ids := *w.target.txs
	err := w.patiently(w.stream.Context(), func(ctx context.Context) (err error) {
		now, err = w.store.Standings(ctx, ids)
		return err
	})
	if err != nil {
		return err
	}
	ends, none := newEnds(ids), []string{}
	for _, id := range ids {
		if is, exists := now[id]; exists {
			ends.note(id, is.Version, is.State)
		} else {
			none = append(none, id.String())
		}
	}
	if len(none) > 0 {
		return onTxs(none, store.ErrTxNotFound)
	}
	if w.untilFinal {
		w.ends = ends
	}
	return nil
}

// ends knows which of the named transactions are final, as far as was told of them.
type ends struct {
	of   idSet
	last []int64 // event of each that is known of
	done []bool
	open int // those that are not final
}

func newEnds(of idSet) *ends {
	return &ends{of: of, last: make([]int64, len(of)), done: make([]bool, len(of)), open: len(of)}
}

// note notes an event of one of them. One that is final may yet turn out not to be.
func (e *ends) note(id txn.TxID, seq int64, state txn.State) {
	i, has := e.of.find(id)
	if !has || seq <= e.last[i] {
		return
	}
	if e.done[i] {
		e.open++
	}
	if e.last[i], e.done[i] = seq, state.Final(); e.done[i] {
		e.open--
	}
}

// shown notes how far one has come that is shown, which may be further than where it stood when the stream began: what happened since comes as an event as well, but later
// than what is shown.
func (e *ends) shown(info *store.TxInfo) {
	if e != nil {
		e.note(info.ID, info.Version, info.State)
	}
}

// over tells whether all are final. A nil one never is.
func (e *ends) over() bool { return e != nil && e.open == 0 }

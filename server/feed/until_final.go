package feed

import (
	"context"
	"maps"
	"slices"

	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// A stream of named transactions is a multi-transaction stream, so its token has the same length
// for one id as for a hundred. It differs in three ways. It is indexed by the ids, so events of
// other transactions cost it nothing, in the ring or in the ledger. Its snapshots include final
// transactions. And it can end once all of them are final.

// progress tracks which named transactions are final, as far as the stream has reported.
type progress struct {
	ids   IDSet
	last  []int64 // newest version recorded of each
	final []bool
	open  int // transactions that are not final
}

func newProgress(ids IDSet) *progress {
	return &progress{
		ids:   ids,
		last:  make([]int64, len(ids)),
		final: make([]bool, len(ids)),
		open:  len(ids),
	}
}

// record records a version of a transaction. A final one may become open again.
func (p *progress) record(id txn.TxID, version int64, state txn.State) {
	i, found := p.ids.find(id)
	if !found || version <= p.last[i] {
		return
	}
	if p.final[i] {
		p.open++
	}
	if p.last[i], p.final[i] = version, state.Final(); p.final[i] {
		p.open--
	}
}

// recordSnapshot records a snapshot that the stream sends. It can be newer than the version that
// the stream started with; the events in between follow it. A nil progress records nothing.
func (p *progress) recordSnapshot(info *store.TxInfo) {
	if p != nil {
		p.record(info.ID, info.Version, info.State)
	}
}

// done reports whether all transactions are final; never for a nil progress.
func (p *progress) done() bool { return p != nil && p.open == 0 }

// readProgress reads the state of the named transactions and rejects ids that do not exist. With
// UntilFinal it becomes the progress of the stream.
//
// A new stream counts from its snapshots, so it calls this after it joined. A resumed stream sends
// every event after its token, so it must not count from a newer state than that: it calls this
// before it joins.
func (s *stream) readProgress() error {
	var current map[txn.TxID]store.TxVersion
	ids := *s.Target.Txs
	var moved map[txn.SubmitterID]*store.MovedError
	err := s.retryRead(s.ctx, func(ctx context.Context) (err error) {
		moved, err = s.feed.store.MovedOf(ctx, slices.Collect(maps.Keys(s.Target.accounts())))
		if err == nil {
			current, err = s.feed.store.TxVersions(ctx, ids)
		}
		return err
	})
	if err != nil {
		return err
	}
	for id, to := range moved { // this ledger has its rows, as they were
		return &LeftError{Account: id, Moved: to}
	}
	p, missing := newProgress(ids), []string{}
	for _, id := range ids {
		if is, exists := current[id]; exists {
			p.record(id, is.Version, is.State)
		} else {
			missing = append(missing, id.String())
		}
	}
	if len(missing) > 0 {
		return status.AboutTxs(missing, store.ErrTxNotFound)
	}
	if s.UntilFinal {
		s.progress = p
	}
	return nil
}

package server

import (
	"context"
	"testing"
	"time"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// hookedVersions runs hooks before and after each read of versions.
type hookedVersions struct {
	Store
	before, after func()
}

func (m hookedVersions) TxVersions(ctx context.Context,
	ids []txn.TxID) (map[txn.TxID]store.TxVersion, error) {
	m.before()
	versions, err := m.Store.TxVersions(ctx, ids)
	m.after()
	return versions, err
}

// A transaction that becomes final while a stream starts or resumes is sent as event or snapshot
// before the stream ends.
func TestWatchTxs_FinalDuringStart_ReportedOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	for _, when := range []string{"before", "after"} {
		for _, resumed := range []bool{false, true} {
			id := n.create("alice", rand()).GetTxId()
			_, token := readSnapshots(t, n.watch(watchIDs(id)))
			for _, step := range []func(txn.TxID){o.allocate, o.submit, o.include} {
				step(txID(t, id))
			}
			between := h.serve(
				limits(func(l *Limits) { l.FeedPoll = 500 * time.Millisecond }),
				func(opts *Options) {
					s := hookedVersions{h.open(rand()), func() {}, func() {}}
					if confirm := func() { o.confirm(txID(t, id)) }; when == "before" {
						s.before = confirm
					} else {
						s.after = confirm
					}
					opts.Store = s
				},
			)
			ask := untilFinal(watchIDs(id))
			if resumed {
				ask.ResumeToken = token
			}
			all := readAll(t, between.watch(ask))
			last := all[len(all)-1]
			if shown := all[0].GetSnapshot().GetVersion(); resumed &&
				last.GetEvent().GetSeq() != 5 ||
				!resumed && shown != 5 && last.GetEvent().GetSeq() != 5 {
				t.Errorf("%s, resumed %v: %v", when, resumed, all)
			}
		}
	}
}

func TestWatchTxs_SnapshotNotFinal_Waits(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	text := h.serve().create("alice", "r").GetTxId()
	id := txID(t, text)
	o.finalize(id)
	n := h.serve(
		limits(func(l *Limits) { l.FeedPoll = 500 * time.Millisecond }),
		func(opts *Options) {
			opts.Store = hookedVersions{h.open(rand()), func() {}, func() {
				o.move(id, txn.EventReorged, txn.Stuck,
					func(s *txn.Status) { s.Executed, s.Receipt = txn.Unknown, nil })
			}}
		},
	)
	stream := n.watch(untilFinal(watchIDs(text)))
	shown, err := stream.Recv()
	h.must(err)
	if s := shown.GetSnapshot(); s.GetState() != pb.TxState_TX_STATE_STUCK {
		t.Fatalf("snapshots: %v", shown)
	}
	beat, err := stream.Recv()
	if h.must(err); beat.GetHeartbeat() == nil {
		t.Fatalf("%v instead of a heartbeat", beat)
	}
	o.move(id, txn.EventConfirmed, txn.Confirmed, func(s *txn.Status) {
		s.Executed = txn.Success
		s.Receipt = &txn.Receipt{
			TxHash:      s.TxHash,
			BlockNumber: 10,
			BlockHash:   txn.Hash{10},
			Success:     true,
		}
	})
	all := readAll(t, stream)
	if len(all) == 0 || all[len(all)-1].GetEvent().GetState() != pb.TxState_TX_STATE_CONFIRMED {
		t.Errorf("it ends with %v", all)
	}
}

package server

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// mergedReader reads a merged stream, and the events and snapshots that it had.
type mergedReader struct {
	*several
	stream pb.TxService_WatchTxClient
	seen   map[string]bool // of events, "tx_id/seq"
	last   map[string]uint64
	token  string
}

func (s *several) reader() *mergedReader {
	return &mergedReader{several: s, seen: map[string]bool{}, last: map[string]uint64{}}
}

// open starts the stream on a node, after the last message.
func (r *mergedReader) open(n *node) {
	r.t.Helper()
	ask := watchAll()
	ask.ResumeToken, ask.Heartbeat = r.token, durationpb.New(time.Second)
	r.stream = n.watch(ask)
}

// until reads until a message satisfies a condition, and checks what each stream promises: the
// events of a transaction are in order, and none is left out.
func (r *mergedReader) until(what string, is func(*pb.WatchTxResponse) bool) {
	r.t.Helper()
	for {
		m, err := r.stream.Recv()
		if err != nil {
			r.t.Fatalf("%s: %v", what, err)
		}
		if snapshot := m.GetSnapshot(); snapshot != nil {
			r.last[snapshot.GetTxId()] = max(r.last[snapshot.GetTxId()], snapshot.GetVersion())
		}
		if e := m.GetEvent(); e != nil {
			if last := r.last[e.GetTxId()]; e.GetSeq() > last+1 {
				r.t.Errorf("event %d of %s follows %d", e.GetSeq(), e.GetTxId(), last)
			}
			r.last[e.GetTxId()] = max(r.last[e.GetTxId()], e.GetSeq())
			r.seen[fmt.Sprintf("%s/%d", e.GetTxId(), e.GetSeq())] = true
		}
		if m.GetResumeToken() != "" {
			r.token = m.GetResumeToken()
		}
		if is(m) {
			return
		}
	}
}

func (r *mergedReader) heartbeat(missing ...string) {
	r.t.Helper()
	r.until(fmt.Sprintf("a heartbeat without %v", missing), func(m *pb.WatchTxResponse) bool {
		beat := m.GetHeartbeat()
		return beat != nil && slices.Equal(beat.GetMissingLedgers(), missing)
	})
}

// all reads until the last event of each transaction was seen.
func (r *mergedReader) all(versions map[string]uint64) {
	r.t.Helper()
	complete := func() bool {
		for id, version := range versions {
			if r.last[id] < version {
				return false
			}
		}
		return true
	}
	if !complete() {
		r.until("all events", func(*pb.WatchTxResponse) bool { return complete() })
	}
}

// TestLedgersWatch_Resume_Complete: a watch of all has the events of all ledgers, each once, also
// when it resumes on another node, or in a ledger that was down.
func TestLedgersWatch_Resume_Complete(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	a, b := s.node("a"), s.node("b")
	owners := make([]*owner, len(s.of))
	for i, h := range s.of {
		id, err := h.store.Lookup(h.ctx, "at-"+s.names[i])
		s.must(err)
		owners[i] = h.own(id)
	}
	versions := map[string]uint64{}
	finalize := func(n *node, request string, ledgers ...int) {
		for _, i := range ledgers {
			id := n.create("at-"+s.names[i], request).GetTxId()
			owners[i].finalize(txID(t, id))
			versions[id] = 5
		}
	}
	r := s.reader()
	r.open(a)
	r.heartbeat()
	finalize(a, "1", 0, 1, 2)
	r.all(versions)
	first := len(r.seen)
	if first != 15 {
		t.Errorf("%d events, want 15", first)
	}

	// on another node, with events that no stream saw
	finalize(a, "2", 2, 1, 0)
	r.open(b)
	r.all(versions)
	if len(r.seen) != 30 {
		t.Errorf("%d events after the resumption, want 30", len(r.seen))
	}

	// a ledger goes down: the stream says so, and has the events of the others
	s.down(b, 1)
	r.heartbeat("eu2")
	finalize(b, "3", 0, 2)
	r.all(versions)
	token := r.token
	missed := s.of[1].store
	info, _, err := missed.CreateTx(s.ctx, intentOf(owners[1].id, "3"))
	s.must(err)
	owners[1].finalize(info.ID)
	versions[info.ID.String()] = 5

	// it resumes on the other node without the ledger, which then comes back
	s.await(a, "eu2")
	r.open(a)
	r.heartbeat("eu2")
	s.proxies[1].Heal()
	r.all(versions)
	r.heartbeat()
	if len(r.seen) != 45 {
		t.Errorf("%d events after the outage, want 45", len(r.seen))
	}

	// the same from the token of the outage
	r.seen, r.last = map[string]bool{}, map[string]uint64{}
	r.token = token
	r.open(b)
	r.until("the event that was missed", func(m *pb.WatchTxResponse) bool {
		return m.GetEvent().GetTxId() == info.ID.String() && m.GetEvent().GetSeq() == 5
	})

	want := map[string]bool{}
	for _, h := range s.of {
		for key := range h.eventsWhere("") {
			want[key] = true
		}
	}
	if len(want) != 45 {
		t.Errorf("the ledgers have %d events, want 45", len(want))
	}
}

// TestLedgersWatch_LedgerAdded_Continues: a token of fewer ledgers resumes in them, and starts in
// the one that was added; a token of a node with one ledger is refused, because it names none.
func TestLedgersWatch_LedgerAdded_Continues(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2")
	before := s.nodeOf("a", []string{"eu1"})
	r := s.reader()
	r.open(before)
	r.heartbeat()
	in1 := before.create("at-eu1", "1").GetTxId()
	in2, _, err := s.of[1].store.CreateTx(s.ctx, intentOf(1<<24, "1"))
	s.must(err)
	after := s.node("b")
	r.open(after)
	r.all(map[string]uint64{in1: 1, in2.ID.String(): 1})
	if !r.seen[in1+"/1"] || r.seen[in2.ID.String()+"/1"] {
		t.Errorf("events %v, want one of the first ledger and a snapshot of the other", r.seen)
	}
	single := s.of[1].serve()
	stream := single.watch(watchAll())
	_, token := readSnapshots(t, stream)
	ask := watchAll()
	ask.ResumeToken = token
	_, err = after.watch(ask).Recv()
	wantStatus(t, err, codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
	ask.ResumeToken = r.token
	_, err = single.watch(ask).Recv()
	wantStatus(t, err, codes.InvalidArgument, "INVALID_FIELD")
}

// TestLedgersWatch_NamedTxs_UntilFinal: named transactions of several ledgers end the stream once
// all are final.
func TestLedgersWatch_NamedTxs_UntilFinal(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2")
	n := s.node("a")
	var ids []string
	owners := make([]*owner, len(s.of))
	for i, h := range s.of {
		ids = append(ids, n.create("at-"+s.names[i], "1").GetTxId())
		owners[i] = h.own(txID(t, ids[i]).Submitter())
	}
	r := s.reader()
	r.stream = n.watch(untilFinal(watchIDs(ids...)))
	r.heartbeat()
	owners[0].finalize(txID(t, ids[0]))
	r.all(map[string]uint64{ids[0]: 5})
	ask := untilFinal(watchIDs(ids[1], ids[0]))
	ask.ResumeToken = r.token
	r.stream = s.node("b").watch(ask)
	owners[1].finalize(txID(t, ids[1]))
	r.all(map[string]uint64{ids[1]: 5})
	for {
		if _, err := r.stream.Recv(); err != nil {
			if err.Error() != "EOF" {
				t.Errorf("the stream ends with %v", err)
			}
			break
		}
	}
	unknown := unusedID(t, 1<<24, 1).String()
	stream, err := n.watch(watchIDs(ids[0], unknown)), error(nil)
	for err == nil {
		_, err = stream.Recv()
	}
	wantStatus(t, err, codes.NotFound, "TX_NOT_FOUND")
}

// intentOf is a transaction that is created without a node.
func intentOf(id txn.SubmitterID, request string) store.Intent {
	to := txn.Address{1}
	return store.Intent{Submitter: id, RequestID: request, Payload: txn.Payload{To: &to}}
}

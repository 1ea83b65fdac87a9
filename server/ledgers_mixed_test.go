package server

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// lastToken reads a new stream up to its first heartbeat, and returns its token.
func (n *node) lastToken(ask *pb.WatchTxRequest) string {
	n.t.Helper()
	ask.Heartbeat = durationpb.New(time.Second)
	stream := n.watch(ask)
	for {
		m, err := stream.Recv()
		n.must(err)
		if m.GetHeartbeat() != nil {
			return m.GetResumeToken()
		}
	}
}

// TestLedgersWatch_NamedTxsMovedWhileAway_Expired: a token of named transactions from before an
// account moved is refused, on nodes that know of the move and on those that do not: it has no
// position for the events after it. A token from after the move is accepted.
func TestLedgersWatch_NamedTxsMovedWhileAway_Expired(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	n := s.node("n")
	in1, in2 := n.create("at-eu1", "1").GetTxId(), n.create("at-eu2", "1").GetTxId()
	in3 := n.create("at-us1", "1").GetTxId()
	_, err := n.subs.RegisterSubmitter(n.ctx, &pb.RegisterSubmitterRequest{Name: "stays",
		ChainId: chainID, Address: txn.Address{9}.Hex(), Signer: "local", Ledger: "eu2"})
	n.must(err)
	stays := n.create("stays", "1").GetTxId()
	asks := map[string][]string{"several ledgers": {in1, in2, in3}, "one after": {in2, in3},
		"one before": {in2, stays}, "the same after": {in2, stays, in3}}
	before := map[string]string{}
	for name, ids := range asks {
		before[name] = n.lastToken(watchIDs(ids...))
	}
	_, err = n.txs.CancelTx(n.ctx, &pb.CancelTxRequest{TxId: in2})
	n.must(err)
	s.moveAccount()
	id := txID(t, in2).Submitter()
	fresh := s.node("m")
	for _, n := range []*node{n, fresh} {
		for name, ids := range asks {
			ask := watchIDs(ids...)
			ask.ResumeToken = before[name]
			_, err := n.watch(ask).Recv()
			wantStatus(t, err, codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
		}
		n.eventually("the number is known",
			func() bool { return n.server.router.index.id(id) != nil })
	}
	for name, ids := range asks {
		ask := watchIDs(ids...)
		ask.ResumeToken = fresh.lastToken(watchIDs(ids...))
		stream := n.opened(ask)
		if err := stream.CloseSend(); err != nil {
			t.Error(name, err)
		}
	}
}

// TestLedgersWatch_NamedTxsOneMoved_Divided: of transactions whose numbers name one ledger, each is
// watched in the ledger that has it, also by a node that does not know of the move yet.
func TestLedgersWatch_NamedTxsOneMoved_Divided(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	n := s.node("n")
	_, err := n.subs.RegisterSubmitter(n.ctx, &pb.RegisterSubmitterRequest{Name: "stays",
		ChainId: chainID, Address: txn.Address{9}.Hex(), Signer: "local", Ledger: "eu2"})
	n.must(err)
	ids := []string{n.create("at-eu2", "1").GetTxId(), n.create("stays", "1").GetTxId()}
	s.moveAccount()
	for _, n := range []*node{s.node("m"), n} {
		n.opened(watchIDs(ids...))
	}
	stream := n.opened(untilFinal(watchIDs(ids...)))
	for _, id := range ids {
		_, err := n.txs.CancelTx(n.ctx, &pb.CancelTxRequest{TxId: id})
		n.must(err)
	}
	seen := map[string]bool{}
	for range ids {
		for {
			m, err := stream.Recv()
			n.must(err)
			if m.GetEvent().GetSeq() == 2 {
				seen[m.GetEvent().GetTxId()] = true
				break
			}
		}
	}
	if !seen[ids[0]] || !seen[ids[1]] {
		t.Errorf("events of %v, want of %v", seen, ids)
	}
}

// TestLedgersWatch_AccountEvents_Delivered: a watch of all that asks for events of accounts has
// them.
func TestLedgersWatch_AccountEvents_Delivered(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2")
	n := s.node("n")
	ask := watchAll()
	ask.AccountEvents = true
	stream := n.opened(ask)
	id, err := s.of[1].store.Lookup(s.ctx, "at-eu2")
	s.must(err)
	_, err = s.of[1].store.RecordLow(s.ctx, id, store.LowChange{Low: true, Block: 5,
		Emit: &txn.LowBalance{Balance: "1", Committed: "0", Low: "2", Block: 5}})
	s.must(err)
	for beats := 0; ; {
		m, err := stream.Recv()
		n.must(err)
		if m.GetAccountEvent().GetSubmitter() == "at-eu2" {
			return
		}
		if m.GetHeartbeat() != nil {
			if beats++; beats == 20 {
				t.Fatal("no event of the account")
			}
		}
	}
}

// TestLedgersWatch_BackAfterOutage_SaidAtOnce: a ledger that is back is not missing any more in the
// next heartbeat, however long its interval.
func TestLedgersWatch_BackAfterOutage_SaidAtOnce(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2")
	n := s.node("n", limits(func(l *Limits) { l.Outage = 50 * time.Millisecond }))
	ctx, cancel := context.WithTimeout(n.ctx, time.Minute)
	defer cancel()
	ask := watchAll()
	ask.Heartbeat = durationpb.New(5 * time.Minute)
	stream, err := n.txs.WatchTx(ctx, ask)
	n.must(err)
	r := s.reader()
	r.stream = stream
	r.heartbeat()
	s.down(n, 1)
	r.heartbeat("eu2")
	n.eventually("its part has ended", func() bool {
		return n.server.router.ledgers[1].feed.Idle()
	})
	s.proxies[1].Heal()
	r.heartbeat()
}

package server

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// BenchmarkEvent measures building the message of one event.
func BenchmarkEvent(b *testing.B) {
	event := store.EventInfo{
		Event: txn.Event{
			Tx: txn.TxID{2: 1}, Submitter: 1, Seq: 4, Kind: txn.EventIncluded,
			State: txn.Tracking, Sub: txn.Included, Executed: txn.Success, TxHash: txn.Hash{2},
			Receipt: &txn.Receipt{
				TxHash: txn.Hash{2}, BlockNumber: 1_000_000, BlockHash: txn.Hash{3},
				Success: true, GasUsed: 21_000,
			},
			At: time.Unix(1, 0),
		},
		SubmitterName: "submitter-0", Xid: "123456",
	}
	at := store.Position{
		Epoch: 1,
		Seen:  "123450:123456:",
		Until: "123460:123470:123461,123465",
		After: event.Key(),
	}
	b.ReportAllocs()
	for b.Loop() {
		m := &pb.WatchTxResponse{
			Message:     &pb.WatchTxResponse_Event{Event: wireEvent(&event)},
			ResumeToken: feed.MultiToken(feed.Target{Submitter: 7}, at),
		}
		if _, err := proto.Marshal(m); err != nil {
			b.Fatal(err)
		}
	}
}

package feed

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// pageOf returns a page of events, each of another transaction, of fifty submitters.
func pageOf(n int) []store.EventInfo {
	receipt := &txn.Receipt{
		TxHash:      txn.Hash{2},
		BlockNumber: 1_000_000,
		BlockHash:   txn.Hash{3},
		Success:     true,
		GasUsed:     21_000,
	}
	events := make([]store.EventInfo, n)
	for i := range events {
		events[i] = store.EventInfo{Event: txn.Event{
			Tx:        txn.TxID{byte(i), byte(i >> 8), 1},
			Submitter: txn.SubmitterID(1 + i%50), Seq: 4, Kind: txn.EventIncluded,
			State: txn.Tracking, Sub: txn.Included, Executed: txn.Success,
			TxHash: txn.Hash{2}, Receipt: receipt, At: time.Unix(1, 0),
		}, SubmitterName: fmt.Sprint("submitter-", i%50), Xid: "123456"}
	}
	return events
}

// BenchmarkPage measures the delivery of a page of 100 events to a stream of one submitter and to
// one of all, which takes them.
func BenchmarkPage(b *testing.B) {
	const size = 100
	f := &Feed{subscriptions: newRegistry(), ring: ring{capacity: size},
		limits: Limits{PageEvents: 256}}
	all := &subscription{feed: f, wake: make(chan struct{}, 1)}
	one := &subscription{
		feed:   f,
		wake:   make(chan struct{}, 1),
		target: Target{Submitter: 7},
	}
	f.subscriptions.add(all)
	f.subscriptions.add(one)
	at := store.Position{Epoch: 1, Seen: "123450:123456:"}
	page := pageOf(size)
	b.ReportAllocs()
	for b.Loop() {
		all.caughtUp = true
		f.subscriptions.notify(f.ring.add(at, store.Position{Epoch: 1, Seen: "123460:123460:"},
			page))
		if events, _, err := all.take(); err != nil || len(events) != size {
			b.Fatal(len(events), err)
		}
	}
}

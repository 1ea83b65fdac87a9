// Package feed delivers the ledger's events to WatchTx streams.
//
// # Fan-out
//
// A node has one [Feed]. It reads the events that became visible since its previous read and
// appends them to a ring in memory. Every stream holds a subscription: a position in the ring and
// nothing else. A stream that keeps up costs the database nothing, and a slow stream costs the node
// no memory: once the ring has dropped events that it still needs, the stream reads the ledger page
// by page, at the pace of its client, until it meets the ring again. A stream that resumes from a
// token starts the same way.
//
// # Order
//
// Transactions commit out of order, so the last event id is not a resume point. The feed compares
// database snapshots instead: the events that one snapshot sees and the previous one did not are a
// batch. Batches do not overlap and leave no gap. A [store.Position] is a snapshot plus the last
// event delivered within the batch that follows it; a resume token encodes one.
//
// A stream of one transaction does not depend on that order. Its events are numbered without gaps,
// so an event from the ring is delivered only if it has the next number; otherwise the stream reads
// the ledger.
//
// # Streams
//
//   - One transaction: single.go.
//   - All transactions, all of one submitter, or several named ones: multi.go. The stream starts
//     with a snapshot of each transaction that is not final.
//   - A stream of named transactions also sends snapshots of final ones, and can end once all are
//     final: progress.go.
//
// # Failure
//
// While the database is down a stream waits, without heartbeats, for at most [Limits.Outage]. Then
// it ends with [store.ErrUnavailable] and the client resumes on another node.
//
// The goroutine of a stream only waits. Everything else runs on a fresh stack (stack.go), because
// the waiting stack is most of the cost of an idle stream.
package feed

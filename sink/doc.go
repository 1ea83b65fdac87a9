// Package sink delivers the events of the ledger to other systems.
//
// # Guarantees
//
// Every event is delivered at least once, and the events of a transaction in order: an event is
// tried only after those before it were accepted. The cursor of a sink moves after the receiver has
// accepted, in a commit behind a fence, so a node that dies in between delivers some events twice,
// with the same id. Nothing is delivered before its commit.
//
// # Parts
//
// A [Runner] holds the leases of the sinks that its node delivers for, and has a worker for each. A
// worker follows the feed of the node, which is read once for all sinks and watchers, and passes
// batches to its [Sink]. An event that the receiver does not accept parks its transaction: a row in
// the ledger, however many events of it follow. Parked transactions are retried by a second loop of
// the worker, in the same order, and are dead after [Settings.RetryFor]. They take no memory.
//
// If the receiver as a whole is unavailable, nothing is parked: the cursor waits.
package sink

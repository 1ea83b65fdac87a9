package store

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/store/internal/db"
)

// NodeLeases is a live node with the number of submitters that it owns.
type NodeLeases struct {
	NodeInfo
	Leases int64
}

// NodesWithLeases lists the live nodes, by id.
func (s *Store) NodesWithLeases(ctx context.Context) ([]NodeLeases, error) {
	rows, err := s.read().NodesWithLeases(ctx, maxNodes)
	if err != nil {
		return nil, s.failed(ctx, "list the live nodes with their leases", err)
	}
	nodes := make([]NodeLeases, len(rows))
	for i, r := range rows {
		nodes[i] = NodeLeases{Leases: r.Leases, NodeInfo: toNode(db.HeartbeatRow{
			NodeID: r.NodeID, ChainIds: r.ChainIds, Accepting: r.Accepting,
			StartedAt: r.StartedAt, ExpiresAt: r.ExpiresAt,
		})}
	}
	return nodes, nil
}

// CountedTotal is the largest number of queued transactions that Totals counts.
const CountedTotal = 100_000

// Totals are numbers of submitters and their transactions.
type Totals struct {
	Submitters, Owned, Protected, Paused int64 // submitters; owned: some node has a live lease
	Unfunded                             int64 // submitters, as in QueueCounts
	Queued, InFlight, Stuck              int64 // transactions; STUCK ones are in flight as well
	UndecidedNonces                      int64 // of clients, that need an operator
	AwaitingApproval                     int64 // transactions, up to 10,000
	More                                 bool  // queued than CountedTotal
	// OldestQueued is the time of acceptance of the oldest one at the head of a queue; zero: none.
	OldestQueued   time.Time
	OldestApproval time.Time // when the oldest of those counted was accepted; zero: none
	At             time.Time // by the clock of the database
}

// Totals counts over the submitters with these names; nil: over all.
func (s *Store) Totals(ctx context.Context, names []string) (Totals, error) {
	r, err := s.read().Totals(ctx, db.TotalsParams{
		AnyName: names == nil, Names: names, MostQueued: CountedTotal + 1,
		MostAwaiting: maxAwaiting,
	})
	if err != nil {
		return Totals{}, s.failed(ctx, "count the submitters and their transactions", err)
	}
	t := Totals{
		Submitters: r.Submitters, Owned: r.Owned, Protected: r.Protected, Paused: r.Paused,
		Unfunded: r.Unfunded, UndecidedNonces: r.UndecidedNonces,
		AwaitingApproval: r.AwaitingApproval,
		Queued:           min(r.Queued, CountedTotal),
		More:             r.Queued > CountedTotal, InFlight: r.InFlight, Stuck: r.Stuck,
		At: r.CountedAt,
	}
	if r.AnyQueued {
		t.OldestQueued = r.Oldest
	}
	if r.AwaitingApproval > 0 {
		t.OldestApproval = r.OldestApproval
	}
	return t, nil
}

// Conditions select submitters that need an operator: those in one of them.
type Conditions struct {
	Protected, Paused, Unfunded bool
	Nonces                      bool // one of its nonces needs an operator
}

// SubmittersIn lists submitters in one of the conditions, otherwise as Submitters.
func (s *Store) SubmittersIn(ctx context.Context, in Conditions, names []string, afterName string,
	limit int) ([]SubmitterInfo, error) {
	found, err := s.read().SubmittersIn(ctx, db.SubmittersInParams{
		AnyName: names == nil, Names: names, AfterName: afterName, MaxRows: rowLimit(limit),
		Protected: in.Protected, Paused: in.Paused, Unfunded: in.Unfunded, Nonces: in.Nonces,
	})
	if err != nil {
		return nil, s.failed(ctx, "list submitters by condition", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return s.Submitters(ctx, found, "", len(found))
}

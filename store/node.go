package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// NodeInfo is a live node as all others see it.
type NodeInfo struct {
	ID        string // as in Config.Node
	Chains    []txn.ChainID
	Accepting bool // false: full, or stopping
	StartedAt time.Time
	ExpiresAt time.Time // by the database's clock, which alone decides who is live
}

// Node returns the name of this node: Config.Node.
func (s *Store) Node() string { return s.cfg.Node }

// maxNodes bounds the list of live nodes.
const maxNodes = 1000

// Heartbeat keeps this node among the live ones for another lease duration, and returns all of
// them, itself included, by id. It is one statement on the connection of the renewals, so that
// membership costs the same however many submitters there are, and no load keeps it waiting. Rows
// that lapsed more than a day ago go. A node whose server cannot order the feed is not live.
func (s *Store) Heartbeat(ctx context.Context, chains []txn.ChainID,
	accepting bool) ([]NodeInfo, error) {
	var rows []db.HeartbeatRow
	_, err := s.renew.run(ctx, s.cfg.LeaseDuration, func(c *pgx.Conn, q *db.Queries) (err error) {
		if err := proveFeed(ctx, c.PgConn()); err != nil {
			return err
		}
		rows, err = q.Heartbeat(ctx, db.HeartbeatParams{
			NodeID: s.cfg.Node, ChainIds: plainChains(chains), Accepting: accepting,
			Seconds: s.cfg.LeaseDuration.Seconds(), MaxRows: maxNodes, KnowsSchema: latest(),
		})
		return err
	})
	if err != nil {
		return nil, s.failed(ctx, "record the heartbeat", err)
	}
	nodes := make([]NodeInfo, len(rows))
	for i, r := range rows {
		nodes[i] = toNode(r)
	}
	return nodes, nil
}

// Leave takes this node from the live ones. The next heartbeat, which goes the same way, would
// bring it back.
func (s *Store) Leave(ctx context.Context) error {
	_, err := s.renew.run(ctx, s.cfg.LeaseDuration,
		func(_ *pgx.Conn, q *db.Queries) error { return q.Leave(ctx, s.cfg.Node) })
	return s.failed(ctx, "leave the live nodes", err)
}

// Nodes are the live nodes, by id.
func (s *Store) Nodes(ctx context.Context) ([]NodeInfo, error) {
	rows, err := s.read().LiveNodes(ctx, maxNodes)
	if err != nil {
		return nil, s.failed(ctx, "list the live nodes", err)
	}
	nodes := make([]NodeInfo, len(rows))
	for i, r := range rows {
		nodes[i] = toNode(db.HeartbeatRow(r))
	}
	return nodes, nil
}

func toNode(r db.HeartbeatRow) NodeInfo {
	n := NodeInfo{
		ID:        r.NodeID,
		Accepting: r.Accepting,
		StartedAt: r.StartedAt,
		ExpiresAt: r.ExpiresAt,
		Chains:    make([]txn.ChainID, len(r.ChainIds)),
	}
	for i, c := range r.ChainIds {
		n.Chains[i] = txn.ChainID(c)
	}
	return n
}

package store

import (
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/txn"
)

// lane is a connection for fenced statements, and the changes that wait for it. All changes of a
// submitter go through one lane, so lanes never wait for each other's locks.
type lane struct {
	conn    *dedicatedConn
	commits *combiner[*commitJob]
}

func (s *Store) newLane(cfg *pgx.ConnConfig) *lane {
	l := &lane{conn: newDedicatedConn(s, cfg, prepareCommit)}
	l.commits = newCombiner(
		limits{
			items:       s.cfg.MaxGroupChanges,
			bytes:       s.cfg.MaxGroupBytes,
			outstanding: maxOutstanding / s.cfg.CommitConns,
		},
		func(aside bool, group []*commitJob) *refusal {
			conn := l.conn
			if aside {
				conn = s.retryConn
			}
			return s.sendCommits(conn, group)
		},
		s.refuseCommit)
	return l
}

// lane returns the lane of a submitter. Ids are numbered from a sequence, which spreads them.
func (s *Store) lane(id txn.SubmitterID) *lane {
	return s.lanes[uint64(id)%uint64(len(s.lanes))]
}

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
	nonces  *combiner[*commitJob] // changes about the nonces of clients
}

func (s *Store) newLane(cfg *pgx.ConnConfig) *lane {
	l := &lane{conn: newDedicatedConn(s, cfg, prepareCommit)}
	l.commits = s.newCommits(l, s.sendCommits)
	l.nonces = s.newCommits(l, s.sendNonces)
	return l
}

func (s *Store) newCommits(l *lane,
	send func(*dedicatedConn, []*commitJob) *refusal) *combiner[*commitJob] {
	return newCombiner(
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
			return send(conn, group)
		},
		s.refuseCommit)
}

// lane returns the lane of a submitter. Ids are numbered from a sequence, which spreads them.
func (s *Store) lane(id txn.SubmitterID) *lane {
	return s.lanes[uint64(id)%uint64(len(s.lanes))]
}

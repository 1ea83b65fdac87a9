package sim

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
)

// directoryDown is how long the directory refuses connections after the ledgers were restored.
// Meanwhile the leases of earlier nodes lapse, and nodes look for work several times.
const directoryDown = leaseDuration + 5*time.Second

// backupSQL brings a ledger back to before accounts left it. A request to each account is pending,
// so that nodes want its lease.
const backupSQL = `
BEGIN;
SET LOCAL session_replication_role = replica;
UPDATE submitter SET moved_to = NULL, move_id = NULL, move_epoch = NULL, status = 'ACTIVE'
 WHERE moved_to IS NOT NULL;
UPDATE submitter_lease SET moved_to = NULL WHERE moved_to IS NOT NULL;
UPDATE ledger SET moves_timeline = NULL;
INSERT INTO submitter_command (submitter_id, kind, operator)
SELECT submitter_id, 'RESUME', 'op' FROM submitter ORDER BY submitter_id;
COMMIT;`

const countLeft = "SELECT count(*) FROM submitter WHERE moved_to IS NOT NULL"

// restoreOld restores the ledgers from backups of before the moves, once all accounts have arrived.
// Each must get its tombstones again. Until the directory answers, judgeLeases sees every lease.
func (w *World) restoreOld() {
	if len(w.commands) == 0 || len(w.broken) > 0 {
		return
	}
	left, err := w.dbs.number(countLeft)
	if err != nil {
		w.violated("sim", "%v", err)
		return
	}
	for _, n := range w.nodes {
		w.crash(n, 0)
	}
	w.loseSessions()
	w.awaitEnded()
	for _, db := range w.dbs.ledgers {
		if _, err := db.conn.Exec(db.ctx, backupSQL); err != nil {
			w.violated("sim", "%v", err)
			return
		}
	}
	w.remark("the ledgers are restored to before the moves")
	w.faults["restored to before the moves"]++
	w.restored, w.dbs.directory.away = true, w.now()+directoryDown
	if !w.run(w.now()+restTime, func() bool {
		if !w.rested() {
			return false
		}
		again, err := w.dbs.number(countLeft)
		return err == nil && again == left
	}) && len(w.broken) == 0 {
		w.violated("liveness", "%v after a restore not all accounts have tombstones again: %s",
			restTime, w.unfinished())
	}
}

// askMoved asks the directory which accounts have left the ledgers until it answers, as a node does
// at its start.
func (n *node) askMoved(ctx context.Context) {
	for _, s := range n.stores {
		for {
			if _, err := s.SealMoved(ctx); err == nil {
				break
			}
			if clock.Sleep(ctx, n.clock, 2*time.Second) != nil {
				return
			}
		}
	}
}

package store

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// Settled is the nonce below which all transactions of a submitter are final and were compared with
// the chain for the last time.
type Settled struct {
	Lease *Lease
	Below txn.Nonce
}

// Erased is how far the signed bytes of a submitter are erased.
type Erased struct {
	Below txn.Nonce // nonces below have no signed bytes
	Done  bool      // nothing settled is left to erase
}

// Settle records settled nonces, and erases the signed bytes of up to most of them for each
// submitter; 0 erases none. Like a commit it is fenced: the result omits submitters whose lease is
// gone. It may be repeated, and a lower nonce than was recorded changes nothing.
func (s *Store) Settle(ctx context.Context, settled []Settled,
	most int) (map[txn.SubmitterID]Erased, error) {
	p := db.SettleNoncesParams{OwnerNode: s.cfg.Node, Most: int64(most)}
	for _, x := range settled {
		if !storable(uint64(x.Below)) {
			return nil, fmt.Errorf("store: settle submitter %d: nonce %d is beyond 2^63-1",
				x.Lease.submitter, x.Below)
		}
		p.SubmitterIds = append(p.SubmitterIds, int32(x.Lease.submitter))
		p.FencingTokens = append(p.FencingTokens, int64(x.Lease.token))
		p.Belows = append(p.Belows, int64(x.Below))
	}
	rows, err := s.own().SettleNonces(ctx, p)
	if err != nil {
		return nil, s.failed(ctx, fmt.Sprintf("settle %d submitters", len(settled)), err)
	}
	erased := make(map[txn.SubmitterID]Erased, len(rows))
	for _, r := range rows {
		erased[txn.SubmitterID(r.SubmitterID)] = Erased{
			Below: txn.Nonce(r.EraseBelow), Done: most == 0 || r.EraseBelow >= r.Below,
		}
	}
	return erased, nil
}

package archive

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// requests reads requests about reserved nonces that were answered, and their nonce used, for an
// age.
func (r *run) requests(ctx context.Context, age time.Duration) source {
	return func(id txn.SubmitterID) pages {
		q := store.RequestQuery{Submitter: id, Before: r.before(age), Limit: pageTxs}
		return func() (lines []store.ArchiveLine, done bool, err error) {
			var texts []string
			err = r.paced(ctx, func() error {
				texts, q.After, done, err = r.Ledger.ArchiveRequests(ctx, q)
				return err
			})
			for _, text := range texts {
				lines = append(lines, store.ArchiveLine{Line: text})
			}
			return lines, done, err
		}
	}
}

// removeRequests removes requests. No event goes with them, so no reader of the feed misses any.
func (r *run) removeRequests(ctx context.Context, _ plan, rows []row) error {
	requests := make([]store.ArchiveRequest, len(rows))
	for i := range rows {
		requests[i] = rows[i].request
	}
	removed, err := r.Ledger.RemoveRequests(ctx, r.lease, requests)
	r.report.Requests += removed
	return err
}

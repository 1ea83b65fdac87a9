package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/audit"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Books are the ledger and the chains of a configuration, for an audit; without the parts that
// write or sign.
type Books struct {
	store  *store.Store
	chains []*boundChain
	// request ids with several transactions; nil: not read yet
	duplicates map[txn.SubmitterID][]store.Violation
}

// OpenBooks opens ledger and chains. The ledger must respond and have the schema of this program.
// An unavailable chain fails the audits that need it; a chain other than the ledger's is an error
// here.
func OpenBooks(ctx context.Context, cfg *config.Config, log *slog.Logger) (*Books, error) {
	b := &Books{}
	if err := b.open(ctx, cfg, log); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *Books) open(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	key, err := readIntentKey(cfg.Intents)
	if err != nil {
		return problemsOf(cfg, "intents.key_file", err)
	}
	if b.store, err = openStore(ctx, cfg, "audit/"+uuid.NewString(), log, key, nil); err != nil {
		return err
	}
	if err = b.store.CheckSchema(ctx); err != nil {
		return Unreachable(err, cfg.Database.URL.Reveal(), cfg.DatabaseKey())
	}
	b.chains, err = openChains(ctx, cfg, b.store, log)
	return err
}

// Close ends the connections.
func (b *Books) Close() {
	for _, c := range b.chains {
		c.Close()
	}
	if b.store != nil {
		b.store.Close()
	}
}

// Submitters lists the submitters with these names or account ids; without names, all.
func (b *Books) Submitters(ctx context.Context,
	names []string) (list []store.SubmitterInfo, err error) {
	if len(names) == 0 {
		return b.all(ctx)
	}
	for _, name := range names {
		id, err := b.store.Lookup(ctx, name)
		if errors.Is(err, store.ErrSubmitterNotFound) {
			return nil, fmt.Errorf(
				"unknown submitter %q; see \"fencepost submitter list\"",
				name)
		}
		if err != nil {
			return nil, err
		}
		info, err := b.store.Submitter(ctx, id)
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	return list, nil
}

const submittersPage = 1000

func (b *Books) all(ctx context.Context) (list []store.SubmitterInfo, err error) {
	for after := ""; ; after = list[len(list)-1].Name {
		page, err := b.store.Submitters(ctx, nil, after, submittersPage)
		if err != nil {
			return nil, err
		}
		list = append(list, page...)
		if len(page) < submittersPage {
			return list, nil
		}
	}
}

// Audit checks one submitter. compared is false if its chain is not configured: then only the
// ledger itself is checked.
func (b *Books) Audit(ctx context.Context, s store.SubmitterInfo,
	progress func(audit.Progress)) (report audit.Report, compared bool, err error) {
	o := audit.Options{Store: b.store, Submitter: s.ID, Progress: progress}
	if c := b.chain(s.Chain); c != nil {
		o.Chain, compared = c, true
	}
	report, err = audit.Run(ctx, o)
	if err == nil && b.duplicates == nil { // one query for the whole ledger
		b.duplicates, err = b.store.DuplicateRequests(ctx)
	}
	report.Violations = append(report.Violations, b.duplicates[s.ID]...)
	return report, compared, err
}

func (b *Books) chain(id txn.ChainID) *boundChain {
	for _, c := range b.chains {
		if c.ID() == id {
			return c
		}
	}
	return nil
}

// History verifies the hash chains of a submitter, and passes each row to visit, unless that is
// nil.
func (b *Books) History(ctx context.Context, s store.SubmitterInfo,
	visit func(store.ChainLine) error) (store.ChainReport, error) {
	return b.store.VerifyChain(ctx, s.ID, visit)
}

// Checkpoints verifies the checkpoints of the ledger, and returns the last one.
func (b *Books) Checkpoints(ctx context.Context) (store.ChainReport, store.Checkpoint, error) {
	return b.store.VerifyCheckpoints(ctx)
}

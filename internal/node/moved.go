package node

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

const (
	// directoryPatience is how long a start waits for the directory. A ledger that cannot have lost
	// tombstones since the last answer starts without it; any other gives no lease.
	directoryPatience = 5 * time.Second
	// movedPoll is how often a node looks whether its ledger failed over.
	movedPoll = 2 * time.Second
)

// sealMoved asks the directory which accounts have left the ledger: at the start, until it answers,
// and after each fail-over. A ledger that was restored from an older backup does not know.
func (l *ledger) sealMoved(ctx context.Context) error {
	first, cancel := context.WithTimeout(ctx, directoryPatience)
	defer cancel()
	none := l.cfg.Directory.URL.Reveal() == ""
	answered, err := l.askMoved(first, none)
	if errors.Is(err, store.ErrNoRights) || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	l.asking.Do(func() { go l.keepAsking(ctx, answered || none) })
	return nil
}

func (l *ledger) keepAsking(ctx context.Context, answered bool) {
	for tries := 0; ; {
		pause := movedPoll
		if tries > 0 {
			pause = max(pause, txn.Backoff(tries))
		}
		if clock.Sleep(ctx, clock.Real{}, pause) != nil {
			return
		}
		now, err := l.askMoved(ctx, answered)
		answered = answered || now
		if tries++; err == nil {
			tries = 0
		}
	}
}

// askMoved asks the directory, or only if the ledger has failed over since it answered.
func (l *ledger) askMoved(ctx context.Context, onlyIfNeeded bool) (answered bool, err error) {
	if onlyIfNeeded {
		needed, err := l.store.MustAskMoved(ctx)
		if err != nil || !needed {
			return false, nil // the node reports a ledger that is down
		}
	}
	sealed, err := l.store.SealMoved(ctx)
	for _, name := range sealed {
		l.log.Warn("submitter has left this ledger, which was restored; it is not owned here",
			"submitter", name)
	}
	if err != nil && ctx.Err() == nil {
		l.log.Warn("moved accounts not read from the directory; retrying", "error", err)
	}
	return err == nil, err
}

package node

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// directoryPatience is how long a start waits for the directory. Traffic does not depend on it.
const directoryPatience = 5 * time.Second

// sealMoved asks the directory which accounts have left the ledger, before the node acquires any:
// a ledger that was restored from an older backup does not know. If the directory is unavailable,
// the node asks again until it answers.
func (l *ledger) sealMoved(ctx context.Context) error {
	if l.cfg.Directory.URL.Reveal() == "" {
		return nil
	}
	first, cancel := context.WithTimeout(ctx, directoryPatience)
	defer cancel()
	if l.askMoved(first) || ctx.Err() != nil {
		return ctx.Err()
	}
	go func() {
		for tries := 1; ctx.Err() == nil; tries++ {
			if clock.Sleep(ctx, clock.Real{}, txn.Backoff(tries)) == nil && l.askMoved(ctx) {
				return
			}
		}
	}()
	return nil
}

func (l *ledger) askMoved(ctx context.Context) (asked bool) {
	sealed, err := l.store.SealMoved(ctx)
	for _, name := range sealed {
		l.log.Warn("submitter has left this ledger, which was restored; it is not owned here",
			"submitter", name)
	}
	if err != nil && ctx.Err() == nil {
		l.log.Warn("moved accounts not read from the directory; retrying", "error", err)
	}
	return err == nil
}

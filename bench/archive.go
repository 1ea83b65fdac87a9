package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/archive"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/cmd/load"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// The load beside an archive: transactions that are queued, and fenced commits of owners.
const (
	archiveAccounts = 100
	archiveCallers  = 8
	archiveOwners   = 8
	archivePace     = 20 * time.Millisecond // of each caller and owner
)

// archiving measures the latency of others while an archive of n transactions runs, and before.
func archiving(ctx context.Context, b *bench, n int) (err error) {
	l, err := b.db.newLedger(ctx)
	if err != nil {
		return err
	}
	defer func() {
		l.close()
		err = errors.Join(err, b.db.dropLast(context.WithoutCancel(ctx)))
	}()
	b.progress("filling a ledger with %d transactions", n)
	if err := l.fillFor(ctx, n); err != nil {
		return err
	}
	s, err := store.Open(ctx, store.Config{URL: l.url, Node: "bench/load"})
	if err != nil {
		return err
	}
	defer s.Close()
	name := fmt.Sprintf("archive.%d.", n)
	var calm *latencies
	calmStalls, err := b.probedStalls(name+"before.", func() (err error) {
		calm, err = underLoad(ctx, s, func(ctx context.Context) error {
			return clock.Sleep(ctx, clock.Real{}, b.size.steady)
		})
		return err
	})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.db.dir, "archive-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	admin, err := store.Open(ctx, store.Config{URL: l.url, Node: "archive/bench",
		LeaseDuration: time.Minute})
	if err != nil {
		return err
	}
	defer admin.Close()
	began := time.Now()
	var report archive.Report
	var busy *latencies
	busyStalls, err := b.probedStalls(name, func() (err error) {
		busy, err = underLoad(ctx, s, func(ctx context.Context) error {
			for report.Transactions < int64(n) { // the load may hold back the newest for a moment
				next, err := archive.Run(ctx, archive.Options{Ledger: admin, Dir: dir,
					Transactions: time.Nanosecond, Grace: time.Second})
				if err != nil {
					return err
				}
				report.Transactions += next.Transactions
			}
			return nil
		})
		return err
	})
	if err != nil {
		return err
	}
	b.add(name+"rate", "tx/s", float64(n)/time.Since(began).Seconds())
	for what, calls := range map[string][2][]span{
		"create": {calm.creates, busy.creates}, "commit": {calm.commits, busy.commits},
	} {
		addPauses(b, name+"before."+what, calls[0], calmStalls)
		addPauses(b, name+what, calls[1], busyStalls)
	}
	return nil
}

// addPauses adds how long calls took, and the longest time of one beyond the stalls of the disk.
func addPauses(b *bench, name string, calls, stalls []span) {
	var took load.Latencies
	var pause time.Duration
	for _, c := range calls {
		took = append(took, c.took())
		pause = max(pause, c.beyond(stalls))
	}
	b.add(name+".p99", "ms", millis(took.At(0.99)))
	b.add(name+".max", "ms", millis(took.At(1)))
	b.add(name+".pause", "ms", millis(pause))
}

// fillFor fills a ledger with final, settled transactions.
func (l *ledger) fillFor(ctx context.Context, n int) error {
	chain, err := startChain(chainOptions{period: time.Hour, accounts: 1})
	if err != nil {
		return err
	}
	defer chain.close()
	addresses := make([][]byte, archiveAccounts)
	keys, err := writeKeys(archiveAccounts, chaintest.Key)
	if err != nil {
		return err
	}
	for i := range addresses {
		addresses[i] = keys.accounts[i][:]
	}
	each := n / archiveAccounts
	chain.MineEmpty(each)
	if err := l.fill(ctx, chain, addresses, each, 0); err != nil {
		return err
	}
	_, err = l.conn.Exec(ctx, `INSERT INTO submitter_settled (submitter_id, settled_below,
		erased_below, fencing_token)
		SELECT submitter_id, next_nonce, next_nonce, fencing_token FROM submitter_nonce_cursor`)
	return err
}

// latencies are the calls of all callers and owners.
type latencies struct {
	mu               sync.Mutex
	creates, commits []span
}

// underLoad runs callers and owners at a steady pace while work runs.
func underLoad(ctx context.Context, s *store.Store,
	work func(context.Context) error) (*latencies, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	all := &latencies{}
	var running sync.WaitGroup
	var number atomic.Int64
	run := func(to *[]span, call func() error) {
		running.Go(func() {
			var calls []span
			tick := time.NewTicker(archivePace)
			defer tick.Stop()
			for ctx.Err() == nil {
				began := time.Now()
				if err := call(); err != nil && ctx.Err() == nil {
					stop(err)
				}
				calls = append(calls, span{began, time.Now()})
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
			all.mu.Lock()
			defer all.mu.Unlock()
			*to = append(*to, calls...)
		})
	}
	for i := range archiveCallers {
		run(&all.creates, func() error {
			_, _, err := s.CreateTx(ctx, store.Intent{Submitter: txn.SubmitterID(1 + i),
				RequestID: fmt.Sprint("load-", time.Now().UnixNano(), "-", number.Add(1)),
				Payload: txn.Payload{To: &txn.Address{1}, Value: *uint256.NewInt(1),
					GasLimit: transferGas}})
			return err
		})
	}
	for i := range archiveOwners {
		lease, err := s.AcquireOne(ctx, txn.SubmitterID(1+archiveCallers+i))
		if err != nil {
			return nil, err
		}
		began := time.Now()
		run(&all.commits, func() error {
			if time.Since(began) > time.Second {
				began = time.Now()
				if _, err := s.Renew(ctx, []*store.Lease{lease}); err != nil {
					return err
				}
			}
			_, err := s.Commit(lease, txn.Change{Compared: true})
			return err
		})
	}
	err := work(ctx)
	stop(nil)
	running.Wait()
	if cause := context.Cause(ctx); err == nil && cause != nil && cause != context.Canceled {
		err = cause
	}
	return all, err
}

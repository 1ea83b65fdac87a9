package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/bench/internal/wire"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/cmd/load"
	"github.com/fencepost/fencepost/internal/pgembed"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

const (
	mostLedgers       = 3
	ledgersSubmitters = 60
	ledgersCallers    = 16
)

// ledgers is a service of several ledgers, each on a PostgreSQL server of its own.
type ledgers struct {
	servers    []*pgembed.Server
	chain      *chainNode
	keys       *keyFiles
	nodes      []*node
	submitters [][]string // by ledger
}

func newLedgers(ctx context.Context, b *bench, count, nodes int) (l *ledgers, err error) {
	l = &ledgers{submitters: make([][]string, count)}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close(ctx))
		}
	}()
	if l.chain, err = startChain(chainOptions{period: time.Second, accounts: ledgersSubmitters,
		inFlight: 1}); err != nil {
		return l, err
	}
	if l.keys, err = writeKeys(ledgersSubmitters, chaintest.Key); err != nil {
		return l, err
	}
	cfg := wire.Config{Chain: l.chain.url, ChainID: uint64(benchChain),
		Confirmations: confirmations, Signer: signer, Keys: l.keys.folder,
		PasswordFile: l.keys.password, Poll: 100 * time.Millisecond, Lease: 10 * time.Second,
		SignAtOnce: signAtOnce}
	for i := range count {
		server, err := pgembed.Start(ctx, pgembed.Options{Log: slog.New(slog.DiscardHandler),
			Settings: map[string]string{"max_connections": "200", "max_wal_size": "4GB",
				"checkpoint_timeout": "1h"}})
		if err != nil {
			return l, err
		}
		l.servers = append(l.servers, server)
		cfg.Ledgers = append(cfg.Ledgers,
			wire.Ledger{Name: fmt.Sprintf("l%d", i), URL: server.URL("postgres")})
	}
	for i := range count {
		if err := l.fill(ctx, i, cfg.Ledgers); err != nil {
			return l, err
		}
	}
	for i := range nodes {
		cfg.Name = fmt.Sprintf("n%d", i+1)
		n, err := startNode(ctx, b.node, cfg)
		if err != nil {
			return l, err
		}
		l.nodes = append(l.nodes, n)
	}
	return l, nil
}

// fill makes a ledger with its share of the submitters.
func (l *ledgers) fill(ctx context.Context, i int, all []wire.Ledger) error {
	if _, err := store.Migrate(ctx, all[i].URL, ""); err != nil {
		return err
	}
	directory, err := store.Open(ctx, store.Config{URL: all[0].URL, Node: "bench/directory"})
	if err != nil {
		return err
	}
	defer directory.Close()
	s, err := store.Open(ctx, store.Config{URL: all[i].URL, Node: "bench/register",
		Directory: directory})
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.JoinDirectory(ctx, all[i].Name); err != nil {
		return err
	}
	for k := i; k < ledgersSubmitters; k += len(all) {
		name := fmt.Sprintf("s%d", k)
		if _, _, err := s.Register(ctx, store.Registration{Name: name, Chain: benchChain,
			Address: l.keys.accounts[k], Signer: signer, Mode: txn.Strict,
			StartFrom: txn.StartChain}); err != nil {
			return err
		}
		l.submitters[i] = append(l.submitters[i], name)
	}
	return nil
}

func (l *ledgers) close(ctx context.Context) error {
	var errs []error
	for _, n := range l.nodes {
		errs = append(errs, n.stop())
	}
	if l.chain != nil {
		l.chain.close()
	}
	for _, s := range l.servers {
		errs = append(errs, s.Stop(context.WithoutCancel(ctx)))
	}
	if l.keys != nil {
		errs = append(errs, l.keys.remove())
	}
	return errors.Join(errs...)
}

// accept creates transactions in some ledgers, through all nodes.
func (l *ledgers) accept(ctx context.Context, prefix string, d time.Duration,
	in ...int) (load.Accepted, error) {
	plan := load.Plan{Callers: ledgersCallers, Duration: d, Payload: transfer(), Prefix: prefix}
	for _, i := range in {
		plan.Submitters = append(plan.Submitters, l.submitters[i]...)
	}
	conns := l.nodes[0].conns
	for _, n := range l.nodes[1:] {
		conns = append(conns[:len(conns):len(conns)], n.conns...)
	}
	return load.Create(ctx, conns, plan)
}

// ledgersByCount measures how many transactions one node accepts with 1, 2 and 3 ledgers. The
// servers share the machine, so that on a small one more of them gain nothing.
func ledgersByCount(ctx context.Context, b *bench) error {
	for count := 1; count <= mostLedgers; count++ {
		l, err := newLedgers(ctx, b, count, 1)
		if err != nil {
			return err
		}
		all := []int{0, 1, 2}[:count]
		_, err = l.accept(ctx, "warm", b.size.ledgers/3, all...)
		var done load.Accepted
		if err == nil {
			done, err = l.accept(ctx, "accept", b.size.ledgers, all...)
		}
		if err := errors.Join(err, l.close(ctx)); err != nil {
			return err
		}
		name := fmt.Sprintf("ledgers.%d.", count)
		b.add(name+"rate", "txs/s", done.Rate())
		b.add(name+"p99", "ms", millis(done.Latency.At(0.99)))
	}
	return nil
}

// signalAll sends a signal to a server and its sessions.
func signalAll(s *pgembed.Server, signal syscall.Signal) error {
	pid := s.PID()
	if err := syscall.Kill(pid, signal); err != nil {
		return fmt.Errorf("signal the server: %w", err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return fmt.Errorf("list the sessions of the server: %w", err)
	}
	for _, child := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, signal) // it may have ended
		}
	}
	return nil
}

// ledgersChaos measures calls on two of three ledgers, through three nodes: while all three have
// load, while the server of the third is stopped like a machine that hangs, and after it is killed.
func ledgersChaos(ctx context.Context, b *bench) (err error) {
	l, err := newLedgers(ctx, b, mostLedgers, 3)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close(ctx)) }()
	if _, err := l.accept(ctx, "warm", b.size.ledgers/3, 0, 1, 2); err != nil {
		return err
	}
	background, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() {
		for i := 0; background.Err() == nil; i++ { // it fails while the server is down
			_, _ = l.accept(background, fmt.Sprint("other-", i), b.size.ledgers, 1)
			select {
			case <-background.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	calm, err := l.accept(ctx, "calm", b.size.ledgers, 0, 2)
	if err != nil {
		return err
	}
	if err := signalAll(l.servers[1], syscall.SIGSTOP); err != nil {
		return err
	}
	frozen, err := l.accept(ctx, "frozen", b.size.ledgers, 0, 2)
	if err := errors.Join(err, signalAll(l.servers[1], syscall.SIGCONT)); err != nil {
		return fmt.Errorf("a call for another ledger: %w", err)
	}
	if err := l.servers[1].Kill(); err != nil {
		return err
	}
	killed, err := l.accept(ctx, "killed", b.size.ledgers, 0, 2)
	if err != nil {
		return fmt.Errorf("a call for another ledger: %w", err)
	}
	for name, of := range map[string]load.Accepted{"calm": calm, "frozen": frozen,
		"killed": killed} {
		b.add("ledgers."+name+".rate", "txs/s", of.Rate())
		b.add("ledgers."+name+".p99", "ms", millis(of.Latency.At(0.99)))
	}
	return nil
}

package engine

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// accountMoveLimit bounds everything that a test of moves waits for.
const accountMoveLimit = 2 * time.Minute

// twoLedgers has a node on each of two ledgers, one chain, and accounts of the first ledger.
type twoLedgers struct {
	*cluster
	ctx      context.Context
	from, to *store.Store // of operators
	old, new *store.Store // of callers
}

func newTwoLedgers(t *testing.T, accounts int) *twoLedgers {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), accountMoveLimit)
	t.Cleanup(cancel)
	chain := chaintest.New(chaintest.Options{})
	keys := make([]*ecdsa.PrivateKey, accounts)
	for i := range keys {
		keys[i] = chaintest.Key(i)
		chain.Fund(chaintest.Address(i), *uint256.MustFromDecimal("1000000000000000000000"))
	}
	book, err := sign.NewBook(sign.Entry{Name: "keys", Holder: sign.NewMemory(keys...)})
	if err != nil {
		t.Fatal(err)
	}
	open := func(db *dbtest.DB, url string, directory *store.Store) *store.Store {
		s, err := store.Open(ctx, store.Config{URL: url, Schema: db.Schema,
			Node: db.Schema + "/" + t.Name(), LeaseDuration: 2 * time.Second,
			Directory: directory})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	home := dbtest.New(t)
	directory := open(home, home.URL, nil)
	w := &twoLedgers{ctx: ctx}
	for _, name := range []string{"eu1", "us1"} {
		db := dbtest.New(t)
		owner := open(db, db.URL, directory)
		if _, err := owner.JoinDirectory(ctx, name); err != nil {
			t.Fatal(err)
		}
		w.cluster = &cluster{harness: &harness{t: t, db: db, policy: testPolicy}, chain: chain,
			keys: book, lease: 2 * time.Second}
		w.start("node", func(o *Options) { o.PollInterval = 100 * time.Millisecond })
		w.from, w.to = w.to, owner
		w.old, w.new = w.new, open(db, db.NodeURL, directory)
	}
	for i := range accounts {
		if _, _, err := w.old.Register(ctx, store.Registration{Name: fmt.Sprint("s", i),
			Chain: chain.ID(), Address: chaintest.Address(i), Signer: "keys", Mode: txn.Strict,
			StartFrom: "0"}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// patiently repeats a call of a client until it succeeds, at the ledger that has the account: a
// refusal that names the other ledger leads there.
func (w *twoLedgers) patiently(call func(*store.Store) error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := call(w.old)
		if errors.Is(err, store.ErrMoved) {
			err = call(w.new)
		}
		if err == nil || errors.Is(err, store.ErrKeyReused) {
			return err
		}
		select {
		case <-w.ctx.Done():
			return fmt.Errorf("%w: %w", w.ctx.Err(), err)
		case <-tick.C:
		}
	}
}

func (w *twoLedgers) create(account, request string) (id txn.TxID, created bool, err error) {
	err = w.patiently(func(s *store.Store) error {
		submitter, err := s.Lookup(w.ctx, account)
		if err != nil {
			return err
		}
		to := txn.Address{0xaa}
		info, fresh, err := s.CreateTx(w.ctx, store.Intent{Submitter: submitter,
			RequestID: request,
			Payload:   txn.Payload{To: &to, Data: []byte(account + " " + request)}})
		id, created = info.ID, fresh
		return err
	})
	return id, created, err
}

var errNotFinal = errors.New("not final")

func (w *twoLedgers) final(id txn.TxID) error {
	return w.patiently(func(s *store.Store) error {
		tx, err := s.Tx(w.ctx, id)
		if err == nil && !tx.State.Final() {
			err = errNotFinal
		}
		return err
	})
}

// client sends until the account has moved, and for a while after, repeats requests, and returns
// how many transactions it has asked for.
func (w *twoLedgers) client(account string, moved *atomic.Bool) (asked int, err error) {
	ids := map[string]txn.TxID{}
	for left := 2; left > 0; {
		if moved.Load() {
			left--
		}
		var last txn.TxID
		for range 3 {
			request := fmt.Sprint("r", len(ids))
			id, _, err := w.create(account, request)
			if err != nil {
				return 0, err
			}
			ids[request], last = id, id
		}
		if err := w.final(last); err != nil {
			return 0, err
		}
	}
	for request, id := range ids {
		again, created, err := w.create(account, request)
		if err != nil || created || again != id {
			return 0, fmt.Errorf("%s %s names %s, then %s (created %t): %w", account, request,
				id, again, created, err)
		}
	}
	return len(ids), nil
}

// move moves an account with a command that ends before an action, and then with two at once.
func (w *twoLedgers) move(account, until string) error {
	run := func(ctx context.Context, report func(store.MoveProgress)) error {
		for {
			m, err := store.PrepareMove(ctx, w.from, w.to, account, "us1")
			if err == nil {
				_, err = m.Run(ctx, 5*time.Millisecond, report)
			}
			if !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
				return err
			} // another command had the lock for long: repeat, as an operator does
		}
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	err := run(ctx, func(p store.MoveProgress) {
		if p.Action == until {
			cancel()
		}
	})
	if err != nil && ctx.Err() == nil {
		return err
	}
	both := make(chan error, 2)
	for range cap(both) {
		go func() { both <- run(w.ctx, func(store.MoveProgress) {}) }()
	}
	return errors.Join(<-both, <-both)
}

// TestAccountMove_UnderLoad_ExecutedOnce moves accounts while clients send and repeat requests.
// Each command ends before another one of its actions, and two commands resume it.
func TestAccountMove_UnderLoad_ExecutedOnce(t *testing.T) {
	t.Parallel()
	actions := []string{"begin", "pause", "wait", "seal", "record", "copy", "finish", "end"}
	w := newTwoLedgers(t, len(actions))
	w.mine(10 * time.Millisecond)
	var asked atomic.Int64
	var all sync.WaitGroup
	for i, action := range actions {
		account := fmt.Sprint("s", i)
		var moved atomic.Bool
		all.Go(func() {
			n, err := w.client(account, &moved)
			if err != nil {
				t.Errorf("client of %s, ended before %s: %v", account, action, err)
			}
			asked.Add(int64(n))
		})
		all.Go(func() {
			if _, _, err := w.create(account, "r0"); err != nil {
				t.Error(err)
			}
			if err := w.move(account, action); err != nil {
				t.Errorf("move of %s, ended before %s: %v", account, action, err)
			}
			moved.Store(true)
		})
	}
	all.Wait()
	next, seen := map[txn.Address]txn.Nonce{}, map[string]int{}
	for _, tx := range w.chain.Included() {
		if tx.Nonce != next[tx.Sender] {
			t.Errorf("%s used nonce %d, next was %d", tx.Sender, tx.Nonce, next[tx.Sender])
		}
		next[tx.Sender]++
		seen[string(tx.Payload.Data)]++
	}
	for intent, times := range seen {
		if times != 1 {
			t.Errorf("%q was executed %d times", intent, times)
		}
	}
	if int64(len(seen)) != asked.Load() {
		t.Errorf("%d intents were executed, %d were asked for", len(seen), asked.Load())
	}
}

package engine

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(dbtest.Main(m),
		// go-ethereum leaves these running when a node is closed.
		goleak.IgnoreTopFunction("github.com/syndtr/goleveldb/leveldb.(*DB).mpoolDrain"),
		goleak.IgnoreTopFunction("github.com/ethereum/go-ethereum/core.(*txSenderCacher).cache"))
}

// harness is a ledger and a chain for nodes of a test.
type harness struct {
	t          *testing.T
	db         *dbtest.DB
	dev        *devchain.Chain
	policy     txn.Policy
	submitters []txn.SubmitterID
	admin      *store.Store
}

const (
	blockPeriod   = 20 * time.Millisecond
	leaseDuration = time.Second
)

var testPolicy = txn.Policy{
	Confirmations:    3,
	ReleaseDepth:     1,
	ResubmitInterval: 2 * time.Second,
	ResubmitMax:      20,
}

// newHarness uses go-ethereum.
func newHarness(t *testing.T, submitters int, period time.Duration,
	opts ...dbtest.Option) *harness {
	t.Helper()
	dev, err := devchain.Start(devchain.Options{Period: period, Accounts: submitters + 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	r := newLedger(t, submitters, txn.ChainID(dev.ID()), opts...)
	r.dev = dev
	return r
}

// newLedger creates a ledger without a chain: the options of each node set it.
func newLedger(t *testing.T, submitters int, on txn.ChainID, opts ...dbtest.Option) *harness {
	t.Helper()
	return newLedgerIn(t, dbtest.New(t, opts...), submitters, on)
}

// newLedgerIn creates the submitters in a schema without any.
func newLedgerIn(t *testing.T, db *dbtest.DB, submitters int, on txn.ChainID) *harness {
	t.Helper()
	r := &harness{t: t, db: db, policy: testPolicy}
	r.admin = r.openStore("admin", r.db.URL)
	for i := range submitters {
		info, _, err := r.admin.Register(t.Context(), store.Registration{
			Name: fmt.Sprintf("s%d",
				i), Chain: on, Address: devchain.Address(i), Signer: "keys", Mode: txn.Strict,
			StartFrom: txn.StartChain,
		})
		if err != nil {
			t.Fatal(err)
		}
		r.submitters = append(r.submitters, info.ID)
	}
	return r
}

func (r *harness) openStore(name, url string) *store.Store {
	r.t.Helper()
	return r.openStoreBy(clock.Real{}, name, url)
}

func (r *harness) openStoreBy(c clock.Clock, name, url string) *store.Store {
	r.t.Helper()
	s, err := store.Open(
		r.t.Context(),
		store.Config{
			URL:           url,
			Schema:        r.db.Schema,
			Node:          name + "/" + uuid.NewString(),
			LeaseDuration: leaseDuration,
			Clock:         c,
		},
	)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(s.Close)
	return s
}

// testNode is a running engine.
type testNode struct {
	store  *store.Store
	engine *Engine
	stop   func() // returns when Run has returned
	kill   context.CancelFunc
	err    error // of Run, after stop
}

// startNode starts an engine on its own store. adjust may change its options.
func (r *harness) startNode(name string, adjust func(*Options)) *testNode {
	r.t.Helper()
	return r.startNodeOn(r.openStore(name, r.db.NodeURL), adjust)
}

func (r *harness) startNodeOn(s *store.Store, adjust func(*Options)) *testNode {
	r.t.Helper()
	on := ChainOptions{Policy: r.policy, PollInterval: 10 * time.Millisecond}
	if r.dev != nil {
		client, err := chain.Dial(
			r.t.Context(),
			chain.Options{
				Name:      "dev",
				ChainID:   txn.ChainID(r.dev.ID()),
				Endpoints: []string{r.dev.URL()},
				Fees:      chain.FeeOptions{MaxGas: 1 << 24},
			},
		)
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(client.Close)
		on.Chain = client
	}
	var keys []*ecdsa.PrivateKey
	for i := range len(r.submitters) {
		keys = append(keys, devchain.Key(i))
	}
	book, err := sign.NewBook(sign.Entry{Name: "keys", Holder: sign.NewMemory(keys...)})
	if err != nil {
		r.t.Fatal(err)
	}
	o := Options{
		Store: s, Signer: book, Clock: clock.Real{},
		Logger: slog.New(slog.NewTextHandler(r.t.Output(),
			&slog.HandlerOptions{Level: slog.LevelWarn})),
		Chains:        []ChainOptions{on},
		LeaseDuration: leaseDuration, RenewInterval: 200 * time.Millisecond,
		SweepInterval: 50 * time.Millisecond, PollInterval: 100 * time.Millisecond,
	}
	if adjust != nil {
		adjust(&o)
	}
	return r.run(o)
}

// run runs an engine until it is stopped or the test ends.
func (r *harness) run(o Options) *testNode {
	r.t.Helper()
	e, err := New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	n := &testNode{
		store:  o.Store,
		engine: e,
		kill:   cancel,
		stop:   sync.OnceFunc(func() { cancel(); <-done }),
	}
	go func() {
		defer close(done)
		n.err = e.Run(ctx)
	}()
	r.t.Cleanup(n.stop)
	return n
}

// create queues a transfer of the i-th submitter.
func (r *harness) create(i int, request string, p txn.Payload) txn.TxID {
	r.t.Helper()
	tx, _, err := r.admin.CreateTx(r.t.Context(),
		store.Intent{Submitter: r.submitters[i], RequestID: request, Payload: p})
	if err != nil {
		r.t.Fatal(err)
	}
	return tx.ID
}

func transfer() txn.Payload {
	to := txn.Address{0xaa}
	return txn.Payload{To: &to}
}

// eventually waits for a condition of the ledger or the chain.
func (r *harness) eventually(what string, condition func() error) {
	r.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: %v", what, err)
		}
		<-tick.C
	}
}

func (r *harness) awaitFinal(id txn.TxID) store.TxInfo {
	r.t.Helper()
	var tx store.TxInfo
	r.eventually("the transaction is final", func() (err error) {
		if tx, err = r.admin.Tx(context.Background(), id); err == nil && !tx.State.Final() {
			err = fmt.Errorf("it is %s %s: %s", tx.State, tx.Sub, tx.LastError)
		}
		return err
	})
	return tx
}

func (r *harness) events(id txn.TxID) []txn.Kind {
	r.t.Helper()
	events, err := r.admin.EventsOfTx(r.t.Context(), id, 0, 100)
	if err != nil {
		r.t.Fatal(err)
	}
	var kinds []txn.Kind
	for i, e := range events {
		if e.Seq != int64(i+1) {
			r.t.Fatalf("event %d has seq %d", i+1, e.Seq)
		}
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// number runs a query that returns one number.
func (r *harness) number(query string, args ...any) (n int) {
	r.t.Helper()
	if err := r.db.Pool.QueryRow(context.Background(), query, args...).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

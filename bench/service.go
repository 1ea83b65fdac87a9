package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/bench/internal/wire"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// service is Fencepost at work: a ledger with submitters, a chain, and nodes.
type service struct {
	b          *bench
	ledger     *ledger
	chain      *chainNode      // nil: the embedded chain
	dev        *devchain.Chain // nil: chaintest's
	nodes      []*node
	submitters []string
	config     wire.Config
	keys       *keyFiles
}

type serviceOptions struct {
	submitters int
	period     time.Duration
	byHash     bool // the chain offers no receipts of whole blocks
	simulated  bool // drafts with a gas limit are simulated too
	embedded   bool // go-ethereum's chain in this process
	lockstep   bool // see chainOptions
	inFlight   int  // limit of pipelined submitters; 0: strict
	// limit of external submitters; 0: they are not
	reservations int
	lease        time.Duration
	mode         engine.Mode   // empty: basic
	idleAfter    time.Duration // 0: the default
	signDelay    time.Duration // of each signature, as of a remote signer
	brokers      []string      // of a Kafka sink; nil: none
	policies     bool          // see wire.Config
}

// confirmations make a transaction final here.
const confirmations = 4

func newService(ctx context.Context, b *bench, o serviceOptions) (s *service, err error) {
	s = &service{b: b}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.ledger, err = b.db.newLedger(ctx); err != nil {
		return s, err
	}
	url, key := "", chaintest.Key
	if o.embedded {
		if s.dev, err = devchain.Start(
			devchain.Options{Period: o.period, Accounts: o.submitters},
		); err != nil {
			return s, err
		}
		url, key = s.dev.URL(), devchain.Key
	} else {
		if s.chain, err = startChain(
			chainOptions{
				period: o.period, accounts: o.submitters, noBlockGroups: o.byHash,
				lockstep: o.lockstep, inFlight: max(o.inFlight, 1),
			},
		); err != nil {
			return s, err
		}
		url = s.chain.url
	}
	if s.keys, err = writeKeys(o.submitters, key); err != nil {
		return s, err
	}
	if err := s.register(ctx, o.inFlight, o.reservations); err != nil {
		return s, err
	}
	lease := o.lease
	if lease == 0 {
		lease = 10 * time.Second
	}
	poll := max(o.period/10, 5*time.Millisecond)
	if o.lockstep {
		// blocks wait for the machine: looks in between would be counted the more the slower it is
		poll = o.period / 2
	}
	s.config = wire.Config{
		Chain: url, Poll: poll, Lease: lease, Simulate: o.simulated, Mode: string(o.mode),
		IdleAfter: o.idleAfter, SignDelay: o.signDelay,
		SignAtOnce: signAtOnce, Brokers: o.brokers, Policies: o.policies,
	}
	return s, s.addNode(ctx)
}

func (s *service) addNode(ctx context.Context) error {
	cfg := s.config
	cfg.Name = fmt.Sprintf("n%d",
		len(s.nodes)+1)
	cfg.Database = s.ledger.url
	cfg.ChainID = uint64(
		benchChain,
	)
	cfg.Confirmations = confirmations
	cfg.Signer = signer
	cfg.Keys = s.keys.folder
	cfg.PasswordFile = s.keys.password
	n, err := startNode(ctx, s.b.node, cfg)
	if err == nil {
		s.nodes = append(s.nodes, n)
	}
	return err
}

const registrars = 8

// register makes a submitter of each key.
func (s *service) register(ctx context.Context, inFlight, reservations int) error {
	mode, limit := txn.Strict, inFlight
	switch {
	case reservations > 0:
		mode, limit = txn.External, reservations
	case inFlight > 0:
		mode = txn.Pipelined
	}
	count := len(s.keys.accounts)
	admin, err := store.Open(ctx, store.Config{URL: s.ledger.url, Node: "bench/register"})
	if err != nil {
		return err
	}
	defer admin.Close()
	s.submitters = make([]string, count)
	var (
		wg   sync.WaitGroup
		next atomic.Int64
		errs = make([]error, registrars)
	)
	for r := range registrars {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < count && errs[r] == nil; i = int(next.Add(1)) - 1 {
				s.submitters[i] = fmt.Sprintf("s%d", i)
				_, _, errs[r] = admin.Register(ctx, store.Registration{
					Name: s.submitters[i], Chain: benchChain, Address: s.keys.accounts[i],
					Signer: signer, Mode: mode, StartFrom: txn.StartChain,
					Policies: store.Policies{MaxInFlight: limit},
				})
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// close ends all of it: nodes first.
func (s *service) close() error {
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.stop())
	}
	if s.chain != nil {
		s.chain.close()
	}
	if s.dev != nil {
		errs = append(errs, s.dev.Close())
	}
	if s.ledger != nil {
		s.ledger.close()
	}
	if s.keys != nil {
		errs = append(errs, s.keys.remove())
	}
	return errors.Join(errs...)
}

// state is all that is counted, at one moment.
type state struct {
	at       time.Time
	work     work
	asked    asked
	node     usage
	postgres time.Duration
	own      time.Duration // of this program: callers, watchers, and the chain
	blocks   uint64
	events   float64 // in the ledger
}

func (s *service) measure(ctx context.Context) (m state, err error) {
	m.at = time.Now()
	if m.work, err = s.ledger.measure(ctx); err != nil {
		return m, err
	}
	if m.node, err = s.nodes[0].measure(ctx); err != nil {
		return m, err
	}
	if m.events, err = s.ledger.events(ctx); err != nil {
		return m, err
	}
	m.postgres = postgresCPU(s.b.db.dir)
	m.own = ownCPU()
	if s.chain != nil {
		m.asked = s.chain.measure()
		head, err := s.chain.Head(ctx)
		m.blocks = head.Number
		return m, err
	}
	return m, nil
}

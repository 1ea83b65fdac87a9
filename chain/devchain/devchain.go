// Package devchain runs go-ethereum in this process as a chain of its own, for
// development and tests: JSON-RPC over HTTP and WebSocket on one loopback port,
// any chain id and block period, accounts with money, and reorgs on demand.
//
// # What is real
//
// The pool, the EVM, the state and the RPC are go-ethereum's own. In place of a
// consensus client this package decides when a block is made and which one is
// the head, safe or final: it has go-ethereum build a block from the pool,
// imports it as one received, and chooses it. A reorg builds the other branch
// first and then switches over in one step, as a network would make it seem.
//
// A block's time is at least one second after its parent's. Chains that make
// blocks faster run ahead of the clock, also over restarts.
//
// The pool refuses and evicts as a node's does. In particular it does not hold on
// to transactions that came over its own RPC, so what was dropped stays dropped.
//
// # What stays
//
// Without a DataDir all is in memory. With one, a chain goes on where it was:
// blocks, state and receipts are written as each block is made, so that a killed
// process loses at most its newest block and never more than from some block on;
// the pool is written by Close. The system contracts that store something in
// every block, those of EIP-2935 and EIP-4788, are left out: without them an
// empty block changes no state, and an idle chain takes little disk.
package devchain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/eth"
	"github.com/ethereum/go-ethereum/eth/filters"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/fencepost/fencepost/internal/clock"
)

// Distances in blocks from the head, about those of mainnet. A reorg cannot
// pass the final block.
const (
	SafeDepth  = 32
	FinalDepth = 64
)

const pollEvery = 5 * time.Millisecond

// Options choose a chain. The zero value is one in memory, on a free port, that
// makes blocks only when told to; an empty first one it has from the start.
type Options struct {
	// ChainID is the chain's id; 0 means 31337.
	ChainID uint64
	// Period is the time between blocks; 0 means that only Mine makes them.
	Period time.Duration
	// Port is the TCP port on 127.0.0.1; 0 means a free one.
	Port int
	// Accounts is how many of the Keys have money from the beginning; 0 means 10.
	Accounts int
	// Balance is what each of them has, in wei; nil means 10,000 ether.
	Balance *big.Int
	// GasLimit is a block's, in gas; 0 means go-ethereum's default.
	GasLimit uint64
	// DataDir keeps the chain; empty means memory. The options above up to
	// GasLimit, ports and periods aside, are part of a kept chain.
	DataDir string
	// DevRPC adds methods to the RPC that bend the chain: dev_mine, dev_reorg
	// and dev_dropPending, and go-ethereum's debug namespace.
	DevRPC bool
	// Log is told of the chain's troubles, and of go-ethereum's on this node's
	// RPC; nil means nobody. See RouteLogs for all of go-ethereum's.
	Log *slog.Logger
}

// Chain is a running chain. Its methods are safe for concurrent use.
type Chain struct {
	opts  Options
	log   *slog.Logger
	stack *node.Node
	eth   *eth.Ethereum

	mu     sync.Mutex // one change of the chain or the pool at a time
	closed bool

	stop func() // ends the sealing of blocks and waits for it
	once sync.Once
	err  error // of Close
}

// Start starts a chain and serves its RPC.
func Start(o Options) (*Chain, error) {
	o = o.complete()
	c := &Chain{opts: o, log: o.Log}
	if err := c.start(); err != nil {
		return nil, fmt.Errorf("devchain: start: %w", err)
	}
	return c, nil
}

func (o Options) complete() Options {
	if o.ChainID == 0 {
		o.ChainID = 31337
	}
	if o.Accounts == 0 {
		o.Accounts = 10
	}
	if o.Balance == nil {
		o.Balance = new(big.Int).Mul(big.NewInt(10_000), big.NewInt(params.Ether))
	}
	if o.GasLimit == 0 {
		o.GasLimit = defaultGasLimit
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (c *Chain) start() (err error) {
	// Asked early: a node that fails to listen leaves half of itself running.
	if err := probe(c.opts.Port); err != nil {
		return err
	}
	if c.stack, err = node.New(nodeConfig(c.opts)); err != nil {
		return c.explain(err)
	}
	defer func() {
		if err != nil {
			err = c.explain(err)
			_ = c.stack.Close() // the first error is the one to tell
		}
	}()
	if c.eth, err = eth.New(c.stack, ethConfig(c.opts)); err != nil {
		return err
	}
	c.stack.RegisterAPIs(c.apis())
	if err := c.stack.Start(); err != nil {
		return err
	}
	c.eth.SetSynced()
	c.mark(c.eth.BlockChain().CurrentBlock())
	if err := c.firstBlock(); err != nil {
		return err
	}
	c.loadPool()
	c.stop = c.sealEvery(c.opts.Period)
	return nil
}

// firstBlock makes block 1 of a new chain. Before it go-ethereum indexes nothing,
// and tells everybody who asks for a receipt to come back later.
func (c *Chain) firstBlock() error {
	if c.eth.BlockChain().CurrentBlock().Number.Sign() > 0 {
		return nil
	}
	return c.mine()
}

func (c *Chain) apis() []rpc.API {
	system := filters.NewFilterSystem(c.eth.APIBackend, filters.Config{})
	list := []rpc.API{{Namespace: "eth", Service: filters.NewFilterAPI(system)}}
	if c.opts.DevRPC {
		list = append(list, rpc.API{Namespace: "dev", Service: &devAPI{c}})
	}
	return list
}

func probe(port int) error {
	l, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf(
			"port %d on 127.0.0.1 is in use by another program: stop it, or choose another port",
			port)
	}
	if err != nil {
		return err
	}
	return l.Close()
}

// explain makes sentences of the failures that a user can do something about.
func (c *Chain) explain(err error) error {
	var genesis *core.GenesisMismatchError
	var config *params.ConfigCompatError
	switch {
	case errors.Is(err, node.ErrDatadirUsed):
		return fmt.Errorf("another process runs the chain in %s: stop it, or choose another folder",
			c.opts.DataDir)
	case errors.As(err, &genesis), errors.As(err, &config):
		return fmt.Errorf(
			"the chain in %s began with other settings (chain id, accounts, balance or gas limit): "+
				"use those, choose another folder, or remove this one to begin anew",
			c.opts.DataDir,
		)
	default:
		return err
	}
}

// URL is the address of the JSON-RPC over HTTP.
func (c *Chain) URL() string { return c.stack.HTTPEndpoint() }

// WSURL is the address of the JSON-RPC over WebSocket.
func (c *Chain) WSURL() string { return c.stack.WSEndpoint() }

// ID is the chain id.
func (c *Chain) ID() uint64 { return c.opts.ChainID }

// Client talks to the node without a network. The caller closes it.
func (c *Chain) Client() *ethclient.Client { return ethclient.NewClient(c.stack.Attach()) }

// AwaitIndexed waits until every transaction can be found by its hash. Before
// that, which is a moment after the start, the RPC answers a question for an
// unknown transaction with the error "transaction indexing is in progress".
func (c *Chain) AwaitIndexed(ctx context.Context) error {
	for !c.eth.BlockChain().TxIndexDone() {
		if err := clock.Sleep(ctx, clock.Real{}, pollEvery); err != nil {
			return fmt.Errorf("devchain: await the index of transactions: %w", err)
		}
	}
	return nil
}

// Close ends the chain, and keeps what is to be kept. It may be called again.
func (c *Chain) Close() error {
	c.once.Do(func() {
		c.stop()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closed = true
		if err := errors.Join(c.savePool(), c.stack.Close()); err != nil {
			c.err = fmt.Errorf("devchain: close: %w", err)
		}
	})
	return c.err
}

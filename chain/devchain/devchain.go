// Package devchain runs go-ethereum in this process as a local chain for development and tests:
// JSON-RPC over HTTP and WebSocket on one loopback port, any chain id and block period, funded
// accounts, and reorgs on demand.
//
// # Real and simulated parts
//
// The pool, the EVM, the state and the RPC are go-ethereum's. This package replaces the consensus
// client: it decides when a block is made, and which block is the head, safe or final. go-ethereum
// builds a block from the pool, and this package imports it as if received. A reorg builds the
// other branch first and switches in one step, as nodes of a network see it.
//
// A block's time is at least one second after its parent's. Chains with a shorter period run ahead
// of the clock, also across restarts.
//
// The pool rejects and evicts as a node's does. It does not prefer transactions from its own RPC,
// so dropped ones stay dropped.
//
// # Persistence
//
// Without a DataDir everything is in memory. With one, the chain resumes where it left off. Blocks,
// state and receipts are written with each block, so a killed process loses at most its newest
// block. Close writes the pool. The system contracts that write in every block (EIP-2935 and
// EIP-4788) are omitted: an empty block then changes no state, and an idle chain uses little disk.
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

// Depths of the safe and the final block, close to mainnet's. A reorg cannot pass the final block.
const (
	SafeDepth  = 32
	FinalDepth = 64
)

const pollEvery = 5 * time.Millisecond

// Options configure a chain. The zero value is an in-memory chain on a free port that makes blocks
// on request only, after an initial empty one.
type Options struct {
	// ChainID is the chain id; 0 means 31337.
	ChainID uint64
	// Period is the time between blocks; 0 means on request only (Mine).
	Period time.Duration
	// Port is the TCP port on 127.0.0.1; 0 means a free one.
	Port int
	// Accounts is the number of funded Keys; 0 means 10.
	Accounts int
	// Balance is their initial balance in wei; nil means 10,000 ether.
	Balance *big.Int
	// GasLimit is the gas limit of a block; 0 means go-ethereum's default.
	GasLimit uint64
	// DataDir stores the chain; empty means memory. The options above, except Port and Period, are
	// fixed for a stored chain.
	DataDir string
	// DevRPC adds RPC methods that manipulate the chain: dev_mine, dev_reorg and dev_dropPending,
	// and go-ethereum's debug namespace. eth_accounts and eth_sendTransaction then use the funded
	// Keys, as a wallet does.
	DevRPC bool
	// Log receives warnings of the chain and of go-ethereum's RPC; nil discards them. RouteLogs
	// covers the rest of go-ethereum.
	Log *slog.Logger
}

// Chain is a running chain. Its methods are safe for concurrent use.
type Chain struct {
	opts  Options
	log   *slog.Logger
	stack *node.Node
	eth   *eth.Ethereum

	mu     sync.Mutex // held for each change of the chain or the pool
	closed bool

	stop func() // stops block production and waits for it
	once sync.Once
	err  error // of Close
}

// Start starts a chain and serves its RPC.
func Start(o Options) (*Chain, error) {
	o = o.complete()
	c := &Chain{opts: o, log: o.Log}
	if err := c.start(); err != nil {
		return nil, fmt.Errorf("devchain: start the chain: %w", err)
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
	// Checked early: a node that fails to listen leaves parts of itself running.
	if err := probe(c.opts.Port); err != nil {
		return err
	}
	if c.stack, err = node.New(nodeConfig(c.opts)); err != nil {
		return c.explain(err)
	}
	defer func() {
		if err != nil {
			err = c.explain(err)
			_ = c.stack.Close() // report the first error
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

// firstBlock makes block 1 of a new chain. Before it go-ethereum has no index, and every receipt
// query fails.
func (c *Chain) firstBlock() error {
	if c.eth.BlockChain().CurrentBlock().Number.Sign() > 0 {
		return nil
	}
	return c.mine(false)
}

func (c *Chain) apis() []rpc.API {
	system := filters.NewFilterSystem(c.eth.APIBackend, filters.Config{})
	list := []rpc.API{{Namespace: "eth", Service: filters.NewFilterAPI(system)}}
	if c.opts.DevRPC {
		list = append(list, rpc.API{Namespace: "dev", Service: &devAPI{c}},
			rpc.API{Namespace: "eth", Service: &walletAPI{c}})
	}
	return list
}

func probe(port int) error {
	l, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf(
			"port %d on 127.0.0.1 is in use: stop the other program, or choose another port",
			port)
	}
	if err != nil {
		return err
	}
	return l.Close()
}

// explain turns failures that a user can fix into clear errors.
func (c *Chain) explain(err error) error {
	var genesis *core.GenesisMismatchError
	var config *params.ConfigCompatError
	switch {
	case errors.Is(err, node.ErrDatadirUsed):
		return fmt.Errorf("another process runs the chain in %s; stop it, or choose another folder",
			c.opts.DataDir)
	case errors.As(err, &genesis), errors.As(err, &config):
		return fmt.Errorf(
			"the chain in %s has other settings (chain id, accounts, balance or gas limit); "+
				"use the same settings or another folder, or delete this one",
			c.opts.DataDir,
		)
	default:
		return err
	}
}

// URL returns the address of JSON-RPC over HTTP.
func (c *Chain) URL() string { return c.stack.HTTPEndpoint() }

// WSURL returns the address of JSON-RPC over WebSocket.
func (c *Chain) WSURL() string { return c.stack.WSEndpoint() }

// ID returns the chain id.
func (c *Chain) ID() uint64 { return c.opts.ChainID }

// Client returns an in-process client of the node. The caller closes it.
func (c *Chain) Client() *ethclient.Client { return ethclient.NewClient(c.stack.Attach()) }

// AwaitIndexed waits until every transaction can be found by its hash. Until then, shortly after
// the start, a query for an unknown transaction fails with "transaction indexing is in progress".
func (c *Chain) AwaitIndexed(ctx context.Context) error {
	for !c.eth.BlockChain().TxIndexDone() {
		if err := clock.Sleep(ctx, clock.Real{}, pollEvery); err != nil {
			return fmt.Errorf("devchain: wait for the transaction index: %w", err)
		}
	}
	return nil
}

// Close stops the chain and saves it. It may be called more than once.
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

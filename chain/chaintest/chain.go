// Package chaintest is an in-memory EVM chain with the pool rules of go-ethereum and faults on
// demand.
//
// It implements the same port as chain.Client and passes the same suite (chain/conformance).
// Results of tests with it therefore hold for real nodes, except for the EVM: contracts are Go
// functions. It accepts real signed bytes, and has accounts with balances and nonces, fees, blocks
// linked by hashes, receipts, and reorgs.
//
// Nothing happens automatically: blocks come from Mine, there is no goroutine and no clock, and
// equal calls give equal hashes, as a seeded simulation requires. Run and Options.AutoMine are for
// tests that do not need this.
//
// A test injects faults through Intercept, which sees every call first. Received returns all bytes
// that were sent, including those that a fault kept from the pool, so that oracles can compare them
// with a ledger.
package chaintest

import (
	"context"
	"crypto/ecdsa"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// Options configure a chain. Zero values mean the default named with each field.
type Options struct {
	ChainID  txn.ChainID // 31337
	GasLimit uint64      // of a block; 30,000,000
	MaxTxGas uint64      // of a transaction, EIP-7825; 16,777,216
	BaseFee  txn.Wei     // 1 gwei; SetBaseFee changes it
	// a chain without EIP-1559: no base fee, and only legacy transactions
	Legacy bool
	// LegacyPool takes only legacy transactions, on a chain with a base fee.
	LegacyPool bool
	GasPrice   txn.Wei // suggested price of a legacy chain; 1 gwei
	MinTip     txn.Wei // minimum tip of the pool; 1 wei
	// TerseFloor omits the minimum tip from the message of a refusal.
	TerseFloor bool
	TipHint    txn.Wei               // suggested to replace a refused attempt; none
	Tips       map[txn.Speed]txn.Wei // tip for each speed; none: MinTip. SetTips changes it
	// pool capacity in transactions; 6144. A full pool drops its cheapest for a better one
	PoolLimit int
	BlockTime uint64 // seconds between the timestamps of two blocks; 1
	AutoMine  bool   // mine each accepted transaction at once
	// StrictFeeCap refuses a fee cap below the base fee, as sequencers do. go-ethereum keeps such a
	// transaction until the base fee falls.
	StrictFeeCap bool
	// StrictNonce refuses a nonce with a gap before it, as sequencers do. go-ethereum queues it.
	StrictNonce bool
	// SafeDepth and FinalDepth are the depths of the safe and the finalized block; 32 and 64. A
	// lower chain has none. NoTags disables the tags.
	SafeDepth, FinalDepth uint64
	NoTags                bool
	// FullRefuses makes a full pool reject any transaction, however much it pays.
	FullRefuses bool
	// Poll makes Heads return nil, as over HTTP.
	Poll bool
	// L1Fee is charged for each transaction besides its gas, as rollups do; none. Quotes know it if
	// Fees has a source of such fees.
	L1Fee txn.Wei
	// Quotes follow the rules of chain.Client.
	Fees      chain.FeeOptions
	GasMargin float64 // 1.2
	// TrustGasLimits skips the simulation of drafts with their own gas limit.
	TrustGasLimits bool
	Now            func() time.Time // stamps received bytes; nil leaves the stamps zero
	// Senders returns the sender of a transaction; nil recovers it from the signature, which is the
	// slowest operation of this package.
	Senders types.Signer
}

const (
	gwei             = 1_000_000_000
	defaultChainID   = 31337
	defaultGasLimit  = 30_000_000
	defaultMaxTxGas  = 1 << 24
	defaultPoolLimit = 6144
	defaultMargin    = 1.2
	defaultSafe      = 32
	defaultFinal     = 64
	genesisTime      = 1_700_000_000
)

// Chain is an in-memory chain. It is safe for concurrent use.
type Chain struct {
	o      Options
	signer types.Signer

	mu        sync.Mutex
	state     *state
	pool      *pool
	blocks    []*block // canonical, by number
	all       map[txn.Hash]*block
	baseFee   *txn.Wei          // of the next block; nil on a legacy chain
	floors    *chain.Floors     // learned from the pool's rejections, as by chain.Client
	tags      map[string]uint64 // heights set by SetTags
	salt      uint64            // distinguishes the blocks of a fork from those they replace
	received  []Received
	intercept func(context.Context, Call) Fault
	watchers  map[chan struct{}]struct{}
}

// block is a block with its responses and the data to undo it.
type block struct {
	txn.Block
	txs      []*types.Transaction
	senders  []txn.Address
	receipts map[txn.Hash]*txn.Receipt
	undo     []func()

	authorities []txn.Address // accounts with a raised nonce but no transaction
}

// New creates a chain with its genesis block.
func New(o Options) *Chain {
	o.ChainID = orDefault(o.ChainID, defaultChainID)
	o.GasLimit = orDefault(o.GasLimit, defaultGasLimit)
	o.MaxTxGas = orDefault(o.MaxTxGas, defaultMaxTxGas)
	o.BaseFee = orDefault(o.BaseFee, *uint256.NewInt(gwei))
	o.GasPrice = orDefault(o.GasPrice, *uint256.NewInt(gwei))
	o.MinTip = orDefault(o.MinTip, *uint256.NewInt(1))
	o.PoolLimit = orDefault(o.PoolLimit, defaultPoolLimit)
	o.BlockTime = orDefault(o.BlockTime, 1)
	o.GasMargin = orDefault(o.GasMargin, defaultMargin)
	o.SafeDepth, o.FinalDepth = orDefault(o.SafeDepth, defaultSafe), orDefault(o.FinalDepth,
		defaultFinal)
	if o.Senders == nil {
		o.Senders = types.LatestSignerForChainID(
			new(uint256.Int).SetUint64(uint64(o.ChainID)).ToBig())
	}
	c := &Chain{
		o: o, signer: o.Senders,
		state:    newState(),
		pool:     newPool(),
		floors:   new(chain.Floors),
		all:      map[txn.Hash]*block{},
		watchers: map[chan struct{}]struct{}{},
	}
	genesis := &block{}
	if !o.Legacy {
		c.baseFee, genesis.BaseFee = o.BaseFee.Clone(), o.BaseFee.Clone()
	}
	c.append(genesis)
	return c
}

func orDefault[T comparable](value, byDefault T) T {
	var zero T
	if value == zero {
		return byDefault
	}
	return value
}

// Key returns the i-th of an infinite sequence of fixed keys. Never use one outside tests.
func Key(i int) *ecdsa.PrivateKey {
	key, err := crypto.ToECDSA(crypto.Keccak256(fmt.Appendf(nil, "chaintest key %d", i)))
	if err != nil {
		panic(err) // a hash is an invalid key with probability 2^-128
	}
	return key
}

// Address returns the account of the i-th key.
func Address(i int) txn.Address { return crypto.PubkeyToAddress(Key(i).PublicKey) }

// Fund adds to a balance. Undoing blocks does not revert it.
func (c *Chain) Fund(address txn.Address, wei txn.Wei) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.add(address, wei)
	c.state.undo = nil // not part of any block
}

// Begin sets an account's nonce before the first block.
func (c *Chain) Begin(address txn.Address, nonce txn.Nonce) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.account(address).nonce = uint64(nonce)
}

// Drain empties an account, as if another program had moved its funds.
func (c *Chain) Drain(address txn.Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.sub(address, c.state.account(address).balance)
	c.state.undo = nil
}

// Register installs a contract at the address.
func (c *Chain) Register(address txn.Address, contract Contract) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.account(address).code = true
	c.state.contracts[address] = contract
}

// Delegate delegates an account to the code of another one, as an EIP-7702 authorization does;
// zero: it has no code any more.
func (c *Chain) Delegate(address, to txn.Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.setDelegation(address, to)
	c.state.undo = nil
}

// Stored reads a contract's storage at the head.
func (c *Chain) Stored(contract txn.Address, key string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.storage[slot{contract, key}]
}

// SetBaseFee sets the base fee of the next blocks. It has no effect on a legacy chain.
func (c *Chain) SetBaseFee(wei txn.Wei) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.o.Legacy {
		c.baseFee = &wei
	}
}

// Genesis returns the hash of block 0.
func (c *Chain) Genesis() txn.Hash {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocks[0].Hash
}

// Mine seals n blocks from the pool and returns the head.
func (c *Chain) Mine(n int) txn.Block {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		c.seal(c.fromPool())
	}
	return c.head().Block
}

// MineEmpty seals n blocks without transactions.
func (c *Chain) MineEmpty(n int) txn.Block {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		c.seal(nothing)
	}
	return c.head().Block
}

// MineAuthorization seals a block that raises the account's nonce without a transaction of it, as
// an EIP-7702 authorization sent by another account does.
func (c *Chain) MineAuthorization(authority txn.Address) txn.Block {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.raiseNonce(authority) // undone with the block
	c.pool.prune(c.state)
	c.seal(nothing)
	c.head().authorities = append(c.head().authorities, authority)
	return c.head().Block
}

// Run mines a block each period until ctx ends.
func (c *Chain) Run(ctx context.Context, by clock.Clock, period time.Duration) error {
	for {
		if err := clock.Sleep(ctx, by, period); err != nil {
			return err
		}
		c.Mine(1)
	}
}

// Disposition is the effect of a reorg on the transactions of the removed blocks.
type Disposition string

// Dispositions of transactions in a reorg.
const (
	Keep   Disposition = "keep"   // the new blocks include them at the same heights
	Return Disposition = "return" // they return to the pool; the new blocks are empty
	Drop   Disposition = "drop"   // the node forgets them
)

// Reorg replaces the newest depth blocks by depth+1 others. Other transactions stay in the pool.
func (c *Chain) Reorg(depth int, disposition Disposition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	spent := c.spending()
	undone, err := c.undo(depth)
	if err != nil {
		return err
	}
	for _, b := range undone {
		txs := source(nothing)
		if disposition == Keep {
			txs = c.again(b)
		}
		c.sealAt(b.BaseFee,
			txs) // the parents had the same transactions, so the base fee is the same
	}
	c.seal(nothing)
	if disposition == Return {
		c.readmit(undone, spent)
	}
	return nil
}

// Rollback removes the newest depth blocks without replacement, which lowers the head. Keep has the
// same effect as Return.
func (c *Chain) Rollback(depth int, disposition Disposition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	spent := c.spending()
	undone, err := c.undo(depth)
	if err != nil {
		return err
	}
	if disposition != Drop {
		c.readmit(undone, spent)
	}
	c.notify()
	return nil
}

// undo removes blocks and returns them, oldest first.
func (c *Chain) undo(depth int) ([]*block, error) {
	if depth < 1 || depth >= len(c.blocks) {
		return nil, fmt.Errorf("chaintest: cannot undo %d blocks: there are %d above the genesis",
			depth, len(c.blocks)-1)
	}
	keep := len(c.blocks) - depth
	undone := slices.Clone(c.blocks[keep:])
	for _, b := range slices.Backward(undone) {
		for _, step := range slices.Backward(b.undo) {
			step()
		}
	}
	c.blocks, c.state.undo = c.blocks[:keep], nil
	c.salt++
	return undone, nil
}

// spending returns the maximum cost of each sender's runnable transactions.
func (c *Chain) spending() map[txn.Address]*big.Int {
	spent := map[txn.Address]*big.Int{}
	for from := range c.pool.bySender {
		next := c.state.nonce(from)
		spent[from] = c.pool.pendingCost(from, next, c.pool.pendingNonce(from, next))
	}
	return spent
}

// readmit returns transactions to the pool. As in go-ethereum a transaction is lost if its sender
// cannot also afford those that were runnable before the reorg.
func (c *Chain) readmit(undone []*block, spent map[txn.Address]*big.Int) {
	for _, b := range undone {
		for i, tx := range b.txs {
			from := b.senders[i]
			need := tx.Cost()
			if before := spent[from]; before != nil {
				need.Add(need, before)
			}
			if need.Cmp(c.state.account(from).balance.ToBig()) <= 0 &&
				c.pool.bySender[from][tx.Nonce()] == nil {
				c.pool.put(tx, from)
			}
		}
	}
}

func (c *Chain) head() *block { return c.blocks[len(c.blocks)-1] }

// source returns the next transaction of a block; nil ends the block.
type source func(baseFee *txn.Wei, gasLeft uint64) *pooled

func nothing(*txn.Wei, uint64) *pooled { return nil }

// fromPool orders by effective tip, then by arrival, each sender's by nonce. It serves one block.
func (c *Chain) fromPool() source {
	var r *runnable
	return func(baseFee *txn.Wei, gasLeft uint64) *pooled {
		if r == nil {
			r = c.pool.runnable(c.state.nonce, baseFee)
		}
		p := r.next(gasLeft)
		if p != nil {
			c.pool.remove(p)
		}
		return p
	}
}

// again returns the transactions of a removed block.
func (c *Chain) again(old *block) source {
	next := 0
	return func(*txn.Wei, uint64) *pooled {
		if next == len(old.txs) {
			return nil
		}
		next++
		return &pooled{tx: old.txs[next-1], from: old.senders[next-1]}
	}
}

// seal adds a block at the current base fee.
func (c *Chain) seal(from source) { c.sealAt(c.baseFee, from) }

func (c *Chain) sealAt(baseFee *txn.Wei, from source) {
	b := &block{receipts: map[txn.Hash]*txn.Receipt{}}
	b.Number, b.Parent = c.head().Number+1, c.head().Hash
	if baseFee != nil {
		b.BaseFee = baseFee.Clone()
	}
	gas := uint64(0)
	for p := from(b.BaseFee, c.o.GasLimit); p != nil; p = from(b.BaseFee, c.o.GasLimit-gas) {
		receipt, ok := c.state.apply(p.tx, p.from, b.BaseFee, c.o.L1Fee)
		if !ok {
			continue // not affordable, or out of order: go-ethereum omits it as well
		}
		gas += receipt.GasUsed
		receipt.More.CumulativeGas = gas
		b.txs = append(b.txs, p.tx)
		b.senders = append(b.senders, p.from)
		b.Txs = append(b.Txs, receipt.TxHash)
		b.receipts[receipt.TxHash] = receipt
	}
	b.authorities, c.state.authorities = c.state.authorities, nil
	c.append(b)
	c.pool.prune(c.state)
	c.notify()
}

// append hashes a block and makes it the head.
func (c *Chain) append(b *block) {
	b.Time = genesisTime + b.Number*c.o.BlockTime
	b.Hash = c.hashOf(b)
	for _, r := range b.receipts {
		r.BlockNumber, r.BlockHash = b.Number, b.Hash
	}
	b.undo, c.state.undo = c.state.undo, nil
	c.blocks = append(c.blocks, b)
	c.all[b.Hash] = b
}

func (c *Chain) hashOf(b *block) txn.Hash {
	var n [8]byte
	h := crypto.NewKeccakState()
	for _, v := range []uint64{uint64(c.o.ChainID), b.Number, b.Time, c.salt} {
		binary.BigEndian.PutUint64(n[:], v)
		h.Write(n[:])
	}
	h.Write(b.Parent[:])
	for _, hash := range b.Txs {
		h.Write(hash[:])
	}
	return common.BytesToHash(h.Sum(nil))
}

func (c *Chain) notify() {
	for w := range c.watchers {
		select {
		case w <- struct{}{}:
		default: // one unread wake-up is as good as two
		}
	}
}

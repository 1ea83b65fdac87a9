package devchain

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/beacon/engine"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/miner"

	"github.com/fencepost/fencepost/internal/clock"
)

var errClosed = errors.New("the chain is closed")

// Mine makes n blocks from the pool and returns the hash of the last. The first one includes the
// transactions sent before, with one exception of go-ethereum: of a burst from one account, the
// later ones may wait for the next block.
func (c *Chain) Mine(n int) (common.Hash, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mineBlocks(n, false)
}

// MineEmpty makes n blocks without transactions and returns the hash of the last.
func (c *Chain) MineEmpty(n int) (common.Hash, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mineBlocks(n, true)
}

func (c *Chain) mineBlocks(n int, empty bool) (common.Hash, error) {
	for range n {
		if err := c.mine(empty); err != nil {
			return common.Hash{}, fmt.Errorf("devchain: mine: %w", err)
		}
	}
	return c.eth.BlockChain().CurrentBlock().Hash(), nil
}

func (c *Chain) mine(empty bool) error {
	if c.closed {
		return errClosed
	}
	if err := c.syncPool(); err != nil {
		return err
	}
	block, err := c.build(c.eth.BlockChain().CurrentBlock(), nil, empty)
	if err != nil {
		return err
	}
	return c.choose(block)
}

// build makes a block on parent and stores it without choosing it. It includes txs; without txs,
// unless it is to be empty, it includes transactions of the pool.
func (c *Chain) build(parent *types.Header, txs types.Transactions,
	empty bool) (*types.Block, error) {
	var random common.Hash
	_, _ = rand.Read(random[:]) // never fails
	args := &miner.BuildPayloadArgs{
		Parent:       parent.Hash(),
		Timestamp:    max(parent.Time+1, uint64(clock.Real{}.Now().Unix())),
		FeeRecipient: feeRecipient,
		Random:       random, // so that no two blocks have the same hash
		Withdrawals:  types.Withdrawals{},
		BeaconRoot:   &common.Hash{},
		Version:      engine.PayloadV3,
	}
	block, _, err := c.eth.Miner().BuildTestingPayload(args, txs, empty, nil)
	if err != nil {
		return nil, fmt.Errorf("build block %d: %w", parent.Number.Uint64()+1, err)
	}
	if _, err := c.eth.BlockChain().InsertBlockWithoutSetHead(
		context.Background(),
		block,
		false,
	); err != nil {
		return nil, fmt.Errorf("import block %d: %w", block.NumberU64(), err)
	}
	return block, nil
}

// choose makes block the head.
func (c *Chain) choose(block *types.Block) error {
	if _, err := c.eth.BlockChain().SetCanonical(block); err != nil {
		return fmt.Errorf("choose block %d: %w", block.NumberU64(), err)
	}
	c.mark(block.Header())
	if c.opts.DataDir == "" {
		return nil
	}
	// The database buffers writes in this process until it has enough of them, which takes a while
	// with small blocks.
	if err := c.eth.ChainDb().SyncKeyValue(); err != nil {
		return fmt.Errorf("keep block %d: %w", block.NumberU64(), err)
	}
	return nil
}

// mark moves the safe and the final block with the head. They only rise.
func (c *Chain) mark(head *types.Header) {
	bc := c.eth.BlockChain()
	bc.SetSafe(bc.GetHeaderByNumber(below(head, SafeDepth)))
	bc.SetFinalized(bc.GetHeaderByNumber(below(head, FinalDepth)))
}

func below(head *types.Header, depth uint64) uint64 {
	return head.Number.Uint64() - min(head.Number.Uint64(), depth)
}

// sealEvery makes a block in each period until stop is called. Missed periods, as on a machine that
// slept, are not made up.
func (c *Chain) sealEvery(period time.Duration) (stop func()) {
	if period <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		next := clock.Real{}.Now()
		for {
			now := clock.Real{}.Now()
			next = next.Add(max(period, now.Sub(next)))
			if clock.Sleep(ctx, clock.Real{}, next.Sub(now)) != nil {
				return
			}
			if _, err := c.Mine(1); err != nil {
				c.log.Error("block production failed", "error", err)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

package devchain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
)

// DropPending makes the pool forget transactions, as when it evicts them; with
// none named it forgets all. What is sent at that very moment may be lost as well.
func (c *Chain) DropPending(txs ...common.Hash) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("devchain: drop pending: %w", errClosed)
	}
	if len(txs) == 0 {
		c.eth.TxPool().Clear()
		return nil
	}
	gone := map[common.Hash]bool{}
	for _, hash := range txs {
		gone[hash] = true
	}
	if err := c.drop(gone); err != nil {
		return fmt.Errorf("devchain: drop pending: %w", err)
	}
	return nil
}

// drop empties the pool and puts back what is to stay: the pool has no door for
// taking out one.
func (c *Chain) drop(gone map[common.Hash]bool) error {
	if err := c.syncPool(); err != nil {
		return err
	}
	var stay []*types.Transaction
	for _, tx := range c.pooled() {
		if !gone[tx.Hash()] {
			stay = append(stay, tx)
		}
	}
	c.eth.TxPool().Clear()
	return errors.Join(c.eth.TxPool().Add(stay, true)...)
}

// syncPool waits until the pool has taken in the head and what was sent before,
// which it does in the background.
func (c *Chain) syncPool() error {
	if err := c.eth.TxPool().Sync(); err != nil {
		return fmt.Errorf("sync the pool: %w", err)
	}
	return nil
}

// pooled is what the pool holds, each sender's in the order of the nonces.
// Transactions with blobs are not among them: their pool keeps them itself.
func (c *Chain) pooled() []*types.Transaction {
	var list []*types.Transaction
	pending, queued := c.eth.TxPool().Content()
	for _, part := range []map[common.Address][]*types.Transaction{pending, queued} {
		for _, txs := range part {
			list = append(list, txs...)
		}
	}
	return list
}

func (c *Chain) journal() string { return filepath.Join(c.opts.DataDir, journalFile) }

// savePool writes the pool where the next start finds it.
func (c *Chain) savePool() error {
	if c.opts.DataDir == "" {
		return nil
	}
	data, err := rlp.EncodeToBytes(c.pooled())
	if err != nil {
		return fmt.Errorf("encode the pool: %w", err)
	}
	fresh := c.journal() + ".new"
	if err := os.WriteFile(fresh, data, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, c.journal())
}

// loadPool is a courtesy: what the pool refuses now, or a file that cannot be
// read, is no reason not to start.
func (c *Chain) loadPool() {
	if c.opts.DataDir == "" {
		return
	}
	data, err := os.ReadFile(c.journal())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var txs []*types.Transaction
	if err == nil {
		err = rlp.DecodeBytes(data, &txs)
	}
	if err == nil {
		err = errors.Join(c.eth.TxPool().Add(txs, true)...)
	}
	if err == nil {
		err = os.Remove(c.journal())
	}
	if err != nil {
		c.log.Warn("not all of the pool was kept", "file", c.journal(), "error", err)
	}
}

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

// DropPending drops transactions from the pool, or all if none is given. A transaction sent
// concurrently may be lost as well.
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

// drop empties the pool and restores the rest: the pool cannot remove single transactions.
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

// syncPool waits until the pool has processed the head and earlier transactions, which it does in
// the background.
func (c *Chain) syncPool() error {
	if err := c.eth.TxPool().Sync(); err != nil {
		return fmt.Errorf("sync the pool: %w", err)
	}
	return nil
}

// pooled returns the transactions in the pool, each sender's by nonce. Blob transactions are
// omitted: their pool stores them itself.
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

// savePool writes the pool for the next start.
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

// loadPool restores the pool. Rejected transactions or an unreadable file do not prevent the start.
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
		c.log.Warn("pool not fully saved", "file", c.journal(), "error", err)
	}
}

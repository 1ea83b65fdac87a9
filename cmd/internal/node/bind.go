package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// boundChain is a chain that is not used before the ledger has agreed that it is the one that the ledger's transactions are on: same chain id, same genesis.
// Everything that the engine does begins with the head or the account, so these two ask.
type boundChain struct {
	*chain.Client
	store *store.Store
	name  string
	tag   string // of the block that finality rests on; empty: none
	log   *slog.Logger
	bound atomic.Bool
}

// startLimit is how long a node waits at its start for a chain to say which one it is.
const startLimit = 3 * time.Second

// bindAtStart refuses a chain that is not the configured one, or on which nothing would ever be final. One that does not answer is bound later.
func (b *boundChain) bindAtStart(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	err := b.bind(limited)
	if err == nil {
		err = b.checkTag(limited)
	}
	if err == nil || !mendsItself(err) && limited.Err() == nil {
		return err
	}
	b.log.Warn("chain or ledger does not answer yet; serving without this chain until they do",
		"chain", b.name, "error", err)
	return nil
}

// checkTag refuses a tag that the chain's nodes do not know. That there is no such block yet is another matter.
func (b *boundChain) checkTag(ctx context.Context) error {
	if b.tag == "" {
		return nil
	}
	_, err := b.Tagged(ctx, b.tag)
	if errors.Is(err, chain.ErrNoTags) {
		return fmt.Errorf(
			"chain %q: finality.tag is %q, and the chain's nodes do not know that block (%w), so nothing would ever become final: configure another tag, or none for confirmations alone",
			b.name, b.tag, chain.ErrNoTags)
	}
	return err
}

// mendsItself tells whether waiting may help. It does not when something answered and is not what it should be, even where another endpoint is only down.
func mendsItself(err error) bool {
	if errors.Is(err, chain.ErrWrongChain) || errors.Is(err, chain.ErrWrongGenesis) {
		return false
	}
	return errors.Is(err, txn.ErrUnavailable) || errors.Is(err, store.ErrUnavailable)
}

func (b *boundChain) bind(ctx context.Context) error {
	if b.bound.Load() {
		return nil
	}
	if err := b.Verify(ctx); err != nil {
		return err
	}
	if err := b.store.RegisterChain(ctx, b.ID(), b.Genesis()); err != nil {
		return fmt.Errorf("chain %q: %w", b.name, err)
	}
	b.bound.Store(true)
	return nil
}

// Head is the newest block.
func (b *boundChain) Head(ctx context.Context) (txn.Block, error) {
	if err := b.bind(ctx); err != nil {
		return txn.Block{}, errors.Join(txn.ErrUnavailable, err)
	}
	return b.Client.Head(ctx)
}

// Account looks at an account.
func (b *boundChain) Account(ctx context.Context, address txn.Address,
	settled uint64) (txn.Account, error) {
	if err := b.bind(ctx); err != nil {
		return txn.Account{}, errors.Join(txn.ErrUnavailable, err)
	}
	return b.Client.Account(ctx, address, settled)
}

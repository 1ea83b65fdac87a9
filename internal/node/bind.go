package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// boundChain is a chain that is not used before the ledger has confirmed that its transactions are
// on it: same chain id, same genesis. The engine starts with the head or the account, so these
// check.
type boundChain struct {
	*chain.Client
	store *store.Store
	name  string
	tag   string // of the block that finality follows; empty: none
	log   *slog.Logger
	bound atomic.Bool
}

// Without it, owners read an account twice from one endpoint.
var _ engine.SeveralEndpoints = (*boundChain)(nil)

// startLimit is how long a starting node waits for the identity of a chain.
const startLimit = 3 * time.Second

// bindAtStart rejects a chain other than configured, or on which nothing would become final. An
// unavailable chain is bound later.
func (b *boundChain) bindAtStart(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	err := b.bind(limited)
	if err == nil {
		err = b.checkTag(limited)
	}
	if err == nil || !transient(err) && limited.Err() == nil {
		return err
	}
	b.log.Warn("chain or ledger unavailable; retrying",
		"chain", b.name, "error", err)
	return nil
}

// checkTag rejects a tag that the nodes of the chain do not support. A missing block is not an
// error.
func (b *boundChain) checkTag(ctx context.Context) error {
	if b.tag == "" {
		return nil
	}
	_, err := b.Tagged(ctx, b.tag)
	if errors.Is(err, chain.ErrNoTags) {
		return fmt.Errorf(
			"chain %q: finality.tag %q is not supported by its nodes (%w); configure another tag "+
				"or none",
			b.name, b.tag, chain.ErrNoTags)
	}
	return err
}

// transient reports whether a retry may help. It may not if an endpoint is on another chain, even
// if another is only unavailable.
func transient(err error) bool {
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

// Account reads an account.
func (b *boundChain) Account(ctx context.Context, address txn.Address,
	settled uint64) (txn.Account, error) {
	if err := b.bind(ctx); err != nil {
		return txn.Account{}, errors.Join(txn.ErrUnavailable, err)
	}
	return b.Client.Account(ctx, address, settled)
}

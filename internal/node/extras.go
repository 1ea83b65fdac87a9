package node

import (
	"context"

	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// Extras are the parts of a node that the configuration cannot express. The zero value has none.
type Extras struct {
	Stuck   engine.StuckPolicy
	Bump    txn.BumpPolicy // in place of the configured one
	Mempool engine.MempoolInspector
	Signers []sign.Entry // beside the configured ones

	// Reload reads the configuration again, for its callers; nil: they stay. File is its file.
	Reload func() (*config.Config, error)
	File   string
}

// policy is the policy of a chain.
func (e Extras) policy(c config.Chain) txn.Policy {
	p := policy(c)
	if e.Bump != nil {
		p.Bump = e.Bump
	}
	p.Diagnose = p.Diagnose || e.Mempool != nil
	return p
}

// chain is a chain as the engine uses it.
func (e Extras) chain(c *boundChain) engine.Chain {
	if e.Mempool == nil {
		return c
	}
	return inspectedChain{c, e.Mempool}
}

// inspectedChain asks an inspector in place of a node's pool.
type inspectedChain struct {
	*boundChain
	inspector engine.MempoolInspector
}

func (c inspectedChain) Pooled(ctx context.Context, address txn.Address, nonce txn.Nonce,
	hashes []txn.Hash) (txn.Diagnosis, error) {
	return c.inspector.Inspect(ctx, c.ID(), address, nonce, hashes)
}

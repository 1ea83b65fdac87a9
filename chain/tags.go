package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

// Block tags that are (almost) final.
const (
	Safe      = "safe"
	Finalized = "finalized"
)

// ErrNoTags means that the chain's nodes do not support the tags "safe" and "finalized". It is
// permanent: finality has to count confirmations there.
var ErrNoTags = errors.New("the node does not support this block tag")

// Tagged returns the newest block with the tag; nil if there is none yet.
func (c *Client) Tagged(ctx context.Context, tag string) (*txn.Block, error) {
	if tag != Safe && tag != Finalized {
		return nil, fmt.Errorf("chain %q: read the %q block: %w: it is %q or %q", c.o.Name, tag,
			ErrNoTags, Safe, Finalized)
	}
	var (
		block      *txn.Block
		tagUnknown bool
	)
	what := "read the " + tag + " block"
	err := c.read(ctx, what, func(ctx context.Context, _ *endpoint, client *jsonrpc.Client) error {
		block, tagUnknown = nil, false
		var h *header
		err := client.Call(ctx, &h, "eth_getBlockByNumber", tag, false)
		switch refused := (*jsonrpc.Error)(nil); {
		case errors.As(err, &refused) && outcome.NoBlockYet(responseOf(refused)):
			return nil
		case errors.As(err, &refused) && outcome.UnknownTag(responseOf(refused)):
			tagUnknown = true
			return nil
		case err != nil || h == nil:
			return err
		}
		block, err = h.block()
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case tagUnknown:
		return nil, fmt.Errorf("chain %q: %s: %w", c.o.Name, what, ErrNoTags)
	}
	return block, nil
}

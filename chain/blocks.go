package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
)

// errMalformed is a response that contradicts its request or lacks a required part.
var errMalformed = errors.New("malformed response")

// header is the part of a block that is read. The hash is the node's: chains with additional header
// fields hash other bytes than the library.
type header struct {
	Number   *quantity    `json:"number"`
	Hash     txn.Hash     `json:"hash"`
	Parent   txn.Hash     `json:"parentHash"`
	Time     quantity     `json:"timestamp"`
	BaseFee  *feeQuantity `json:"baseFeePerGas"`
	GasLimit quantity     `json:"gasLimit"`
	Txs      hashList     `json:"transactions"`
}

// block checks the fields that are needed to link and to compare the header.
func (h *header) block() (*txn.Block, error) {
	if h.Number == nil || h.Hash == (txn.Hash{}) {
		return nil, fmt.Errorf("%w: a block without number or hash", errMalformed)
	}
	return &txn.Block{
		Number:  uint64(*h.Number),
		Hash:    h.Hash,
		Parent:  h.Parent,
		Time:    uint64(h.Time),
		BaseFee: h.BaseFee.wei(),
		Txs:     h.Txs,
	}, nil
}

// headBlock returns the newest block of this endpoint.
func (e *endpoint) headBlock(ctx context.Context) (*txn.Block, *fault) {
	var block *txn.Block
	f := e.call(ctx, func(ctx context.Context, client *jsonrpc.Client) error {
		var h *header
		if err := client.Call(ctx, &h, "eth_getBlockByNumber", "latest", false); err != nil {
			return err
		}
		if h == nil {
			return fmt.Errorf("%w: no newest block", errMalformed)
		}
		e.blockGas.Store(uint64(h.GasLimit))
		var err error
		block, err = h.block()
		return err
	})
	if f != nil {
		// An endpoint that refuses the head to this client is unusable, for any reason given.
		if f.answered && refusesService(f) {
			f.answered = false
			e.recordHealth(ctx, f, e.currentOutage())
		}
		return nil, f
	}
	e.recordHead(block.Number)
	return block, nil
}

// probe reads the block number only.
func (e *endpoint) probe(ctx context.Context, client *jsonrpc.Client) error {
	var number quantity
	if err := client.Call(ctx, &number, "eth_blockNumber"); err != nil {
		return err
	}
	e.recordHead(uint64(number))
	return nil
}

// BlockByHash returns a block of any branch; nil if the endpoint has no block of that hash.
func (c *Client) BlockByHash(ctx context.Context, hash txn.Hash) (*txn.Block, error) {
	block, err := c.block(ctx, "read block "+hash.Hex(), "eth_getBlockByHash", hash)
	if block != nil && block.Hash != hash {
		return nil, c.mismatch("read block "+hash.Hex(), "got block "+block.Hash.Hex())
	}
	return block, err
}

// BlockByNumber returns the canonical block of that height; nil above the head.
func (c *Client) BlockByNumber(ctx context.Context, number uint64) (*txn.Block, error) {
	what := fmt.Sprintf("read block %d", number)
	block, err := c.block(ctx, what, "eth_getBlockByNumber", hexutil.Uint64(number))
	if block != nil && block.Number != number {
		return nil, c.mismatch(what, fmt.Sprintf("got block %d", block.Number))
	}
	return block, err
}

func (c *Client) block(ctx context.Context, what, method string, arg any) (*txn.Block, error) {
	var block *txn.Block
	err := c.read(ctx, what, func(ctx context.Context, _ *endpoint, client *jsonrpc.Client) error {
		var h *header
		if err := client.Call(ctx, &h, method, arg, false); err != nil || h == nil {
			block = nil
			return err
		}
		var err error
		block, err = h.block()
		return err
	})
	if err != nil {
		return nil, err
	}
	if block != nil {
		c.blockCache.add(*block)
	}
	return block, nil
}

// mismatch is the error for a response to another request. Nothing can be concluded from it.
func (c *Client) mismatch(what, how string) error {
	return fmt.Errorf("chain %q: %s: %s: %w", c.o.Name, what, how, txn.ErrUnavailable)
}

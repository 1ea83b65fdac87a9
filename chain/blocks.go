package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// errMalformed is an answer that contradicts the question or lacks what it must have.
var errMalformed = errors.New("malformed answer")

// header is what is read of a block. The hash is the node's: chains with fields of their own hash other bytes than a library knows.
type header struct {
	Number   *hexutil.Big   `json:"number"`
	Hash     txn.Hash       `json:"hash"`
	Parent   txn.Hash       `json:"parentHash"`
	Time     hexutil.Uint64 `json:"timestamp"`
	BaseFee  *hexutil.Big   `json:"baseFeePerGas"`
	GasLimit hexutil.Uint64 `json:"gasLimit"`
	Txs      []txn.Hash     `json:"transactions"`
}

// block checks what a header must have to be linked and compared.
func (h *header) block() (*txn.Block, error) {
	if h.Number == nil || !h.Number.ToInt().IsUint64() || h.Hash == (txn.Hash{}) {
		return nil, fmt.Errorf("%w: a block without number or hash", errMalformed)
	}
	b := &txn.Block{
		Number: h.Number.ToInt().Uint64(),
		Hash:   h.Hash,
		Parent: h.Parent,
		Time:   uint64(h.Time),
		Txs:    h.Txs,
	}
	if h.BaseFee != nil {
		fee, overflow := uint256.FromBig(h.BaseFee.ToInt())
		if overflow {
			return nil, fmt.Errorf("%w: a base fee above 2^256-1", errMalformed)
		}
		b.BaseFee = fee
	}
	return b, nil
}

// headBlock is the newest block of this endpoint.
func (e *endpoint) headBlock(ctx context.Context) (*txn.Block, *fault) {
	var block *txn.Block
	f := e.call(ctx, func(ctx context.Context, client *rpc.Client) error {
		var h *header
		if err := client.CallContext(ctx, &h, "eth_getBlockByNumber", "latest", false); err != nil {
			return err
		}
		if h == nil {
			return fmt.Errorf("%w: no newest block", errMalformed)
		}
		var err error
		block, err = h.block()
		return err
	})
	if f != nil {
		if f.answered &&
			refusesService(
				f) { // who does not serve the head to us serves nothing, in whatever form it says so
			f.answered = false
			e.recordHealth(ctx, f)
		}
		return nil, f
	}
	e.recordHead(block.Number)
	return block, nil
}

// probe asks for the height alone.
func (e *endpoint) probe(ctx context.Context, client *rpc.Client) error {
	var number hexutil.Uint64
	if err := client.CallContext(ctx, &number, "eth_blockNumber"); err != nil {
		return err
	}
	e.recordHead(uint64(number))
	return nil
}

// BlockByHash is a block of any branch; nil when the endpoint has none of that hash.
func (c *Client) BlockByHash(ctx context.Context, hash txn.Hash) (*txn.Block, error) {
	block, err := c.block(ctx, "read block "+hash.Hex(), "eth_getBlockByHash", hash)
	if block != nil && block.Hash != hash {
		return nil, c.mismatch("read block "+hash.Hex(), "it answered block "+block.Hash.Hex())
	}
	return block, err
}

// BlockByNumber is the canonical block of that height; nil above the head.
func (c *Client) BlockByNumber(ctx context.Context, number uint64) (*txn.Block, error) {
	what := fmt.Sprintf("read block %d", number)
	block, err := c.block(ctx, what, "eth_getBlockByNumber", hexutil.Uint64(number))
	if block != nil && block.Number != number {
		return nil, c.mismatch(what, fmt.Sprintf("it answered block %d", block.Number))
	}
	return block, err
}

func (c *Client) block(ctx context.Context, what, method string, arg any) (*txn.Block, error) {
	var block *txn.Block
	err := c.read(ctx, what, func(ctx context.Context, _ *endpoint, client *rpc.Client) error {
		var h *header
		if err := client.CallContext(ctx, &h, method, arg, false); err != nil || h == nil {
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

// mismatch is an answer to another question than the one asked. Nothing follows from it.
func (c *Client) mismatch(what, how string) error {
	return fmt.Errorf("chain %q: %s: %s: %w", c.o.Name, what, how, txn.ErrUnavailable)
}

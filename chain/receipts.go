package chain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// receipt is a node's receipt. Block number and hash are null for a pending transaction, if a node
// returns one.
type receipt struct {
	TxHash      txn.Hash     `json:"transactionHash"`
	BlockHash   *txn.Hash    `json:"blockHash"`
	BlockNumber *bigQuantity `json:"blockNumber"`
	Status      *bigQuantity `json:"status"`
	GasUsed     quantity     `json:"gasUsed"`
	GasPrice    *bigQuantity `json:"effectiveGasPrice"`
	// Nothing rests on these, so nodes that write them otherwise are tolerated.
	CumulativeGas tolerant[quantity]    `json:"cumulativeGasUsed"`
	Contract      tolerant[txn.Address] `json:"contractAddress"`
	Logs          tolerant[uint64]      `json:"logs"` // their number: see skippedFields
}

// tolerant is a value that may be missing, null or malformed.
type tolerant[T any] struct {
	value T
	known bool
}

// UnmarshalJSON never fails.
func (t *tolerant[T]) UnmarshalJSON(raw []byte) error {
	t.known = string(raw) != "null" && json.Unmarshal(raw, &t.value) == nil
	return nil
}

// Receipts looks up every hash: by block if many are in one block, else in batches. A failed batch
// is retried at the next endpoint. A failed lookup has its own error; "transaction indexing is in
// progress" is such an error, never "not found".
func (c *Client) Receipts(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult {
	found := c.fromBlocks(ctx, hashes)
	var rest []txn.Hash
	for _, hash := range hashes {
		if found[hash] == nil {
			rest = append(rest, hash)
		}
	}
	looked := c.byHash(ctx, rest)
	answers := make([]txn.ReceiptResult, 0, len(hashes))
	for _, hash := range hashes {
		if r := found[hash]; r != nil {
			view := *r
			answers = append(answers, txn.ReceiptResult{Hash: hash, Receipt: &view})
			continue
		}
		answers, looked = append(answers, looked[0]), looked[1:]
	}
	return answers
}

func (c *Client) byHash(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult {
	answers := make([]txn.ReceiptResult, 0, len(hashes))
	// One request holds these lookups and the genesis block.
	for part := range slices.Chunk(hashes, max(1, c.o.BatchLimit-1)) {
		answers = append(answers, c.receiptBatch(ctx, part)...)
	}
	return answers
}

func (c *Client) receiptBatch(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult {
	answers := make([]txn.ReceiptResult, len(hashes))
	err := c.read(
		ctx,
		fmt.Sprintf("read %d receipts", len(hashes)),
		func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
			elems, found := make([]jsonrpc.Call, len(hashes)), make([]*receipt, len(hashes))
			for i, hash := range hashes {
				elems[i] = jsonrpc.Call{
					Method: "eth_getTransactionReceipt",
					Args:   []any{hash},
					Result: &found[i],
				}
			}
			if err := e.batch(ctx, client, elems); err != nil {
				return err
			}
			for i, hash := range hashes {
				answers[i] = txn.ReceiptResult{Hash: hash}
				if elems[i].Error != nil {
					f := e.faultOf(elems[i].Error, nil)
					recordLimit(ctx, f)
					answers[i].Err = fmt.Errorf("chain %q: read receipt %s: %w", c.o.Name, hash, f)
					continue
				}
				answers[i].Receipt, answers[i].Err = found[i].of(hash)
			}
			return batchError(elems)
		},
	)
	if err != nil {
		for i, hash := range hashes {
			answers[i] = txn.ReceiptResult{Hash: hash, Err: err}
		}
	}
	return answers
}

// batchError returns an error if no element succeeded: then the endpoint failed, not the hashes.
func batchError(elems []jsonrpc.Call) error {
	for i := range elems {
		if elems[i].Error == nil {
			return nil
		}
	}
	return elems[0].Error
}

// of converts the receipt to a fact; nil if there is none or the transaction is still pending.
func (r *receipt) of(hash txn.Hash) (*txn.Receipt, error) {
	if r == nil || r.BlockNumber == nil || r.BlockHash == nil || *r.BlockHash == (txn.Hash{}) {
		return nil, nil
	}
	switch {
	case r.TxHash != hash:
		return nil, fmt.Errorf("read receipt %s: got the receipt of %s: %w", hash,
			r.TxHash, txn.ErrUnavailable)
	case r.Status == nil:
		return nil, fmt.Errorf(
			"read receipt %s: no status: %w", hash,
			txn.ErrUnavailable)
	case !r.BlockNumber.ToInt().IsUint64():
		return nil, fmt.Errorf("read receipt %s: block number out of range: %w", hash,
			txn.ErrUnavailable)
	}
	fact := &txn.Receipt{
		TxHash: hash, BlockNumber: r.BlockNumber.ToInt().Uint64(), BlockHash: *r.BlockHash,
		Success: r.Status.ToInt().Sign() > 0, GasUsed: uint64(r.GasUsed),
	}
	if r.Logs.known && r.CumulativeGas.known {
		fact.More = txn.ReceiptMore{Known: true, Logs: r.Logs.value,
			CumulativeGas: uint64(r.CumulativeGas.value)}
		if r.Contract.known {
			fact.More.Contract = r.Contract.value
		}
	}
	if r.GasPrice != nil {
		if price, overflow := uint256.FromBig(r.GasPrice.ToInt()); !overflow {
			fact.EffectiveGasPrice = *price
		}
	}
	return fact, nil
}

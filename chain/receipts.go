package chain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
)

// receipt is a node's receipt. Block number and hash are null for a pending transaction, if a node
// returns one.
type receipt struct {
	TxHash      txn.Hash     `json:"transactionHash"`
	BlockHash   *txn.Hash    `json:"blockHash"`
	BlockNumber *quantity    `json:"blockNumber"`
	Status      *quantity    `json:"status"`
	GasUsed     quantity     `json:"gasUsed"`
	GasPrice    *feeQuantity `json:"effectiveGasPrice"`
	// Nothing rests on these, so nodes that write them otherwise are tolerated.
	CumulativeGas tolerant[quantity]    `json:"cumulativeGasUsed"`
	Contract      tolerant[txn.Address] `json:"contractAddress"`
	Logs          tolerant[uint32]      `json:"logs"`  // their number: see skippedFields
	L1Fee         tolerant[bigQuantity] `json:"l1Fee"` // of the OP stack
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

// receiptBatch looks up hashes in one batch. Those with an unusable receipt are looked up at the
// next endpoint too.
func (c *Client) receiptBatch(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult {
	answers := make([]txn.ReceiptResult, len(hashes))
	rest := make([]int, len(hashes)) // indexes without a usable answer
	for i, hash := range hashes {
		answers[i].Hash, rest[i] = hash, i
	}
	err := c.read(
		ctx,
		fmt.Sprintf("read %d receipts", len(hashes)),
		func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
			elems, found := make([]jsonrpc.Call, len(rest)), make([]*receipt, len(rest))
			for i, at := range rest {
				elems[i] = jsonrpc.Call{
					Method: "eth_getTransactionReceipt",
					Args:   []any{hashes[at]},
					Result: &found[i],
				}
			}
			if err := e.batch(ctx, client, elems); err != nil {
				return err
			}
			if err := batchError(elems); err != nil && !errors.Is(err, errMalformed) {
				return err
			}
			var failed []error
			left := rest[:0:0]
			for i, at := range rest {
				a := &answers[at]
				var f *fault
				before := a.Err
				if elems[i].Error == nil {
					a.Receipt, a.Err = found[i].of(a.Hash)
				} else {
					f = e.faultOf(elems[i].Error, nil)
					recordLimit(ctx, f)
					a.Err = fmt.Errorf("chain %q: read receipt %s: %w", c.o.Name, a.Hash, f)
				}
				switch {
				case a.Err != nil && (f == nil || !f.answered):
					left = append(left, at)
					failed = append(failed, cmp.Or(elems[i].Error, a.Err))
				case a.Receipt == nil && a.Err == nil:
					a.Err = before // an unusable receipt is not the absence of one
				}
			}
			if len(failed) > 0 && e.allVerified() { // the next endpoint is asked for these only
				rest = left
			}
			return unusable(failed)
		},
	)
	if err != nil {
		for _, at := range rest {
			answers[at] = txn.ReceiptResult{Hash: hashes[at], Err: err}
		}
	}
	return answers
}

// unusable returns the fault of a call with these unusable results; nil if there are none. Only a
// malformed one makes the endpoint unhealthy, and none delays its other calls.
func unusable(results []error) error {
	if len(results) == 0 {
		return nil
	}
	for _, err := range results {
		if errors.Is(err, errMalformed) {
			return &fault{
				class: txn.Unavailable, detail: describe(err), malformed: true, partial: true,
			}
		}
	}
	return &fault{class: txn.Unavailable, detail: describe(results[0]), answered: true}
}

// errNoStatus is a receipt without a status, which some chains do not have.
var errNoStatus = errors.New("no status")

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
		return nil, fmt.Errorf("read receipt %s: %w: got the receipt of %s", hash, errMalformed,
			r.TxHash)
	case r.Status == nil:
		return nil, fmt.Errorf(
			"read receipt %s: %w", hash, errNoStatus)
	case *r.Status > 1:
		return nil, fmt.Errorf("read receipt %s: %w: status %d", hash, errOutOfRange, *r.Status)
	}
	fact := &txn.Receipt{
		TxHash: hash, BlockNumber: uint64(*r.BlockNumber), BlockHash: *r.BlockHash,
		Success: *r.Status == 1, GasUsed: uint64(r.GasUsed),
	}
	if r.Logs.known && r.CumulativeGas.known {
		fact.More = txn.ReceiptMore{Known: true, Logs: uint64(r.Logs.value),
			CumulativeGas: uint64(r.CumulativeGas.value)}
		if r.Contract.known {
			fact.More.Contract = r.Contract.value
		}
		if r.L1Fee.known {
			fact.More.L1Fee = txn.Wei(r.L1Fee.value)
		}
	}
	if r.GasPrice != nil {
		fact.EffectiveGasPrice = *r.GasPrice.wei()
	}
	return fact, nil
}

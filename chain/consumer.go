package chain

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// consumerReach is how many blocks below the head are searched. Nodes other than archives keep the
// state of few blocks, and only a recent use is of interest.
const consumerReach = 4096

// Consumer returns how a nonce of an account was used: by a transaction, or in a block without one.
// It returns nil if the nonce is unused as of the newest block, or if it was used before the oldest
// state that the endpoint has.
func (c *Client) Consumer(ctx context.Context, address txn.Address,
	nonce txn.Nonce) (*txn.Consumer, error) {
	var found *txn.Consumer
	what := fmt.Sprintf("find the use of nonce %d of %s", nonce, address.Hex())
	err := c.read(ctx, what, func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
		found = nil
		s := nonceSearch{e: e, client: client, address: address, nonce: nonce}
		number, ok, err := s.block(ctx)
		if err != nil || !ok {
			return err
		}
		found, err = s.consumer(ctx, number)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// nonceSearch finds the block in which a nonce was used, by binary search over the account's next
// nonce.
type nonceSearch struct {
	e       *endpoint
	client  *jsonrpc.Client
	address txn.Address
	nonce   txn.Nonce
}

// usage is the state of a nonce at one height.
type usage int

const (
	unused  usage = iota // the nonce was free
	used                 // it was used at this height or below
	refused              // the node does not have or serve that state
)

// block finds the lowest block with the nonce used: first in one batch at doubling distances, then
// by binary search.
func (s nonceSearch) block(ctx context.Context) (number uint64, ok bool, err error) {
	head, err := s.head(ctx)
	if err != nil {
		return 0, false, err
	}
	heights, reach := []uint64{head}, min(consumerReach, head)
	for d := uint64(1); d < reach; d *= 2 {
		heights = append(heights, head-d)
	}
	heights = append(heights, head-reach)
	states, err := s.at(ctx, heights...)
	if err != nil || states[0] != used {
		return 0, false, err
	}
	last := 0
	for last+1 < len(states) && states[last+1] == used {
		last++
	}
	if last+1 == len(states) {
		// older than the search range; nothing is below the genesis
		return 0, heights[last] == 0, nil
	}
	// The nonce is used at high. At low it is unused or unknown.
	high := heights[last]
	low := heights[last+1]
	at := states[last+1]
	for high-low > 1 {
		middle := low + (high-low)/2
		state, err := s.at(ctx, middle)
		switch {
		case err != nil:
			return 0, false, err
		case state[0] == used:
			high = middle
		default:
			low, at = middle, state[0]
		}
	}
	return high, at == unused, nil
}

func (s nonceSearch) head(ctx context.Context) (uint64, error) {
	var number quantity
	err := s.client.Call(ctx, &number, "eth_blockNumber")
	return uint64(number), err
}

// at reads the state of the nonce at several heights in one batch.
func (s nonceSearch) at(ctx context.Context, heights ...uint64) ([]usage, error) {
	counts := make([]quantity, len(heights))
	elems := make([]jsonrpc.Call, len(heights))
	for i, h := range heights {
		elems[i] = jsonrpc.Call{
			Method: "eth_getTransactionCount",
			Args:   []any{s.address, hexutil.Uint64(h)},
			Result: &counts[i],
		}
	}
	if err := s.e.batch(ctx, s.client, elems); err != nil {
		return nil, err
	}
	if err := batchError(elems); err != nil && len(elems) > 1 {
		return nil, err // even the newest state failed
	}
	states := make([]usage, len(heights))
	for i := range elems {
		switch {
		case elems[i].Error != nil && s.e.faultOf(elems[i].Error, nil).class == txn.RateLimited:
			return nil, elems[i].Error
		case elems[i].Error != nil:
			states[i] = refused
		case txn.Nonce(counts[i]) > s.nonce:
			states[i] = used
		}
	}
	return states, nil
}

// consumer reads the block and finds the transaction in it.
func (s nonceSearch) consumer(ctx context.Context, number uint64) (*txn.Consumer, error) {
	sent := sentTx{address: s.address, nonce: s.nonce}
	block := &struct {
		Number *quantity `json:"number"`
		Hash   txn.Hash  `json:"hash"`
		Txs    *sentTx   `json:"transactions"`
	}{Txs: &sent}
	if err := s.client.Call(
		ctx,
		&block,
		"eth_getBlockByNumber",
		hexutil.Uint64(number),
		true,
	); err != nil {
		return nil, err
	}
	switch {
	case block == nil:
		return nil, nil // the block left the chain meanwhile
	case block.Number == nil || uint64(*block.Number) != number || block.Hash == (txn.Hash{}):
		return nil, fmt.Errorf("%w: not the requested block", errMalformed)
	}
	return &txn.Consumer{Block: number, BlockHash: block.Hash, TxHash: sent.hash}, nil
}

// sentTx finds a transaction by sender and nonce in the list of a block.
type sentTx struct {
	address txn.Address
	nonce   txn.Nonce
	hash    txn.Hash // zero: not found
}

// UnmarshalJSON reads the list.
func (f *sentTx) UnmarshalJSON(raw []byte) error {
	type tx struct {
		Hash  txn.Hash    `json:"hash"`
		From  txn.Address `json:"from"`
		Nonce bigQuantity `json:"nonce"` // of any sender: a system's may be large
	}
	return eachElement(raw, func(t *tx) {
		if nonce := (*uint256.Int)(&t.Nonce); t.From == f.address && nonce.IsUint64() &&
			txn.Nonce(nonce.Uint64()) == f.nonce {
			f.hash = t.Hash
		}
	})
}

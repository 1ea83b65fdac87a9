package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// chainNode is chaintest's chain behind JSON-RPC over HTTP, as a node of it would be, with every
// call and every request counted.
type chainNode struct {
	*chaintest.Chain
	url  string
	http *http.Server
	rpc  *rpc.Server
	stop context.CancelFunc
	done sync.WaitGroup

	requests atomic.Int64
	taken    chan struct{} // a token for each transaction that it took
	mu       sync.Mutex
	calls    map[string]int64
	gasLimit uint64
}

type chainOptions struct {
	period   time.Duration // between two blocks
	accounts int           // that have funds
	// a block is made as soon as every account has a transaction in the pool; period is how long it
	// waits for that at most
	lockstep      bool
	inFlight      int  // transactions of an account that a block has room for
	noBlockGroups bool // it does not offer eth_getBlockReceipts
}

// blockGas has room for one plain transfer of every account, and for the pool's rules on single
// transactions.
func blockGas(accounts int) uint64 { return max(30_000_000, uint64(accounts)*30_000) }

func startChain(o chainOptions) (*chainNode, error) {
	n := &chainNode{
		calls:    map[string]int64{},
		gasLimit: blockGas(o.accounts * max(o.inFlight, 1)),
		taken:    make(chan struct{}, 1<<16),
	}
	accounts := make([]txn.Address, o.accounts)
	for i := range accounts {
		accounts[i] = chaintest.Address(i)
	}
	n.Chain = chaintest.New(
		chaintest.Options{
			ChainID:   benchChain,
			GasLimit:  n.gasLimit,
			PoolLimit: max(6144, 4*o.accounts*max(o.inFlight, 1)),
			Senders:   newSenders(benchChain, accounts),
		},
	)
	funds := *new(uint256.Int).Exp(uint256.NewInt(10), uint256.NewInt(24))
	for _, a := range accounts {
		n.Fund(a, funds)
	}
	n.Mine(1)
	n.rpc = rpc.NewServer()
	var api any = &ethAPI{n}
	if !o.noBlockGroups {
		api = &ethWithBlocks{ethAPI{n}}
	}
	if err := n.rpc.RegisterName("eth", api); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n.url = "http://" + listener.Addr().String()
	n.http = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.requests.Add(1)
		n.rpc.ServeHTTP(w, r)
	})}
	n.done.Go(func() { _ = n.http.Serve(listener) }) // ends with Close
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	n.done.Go(func() {
		if o.lockstep {
			n.mineWhenFull(ctx, o.accounts*max(o.inFlight, 1), o.period)
			return
		}
		n.mine(ctx, o.period)
	})
	return n, nil
}

// mineWhenFull makes blocks that have a transaction of every account, however slow the machine is
// at the moment.
func (n *chainNode) mineWhenFull(ctx context.Context, accounts int, atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for {
		for waiting := 0; waiting < accounts; waiting++ {
			select {
			case <-n.taken:
				continue
			case <-timer.C:
			case <-ctx.Done():
				return
			}
			break
		}
		n.Mine(1)
		timer.Reset(atMost)
	}
}

// mine makes a block at each tick, however long a block takes to make.
func (n *chainNode) mine(ctx context.Context, period time.Duration) {
	for next := time.Now().Add(period); ; next = next.Add(period) {
		if clock.Sleep(ctx, clock.Real{}, time.Until(next)) != nil {
			return
		}
		n.Mine(1)
	}
}

func (n *chainNode) close() {
	n.stop()
	_ = n.http.Close()
	n.rpc.Stop()
	n.done.Wait()
}

func (n *chainNode) count(method string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[method]++
}

// asked counts the requests to a node so far.
type asked struct {
	requests, calls float64
	by              map[string]float64
}

func (n *chainNode) measure() asked {
	a := asked{requests: float64(n.requests.Load()), by: map[string]float64{}}
	n.mu.Lock()
	defer n.mu.Unlock()
	for method, calls := range n.calls {
		a.by[method] = float64(calls)
		a.calls += float64(calls)
	}
	return a
}

func (a asked) since(before asked) asked {
	return asked{
		requests: a.requests - before.requests,
		calls:    a.calls - before.calls,
		by:       less(a.by, before.by),
	}
}

// ethAPI are the methods that a node of Fencepost asks for.
type ethAPI struct{ n *chainNode }

// ethWithBlocks has the receipts of a block as well.
type ethWithBlocks struct{ ethAPI }

//lint:ignore ST1003 the name is the method's on the wire, eth_chainId
func (a *ethAPI) ChainId() hexutil.Uint64 { //nolint:staticcheck // likewise
	a.n.count("eth_chainId")
	return hexutil.Uint64(a.n.ID())
}

// BlockNumber is eth_blockNumber.
func (a *ethAPI) BlockNumber(ctx context.Context) (hexutil.Uint64, error) {
	a.n.count("eth_blockNumber")
	head, err := a.n.Head(ctx)
	return hexutil.Uint64(head.Number), err
}

// GetBlockByNumber is eth_getBlockByNumber, without the transactions' contents.
func (a *ethAPI) GetBlockByNumber(ctx context.Context, tag string, _ bool) (map[string]any, error) {
	a.n.count("eth_getBlockByNumber")
	number, err := a.number(ctx, tag)
	if err != nil {
		return nil, err
	}
	block, err := a.n.Chain.BlockByNumber(ctx, number)
	return a.blockJSON(block), err
}

// GetBlockByHash is eth_getBlockByHash.
func (a *ethAPI) GetBlockByHash(ctx context.Context, hash txn.Hash,
	_ bool) (map[string]any, error) {
	a.n.count("eth_getBlockByHash")
	block, err := a.n.Chain.BlockByHash(ctx, hash)
	return a.blockJSON(block), err
}

func (a *ethAPI) number(ctx context.Context, tag string) (uint64, error) {
	if strings.HasPrefix(tag, "0x") {
		return hexutil.DecodeUint64(tag)
	}
	head, err := a.n.Head(ctx)
	return head.Number, err
}

func (a *ethAPI) blockJSON(b *txn.Block) map[string]any {
	if b == nil {
		return nil
	}
	txs := b.Txs
	if txs == nil {
		txs = []txn.Hash{}
	}
	return map[string]any{
		"number": hexutil.Uint64(
			b.Number), "hash": b.Hash, "parentHash": b.Parent, "timestamp": hexutil.Uint64(b.Time),
		"baseFeePerGas": (*hexutil.Big)(
			b.BaseFee.ToBig()), "gasLimit": hexutil.Uint64(a.n.gasLimit), "transactions": txs,
	}
}

// receiptJSON is a receipt on the wire, as far as it is read.
type receiptJSON struct {
	TxHash      txn.Hash        `json:"transactionHash"`
	BlockHash   txn.Hash        `json:"blockHash"`
	BlockNumber hexutil.Uint64  `json:"blockNumber"`
	Status      hexutil.Uint64  `json:"status"`
	GasUsed     hexutil.Uint64  `json:"gasUsed"`
	GasPrice    *hexutil.Big    `json:"effectiveGasPrice"`
	Logs        json.RawMessage `json:"logs"`
}

func receiptOf(r *txn.Receipt) *receiptJSON {
	if r == nil {
		return nil
	}
	j := &receiptJSON{
		TxHash: r.TxHash, BlockHash: r.BlockHash, BlockNumber: hexutil.Uint64(r.BlockNumber),
		GasUsed:  hexutil.Uint64(r.GasUsed),
		GasPrice: (*hexutil.Big)(r.EffectiveGasPrice.ToBig()), Logs: json.RawMessage("[]"),
	}
	if r.Success {
		j.Status = 1
	}
	return j
}

// GetTransactionReceipt is eth_getTransactionReceipt.
func (a *ethAPI) GetTransactionReceipt(ctx context.Context, hash txn.Hash) (*receiptJSON, error) {
	a.n.count("eth_getTransactionReceipt")
	answer := a.n.Receipts(ctx, []txn.Hash{hash})[0]
	return receiptOf(answer.Receipt), answer.Err
}

// GetBlockReceipts is eth_getBlockReceipts.
func (a *ethWithBlocks) GetBlockReceipts(ctx context.Context,
	number hexutil.Uint64) ([]*receiptJSON, error) {
	a.n.count("eth_getBlockReceipts")
	block, err := a.n.Chain.BlockByNumber(ctx, uint64(number))
	if block == nil || err != nil {
		return nil, err
	}
	receipts := make([]*receiptJSON, 0, len(block.Txs))
	for _, answer := range a.n.Receipts(ctx, block.Txs) {
		receipts = append(receipts, receiptOf(answer.Receipt))
	}
	return receipts, nil
}

// SendRawTransaction is eth_sendRawTransaction.
func (a *ethAPI) SendRawTransaction(ctx context.Context, raw hexutil.Bytes) (txn.Hash, error) {
	a.n.count("eth_sendRawTransaction")
	signed := txn.Signed{Hash: hashOf(raw), Raw: raw}
	if o := a.n.Send(ctx, signed); o.Class != txn.Accepted {
		return txn.Hash{}, errors.New(o.Detail)
	}
	select {
	case a.n.taken <- struct{}{}:
	default: // not counted
	}
	return signed.Hash, nil
}

// GetTransactionCount is eth_getTransactionCount.
func (a *ethAPI) GetTransactionCount(ctx context.Context, address txn.Address,
	tag string) (hexutil.Uint64, error) {
	a.n.count("eth_getTransactionCount")
	head, err := a.n.Head(ctx)
	if err != nil {
		return 0, err
	}
	depth := uint64(0)
	if strings.HasPrefix(tag, "0x") {
		at, err := hexutil.DecodeUint64(tag)
		if err != nil {
			return 0, err
		}
		depth = head.Number - min(at, head.Number)
	}
	account, err := a.n.Account(ctx, address, depth)
	switch {
	case err != nil:
		return 0, err
	case tag == "pending":
		return hexutil.Uint64(account.Pending), nil
	case tag == "latest":
		return hexutil.Uint64(account.Latest), nil
	}
	return hexutil.Uint64(account.Settled), nil
}

// GetBalance is eth_getBalance at the head.
func (a *ethAPI) GetBalance(ctx context.Context, address txn.Address,
	_ string) (*hexutil.Big, error) {
	a.n.count("eth_getBalance")
	account, err := a.n.Account(ctx, address, 0)
	return (*hexutil.Big)(account.BalanceAt.ToBig()), err
}

// GetCode is eth_getCode: none of the accounts has any.
func (a *ethAPI) GetCode(txn.Address, string) hexutil.Bytes {
	a.n.count("eth_getCode")
	return hexutil.Bytes{}
}

// EstimateGas is eth_estimateGas: all that is sent here are plain transfers.
func (a *ethAPI) EstimateGas(map[string]any, *string) hexutil.Uint64 {
	a.n.count("eth_estimateGas")
	return transferGas
}

// GasPrice is eth_gasPrice.
func (a *ethAPI) GasPrice() *hexutil.Big {
	a.n.count("eth_gasPrice")
	return (*hexutil.Big)(big.NewInt(2 * gwei))
}

// FeeHistory is eth_feeHistory of a market that stands still.
func (a *ethAPI) FeeHistory(ctx context.Context, blocks hexutil.Uint64, _ string,
	percentiles []float64) (map[string]any, error) {
	a.n.count("eth_feeHistory")
	head, err := a.n.Head(ctx)
	if err != nil {
		return nil, err
	}
	base, rewards := []*hexutil.Big{(*hexutil.Big)(big.NewInt(gwei))}, [][]*hexutil.Big{}
	for range min(uint64(blocks), head.Number) {
		base = append(base, (*hexutil.Big)(big.NewInt(gwei)))
		row := make([]*hexutil.Big, len(percentiles))
		for i := range row {
			row[i] = (*hexutil.Big)(big.NewInt(gwei))
		}
		rewards = append(rewards, row)
	}
	return map[string]any{
		"oldestBlock":   hexutil.Uint64(head.Number + 1 - uint64(len(rewards))),
		"baseFeePerGas": base,
		"reward":        rewards,
	}, nil
}

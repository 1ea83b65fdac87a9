package chaintest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

// Method names a method of the port.
type Method string

// Methods of the port.
const (
	MethodHead          Method = "Head"
	MethodBlockByHash   Method = "BlockByHash"
	MethodBlockByNumber Method = "BlockByNumber"
	MethodReceipts      Method = "Receipts"
	MethodSend          Method = "Send"
	MethodAccount       Method = "Account"
	MethodQuote         Method = "Quote"
	MethodConsumer      Method = "Consumer"
	MethodFees          Method = "Fees"
	MethodGas           Method = "Gas"
	MethodPooled        Method = "Pooled"
	MethodTagged        Method = "Tagged"
)

// Call is a call as an interceptor sees it: the method and its arguments.
type Call struct {
	Method  Method
	Hashes  []txn.Hash // of Receipts and Pooled; of BlockByHash, one
	Number  uint64     // of BlockByNumber
	Signed  txn.Signed // of Send
	Address txn.Address
	Nonce   txn.Nonce // of Consumer and Pooled
	Draft   txn.Draft // of Quote and Gas
	Speed   txn.Speed // of Fees
	Tag     string    // of Tagged
}

// Fault is the fault of one call. The zero value is none.
type Fault struct {
	Down  bool         // the call fails; a send does not reach the pool
	Lost  bool         // Send: the bytes do not reach the pool
	Reply *txn.Outcome // Send, Quote, Fees, Gas: result to return instead of the real one
	Evict bool         // Send: the pool accepts the bytes and drops them at once
	// Account, Consumer: number of newest blocks with state, as of a node that is not an archive; 0
	// keeps all.
	KeepState uint64
	Lag       uint64 // reads: number of blocks that the node is behind
}

// Unavailable makes a call fail.
func Unavailable() Fault { return Fault{Down: true} }

// LoseRequest times out before the bytes arrive.
func LoseRequest() Fault { return Fault{Lost: true, Reply: noAnswer()} }

// LoseReply times out after the bytes arrived.
func LoseReply() Fault { return Fault{Reply: noAnswer()} }

// Swallow returns ACCEPTED and drops the bytes.
func Swallow() Fault { return Fault{Lost: true, Reply: &txn.Outcome{Class: txn.Accepted}} }

// Evict accepts the bytes and drops them from the pool.
func Evict() Fault { return Fault{Evict: true} }

// Lag returns the chain as of some blocks ago.
func Lag(blocks uint64) Fault { return Fault{Lag: blocks} }

// KeepState serves the state of the given number of newest blocks only.
func KeepState(blocks uint64) Fault { return Fault{KeepState: blocks} }

// hasState reports whether the node has the state of a block.
func (f Fault) hasState(head, number uint64) bool {
	return f.KeepState == 0 ||
		head-number < f.KeepState
}

// Say rejects with a node's message and drops the bytes. Set Fault.Lost to false for a false
// message: the pool accepts the bytes.
func Say(words string) Fault {
	o := outcome.Classify(outcome.Response{Code: -32000, Message: words})
	return Fault{Lost: true, Reply: &o}
}

// FalseNonceTooLow reports that an unused nonce is used, and drops the bytes.
func FalseNonceTooLow() Fault { return Say("nonce too low") }

func noAnswer() *txn.Outcome {
	return &txn.Outcome{Class: txn.Ambiguous, Detail: "response timed out"}
}

// Intercept calls by before each call, to observe it or to inject a fault; nil ends that. It is
// called without locks, so it may wait and change the chain.
func (c *Chain) Intercept(by func(context.Context, Call) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.intercept = by
}

// enter calls the interceptor. The error is the result of a read.
func (c *Chain) enter(ctx context.Context, call Call) (Fault, error) {
	c.mu.Lock()
	by := c.intercept
	c.mu.Unlock()
	var f Fault
	if by != nil {
		f = by(ctx, call)
	}
	if ctx.Err() != nil {
		return f, fmt.Errorf("chaintest: %s: call cancelled: %w", call.Method,
			txn.ErrUnavailable)
	}
	if f.Down {
		return f, fmt.Errorf("chaintest: %s: made unavailable: %w", call.Method,
			txn.ErrUnavailable)
	}
	return f, nil
}

// Received is one Send call.
type Received struct {
	Height   uint64 // head at that time
	At       time.Time
	Raw      []byte
	Hash     txn.Hash
	Sender   txn.Address // zero if the bytes are not a transaction of this chain
	Nonce    txn.Nonce
	Payload  txn.Payload
	Fees     txn.Fees
	Arrived  bool        // it reached the pool
	Accepted bool        // the pool accepted it
	Outcome  txn.Outcome // the returned outcome
}

// Received returns all Send calls in order.
func (c *Chain) Received() []Received {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.received)
}

// record decodes and stores a Send call.
func (c *Chain) record(signed txn.Signed, tx *types.Transaction, r Received) {
	r.Height = c.head().Number
	r.Raw = slices.Clone(signed.Raw)
	r.Hash = signed.Hash
	if c.o.Now != nil {
		r.At = c.o.Now()
	}
	if tx != nil {
		r.Hash = tx.Hash()
		r.Nonce = txn.Nonce(tx.Nonce())
		r.Payload = payloadOf(tx)
		r.Fees = feesOf(tx)
		r.Sender, _ = types.Sender(c.signer, tx) // zero if the signature is for another chain
	}
	c.received = append(c.received, r)
}

func payloadOf(tx *types.Transaction) txn.Payload {
	p := txn.Payload{To: tx.To(), Data: tx.Data(), GasLimit: tx.Gas()}
	p.Value.SetFromBig(tx.Value())
	return p
}

func feesOf(tx *types.Transaction) txn.Fees {
	f := txn.Fees{Legacy: tx.Type() == types.LegacyTxType}
	f.Cap.SetFromBig(tx.GasFeeCap())
	f.Tip.SetFromBig(tx.GasTipCap())
	return f
}

// Included is a transaction of the canonical chain.
type Included struct {
	Block   txn.Block
	Receipt txn.Receipt
	Sender  txn.Address
	Nonce   txn.Nonce
	Payload txn.Payload
}

// Included returns every transaction of the canonical chain in order.
func (c *Chain) Included() []Included {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Included
	for _, b := range c.blocks {
		for i, tx := range b.txs {
			all = append(
				all,
				Included{
					b.Block,
					*b.receipts[tx.Hash()],
					b.senders[i],
					txn.Nonce(tx.Nonce()),
					payloadOf(tx),
				},
			)
		}
	}
	return all
}

// Pool returns the hashes in the pool, by nonce for each sender and by arrival between senders.
func (c *Chain) Pool() []txn.Hash {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries := make([]*pooled, 0, len(c.pool.byHash))
	for _, entry := range c.pool.byHash {
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b *pooled) int {
		if a.from == b.from {
			return int(a.tx.Nonce()) - int(b.tx.Nonce())
		}
		return int(a.arrival) - int(b.arrival)
	})
	hashes := make([]txn.Hash, len(entries))
	for i, entry := range entries {
		hashes[i] = entry.tx.Hash()
	}
	return hashes
}

// Evict drops a transaction from the pool and reports whether it was there.
func (c *Chain) Evict(hash txn.Hash) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.pool.byHash[hash]
	if entry != nil {
		c.pool.remove(entry)
	}
	return entry != nil
}

// ForgetPool drops every pooled transaction, as a node that restarts without a journal does.
func (c *Chain) ForgetPool() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pool = newPool()
}

// ForgetPoolRules drops the rules learned from refusals, as a client that starts again does.
func (c *Chain) ForgetPoolRules() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floors = new(chain.Floors)
}

// SetExtraGas adds gas to every transaction, as rollups do for data availability.
func (c *Chain) SetExtraGas(gas uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.extraGas = gas
}

// SetMinTip changes the minimum tip of the pool. As in go-ethereum, pooled transactions below it
// are dropped.
func (c *Chain) SetMinTip(wei txn.Wei) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.o.MinTip = wei
	for _, entry := range c.pool.byHash {
		if entry.tx.GasTipCapIntCmp(wei.ToBig()) < 0 {
			c.pool.remove(entry)
		}
	}
}

// SetTips changes the tip of each speed.
func (c *Chain) SetTips(tips map[txn.Speed]txn.Wei) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.o.Tips = maps.Clone(tips)
}

// SetTags fixes the heights of the safe and the finalized block until the next call. Heights above
// the head mean the head. Before the first call the depths of Options apply.
func (c *Chain) SetTags(safe, finalized uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tags = map[string]uint64{chain.Safe: safe, chain.Finalized: finalized}
}

// Inject adds a transaction to the pool that was not sent through Send: of another account, or of
// another program with the same key.
func (c *Chain) Inject(tx *types.Transaction) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.admit(tx); err != nil {
		return fmt.Errorf("chaintest: inject %s: %w", tx.Hash(), err)
	}
	return nil
}

var errWrongHash = errors.New("the hash does not belong to the bytes")

// decode parses signed bytes.
func decode(signed txn.Signed) (*types.Transaction, error) {
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(signed.Raw); err != nil {
		return nil, fmt.Errorf("failed to decode transaction: %w", err)
	}
	if tx.Hash() != signed.Hash {
		return tx, errWrongHash
	}
	return tx, nil
}

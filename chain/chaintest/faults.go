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

// Method names a call of the port.
type Method string

// The methods.
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

// Call is what an interceptor sees: the method, and those of its arguments that the method has.
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

// Fault is what happens to one call. The zero value is none.
type Fault struct {
	Down  bool         // the chain cannot be asked; a send does not reach it
	Lost  bool         // Send: the bytes do not reach the pool
	Reply *txn.Outcome // Send, Quote, Fees, Gas: what the caller is told instead of the truth
	Evict bool         // Send: the pool takes the bytes, says so, and forgets them
	Keeps uint64       // Account, Consumer: the state of so many newest blocks alone is there, as with a node that is no archive; 0: all of it
	Lag   uint64       // reads: the answer is that of a node which is so many blocks behind
}

// Unavailable keeps a call from the chain and says so.
func Unavailable() Fault { return Fault{Down: true} }

// LoseRequest times out before the bytes arrive.
func LoseRequest() Fault { return Fault{Lost: true, Reply: noAnswer()} }

// LoseReply times out after the bytes arrived.
func LoseReply() Fault { return Fault{Reply: noAnswer()} }

// Swallow says "accepted" and drops the bytes.
func Swallow() Fault { return Fault{Lost: true, Reply: &txn.Outcome{Class: txn.Accepted}} }

// Evict accepts the bytes and forgets them at once.
func Evict() Fault { return Fault{Evict: true} }

// Lag shows the chain as it was some blocks ago.
func Lag(blocks uint64) Fault { return Fault{Lag: blocks} }

// Keeps has the state of so many newest blocks, and refuses to tell what is older.
func Keeps(blocks uint64) Fault { return Fault{Keeps: blocks} }

// tells is whether the node has the state of a block.
func (f Fault) tells(head, number uint64) bool { return f.Keeps == 0 || head-number < f.Keeps }

// Say refuses with a node's words. Together with a pool that took the bytes (Fault.Lost = false) the words are a lie.
func Say(words string) Fault {
	o := outcome.Classify(outcome.Response{Code: -32000, Message: words})
	return Fault{Lost: true, Reply: &o}
}

// FalseNonceTooLow says that the nonce is used although it is not, and drops the bytes.
func FalseNonceTooLow() Fault { return Say("nonce too low") }

func noAnswer() *txn.Outcome {
	return &txn.Outcome{Class: txn.Ambiguous, Detail: "response timed out"}
}

// Intercept lets a test see each call before the chain does, and bend it; nil ends that. It is called without any lock: it may wait, and it may change the
// chain.
func (c *Chain) Intercept(by func(context.Context, Call) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.intercept = by
}

// enter asks the interceptor. The error is what a read answers.
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
		return f, fmt.Errorf("chaintest: %s: the chain was made unavailable: %w", call.Method,
			txn.ErrUnavailable)
	}
	return f, nil
}

// Received is one thing that Send was given.
type Received struct {
	Height  uint64 // head when it came
	At      time.Time
	Raw     []byte
	Hash    txn.Hash
	Sender  txn.Address // zero when the bytes are no transaction of this chain
	Nonce   txn.Nonce
	Payload txn.Payload
	Fees    txn.Fees
	Arrived bool        // it reached the pool's rules
	Took    bool        // the pool took it
	Told    txn.Outcome // what the caller was told
}

// Received is all that Send was ever given, in order.
func (c *Chain) Received() []Received {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.received)
}

// record decodes what can be decoded and keeps it.
func (c *Chain) record(signed txn.Signed, tx *types.Transaction, r Received) {
	r.Height, r.Raw, r.Hash = c.head().Number, slices.Clone(signed.Raw), signed.Hash
	if c.o.Now != nil {
		r.At = c.o.Now()
	}
	if tx != nil {
		r.Hash, r.Nonce, r.Payload, r.Fees = tx.Hash(), txn.Nonce(tx.Nonce()), payloadOf(
			tx), feesOf(tx)
		r.Sender, _ = types.Sender(c.signer, tx) // zero if it has none on this chain
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

// Included is every transaction of the canonical chain, in order.
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

// Pool is the hashes that wait in the pool, by sender's nonce; order between senders is that of arrival.
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

// Evict drops a transaction from the pool and tells whether it was there.
func (c *Chain) Evict(hash txn.Hash) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.pool.byHash[hash]
	if entry != nil {
		c.pool.remove(entry)
	}
	return entry != nil
}

// ForgetPool drops every waiting transaction, as a node does that restarts without a journal.
func (c *Chain) ForgetPool() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pool = newPool()
}

// SetExtraGas has every transaction take more gas than go-ethereum asks for, as on rollups that charge for the layer below.
func (c *Chain) SetExtraGas(gas uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.extraGas = gas
}

// SetMinTip changes the lowest tip that the pool takes. As in go-ethereum, what waits below it is dropped.
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

// SetTips changes what a speed takes on this market, from now on.
func (c *Chain) SetTips(tips map[txn.Speed]txn.Wei) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.o.Tips = maps.Clone(tips)
}

// SetTags fixes the heights of the safe and the finalized block, until it is called again; a height above the head stands for the head. Options say where
// they are before.
func (c *Chain) SetTags(safe, finalized uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tags = map[string]uint64{chain.Safe: safe, chain.Finalized: finalized}
}

// Inject gives the pool a transaction that did not come through Send: somebody else's, or of another program that has the same key.
func (c *Chain) Inject(tx *types.Transaction) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.admit(tx); err != nil {
		return fmt.Errorf("chaintest: inject %s: %w", tx.Hash(), err)
	}
	return nil
}

var errWrongHash = errors.New("the hash does not belong to the bytes")

// decode reads signed bytes.
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

package chaintest

import (
	"container/heap"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

const (
	maxTxSize   = 128 << 10 // bytes
	maxInitCode = 48 << 10  // bytes, EIP-3860
	priceBump   = 10        // minimum increase of both fees by a replacement, in percent
)

// pool holds the pending transactions. The state's nonces determine which can run, so a gap needs
// no second list.
type pool struct {
	byHash   map[txn.Hash]*pooled
	bySender map[txn.Address]map[uint64]*pooled
	arrivals uint64
}

type pooled struct {
	tx      *types.Transaction
	from    txn.Address
	arrival uint64
}

func newPool() *pool {
	return &pool{byHash: map[txn.Hash]*pooled{}, bySender: map[txn.Address]map[uint64]*pooled{}}
}

func (p *pool) put(tx *types.Transaction, from txn.Address) {
	if p.bySender[from] == nil {
		p.bySender[from] = map[uint64]*pooled{}
	}
	if old := p.bySender[from][tx.Nonce()]; old != nil {
		p.remove(old)
		p.put(tx, from)
		return
	}
	p.arrivals++
	entry := &pooled{tx: tx, from: from, arrival: p.arrivals}
	p.byHash[tx.Hash()], p.bySender[from][tx.Nonce()] = entry, entry
}

func (p *pool) remove(entry *pooled) {
	delete(p.byHash, entry.tx.Hash())
	delete(p.bySender[entry.from], entry.tx.Nonce())
	if len(p.bySender[entry.from]) == 0 {
		delete(p.bySender, entry.from)
	}
}

// pendingNonce returns the first nonce from next on that is not in the pool.
func (p *pool) pendingNonce(from txn.Address, next uint64) uint64 {
	for p.bySender[from][next] != nil {
		next++
	}
	return next
}

// pendingCost returns the maximum cost of the sender's runnable transactions, without the one with
// nonce except.
func (p *pool) pendingCost(from txn.Address, next, except uint64) *big.Int {
	total := new(big.Int)
	for n := next; p.bySender[from][n] != nil; n++ {
		if n != except {
			total.Add(total, p.bySender[from][n].tx.Cost())
		}
	}
	return total
}

// runnable orders the transactions for one block: highest tip first, then by arrival, each sender's
// by nonce.
type runnable struct {
	pool    *pool
	nonce   func(txn.Address) uint64
	baseFee *txn.Wei
	heads   heads
	last    *pooled // returned last: its sender's next may run now
}

func (p *pool) runnable(nonce func(txn.Address) uint64, baseFee *txn.Wei) *runnable {
	r := &runnable{pool: p, nonce: nonce, baseFee: baseFee}
	for from := range p.bySender {
		r.consider(from)
	}
	return r
}

// consider adds the next transaction of a sender if it pays the base fee.
func (r *runnable) consider(from txn.Address) {
	entry := r.pool.bySender[from][r.nonce(from)]
	if entry == nil {
		return
	}
	tip := entry.tx.GasTipCap()
	if r.baseFee != nil {
		var err error
		if tip, err = entry.tx.EffectiveGasTip(r.baseFee.ToBig()); err != nil {
			return // its cap is below the base fee
		}
	}
	heap.Push(&r.heads, paying{entry, tip})
}

// next returns the best transaction that fits, or nil. A transaction that does not fit now does not
// fit later in the block.
func (r *runnable) next(gasLeft uint64) *pooled {
	if r.last != nil {
		r.consider(r.last.from)
		r.last = nil
	}
	for len(r.heads) > 0 {
		if one := heap.Pop(&r.heads).(paying); one.tx.Gas() <= gasLeft {
			r.last = one.pooled
			return one.pooled
		}
	}
	return nil
}

type paying struct {
	*pooled
	tip *big.Int
}

// heads is a heap with at most one transaction per sender.
type heads []paying

// Len returns the number of transactions.
func (h heads) Len() int { return len(h) }

// Less orders by tip, then by arrival.
func (h heads) Less(i, j int) bool {
	if c := h[i].tip.Cmp(h[j].tip); c != 0 {
		return c > 0
	}
	return h[i].arrival < h[j].arrival
}

// Swap swaps two transactions.
func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push appends a transaction.
func (h *heads) Push(x any) { *h = append(*h, x.(paying)) }

// Pop removes the last transaction.
func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// prune drops transactions that can never run, and those that their sender cannot afford.
func (p *pool) prune(s *state) {
	for _, entry := range p.byHash {
		a := s.account(entry.from)
		if entry.tx.Nonce() < a.nonce || a.balance.ToBig().Cmp(entry.tx.Cost()) < 0 {
			p.remove(entry)
		}
	}
}

// admit applies the rules of go-ethereum's pool, with its order and messages.
func (c *Chain) admit(tx *types.Transaction) error {
	if c.pool.byHash[tx.Hash()] != nil {
		return errors.New("already known")
	}
	from, err := c.valid(tx)
	if err != nil {
		return err
	}
	if err := c.affordable(tx, from); err != nil {
		return err
	}
	if err := c.unstacked(tx, from); err != nil {
		return err
	}
	old := c.pool.bySender[from][tx.Nonce()]
	if old == nil {
		if err := c.makeRoom(tx, from); err != nil {
			return err
		}
	}
	if old != nil && !outbids(tx, old.tx) {
		return errors.New("replacement transaction underpriced")
	}
	c.pool.put(tx, from)
	return nil
}

// valid checks a transaction without state.
func (c *Chain) valid(tx *types.Transaction) (txn.Address, error) {
	creation := tx.To() == nil
	gas, floor := intrinsicGas(tx.Data(), creation)
	gas += c.state.extraGas + authorizationGas*uint64(len(tx.SetCodeAuthorizations()))
	switch {
	case tx.Type() != types.LegacyTxType && c.o.Legacy,
		tx.Type() > types.DynamicFeeTxType && tx.Type() != types.SetCodeTxType:
		return txn.Address{}, fmt.Errorf(
			"transaction type not supported: tx type %d not supported by this pool", tx.Type())
	case tx.Type() != types.LegacyTxType && c.o.LegacyPool:
		return txn.Address{}, errors.New("only legacy transactions are supported")
	case tx.Size() > maxTxSize:
		return txn.Address{}, fmt.Errorf("oversized data: transaction size %d, limit %d", tx.Size(),
			maxTxSize)
	case creation && len(tx.Data()) > maxInitCode:
		return txn.Address{}, fmt.Errorf("max initcode size exceeded: code size %d limit %d",
			len(tx.Data()), maxInitCode)
	case tx.Gas() > c.o.MaxTxGas:
		return txn.Address{}, fmt.Errorf("transaction gas limit too high (cap: %d, tx: %d)",
			c.o.MaxTxGas, tx.Gas())
	case tx.Gas() > c.o.GasLimit:
		return txn.Address{}, errors.New("exceeds block gas limit")
	case tx.GasFeeCapIntCmp(tx.GasTipCap()) < 0:
		return txn.Address{}, errors.New("max priority fee per gas higher than max fee per gas")
	}
	if err := wellFormed(tx); err != nil {
		return txn.Address{}, err
	}
	from, err := types.Sender(c.signer, tx)
	switch {
	case err != nil:
		return txn.Address{}, fmt.Errorf("invalid sender: %w", err)
	case tx.Nonce()+1 == 0:
		return txn.Address{}, errors.New("nonce has max value")
	case tx.Gas() < gas:
		return txn.Address{}, fmt.Errorf("intrinsic gas too low: gas %d, minimum needed %d",
			tx.Gas(), gas)
	case tx.Gas() < floor:
		return txn.Address{}, fmt.Errorf(
			"insufficient gas for floor data gas cost: gas %d, minimum needed %d", tx.Gas(), floor)
	case c.o.TerseFloor && tx.GasTipCapIntCmp(c.o.MinTip.ToBig()) < 0:
		return txn.Address{}, errors.New("transaction underpriced")
	case tx.GasTipCapIntCmp(c.o.MinTip.ToBig()) < 0:
		return txn.Address{}, fmt.Errorf(
			"transaction gas price below minimum: gas tip cap %d, minimum needed %s",
			tx.GasTipCap(), c.o.MinTip.Dec())
	case c.o.StrictFeeCap && c.baseFee != nil && tx.GasFeeCapIntCmp(c.baseFee.ToBig()) < 0:
		return txn.Address{}, fmt.Errorf(
			"max fee per gas less than block base fee: address %s, maxFeePerGas: %d, baseFee: %s",
			from.Hex(), tx.GasFeeCap(), c.baseFee.Dec())
	}
	return from, nil
}

// affordable checks the sender's balance and code.
func (c *Chain) affordable(tx *types.Transaction, from txn.Address) error {
	a := c.state.account(from)
	if tx.Nonce() < a.nonce {
		return fmt.Errorf("nonce too low: next nonce %d, tx nonce %d", a.nonce, tx.Nonce())
	}
	if next := c.pool.pendingNonce(from, a.nonce); c.o.StrictNonce && tx.Nonce() > next {
		return fmt.Errorf("nonce too high: tx nonce %d, gapped nonce %d", tx.Nonce(), next)
	}
	cost := new(big.Int).Add(tx.Cost(), c.o.L1Fee.ToBig())
	if _, overflow := uint256.FromBig(cost); overflow || a.balance.ToBig().Cmp(cost) < 0 {
		return fmt.Errorf("insufficient funds for gas * price + value: balance %s, tx cost %d",
			a.balance.Dec(), cost)
	}
	queued := c.pool.pendingCost(from, a.nonce, tx.Nonce())
	if new(big.Int).Add(queued, tx.Cost()).Cmp(a.balance.ToBig()) > 0 {
		return fmt.Errorf(
			"insufficient funds for gas * price + value: balance %s, queued cost %d, tx cost %d",
			a.balance.Dec(), queued, tx.Cost())
	}
	return nil
}

// outbids reports whether a replacement raises both fees enough, and by at least 1 wei: ten percent
// of a few wei round to 0.
func outbids(tx, old *types.Transaction) bool {
	enough := func(offered, before *big.Int) bool {
		least := new(big.Int).Mul(before, big.NewInt(100+priceBump))
		return offered.Cmp(before) > 0 && offered.Cmp(least.Div(least, big.NewInt(100))) >= 0
	}
	return enough(tx.GasFeeCap(), old.GasFeeCap()) && enough(tx.GasTipCap(), old.GasTipCap())
}

package chaintest

import (
	"cmp"
	"errors"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/fencepost/fencepost/txn"
)

// authorizationGas is the intrinsic gas of each EIP-7702 authorization.
const authorizationGas = 25_000

// wellFormed checks a transaction with authorizations as go-ethereum's pool does.
func wellFormed(tx *types.Transaction) error {
	switch {
	case tx.Type() != types.SetCodeTxType:
		return nil
	case tx.To() == nil:
		return errors.New("EIP-7702 transaction cannot be used to create contract")
	case len(tx.SetCodeAuthorizations()) == 0:
		return errors.New("EIP-7702 transaction with empty auth list")
	}
	return nil
}

// delegate applies the authorizations of a transaction. Invalid ones are skipped. Valid ones stay
// applied even if the transaction reverts.
func (s *state) delegate(tx *types.Transaction) {
	for _, auth := range tx.SetCodeAuthorizations() {
		authority, err := auth.Authority()
		if err != nil || !auth.ChainID.IsZero() && auth.ChainID.ToBig().Cmp(tx.ChainId()) != 0 {
			continue
		}
		a := s.account(authority)
		if a.code && a.delegate == (txn.Address{}) || a.nonce != auth.Nonce {
			continue
		}
		s.raiseNonce(authority)
		s.setDelegation(authority, auth.Address)
		s.authorities = append(s.authorities, authority)
	}
}

// setDelegation sets whose code an account runs; zero: it has none.
func (s *state) setDelegation(address, to txn.Address) {
	a := s.account(address)
	code, delegate := a.code, a.delegate
	a.code, a.delegate = to != (txn.Address{}), to
	s.undo = append(s.undo, func() { a.code, a.delegate = code, delegate })
}

// unstacked limits accounts with code to one pooled transaction, as go-ethereum does: other
// accounts may raise their nonce or spend their funds.
func (c *Chain) unstacked(tx *types.Transaction, from txn.Address) error {
	a := c.state.account(from)
	if !a.code || c.pool.bySender[from][tx.Nonce()] != nil {
		return nil
	}
	switch {
	case c.pool.bySender[from][a.nonce] != nil:
		return errors.New("in-flight transaction limit reached for delegated accounts")
	case tx.Nonce() != a.nonce:
		return errors.New("gapped-nonce tx from delegated accounts")
	}
	return nil
}

// makeRoom drops the cheapest transaction of a full pool for one that pays more.
func (c *Chain) makeRoom(tx *types.Transaction, from txn.Address) error {
	if len(c.pool.byHash) < c.o.PoolLimit {
		return nil
	}
	var cheapest *pooled
	for _, entry := range c.pool.byHash {
		if cheapest == nil || c.pays(cheapest.tx, entry.tx) > 0 ||
			c.pays(cheapest.tx, entry.tx) == 0 && entry.arrival > cheapest.arrival {
			cheapest = entry
		}
	}
	if cheapest == nil || c.o.FullRefuses {
		return errors.New("txpool is full")
	}
	if c.pays(tx, cheapest.tx) <= 0 {
		return errors.New("transaction underpriced")
	}
	runnable := func(of txn.Address, nonce uint64) bool {
		next := c.state.nonce(of)
		return nonce <= c.pool.pendingNonce(of, next)
	}
	if !runnable(from, tx.Nonce()) && runnable(cheapest.from, cheapest.tx.Nonce()) {
		return errors.New("future transaction tries to replace pending")
	}
	c.pool.remove(cheapest)
	return nil
}

// pays compares the current payments of two transactions to a miner, then their maximum payments.
func (c *Chain) pays(a, b *types.Transaction) int {
	return cmp.Or(a.EffectiveGasTipCmp(b, c.baseFee), a.GasFeeCapCmp(b), a.GasTipCapCmp(b))
}

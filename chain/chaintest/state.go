package chaintest

import (
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// Message is one call of a contract.
type Message struct {
	From  txn.Address
	Value txn.Wei
	Data  []byte
	Store Store
}

// Contract executes a call. An error reverts the call with the error's text as the reason.
type Contract func(Message) error

// Store is the storage of one contract. Undoing a block reverts its writes.
type Store struct {
	s       *state
	address txn.Address
}

// Get returns a value; 0 if none was written.
func (s Store) Get(key string) uint64 { return s.s.storage[slot{s.address, key}] }

// Add adds to a value.
func (s Store) Add(key string, n uint64) {
	at := slot{s.address, key}
	s.s.storage[at] += n
	s.s.undo = append(s.s.undo, func() { s.s.storage[at] -= n })
}

// Counter is a contract that counts calls by the caller's address in hex.
func Counter(m Message) error {
	m.Store.Add(m.From.Hex(), 1)
	return nil
}

// Reverter returns a contract that reverts every call with the given reason.
func Reverter(reason string) Contract {
	return func(Message) error { return fmt.Errorf("%s", reason) }
}

type account struct {
	balance txn.Wei
	nonce   uint64
	code    bool

	delegate txn.Address // whose code it runs by an authorization; zero: none
}

type slot struct {
	contract txn.Address
	key      string
}

// state is the chain's state at the head. Each change adds its reversal to undo, as a difference,
// so that funds added between blocks stay.
type state struct {
	accounts  map[txn.Address]*account
	contracts map[txn.Address]Contract
	storage   map[slot]uint64
	undo      []func()
	extraGas  uint64 // added to every transaction

	// accounts whose nonce the current block raised without a transaction of them
	authorities []txn.Address
}

func newState() *state {
	return &state{
		accounts:  map[txn.Address]*account{},
		contracts: map[txn.Address]Contract{},
		storage:   map[slot]uint64{},
	}
}

func (s *state) account(address txn.Address) *account {
	a := s.accounts[address]
	if a == nil {
		a = &account{}
		s.accounts[address] = a
	}
	return a
}

func (s *state) nonce(address txn.Address) uint64 { return s.account(address).nonce }

func (s *state) add(address txn.Address, wei txn.Wei) {
	a := s.account(address)
	a.balance.Add(&a.balance, &wei)
	s.undo = append(s.undo, func() {
		if _, drained := a.balance.SubOverflow(&a.balance, &wei); drained {
			a.balance.Clear() // Drain removed it meanwhile
		}
	})
}

func (s *state) sub(address txn.Address, wei txn.Wei) {
	a := s.account(address)
	a.balance.Sub(&a.balance, &wei)
	s.undo = append(s.undo, func() { a.balance.Add(&a.balance, &wei) })
}

func (s *state) raiseNonce(address txn.Address) {
	a := s.account(address)
	a.nonce++
	s.undo = append(s.undo, func() { a.nonce-- })
}

// unwind reverts changes down to a mark.
func (s *state) unwind(mark int) {
	for len(s.undo) > mark {
		last := s.undo[len(s.undo)-1]
		s.undo = s.undo[:len(s.undo)-1]
		last()
	}
}

// Gas costs outside the EVM, just enough to make a gas limit too low.
const (
	callGas      = 30_000 // of a contract's code
	createGas    = 32_000 // of a contract creation
	codeByteGas  = 200    // for each byte of a creation's data
	txGas        = 21_000
	zeroByteGas  = 4
	otherByteGas = 16
	floorZero    = 10 // EIP-7623
	floorOther   = 40
	initWordGas  = 2 // EIP-3860
)

// intrinsicGas returns the gas of a transaction before any execution, and the floor of its data.
func intrinsicGas(data []byte, creation bool) (gas, floor uint64) {
	gas, floor = txGas, txGas
	for _, b := range data {
		if b == 0 {
			gas, floor = gas+zeroByteGas, floor+floorZero
		} else {
			gas, floor = gas+otherByteGas, floor+floorOther
		}
	}
	if creation {
		gas += createGas + initWordGas*uint64((len(data)+31)/32)
	}
	return gas, floor
}

// run executes a call. It returns the gas, and an error for a revert.
func (s *state) run(from txn.Address, to *txn.Address, value txn.Wei, data []byte,
	nonce uint64) (gas uint64, err error) {
	gas, floor := intrinsicGas(data, to == nil)
	gas, floor = gas+s.extraGas, floor+s.extraGas
	mark := len(s.undo)
	if to == nil {
		gas += codeByteGas * uint64(len(data))
		at := crypto.CreateAddress(from, nonce)
		s.create(at)
		to = &at
	} else if contract := s.contracts[*to]; contract != nil {
		gas += callGas
		err = contract(Message{From: from, Value: value, Data: data, Store: Store{s, *to}})
	}
	if err != nil {
		s.unwind(mark)
		return max(gas, floor), err
	}
	s.sub(from, value)
	s.add(*to, value)
	return max(gas, floor), nil
}

func (s *state) create(at txn.Address) {
	created := s.account(at)
	was := created.code
	created.code = true
	s.undo = append(s.undo, func() { created.code = was })
}

// apply executes a transaction. It is not ok if the nonce is not the next one or the sender cannot
// pay.
func (s *state) apply(tx *types.Transaction, from txn.Address,
	baseFee *txn.Wei, l1Fee txn.Wei) (*txn.Receipt, bool) {
	cost, overflow := uint256.FromBig(new(big.Int).Add(tx.Cost(), l1Fee.ToBig()))
	if overflow || s.account(from).balance.Lt(cost) || s.nonce(from) != tx.Nonce() {
		return nil, false
	}
	price := effectivePrice(tx, baseFee)
	nonce := s.nonce(from)
	s.raiseNonce(from)
	s.delegate(tx)
	mark := len(s.undo)
	value, _ := uint256.FromBig(tx.Value())
	gas, err := s.run(from, tx.To(), *value, tx.Data(), nonce)
	gas += authorizationGas * uint64(len(tx.SetCodeAuthorizations()))
	if gas > tx.Gas() { // out of gas: all gas is paid and nothing else happens
		s.unwind(mark)
		gas, err = tx.Gas(), errOutOfGas
	}
	var fee txn.Wei
	fee.Mul(&price, uint256.NewInt(gas))
	fee.Add(&fee, &l1Fee)
	s.sub(from, fee)
	r := &txn.Receipt{
		TxHash:            tx.Hash(),
		Success:           err == nil,
		GasUsed:           gas,
		EffectiveGasPrice: price,
		More:              txn.ReceiptMore{Known: true, CumulativeGas: gas, L1Fee: l1Fee},
	}
	if tx.To() == nil {
		r.More.Contract = crypto.CreateAddress(from, nonce)
	}
	return r, true
}

var errOutOfGas = fmt.Errorf("out of gas")

// effectivePrice returns the price of one unit of gas in a block with this base fee.
func effectivePrice(tx *types.Transaction, baseFee *txn.Wei) txn.Wei {
	limit, _ := uint256.FromBig(tx.GasFeeCap())
	if baseFee == nil {
		return *limit
	}
	price, _ := uint256.FromBig(tx.GasTipCap())
	price.Add(price, baseFee)
	if price.Gt(limit) {
		return *limit
	}
	return *price
}

package txn

import (
	"errors"
	"math"
	"time"
)

// Block is the part of a block that the tracker uses.
type Block struct {
	Number  uint64
	Hash    Hash
	Parent  Hash
	Time    uint64 // seconds since 1970, the proposer's
	BaseFee *Wei   // nil on chains without EIP-1559
	Txs     []Hash
}

// Receipt is proof of inclusion in its block. It counts only while that block is canonical.
type Receipt struct {
	TxHash            Hash
	BlockNumber       uint64
	BlockHash         Hash
	Success           bool
	GasUsed           uint64
	EffectiveGasPrice Wei
	More              ReceiptMore
}

// ReceiptMore is the part of a receipt on which nothing rests.
type ReceiptMore struct {
	Known         bool // false: recorded by an older program
	Logs          uint64
	CumulativeGas uint64
	Contract      Address // created by it; zero: none
	L1Fee         Wei     // charged by a rollup beside gas; zero: none, or not in the receipt
}

// ReceiptResult is the result of one receipt look-up. "Not found" is evidence; a failed look-up is
// not.
type ReceiptResult struct {
	Hash    Hash
	Receipt *Receipt // nil: not found, if Err is nil
	Err     error    // the look-up failed (node down, still indexing, ...)
}

// Account is the state of an account, all from one endpoint.
type Account struct {
	Source    string // the endpoint; empty: the only one
	Expected  Nonce  // the ledger's cursor when the account was read; set by the owner
	CommandID int64  // the command that it was read for; 0: none; set by the owner
	Latest    Nonce  // next nonce by the newest block
	Pending   Nonce  // next nonce by the node's pool
	Settled   Nonce  // next nonce at the block of the requested depth below the head
	// Settled is at ReadAccount.MinDepth, since no endpoint has older state; set by the owner
	Shallow   bool
	Head      uint64
	HeadHash  Hash
	HasCode   bool    // a contract or delegated account: others can raise its nonce
	Delegate  Address // whose code a delegated account runs (EIP-7702); zero: not delegated
	BalanceAt Wei
}

// FundsRead is a report of one endpoint about accounts after a block.
type FundsRead struct {
	Block    uint64
	Accounts []AccountFunds // in the order of the addresses
	Hashes   []Hash         // of the blocks that were asked for; zero: there is none
}

// AccountFunds is the balance of an account, and its next nonce: the transactions below it are in
// the balance.
type AccountFunds struct {
	Balance Wei
	Nonce   Nonce
}

// Consumer is the transaction that used a nonce of an account, or the block in which the nonce was
// used without one (by an EIP-7702 authorization, or by the account's own code).
type Consumer struct {
	Block     uint64
	BlockHash Hash
	TxHash    Hash // zero: no transaction of the account is in that block
}

// Diagnosis is the state of a pending transaction in a node's pool. It is a hint for an operator or
// a policy and decides nothing (theme 20).
type Diagnosis string

// The diagnoses.
const (
	Undiagnosed Diagnosis = ""
	InPool      Diagnosis = "IN_POOL" // the node has one of our attempts in its pool
	// the node knows none of them, and its next nonce is ours
	PossiblyLost Diagnosis = "POSSIBLY_LOST"
	// the node knows none of them, and its pool has something under our nonce
	PossiblyReplaced Diagnosis = "POSSIBLY_REPLACED"
	NonceConsumed    Diagnosis = "NONCE_CONSUMED" // the newest block is past our nonce
)

// NonceUse is the result of FindConsumer.
type NonceUse struct {
	CommandID   int64     // the command; 0: none
	Tx          TxID      // whose nonce it is
	At          time.Time // local time of the view that required it
	Head        uint64    // of that view
	By          *Consumer // nil: unknown
	Unavailable bool      // because no endpoint responded, which does not identify the consumer
}

// ErrUnavailable marks a failed query: the chain or the signer was not reachable. It proves
// nothing.
var ErrUnavailable = errors.New("unavailable")

// ErrNoState marks an ErrUnavailable of an account whose latest state was read but whose older
// state no responding endpoint has. Asking the same endpoints again does not help.
var ErrNoState = errors.New("no endpoint has the state of so old a block")

// ErrKeyMissing means that a signer holds no key for the account.
var ErrKeyMissing = errors.New("no key for this account")

// ErrSignerFault means that a signer returned a different transaction. Its bytes are discarded
// unsent.
var ErrSignerFault = errors.New("signer returned a transaction that was not requested")

// Class is the outcome class of an RPC response to a send.
type Class string

// The classes. Ambiguous is every response that is not certainly another class; it never frees a
// nonce.
const (
	Accepted               Class = "ACCEPTED"
	AlreadyKnown           Class = "ALREADY_KNOWN"
	NonceTooLow            Class = "NONCE_TOO_LOW"
	NonceGap               Class = "NONCE_GAP"
	ReplacementUnderpriced Class = "REPLACEMENT_UNDERPRICED"
	Underpriced            Class = "UNDERPRICED"
	FeeCapBelowBaseFee     Class = "FEE_CAP_BELOW_BASE_FEE"
	InsufficientFunds      Class = "INSUFFICIENT_FUNDS"
	PoolFull               Class = "POOL_FULL"
	RateLimited            Class = "RATE_LIMITED"
	Unavailable            Class = "UNAVAILABLE"
	Unauthorized           Class = "UNAUTHORIZED"
	WrongChain             Class = "WRONG_CHAIN"
	TypeNotSupported       Class = "TX_TYPE_NOT_SUPPORTED"
	Invalid                Class = "INVALID"
	ExecutionReverted      Class = "REVERTED"
	Ambiguous              Class = "AMBIGUOUS"
)

// Classes lists every class.
var Classes = []Class{
	Accepted, AlreadyKnown, NonceTooLow, NonceGap, ReplacementUnderpriced, Underpriced,
	FeeCapBelowBaseFee, InsufficientFunds, PoolFull, RateLimited, Unavailable, Unauthorized,
	WrongChain, TypeNotSupported, Invalid, ExecutionReverted, Ambiguous,
}

// Outcome is the classified RPC response to a send, or to an estimate.
type Outcome struct {
	Class Class
	// the node's message without URLs, bytes and secrets, at most 200 characters
	Detail     string
	RetryAfter time.Duration // the node's hint; 0: none

	// Numbers in the message, each nil if absent. They are a node's claims, checked for size only:
	// they may speed up a decision, and none of them ever frees a nonce.

	NonceExpected *Nonce // the next nonce of the account as the node sees it
	NonceGiven    *Nonce // the nonce that the node read in the bytes
	// wei per unit of gas: the lowest fee cap, or gas price, that the node would accept
	FeeNeeded *Wei
	TipNeeded *Wei // wei per unit of gas: the lowest tip that the node would accept
	Have      *Wei // wei: the account's balance
	Want      *Wei // wei: the maximal cost of the transaction and of those pending before it
	Short     *Wei // wei: the difference
	AtLeast   bool // Want and Short are lower bounds: the gas is unknown

	// FEE_CAP_BELOW_BASE_FEE: the chain's configured cap is too low, not the requester's
	ChainCap bool
	// INVALID: the gas limit is above the configured maximum, which is not the chain's
	GasCap bool
}

// PoolRules are the requirements of a chain's nodes, learned from refusals. Fees are per unit of
// gas. Zero fields are unknown.
type PoolRules struct {
	MinTip     Wei           // of the tip, and of a gas price
	MinPrice   Wei           // of the fee cap, and of a gas price
	GuessedTip Wei           // a tip above one that was refused without a number
	FeesAge    time.Duration // since the refusal that changed these fees
	Typed      bool          // transactions of another type than legacy were refused
	TypeAge    time.Duration // since the last time
}

// Draft is a transaction before it has a nonce.
type Draft struct {
	From    Address
	Payload Payload
	Speed   Speed
	MaxFee  Wei // the caller's or the account's limit per unit of gas; zero: none
	// wei: the most that the account's transactions in flight can cost, which the balance must
	// cover as well
	Committed Wei
	// simulated on top of the node's pool where it supports that: the account has transactions in
	// no block
	Pending bool
}

// Quoted is the result of quoting one of several drafts.
type Quoted struct {
	Quote   Quote
	Outcome Outcome
}

// Quote is the gas limit and the fees at which a draft can be sent now.
type Quote struct {
	GasLimit uint64
	Fees     Fees
	L1Fee    Wei // wei: the most that a rollup charges beside gas; zero on other chains
}

// Unsigned is a transaction without its signature.
type Unsigned struct {
	ChainID  ChainID
	From     Address
	Nonce    Nonce
	Payload  Payload // GasLimit is set
	Fees     Fees
	GasLimit uint64
	Purpose  Purpose
}

// Purpose identifies an attempt to its signer. It is not part of the signed bytes.
type Purpose struct {
	Submitter string // name
	TxID      TxID
	RequestID string
	Attempt   int // number, from 1
	Kind      AttemptKind
}

// Purpose returns the purpose of the next attempt of a transaction.
func (tx *Tx) Purpose(v *View, kind AttemptKind) Purpose {
	return Purpose{
		Submitter: v.Submitter.Name,
		TxID:      tx.ID,
		RequestID: tx.RequestID,
		Attempt:   len(tx.Attempts) + 1,
		Kind:      kind,
	}
}

// Signed is a signer's result, after it was decoded and compared with the request.
type Signed struct {
	Hash Hash
	Raw  []byte
}

// SignResult is the result of one of several signatures.
type SignResult struct {
	Signed Signed
	Err    error // see ErrKeyMissing, ErrSignerFault and ErrUnavailable
}

// Inclusion is the tracker's knowledge of one hash under its current view of the canonical chain.
type Inclusion struct {
	Known bool // false: not looked up yet, or the look-up failed
	// since when look-ups have failed although the chain responds; zero: they do not
	FailingSince  time.Time
	Fault         string   // of the last failed look-up
	Receipt       *Receipt // nil: not in a canonical block
	Confirmations uint64   // canonical, parent-linked blocks above the receipt's
	// Confirmations reach the policy's number, and the policy's safe or finalized block is not
	// below
	Final bool
	// those blocks, lowest first, if the policy reports them: at most Policy.Confirmations
	Above []BlockRef
}

// UnreachableBlock is a block number that no chain reaches: nothing is final above it.
const UnreachableBlock = math.MaxInt64

// BlockRef names a block.
type BlockRef struct {
	Number uint64
	Hash   Hash
}

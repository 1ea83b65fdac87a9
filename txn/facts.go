package txn

import (
	"errors"
	"math"
	"time"
)

// Block is what the tracker needs of a block.
type Block struct {
	Number  uint64
	Hash    Hash
	Parent  Hash
	Time    uint64 // seconds since 1970, the proposer's
	BaseFee *Wei   // nil on chains without EIP-1559
	Txs     []Hash
}

// Receipt is proof of inclusion in the block that it names. It counts only while that block is canonical.
type Receipt struct {
	TxHash            Hash
	BlockNumber       uint64
	BlockHash         Hash
	Success           bool
	GasUsed           uint64
	EffectiveGasPrice Wei
}

// ReceiptResult is what one look-up of a receipt said. "Not found" and "could not look" are different things: only the first is evidence.
type ReceiptResult struct {
	Hash    Hash
	Receipt *Receipt // nil: not found, if Err is nil
	Err     error    // the node could not tell (down, still indexing, ...)
}

// Account is a view of an account, all of it from one endpoint.
type Account struct {
	Expected  Nonce // where the ledger's cursor stood when the account was looked at; the owner's, not the chain's
	CommandID int64 // the command that it was looked at for; 0: none. The owner's
	Latest    Nonce // next nonce by the newest block
	Pending   Nonce // next nonce by the node's pool
	Settled   Nonce // next nonce as of the block that is the asked depth below the head
	Shallow   bool  // Settled is as of ReadAccount.Least, since no endpoint tells older state. The owner's
	Head      uint64
	HeadHash  Hash
	HasCode   bool // a contract or delegated account: others can raise its nonce
	BalanceAt Wei
}

// Consumer is the transaction that used a nonce of an account, or the block in which the nonce was used without one (by an authorization of EIP-7702, or by
// the account's own code).
type Consumer struct {
	Block     uint64
	BlockHash Hash
	TxHash    Hash // zero: no transaction of the account is in that block
}

// Diagnosis is what a node's pool shows of a transaction that is not included. It is a hint for whoever decides, and decides nothing (theme 20).
type Diagnosis string

// The diagnoses.
const (
	Undiagnosed      Diagnosis = ""
	InPool           Diagnosis = "IN_POOL"           // the node has one of our attempts in its pool
	PossiblyLost     Diagnosis = "POSSIBLY_LOST"     // the node knows none of them, and its next nonce is ours
	PossiblyReplaced Diagnosis = "POSSIBLY_REPLACED" // the node knows none of them, and its pool has something under our nonce
	NonceConsumed    Diagnosis = "NONCE_CONSUMED"    // the newest block is past our nonce
)

// Used answers FindConsumer.
type NonceUse struct {
	CommandID   int64     // the command
	By          *Consumer // nil: nobody can tell
	Unavailable bool      // because nobody answered, which says nothing of who can
}

// ErrUnavailable marks an answer that is no answer: the chain (or the signer) could not be asked. Nothing follows from it.
var ErrUnavailable = errors.New("unavailable")

// ErrNoState marks an ErrUnavailable of an account whose newest state was told, and the older one was not: no endpoint that answers keeps that for us. Asking those again
// does not help.
var ErrNoState = errors.New("no endpoint that answers tells the state of so old a block")

// ErrKeyMissing says that a signer holds no key for the account.
var ErrKeyMissing = errors.New("no key for this account")

// ErrSignerFault says that a signer returned something other than what was asked for. Its bytes are dropped unsent.
var ErrSignerFault = errors.New("signer returned a transaction that was not asked for")

// Class is what a node's answer to a send means.
type Class string

// The classes. Ambiguous is everything that is not surely another one; it never frees a nonce.
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
	Invalid                Class = "INVALID"
	ExecutionReverted      Class = "REVERTED"
	Ambiguous              Class = "AMBIGUOUS"
)

// Classes lists every class.
var Classes = []Class{
	Accepted, AlreadyKnown, NonceTooLow, NonceGap, ReplacementUnderpriced, Underpriced, FeeCapBelowBaseFee, InsufficientFunds, PoolFull, RateLimited, Unavailable,
	Unauthorized, WrongChain, Invalid, ExecutionReverted, Ambiguous,
}

// Outcome is a node's answer to a send, or to an estimate.
type Outcome struct {
	Class      Class
	Detail     string        // the node's words, cleaned of URLs, bytes and secrets, at most 200 characters
	RetryAfter time.Duration // the node's own hint; 0 is none

	// What the words say in numbers, each nil unless they say it. They are a node's claims, checked for size only: they may speed up a decision, and none of
	// them ever frees a nonce.

	NonceExpected *Nonce // the next nonce of the account as the node sees it
	NonceGiven    *Nonce // the nonce that the node read in the bytes
	FeeNeeded     *Wei   // wei per unit of gas: the least fee cap, or gas price, that the node says it would take
	TipNeeded     *Wei   // wei per unit of gas: the least tip that the node says it would take
	Have          *Wei   // wei: what the account has
	Want          *Wei   // wei: what the transaction, with those that wait before it, may cost
	Short         *Wei   // wei: what the account lacks
	AtLeast       bool   // Want and Short are lower bounds: what the transaction takes could not be found out

	ChainCap bool // FEE_CAP_BELOW_BASE_FEE: what is too low is the cap that is configured for the chain, and not the asker's own
}

// Draft is a transaction before it has a nonce.
type Draft struct {
	From    Address
	Payload Payload
	Speed   Speed
	MaxFee  Wei // the caller's or the account's own limit per unit of gas; zero: none
}

// Quote is what it takes to send a draft now.
type Quote struct {
	GasLimit uint64
	Fees     Fees
}

// Unsigned is a transaction that lacks only its signature.
type Unsigned struct {
	ChainID  ChainID
	From     Address
	Nonce    Nonce
	Payload  Payload // GasLimit is set
	Fees     Fees
	GasLimit uint64
}

// Signed is what a signer gave, after it was decoded and compared with what had been asked for.
type Signed struct {
	Hash Hash
	Raw  []byte
}

// Inclusion is what the tracker knows of one hash under its current view of the canonical chain.
type Inclusion struct {
	Known         bool       // false: it has not been looked for yet, or could not be
	Receipt       *Receipt   // nil: not in a canonical block
	Confirmations uint64     // canonical, parent-linked blocks above the receipt's
	Final         bool       // as many as the policy asks for, and not above the chain's safe or finalized block where the policy names one
	Above         []BlockRef // those blocks, lowest first, as far as the policy wants them told: at most Policy.Confirmations
}

// UnreachableBlock is a block number that no chain reaches: nothing is final above it.
const UnreachableBlock = math.MaxInt64

// BlockRef names a block.
type BlockRef struct {
	Number uint64
	Hash   Hash
}

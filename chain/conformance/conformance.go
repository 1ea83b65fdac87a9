// Package conformance is the test suite for every implementation of the chain port: the in-memory
// chain of chaintest, and chain.Client on a real node.
//
// It checks the properties that the engine relies on: the class of each kind of bytes, the
// difference between "not found" and a failed read, linked blocks, receipts from canonical blocks,
// and the effects of a reorg. Tests with the in-memory chain are meaningful only because it passes
// the same suite as a node.
//
// The suite supports chains with blocks on demand and chains that produce blocks automatically. It
// leaves the chain usable: every case has its own accounts. Quirks describe the differences of
// other clients from go-ethereum.
package conformance

import (
	"context"
	"crypto/ecdsa"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/fencepost/fencepost/txn"
)

// Chain is the port under test. It repeats the engine's, because this package must not import the
// engine.
type Chain interface {
	ID() txn.ChainID
	Head(ctx context.Context) (txn.Block, error)
	BlockByHash(ctx context.Context, hash txn.Hash) (*txn.Block, error)
	BlockByNumber(ctx context.Context, number uint64) (*txn.Block, error)
	Receipts(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult
	Send(ctx context.Context, signed txn.Signed) txn.Outcome
	Account(ctx context.Context, address txn.Address, settled uint64) (txn.Account, error)
	Quote(ctx context.Context, draft txn.Draft) (txn.Quote, txn.Outcome)
	Consumer(ctx context.Context, address txn.Address, nonce txn.Nonce) (*txn.Consumer, error)
	Gas(ctx context.Context, draft txn.Draft) (uint64, txn.Outcome)
	Fees(ctx context.Context, r txn.FeeRequest) (txn.Fees, txn.Outcome)
	Pooled(ctx context.Context, address txn.Address, nonce txn.Nonce,
		hashes []txn.Hash) (txn.Diagnosis, error)
	Tagged(ctx context.Context, tag string) (*txn.Block, error)
	Heads(ctx context.Context) <-chan struct{}
}

// Harness is a chain with the means to drive it.
type Harness struct {
	Chain   Chain
	ChainID txn.ChainID
	Key     *ecdsa.PrivateKey // has at least one ether
	// Mine makes a block, or waits until the chain has made one.
	Mine func()
	// Manual means that blocks come from Mine only, so that pooled transactions stay until then.
	Manual bool
	// Reorg replaces the newest depth blocks by more others. With keep they include the same
	// transactions, otherwise the transactions are dropped. Nil if the chain does not support it.
	Reorg func(depth int, keep bool)
	// Reverter is a contract that reverts every call with the reason "nope". Nil: the suite deploys
	// one.
	Reverter *txn.Address
	Quirks   Quirks
}

// Quirks are the differences of other clients from go-ethereum.
type Quirks struct {
	AnyBump        bool // accepts a replacement that pays 1 wei more (anvil)
	AnyLegacyChain bool // accepts a legacy transaction signed for another chain (anvil)
	RefusesGaps    bool // rejects a nonce above a gap (sequencers)
	NoDelegation   bool // rejects EIP-7702 authorizations (before Prague)
	NoTags         bool // does not support the "safe" and "finalized" tags
}

// Run runs the suite. Each case requests a harness, which may share a chain.
func Run(t *testing.T, fresh func(*testing.T) *Harness) {
	for _, c := range []struct {
		name string
		run  func(*suite)
	}{
		{"linked blocks", (*suite).blocks},
		{"heads wake", (*suite).heads},
		{"transaction included", (*suite).included},
		{"legacy transaction included", (*suite).legacy},
		{"contract created", (*suite).created},
		{"receipt of a revert", (*suite).reverted},
		{"many receipts", (*suite).receipts},
		{"known bytes", (*suite).known},
		{"used nonce", (*suite).usedNonce},
		{"a gap", (*suite).gap},
		{"replacement", (*suite).replacement},
		{"no funds", (*suite).noFunds},
		{"invalid bytes", (*suite).invalid},
		{"bytes of another chain", (*suite).wrongChain},
		{"account views", (*suite).account},
		{"quotes", (*suite).quote},
		{"consumer of a nonce", (*suite).consumer},
		{"nonce raised by a delegation", (*suite).delegated},
		{"fees", (*suite).market},
		{"gas", (*suite).gas},
		{"pool contents", (*suite).pooled},
		{"safe and finalized blocks", (*suite).tagged},
		{"block with many transactions", (*suite).crowd},
		{"reorg moves a receipt", (*suite).reorgKeeps},
		{"reorg removes a receipt", (*suite).reorgDrops},
		{"cancelled calls", (*suite).cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.run(&suite{T: t, Harness: fresh(t)})
		})
	}
}

// suite is one running case.
type suite struct {
	*testing.T
	*Harness
}

// patience is the number of blocks that a case waits for a condition.
const patience = 20

// until mines until the condition holds.
func (s *suite) until(what string, holds func() bool) {
	s.Helper()
	for range patience {
		if holds() {
			return
		}
		s.Mine()
	}
	s.Fatalf("%s: not within %d blocks", what, patience)
}

func (s *suite) head() txn.Block {
	s.Helper()
	head, err := s.Chain.Head(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return head
}

// receipt retries failed lookups: a node that has just started may still be indexing.
func (s *suite) receipt(hash txn.Hash) *txn.Receipt {
	s.Helper()
	var receipt *txn.Receipt
	s.until("a response for "+hash.Hex(), func() bool {
		answers := s.Chain.Receipts(s.Context(), []txn.Hash{hash})
		if len(answers) != 1 || answers[0].Hash != hash {
			s.Fatalf("responses %+v for %s", answers, hash)
		}
		receipt = answers[0].Receipt
		return answers[0].Err == nil
	})
	return receipt
}

func (s *suite) view(address txn.Address, settled uint64) txn.Account {
	s.Helper()
	a, err := s.Chain.Account(s.Context(), address, settled)
	if err != nil {
		s.Fatal(err)
	}
	return a
}

// mined waits for the receipt and checks that it names a canonical block with the transaction.
func (s *suite) mined(hash txn.Hash) *txn.Receipt {
	s.Helper()
	var receipt *txn.Receipt
	s.until(hash.Hex()+" in a block", func() bool {
		receipt = s.receipt(hash)
		return receipt != nil
	})
	block, err := s.Chain.BlockByNumber(s.Context(), receipt.BlockNumber)
	if err != nil || block == nil {
		s.Fatalf("the receipt's block: %v, %v", block, err)
	}
	if block.Hash != receipt.BlockHash || receipt.TxHash != hash {
		s.Fatalf("receipt %+v of %s; the canonical block of that height is %s", receipt, hash,
			block.Hash)
	}
	for _, tx := range block.Txs {
		if tx == hash {
			return receipt
		}
	}
	s.Fatalf("block %d does not list %s", block.Number, hash)
	return nil
}

// send broadcasts the bytes. A node reports a block's state before its pool has it, so an
// unexpected lack of funds is retried.
func (s *suite) send(signed txn.Signed, poor bool) (o txn.Outcome) {
	s.Helper()
	s.soon("the funds known to the pool", func() bool {
		o = s.Chain.Send(s.Context(), signed)
		return poor || o.Class != txn.InsufficientFunds
	})
	return o
}

// mustSend sends and expects one of the classes.
func (s *suite) mustSend(signed txn.Signed, want ...txn.Class) txn.Outcome {
	s.Helper()
	o := s.send(signed, slices.Contains(want, txn.InsufficientFunds))
	if !slices.Contains(want, o.Class) {
		s.Fatalf("send: %+v, want %v", o, want)
	}
	return o
}

// refused waits for a rejection that the pool returns only once it has processed the newest block.
func (s *suite) refused(signed txn.Signed, want txn.Class) {
	s.Helper()
	s.soon("a rejection as "+string(want), func() bool {
		o := s.Chain.Send(s.Context(), signed)
		if o.Class == txn.Accepted {
			s.Fatalf("%s was accepted, want %s", signed.Hash, want)
		}
		return o.Class == want
	})
}

func addressOf(key *ecdsa.PrivateKey) txn.Address { return crypto.PubkeyToAddress(key.PublicKey) }

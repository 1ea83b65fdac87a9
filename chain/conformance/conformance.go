// Package conformance is the suite that every implementation of the chain port passes: the in-memory chain of chaintest, and chain.Client on a real node.
//
// It says what the engine relies on: which class each kind of bytes gets, that "not found" and "could not look" differ, that blocks are linked, that a
// receipt names a canonical block, and what a reorg does to all of that. If the in-memory chain did not pass what a node passes, tests built on it would
// prove a fiction.
//
// The suite works on chains whose blocks come on demand and on chains that make them by themselves, and leaves the chain usable: every case has accounts of
// its own. Where clients of other makes differ from go-ethereum, Quirks says how.
package conformance

import (
	"context"
	"crypto/ecdsa"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/fencepost/fencepost/txn"
)

// Chain is the port under test. It is the engine's, repeated here because this package must not import the engine.
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
	Fees(ctx context.Context, speed txn.Speed, limit txn.Wei) (txn.Fees, txn.Outcome)
	Pooled(ctx context.Context, address txn.Address, nonce txn.Nonce,
		hashes []txn.Hash) (txn.Diagnosis, error)
	Tagged(ctx context.Context, tag string) (*txn.Block, error)
	Heads(ctx context.Context) <-chan struct{}
}

// Harness is a chain and what the suite needs to move it.
type Harness struct {
	Chain   Chain
	ChainID txn.ChainID
	Key     *ecdsa.PrivateKey // has at least an ether
	// Mine makes a block, or waits until the chain has made one.
	Mine func()
	// Manual says that blocks come from Mine alone, so that what waits in the pool stays there until then.
	Manual bool
	// Reorg replaces the newest depth blocks by more others, which have the same transactions (keep) or none of them, and those are forgotten. Nil: this
	// chain cannot be made to.
	Reorg func(depth int, keep bool)
	// Reverter is a contract that refuses every call with the reason "nope". Nil: the suite deploys one.
	Reverter *txn.Address
	Quirks   Quirks
}

// Quirks are the differences of other clients from go-ethereum.
type Quirks struct {
	AnyBump        bool // a replacement that pays one wei more is taken (anvil)
	AnyLegacyChain bool // a legacy transaction that is signed for another chain is taken (anvil)
	RefusesGaps    bool // a nonce with a gap before it is refused (sequencers)
	NoDelegation   bool // authorizations of EIP-7702 are not taken (chains of before Prague)
	NoTags         bool // the blocks "safe" and "finalized" are not known
}

// Run runs the suite. Each case asks for a harness of its own; it may be the same chain.
func Run(t *testing.T, fresh func(*testing.T) *Harness) {
	for _, c := range []struct {
		name string
		run  func(*suite)
	}{
		{"blocks are linked", (*suite).blocks},
		{"heads wake", (*suite).heads},
		{"a transaction is included", (*suite).included},
		{"a legacy transaction is included", (*suite).legacy},
		{"a contract is created", (*suite).created},
		{"a reverted transaction has a receipt", (*suite).reverted},
		{"many receipts", (*suite).receipts},
		{"known bytes", (*suite).known},
		{"a used nonce", (*suite).usedNonce},
		{"a gap", (*suite).gap},
		{"replacement", (*suite).replacement},
		{"no funds", (*suite).noFunds},
		{"bytes that can never pass", (*suite).invalid},
		{"another chain's bytes", (*suite).wrongChain},
		{"account views", (*suite).account},
		{"quotes", (*suite).quote},
		{"who used a nonce", (*suite).consumer},
		{"who gave the nonce away", (*suite).delegated},
		{"fees", (*suite).market},
		{"gas", (*suite).gas},
		{"what a pool shows", (*suite).pooled},
		{"safe and finalized blocks", (*suite).tagged},
		{"a block of many", (*suite).crowd},
		{"a reorg moves a receipt", (*suite).reorgKeeps},
		{"a reorg takes a receipt away", (*suite).reorgDrops},
		{"cancelled calls", (*suite).cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.run(&suite{T: t, Harness: fresh(t)})
		})
	}
}

// suite is one case under way.
type suite struct {
	*testing.T
	*Harness
}

// patience is how many blocks a case waits for what must come with the next few.
const patience = 20

// until mines until what is asked for holds.
func (s *suite) until(what string, holds func() bool) {
	s.Helper()
	for range patience {
		if holds() {
			return
		}
		s.Mine()
	}
	s.Fatalf("%s did not come true within %d blocks", what, patience)
}

func (s *suite) head() txn.Block {
	s.Helper()
	head, err := s.Chain.Head(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return head
}

// receipt looks until the chain can be asked: a node that has just started may still be indexing.
func (s *suite) receipt(hash txn.Hash) *txn.Receipt {
	s.Helper()
	var receipt *txn.Receipt
	s.until("an answer about "+hash.Hex(), func() bool {
		answers := s.Chain.Receipts(s.Context(), []txn.Hash{hash})
		if len(answers) != 1 || answers[0].Hash != hash {
			s.Fatalf("answers %+v to the question for %s", answers, hash)
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

// mined waits for the receipt and checks that it names a canonical block which has the transaction.
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

// send hands bytes in. A node tells a block's state a moment before its pool has it, so what seems to lack funds is sent again where that is not expected.
func (s *suite) send(signed txn.Signed, poor bool) (o txn.Outcome) {
	s.Helper()
	s.soon("a pool that has seen the money", func() bool {
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

// refused waits for a refusal that the pool knows the reason of only once it has seen the newest block.
func (s *suite) refused(signed txn.Signed, want txn.Class) {
	s.Helper()
	s.soon("a refusal as "+string(want), func() bool {
		o := s.Chain.Send(s.Context(), signed)
		if o.Class == txn.Accepted {
			s.Fatalf("%s was taken, want %s", signed.Hash, want)
		}
		return o.Class == want
	})
}

func addressOf(key *ecdsa.PrivateKey) txn.Address { return crypto.PubkeyToAddress(key.PublicKey) }

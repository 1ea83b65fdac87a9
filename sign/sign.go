// Package sign turns unsigned transactions into signed ones, and trusts nobody while it does.
//
// A [Book] knows the signers of a node by name. Behind each name stands a [Holder]: whatever holds private keys and can make a signature with them. A holder
// is asked for signed bytes and answers with bytes, which prove nothing: it may have signed another nonce, for another chain, with another key. So one
// function, the same for every holder, decodes what came back, recovers the sender and compares each field with what was asked for. Bytes that differ are
// dropped as [txn.ErrSignerFault] and never leave this package.
//
//	engine ── Unsigned ──► Book ── Unsigned ──► Holder
//	engine ◄── Signed ──── verify ◄─── bytes ─────┘
//
// Three rules for holders, which the rest of Fencepost leans on:
//
//   - Sign returns when its context ends. The book gives each signature a limit of its own; what takes longer counts as unavailable, and no nonce is lost by
//     it, because a nonce is taken only together with a verified signature.
//   - Errors say txn.ErrKeyMissing only when the holder is sure that it has no key for the account, for that answer is final. Anything doubtful is
//     txn.ErrUnavailable.
//   - Errors hold no key, password, payload or signed bytes.
//
// Two holders live here. [KeyStore] reads the encrypted key files that geth writes; [Memory] has its keys given, for development and tests. Both sign
// deterministically (RFC 6979), so that the same request gives the same bytes; nothing relies on it, because resubmission sends stored bytes.
package sign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// DefaultTimeout is how long a holder may take for a signature when its entry names no limit.
const DefaultTimeout = 10 * time.Second

// Holder holds private keys.
type Holder interface {
	// Sign makes a signed transaction in its binary form: EIP-1559, or EIP-155 when the fees are legacy ones.
	Sign(ctx context.Context, unsigned txn.Unsigned) ([]byte, error)
	// Addresses lists the accounts that the holder can sign for, in ascending order.
	Addresses(ctx context.Context) ([]txn.Address, error)
}

// Entry is one line of a Book.
type Entry struct {
	Name    string
	Holder  Holder
	Timeout time.Duration // for one signature; 0 means DefaultTimeout
}

// Book is the signers of a node by name. It does not change once it is made, and is safe for use by several goroutines.
type Book struct {
	entries map[string]Entry
}

// NewBook makes a book. Names are unique.
func NewBook(entries ...Entry) (*Book, error) {
	b := &Book{entries: make(map[string]Entry, len(entries))}
	for _, e := range entries {
		switch _, twice := b.entries[e.Name]; {
		case e.Name == "" || e.Holder == nil:
			return nil, fmt.Errorf("sign: signer %q needs a name and a holder of keys", e.Name)
		case twice:
			return nil, fmt.Errorf("sign: two signers are called %q; give each a name of its own",
				e.Name)
		case e.Timeout < 0:
			return nil, fmt.Errorf("sign: the timeout of signer %q is negative", e.Name)
		case e.Timeout == 0:
			e.Timeout = DefaultTimeout
		}
		b.entries[e.Name] = e
	}
	return b, nil
}

// Names lists the signers in alphabetical order.
func (b *Book) Names() []string { return slices.Sorted(maps.Keys(b.entries)) }

// Addresses lists the accounts that a signer can sign for. Errors: txn.ErrUnavailable.
func (b *Book) Addresses(ctx context.Context, signer string) ([]txn.Address, error) {
	e, err := b.entry(signer)
	if err != nil {
		return nil, fmt.Errorf("sign: list the accounts of %s: %w", signer, err)
	}
	addresses, err := e.Holder.Addresses(ctx)
	if err != nil {
		return nil, fmt.Errorf("sign: list the accounts of %s: %w", signer, classed(err))
	}
	return addresses, nil
}

// Sign asks a signer for a signature and verifies the answer. Errors: txn.ErrKeyMissing, txn.ErrSignerFault, txn.ErrUnavailable; a request that no signer
// could fulfil is none of them.
func (b *Book) Sign(ctx context.Context, signer string, unsigned txn.Unsigned) (txn.Signed, error) {
	signed, err := b.sign(ctx, signer, unsigned)
	if err != nil {
		return txn.Signed{}, fmt.Errorf("sign: nonce %d of %s with signer %s: %w", unsigned.Nonce,
			unsigned.From.Hex(), signer, err)
	}
	return signed, nil
}

func (b *Book) sign(ctx context.Context, signer string, unsigned txn.Unsigned) (txn.Signed, error) {
	if err := complete(unsigned); err != nil {
		return txn.Signed{}, err
	}
	e, err := b.entry(signer)
	if err != nil {
		return txn.Signed{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.Timeout,
		fmt.Errorf("no signature within %s (the signer's timeout)", e.Timeout))
	defer cancel()
	raw, err := e.Holder.Sign(ctx, unsigned)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, txn.ErrKeyMissing) {
			err = context.Cause(ctx) // why it had to stop says more than where
		}
		return txn.Signed{}, classed(err)
	}
	return verify(unsigned, raw)
}

// entry finds a signer. One that this node does not know may be known to another: that is not the answer "no key".
func (b *Book) entry(signer string) (Entry, error) {
	e, ok := b.entries[signer]
	if !ok {
		return Entry{}, fmt.Errorf(
			"%w: no signer of this name is configured on this node; add it to signers, or register the submitter with one of %q",
			txn.ErrUnavailable, b.Names())
	}
	return e, nil
}

// classed makes an error of a holder one of the classes that callers decide by. What a holder could not explain is unknown, and unknown is not failure.
func classed(err error) error {
	for _, class := range []error{txn.ErrKeyMissing, txn.ErrSignerFault, txn.ErrUnavailable} {
		if errors.Is(err, class) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
}

// Package sign turns unsigned transactions into signed ones, without trusting the signer.
//
// A [Book] holds the signers of a node by name. Each is a [Holder]: a component that holds private
// keys and signs with them. A holder's bytes prove nothing: it may have signed another nonce, for
// another chain, with another key. So one function, the same for every holder, decodes the result,
// recovers the sender and compares each field with the request. Bytes that differ are discarded as
// [txn.ErrSignerFault] and never leave this package.
//
//	engine ── Unsigned ──► Book ── Unsigned ──► Holder
//	engine ◄── Signed ──── verify ◄─── bytes ─────┘
//
// The rest of Fencepost relies on three rules for holders:
//
//   - Sign returns when its context ends. The book gives each signature a timeout; a slower one
//     counts as unavailable. No nonce is lost by that, because a nonce is taken only together with
//     a verified signature.
//   - An error is txn.ErrKeyMissing only if the holder is certain that it has no key for the
//     account, because that is final. Any doubt is txn.ErrUnavailable.
//   - Errors contain no key, password, payload or signed bytes.
//
// There are two holders. [KeyStore] reads the encrypted key files of geth; [Memory] is given its
// keys, for development and tests. Both sign deterministically (RFC 6979), so the same request
// gives the same bytes; nothing relies on that, because rebroadcasts send stored bytes.
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

// DefaultTimeout is the timeout of a signature if its entry has none.
const DefaultTimeout = 10 * time.Second

// Holder holds private keys.
type Holder interface {
	// Sign returns a signed transaction in its binary form: EIP-1559, or EIP-155 for legacy fees.
	Sign(ctx context.Context, unsigned txn.Unsigned) ([]byte, error)
	// Addresses returns the accounts that the holder can sign for, in ascending order.
	Addresses(ctx context.Context) ([]txn.Address, error)
}

// Entry is one signer of a Book.
type Entry struct {
	Name    string
	Holder  Holder
	Timeout time.Duration // for one signature; 0 means DefaultTimeout
}

// Book holds the signers of a node by name. It is immutable, and safe for concurrent use.
type Book struct {
	entries map[string]Entry
}

// NewBook returns a book. Names are unique.
func NewBook(entries ...Entry) (*Book, error) {
	b := &Book{entries: make(map[string]Entry, len(entries))}
	for _, e := range entries {
		switch _, twice := b.entries[e.Name]; {
		case e.Name == "" || e.Holder == nil:
			return nil, fmt.Errorf("sign: signer %q needs a name and a holder of keys", e.Name)
		case twice:
			return nil, fmt.Errorf("sign: two signers are named %q; use unique names",
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

// Names returns the signers in alphabetical order.
func (b *Book) Names() []string { return slices.Sorted(maps.Keys(b.entries)) }

// Addresses returns the accounts that a signer can sign for. Errors: txn.ErrUnavailable.
func (b *Book) Addresses(ctx context.Context, signer string) ([]txn.Address, error) {
	e, err := b.entry(signer)
	if err != nil {
		return nil, fmt.Errorf("sign: list accounts of %s: %w", signer, err)
	}
	addresses, err := e.Holder.Addresses(ctx)
	if err != nil {
		return nil, fmt.Errorf("sign: list accounts of %s: %w", signer, classed(err))
	}
	return addresses, nil
}

// Sign requests a signature and verifies the result. Errors: txn.ErrKeyMissing, txn.ErrSignerFault,
// txn.ErrUnavailable; an invalid request has none of these.
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
			err = context.Cause(ctx) // the cause is more useful than the place
		}
		return txn.Signed{}, classed(err)
	}
	return verify(unsigned, raw)
}

// entry finds a signer. One that is unknown here may be configured on another node, so this is not
// "no key".
func (b *Book) entry(signer string) (Entry, error) {
	e, ok := b.entries[signer]
	if !ok {
		return Entry{}, fmt.Errorf(
			"%w: no such signer on this node; add it to signers, or register the submitter "+
				"with one of %q",
			txn.ErrUnavailable, b.Names())
	}
	return e, nil
}

// classed gives an error of a holder one of the classes that callers act on. An unexplained error
// is unknown, and unknown is not failure.
func classed(err error) error {
	for _, class := range []error{txn.ErrKeyMissing, txn.ErrSignerFault, txn.ErrUnavailable} {
		if errors.Is(err, class) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
}

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
// Holders that sign whole transactions are [KeyStore], which reads the encrypted key files of geth,
// [Memory] for tests, and the clients of remote signers in the packages service and jsonrpc.
// Holders that sign any digest (the key services of clouds, and hardware) implement [Digester], and
// [DigestHolder] makes transactions of their signatures. Every holder passes the suite in the
// package signtest.
//
// Nothing relies on a repeated request giving the same bytes, because rebroadcasts send stored
// bytes.
package sign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// wall measures signatures. They are limited by contexts, not by a clock.
var wall = clock.Real{}

const (
	// DefaultTimeout is the timeout of a signature if its entry has none.
	DefaultTimeout = 10 * time.Second
	// DefaultMaxInFlight is the limit of concurrent signatures if an entry has none.
	DefaultMaxInFlight = 32
	// maxChecks bounds the keys of a signer that are checked concurrently.
	maxChecks = 8
)

// Holder holds private keys.
type Holder interface {
	// Sign returns a signed transaction in its binary form: EIP-1559, or EIP-155 for legacy fees.
	Sign(ctx context.Context, unsigned txn.Unsigned) ([]byte, error)
	// Addresses returns the accounts that the holder can sign for, in ascending order.
	Addresses(ctx context.Context) ([]txn.Address, error)
}

// Checker is a holder of keys that may be missing, or different from those that are configured.
type Checker interface {
	// Check compares the key of an account with its address, without a signature. Errors:
	// txn.ErrKeyMissing, ErrWrongKey; any other means that the holder is unavailable.
	Check(ctx context.Context, account txn.Address) error
}

// ErrWrongKey means that a configured key has another address than its entry.
var ErrWrongKey = errors.New("the key has another address")

// Entry is one signer of a Book.
type Entry struct {
	Name        string
	Holder      Holder
	Timeout     time.Duration // for one signature; 0 means DefaultTimeout
	MaxInFlight int           // concurrent signatures; 0 means DefaultMaxInFlight
	PerSecond   float64       // signatures a second; 0 means no limit
}

// Book holds the signers of a node by name. It is safe for concurrent use.
type Book struct {
	entries map[string]*signer
	metrics metrics
}

// signer is an entry with its limits.
type signer struct {
	Entry
	gate gate
}

// NewBook returns a book. Names are unique.
func NewBook(entries ...Entry) (*Book, error) {
	b := &Book{entries: make(map[string]*signer, len(entries)), metrics: noMetrics()}
	for _, e := range entries {
		switch _, twice := b.entries[e.Name]; {
		case e.Name == "" || e.Holder == nil:
			return nil, fmt.Errorf("sign: signer %q needs a name and a holder of keys", e.Name)
		case twice:
			return nil, fmt.Errorf("sign: two signers are named %q; use unique names",
				e.Name)
		case e.Timeout < 0 || e.MaxInFlight < 0 || e.PerSecond < 0:
			return nil, fmt.Errorf("sign: a limit of signer %q is negative", e.Name)
		}
		e.Timeout = cmp.Or(e.Timeout, DefaultTimeout)
		e.MaxInFlight = cmp.Or(e.MaxInFlight, DefaultMaxInFlight)
		b.entries[e.Name] = &signer{e, newGate(e.MaxInFlight, e.PerSecond)}
	}
	return b, nil
}

// Close releases the connections of holders. No signature may be requested later.
func (b *Book) Close() {
	for _, e := range b.entries {
		if c, ok := e.Holder.(io.Closer); ok {
			_ = c.Close() // nothing is lost
		}
	}
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

// Check compares the keys of a signer with their configured addresses, each within the timeout of a
// signature. It returns at the first key that is missing or wrong, and at the first sign that the
// signer is unavailable or faulty, which proves nothing about its keys. Errors: txn.ErrKeyMissing,
// ErrWrongKey, txn.ErrSignerFault, txn.ErrUnavailable.
func (b *Book) Check(ctx context.Context, signer string) error {
	e, err := b.entry(signer)
	if err != nil {
		return fmt.Errorf("sign: check keys of %s: %w", signer, err)
	}
	checker, ok := e.Holder.(Checker)
	if !ok {
		return nil
	}
	addresses, err := b.Addresses(ctx, signer)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(e.MaxInFlight, maxChecks))
	for _, a := range addresses {
		group.Go(func() error {
			if err := e.check(ctx, checker, a); err != nil {
				return fmt.Errorf("sign: check key of %s with signer %s: %w", a.Hex(), signer, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (e *signer) check(ctx context.Context, by Checker, a txn.Address) error {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	if ctx.Err() != nil {
		return classed(context.Cause(ctx))
	}
	err := by.Check(ctx, a)
	if err == nil || errors.Is(err, ErrWrongKey) {
		return err
	}
	return classed(err)
}

// Sign requests a signature and verifies the result. Errors: txn.ErrKeyMissing, txn.ErrSignerFault,
// txn.ErrUnavailable; an invalid request has none of these.
func (b *Book) Sign(ctx context.Context, signer string, unsigned txn.Unsigned) (txn.Signed, error) {
	return b.start(ctx, signer, unsigned)()
}

// start waits for the limits of the signer, and returns the rest of the signature, which must be
// called.
func (b *Book) start(ctx context.Context, signer string,
	unsigned txn.Unsigned) func() (txn.Signed, error) {
	begin := wall.Now()
	ended := func(signed txn.Signed, err error) (txn.Signed, error) {
		if !errors.Is(context.Cause(ctx), errLowerFailed) {
			b.metrics.record(ctx, signer, wall.Now().Sub(begin), err)
		}
		if err != nil {
			return txn.Signed{}, fmt.Errorf("sign: nonce %d of %s with signer %s: %w",
				unsigned.Nonce, unsigned.From.Hex(), signer, err)
		}
		return signed, nil
	}
	refused := func(err error) func() (txn.Signed, error) {
		return func() (txn.Signed, error) { return ended(txn.Signed{}, err) }
	}
	if err := complete(unsigned); err != nil {
		return refused(err)
	}
	e, err := b.entry(signer)
	if err != nil {
		return refused(err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, e.Timeout,
		fmt.Errorf("no signature within %s (the signer's timeout)", e.Timeout))
	leave, err := e.gate.enter(limited)
	if err != nil {
		cancel()
		return refused(classed(err))
	}
	return func() (txn.Signed, error) {
		defer cancel()
		defer leave()
		return ended(e.sign(limited, unsigned))
	}
}

func (e *signer) sign(ctx context.Context, unsigned txn.Unsigned) (txn.Signed, error) {
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
func (b *Book) entry(name string) (*signer, error) {
	e, ok := b.entries[name]
	if !ok {
		return nil, fmt.Errorf(
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

package sign

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"math/big"
	"sync"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"golang.org/x/sync/singleflight"

	"github.com/fencepost/fencepost/txn"
)

// Digester signs digests with keys that it holds under identifiers.
//
// Errors: txn.ErrKeyMissing if it is certain that there is no such key; txn.ErrSignerFault for a
// reply that cannot be read; any other means that the digester is unavailable. Calls return when
// their context ends, and do not retry: the engine does.
type Digester interface {
	PublicKey(ctx context.Context, id string) (*ecdsa.PublicKey, error)
	SignDigest(ctx context.Context, id string, digest [32]byte) (Signature, error)
}

// DigestHolder is a holder that signs with a Digester. A key is used only after its public key was
// fetched, once, and has the address of its entry.
type DigestHolder struct {
	digester Digester
	keys     *KeyList

	fetches  singleflight.Group // of public keys, by identifier
	mu       sync.Mutex
	verified map[string]txn.Address // identifiers of keys whose public key was fetched
}

// NewDigestHolder returns a holder of the listed keys.
func NewDigestHolder(d Digester, keys *KeyList) *DigestHolder {
	return &DigestHolder{digester: d, keys: keys, verified: map[string]txn.Address{}}
}

// Sign signs with the key of the sender. Errors: txn.ErrKeyMissing, txn.ErrSignerFault,
// txn.ErrUnavailable.
func (h *DigestHolder) Sign(ctx context.Context, unsigned txn.Unsigned) ([]byte, error) {
	id, err := h.keys.Find(ctx, unsigned.From)
	if err != nil {
		return nil, err
	}
	if err := h.verify(ctx, unsigned.From, id); err != nil {
		if errors.Is(err, ErrWrongKey) {
			return nil, fmt.Errorf("%w: %w", txn.ErrSignerFault, err)
		}
		return nil, err
	}
	signer := types.LatestSignerForChainID(chainID(unsigned.ChainID))
	tx := types.NewTx(unsignedTx(unsigned))
	digest := signer.Hash(tx)
	signature, err := h.digester.SignDigest(ctx, id, digest)
	if err != nil {
		return nil, err
	}
	compact, err := signature.compact(digest, unsigned.From)
	if err != nil {
		return nil, err
	}
	if tx, err = tx.WithSignature(signer, compact); err != nil {
		return nil, fmt.Errorf("%w: invalid signature", txn.ErrSignerFault)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("encode transaction: %w", err)
	}
	return raw, nil
}

// Close closes the digester, if it can be closed.
func (h *DigestHolder) Close() error {
	if c, ok := h.digester.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Addresses returns the listed accounts.
func (h *DigestHolder) Addresses(context.Context) ([]txn.Address, error) {
	return h.keys.Addresses(), nil
}

// Check compares the public key of an account with its address. Errors: txn.ErrKeyMissing,
// ErrWrongKey.
func (h *DigestHolder) Check(ctx context.Context, account txn.Address) error {
	id, err := h.keys.Find(ctx, account)
	if err != nil {
		return err
	}
	if err := h.verify(ctx, account, id); err != nil && !errors.Is(err, ErrWrongKey) {
		return classed(err)
	} else if err != nil {
		return err
	}
	return nil
}

func (h *DigestHolder) verify(ctx context.Context, account txn.Address, id string) error {
	h.mu.Lock()
	has, known := h.verified[id]
	h.mu.Unlock()
	if !known {
		var err error
		if has, err = h.fetch(ctx, id); err != nil {
			return err
		}
	}
	if has != account {
		// Fetched again the next time: the key may be replaced under the same identifier.
		h.mu.Lock()
		delete(h.verified, id)
		h.mu.Unlock()
		return fmt.Errorf("%w: it is the key of %s", ErrWrongKey, has.Hex())
	}
	return nil
}

// fetched is the result of a request for a public key.
type fetched struct {
	has       txn.Address
	err       error
	abandoned bool // by the caller whose context it had
}

// fetch fetches a public key, once for all concurrent callers.
func (h *DigestHolder) fetch(ctx context.Context, id string) (txn.Address, error) {
	for {
		shared := h.fetches.DoChan(id, func() (any, error) {
			key, err := h.digester.PublicKey(ctx, id)
			if err != nil {
				return fetched{err: err, abandoned: ctx.Err() != nil}, nil
			}
			has := crypto.PubkeyToAddress(*key)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.verified[id] = has
			return fetched{has: has}, nil
		})
		select {
		case r := <-shared:
			if f := r.Val.(fetched); !f.abandoned || ctx.Err() != nil {
				return f.has, f.err
			}
		case <-ctx.Done():
			return txn.Address{}, context.Cause(ctx)
		}
	}
}

// compact returns the signature as 65 bytes, with S in the lower half (EIP-2) and the recovery
// identifier that leads to the account.
func (s Signature) compact(digest [32]byte, account txn.Address) ([]byte, error) {
	order := crypto.S256().Params().N
	low := s.S
	if low.Cmp(new(big.Int).Rsh(order, 1)) > 0 {
		low = new(big.Int).Sub(order, low)
	}
	compact := make([]byte, 65)
	s.R.FillBytes(compact[:32])
	low.FillBytes(compact[32:64])
	for v := range byte(2) {
		compact[64] = v
		key, err := crypto.Ecrecover(digest[:], compact)
		if err == nil && bytes.Equal(crypto.Keccak256(key[1:])[12:], account[:]) {
			return compact, nil
		}
	}
	return nil, fmt.Errorf("%w: its signature is not by the key of this account",
		txn.ErrSignerFault)
}

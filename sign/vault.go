package sign

//lint:file-ignore SA1019 a key of secp256k1 is its number D, and nothing else can be wiped

import (
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"sync"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/txn"
)

const (
	secretBytes    = 32
	secretsPerPage = 4096 / secretBytes
)

// vault keeps private keys outside of Go's heap, where the collector would copy or keep them: in
// pages that are locked and left out of core dumps, where the platform allows. During a signature
// there is a copy on the heap, which is wiped after it.
type vault struct {
	mu       sync.Mutex
	free     []*secret
	unlocked error // why pages are not locked; nil: they are
}

// secret is the place of one private key.
type secret struct {
	vault *vault
	bytes []byte

	mu   sync.RWMutex // held for reading during a signature
	held bool
}

// keep moves a private key into the vault, and wipes the original.
func (v *vault) keep(key *ecdsa.PrivateKey) (*secret, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.free) == 0 {
		page, unlocked, err := newPage(secretBytes * secretsPerPage)
		if err != nil {
			return nil, err
		}
		v.unlocked = unlocked
		for i := range secretsPerPage {
			place := page[i*secretBytes : (i+1)*secretBytes]
			v.free = append(v.free, &secret{vault: v, bytes: place})
		}
	}
	s := v.free[len(v.free)-1]
	v.free = v.free[:len(v.free)-1]
	s.mu.Lock()
	defer s.mu.Unlock()
	key.D.FillBytes(s.bytes)
	s.held = true
	wipe(key.D)
	return s, nil
}

// sign signs with the key. Errors: txn.ErrUnavailable after forget, because the account may have
// another file.
func (s *secret) sign(u txn.Unsigned) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.held {
		return nil, fmt.Errorf("%w: its key file was replaced or removed", txn.ErrUnavailable)
	}
	key := &ecdsa.PrivateKey{D: new(big.Int).SetBytes(s.bytes)}
	key.Curve = crypto.S256()
	defer wipe(key.D)
	return signWith(key, u)
}

// forget wipes the key, once no signature uses it, and frees its place.
func (s *secret) forget() {
	s.mu.Lock()
	clear(s.bytes)
	s.held = false
	s.mu.Unlock()
	s.vault.mu.Lock()
	defer s.vault.mu.Unlock()
	// A new value: who still has this one must not sign with the next key.
	s.vault.free = append(s.vault.free, &secret{vault: s.vault, bytes: s.bytes})
}

// wipe overwrites a number.
func wipe(n *big.Int) {
	clear(n.Bits())
	n.SetInt64(0)
}

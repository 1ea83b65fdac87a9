package sign_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// vendor is a digester with keys by identifier, whose replies take a second.
type vendor struct {
	keys map[string]*ecdsa.PrivateKey

	mu      sync.Mutex
	fetched map[string]int
}

func (v *vendor) PublicKey(ctx context.Context, id string) (*ecdsa.PublicKey, error) {
	v.mu.Lock()
	v.fetched[id]++
	v.mu.Unlock()
	if err := clock.Sleep(ctx, clock.Real{}, time.Second); err != nil {
		return nil, err
	}
	if v.keys[id] == nil {
		return nil, txn.ErrKeyMissing
	}
	return &v.keys[id].PublicKey, nil
}

func (v *vendor) SignDigest(_ context.Context, id string, digest [32]byte) (sign.Signature, error) {
	if v.keys[id] == nil {
		return sign.Signature{}, txn.ErrKeyMissing
	}
	raw, err := crypto.Sign(digest[:], v.keys[id])
	if err != nil {
		return sign.Signature{}, err
	}
	return sign.ParseRaw(raw[:64])
}

// vendorBook is a book with a vendor's keys, and the function that replaces its list of keys.
func vendorBook(t *testing.T, v *vendor, list string) (*sign.Book, func(string)) {
	t.Helper()
	v.fetched = map[string]int{}
	file := filepath.Join(t.TempDir(), "keys")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(list)
	keys, err := sign.OpenKeyList(sign.KeyListOptions{File: file, IDs: true, Clock: clock.Real{},
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	book, err := sign.NewBook(sign.Entry{Name: "it", Holder: sign.NewDigestHolder(v, keys)})
	if err != nil {
		t.Fatal(err)
	}
	return book, write
}

// TestDigestHolder_Range_PublicKeyFetchedOnce: the signatures of a range wait for one reply with
// the public key.
func TestDigestHolder_Range_PublicKeyFetchedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key := testKey("one")
		v := &vendor{keys: map[string]*ecdsa.PrivateKey{"first": key}}
		book, _ := vendorBook(t, v, address(key).Hex()+" first")
		requests := make([]txn.Unsigned, 16)
		for i := range requests {
			requests[i] = request(address(key))
			requests[i].Nonce = txn.Nonce(i)
		}
		begin := time.Now()
		for i, r := range book.SignInOrder(t.Context(), "it", requests) {
			if r.Err != nil {
				t.Errorf("signature %d: %v", i, r.Err)
			}
		}
		if took := time.Since(begin); took != time.Second || v.fetched["first"] != 1 {
			t.Errorf("%d fetches in %s", v.fetched["first"], took)
		}
	})
}

// TestDigestHolder_FetchAbandoned_OthersProceed: a caller that leaves does not fail those who wait
// for the same public key.
func TestDigestHolder_FetchAbandoned_OthersProceed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key := testKey("one")
		v := &vendor{keys: map[string]*ecdsa.PrivateKey{"first": key}}
		book, _ := vendorBook(t, v, address(key).Hex()+" first")
		leaving, leave := context.WithCancel(t.Context())
		first := make(chan error)
		go func() {
			_, err := book.Sign(leaving, "it", request(address(key)))
			first <- err
		}()
		synctest.Wait()
		second := make(chan error)
		go func() {
			_, err := book.Sign(t.Context(), "it", request(address(key)))
			second <- err
		}()
		synctest.Wait()
		leave()
		if err := <-first; !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("the one who left: %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("the other one: %v", err)
		}
	})
}

// TestDigestHolder_ListChanges_FollowsIt adds, rotates and removes keys while signatures are
// requested. A key whose address differs from its entry is never used.
func TestDigestHolder_ListChanges_FollowsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := testKey("one"), testKey("two")
		v := &vendor{keys: map[string]*ecdsa.PrivateKey{"a": one, "b": one, "c": two}}
		book, write := vendorBook(t, v, address(one).Hex()+" a")
		expect := func(key *ecdsa.PrivateKey, class error) {
			t.Helper()
			time.Sleep(2 * time.Second)
			_, _ = book.Sign(t.Context(), "it", request(address(key))) // notices the change
			time.Sleep(2 * time.Second)
			_, err := book.Sign(t.Context(), "it", request(address(key)))
			if !errors.Is(err, class) {
				t.Errorf("%v, want %v", err, class)
			}
		}
		expect(one, nil)
		expect(two, txn.ErrKeyMissing)
		write(fmt.Sprintf("%s a\n%s c\n", address(one).Hex(), address(two).Hex())) // added
		expect(one, nil)
		expect(two, nil)
		write(fmt.Sprintf("%s b\n%s c\n", address(one).Hex(), address(two).Hex())) // rotated
		delete(v.keys, "a")
		expect(one, nil)
		write(fmt.Sprintf("%s c\n%s b\n", address(one).Hex(), address(two).Hex())) // exchanged
		expect(one, txn.ErrSignerFault)
		expect(two, txn.ErrSignerFault)
		write(address(two).Hex() + " c\n") // removed
		expect(one, txn.ErrKeyMissing)
		expect(two, nil)
	})
}

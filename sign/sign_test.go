package sign_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

func TestBook_Sign(t *testing.T) {
	t.Parallel()
	hot, cold := testKey("hot"), testKey("cold")
	book, err := sign.NewBook(sign.Entry{Name: "hot", Holder: sign.NewMemory(hot)},
		sign.Entry{Name: "cold", Holder: sign.NewMemory(cold)})
	if err != nil {
		t.Fatal(err)
	}
	if got := book.Names(); !slices.Equal(got, []string{"cold", "hot"}) {
		t.Errorf("names are %q", got)
	}
	signed, err := book.Sign(t.Context(), "cold", request(address(cold)))
	if err != nil || len(signed.Raw) == 0 || signed.Hash != crypto.Keccak256Hash(signed.Raw) {
		t.Errorf("signed %x, %v", signed, err)
	}
	addresses, err := book.Addresses(t.Context(), "hot")
	if err != nil || !slices.Equal(addresses, []txn.Address{address(hot)}) {
		t.Errorf("addresses are %v, %v", addresses, err)
	}
}

func TestBook_ErrorClasses(t *testing.T) {
	t.Parallel()
	key, other := testKey("key"), testKey("other")
	boom := errors.New("boom")
	book, err := sign.NewBook(
		sign.Entry{Name: "memory", Holder: sign.NewMemory(key)},
		sign.Entry{
			Name: "odd",
			Holder: holder{
				sign: func(context.Context, txn.Unsigned) ([]byte, error) { return nil, boom },
			},
		},
		sign.Entry{
			Name: "liar",
			Holder: holder{sign: func(ctx context.Context, u txn.Unsigned) ([]byte, error) {
				u.Nonce++
				return sign.NewMemory(key).Sign(ctx, u)
			}},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	noChain := request(address(key))
	noChain.ChainID = 0
	for _, c := range []struct {
		signer string
		ask    txn.Unsigned
		class  error
		text   string
	}{
		{"memory", request(address(other)), txn.ErrKeyMissing, "with signer memory"},
		{"nowhere", request(address(key)), txn.ErrUnavailable,
			`register the submitter with one of ["liar" "memory" "odd"]`},
		{"odd", request(address(key)), txn.ErrUnavailable, "boom"},
		{"liar", request(address(key)), txn.ErrSignerFault, "nonce differs"},
		{"memory", noChain, nil, "no chain id"},
	} {
		_, err := book.Sign(t.Context(), c.signer, c.ask)
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("signer %s answered %v, want %q", c.signer, err, c.text)
		}
		for _, class := range []error{txn.ErrKeyMissing, txn.ErrUnavailable, txn.ErrSignerFault} {
			if errors.Is(err, class) != (class == c.class) {
				t.Errorf("signer %s: is %q: %v; the error is %v", c.signer, class,
					errors.Is(err, class), err)
			}
		}
	}
	if _, err := book.Addresses(t.Context(), "odd"); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("addresses of a holder that fails: %v", err)
	}
}

func TestBook_SignTimeout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		timeout time.Duration
		want    time.Duration
		text    string
	}{
		{"as configured", 3 * time.Second, 3 * time.Second, "no signature within 3s"},
		{"by default", 0, sign.DefaultTimeout, "no signature within 10s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				slow := holder{sign: func(ctx context.Context, _ txn.Unsigned) ([]byte, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}}
				book, err := sign.NewBook(
					sign.Entry{Name: "slow", Holder: slow, Timeout: c.timeout})
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				_, err = book.Sign(t.Context(), "slow", request(txn.Address{1}))
				if took := time.Since(begin); took != c.want {
					t.Errorf("took %s", took)
				}
				if !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("error is %v", err)
				}
			})
		})
	}
}

func TestBook_InvalidEntries_Rejected(t *testing.T) {
	t.Parallel()
	m := sign.NewMemory()
	for text, entries := range map[string][]sign.Entry{
		"unique names":   {{Name: "a", Holder: m}, {Name: "a", Holder: m}},
		"needs a name":   {{Holder: m}},
		"holder of keys": {{Name: "a"}},
		"negative":       {{Name: "a", Holder: m, Timeout: -1}},
	} {
		if _, err := sign.NewBook(entries...); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
}

// holder is a fake key holder.
type holder struct {
	sign func(context.Context, txn.Unsigned) ([]byte, error)
}

func (h holder) Sign(ctx context.Context, u txn.Unsigned) ([]byte, error) { return h.sign(ctx, u) }

func (h holder) Addresses(context.Context) ([]txn.Address, error) {
	return nil, errors.New("ask me not")
}

func testKey(seed string) *ecdsa.PrivateKey {
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte(seed)))
	if err != nil {
		panic(err)
	}
	return key
}

func address(k *ecdsa.PrivateKey) txn.Address { return crypto.PubkeyToAddress(k.PublicKey) }

func request(from txn.Address) txn.Unsigned {
	return txn.Unsigned{
		ChainID: 31337, From: from, Nonce: 7, GasLimit: 21000,
		Payload: txn.Payload{To: &txn.Address{2}},
		Fees:    txn.Fees{Cap: *uint256.NewInt(2e9), Tip: *uint256.NewInt(1e9)},
	}
}

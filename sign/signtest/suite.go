package signtest

import (
	"context"
	"errors"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// Subject is the holder under test.
type Subject struct {
	// Open returns a holder of the key of the account that the suite uses, and the account of Key
	// "absent", which the peer does not have. The peer behaves as the script, or a proxy before a
	// real peer does.
	Open func(t *testing.T, s *Script) sign.Holder
	// Digests: the peer signs digests; otherwise transactions.
	Digests bool
	// Local: there is no peer that can fail.
	Local bool
	// Count of transactions to sign; 0: 1,000.
	Count int
	// Account, if a real peer has another key than the suite's.
	Account txn.Address
}

const (
	timeout = 2 * time.Second
	short   = 50 * time.Millisecond
	chainID = 31337
)

// Run runs the suite. The peer misbehaves in every way, or a proxy before a real one.
func Run(t *testing.T, s Subject) {
	t.Run("signs", func(t *testing.T) { signs(t, s) })
	t.Run("unknown key", func(t *testing.T) { unknown(t, s) })
	if s.Local {
		return
	}
	t.Run("wrong results", func(t *testing.T) { wrongResults(t, s) })
	t.Run("faults", func(t *testing.T) { faults(t, s) })
	if s.Digests {
		t.Run("public keys", func(t *testing.T) { publicKeys(t, s) })
	}
}

// RunReal runs the part of the suite that a real peer can pass alone.
func RunReal(t *testing.T, s Subject) {
	t.Run("signs", func(t *testing.T) { signs(t, s) })
	t.Run("unknown key", func(t *testing.T) { unknown(t, s) })
}

func book(t *testing.T, h sign.Holder, timeout time.Duration) *sign.Book {
	t.Helper()
	b, err := sign.NewBook(sign.Entry{Name: "it", Holder: h, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func open(t *testing.T, s Subject) (*sign.Book, *Script) {
	t.Helper()
	var script *Script
	if !s.Local {
		script = NewScript(t)
	}
	return book(t, s.Open(t, script), timeout), script
}

// signs requests transactions of every shape. A peer that signs digests returns a high S for every
// second one.
func signs(t *testing.T, s Subject) {
	count := s.Count
	if count == 0 {
		count = 1000
	}
	b, script := open(t, s)
	if err := b.Check(t.Context(), "it"); err != nil && !errors.Is(err, txn.ErrKeyMissing) {
		t.Fatal(err) // the absent account may be among the configured ones
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range count {
		if script != nil && i%2 == 1 {
			script.set(func(s *Script) { s.der = highS })
		} else if script != nil {
			script.reset()
		}
		u := s.request(random)
		signed, err := b.Sign(t.Context(), "it", u)
		if err != nil {
			t.Fatalf("transaction %d (%+v): %v", i, u, err)
		}
		if signed.Hash != crypto.Keccak256Hash(signed.Raw) {
			t.Fatalf("transaction %d: hash differs", i)
		}
	}
}

func unknown(t *testing.T, s Subject) {
	b, script := open(t, s)
	u := Request(rand.New(rand.NewPCG(3, 4)))
	u.From = Address(Key("absent"))
	if script != nil {
		script.set(func(s *Script) { s.fault = Missing })
	}
	if _, err := b.Sign(t.Context(), "it", u); !errors.Is(err, txn.ErrKeyMissing) {
		t.Errorf("an absent key: %v", err)
	}
	u.From = Address(Key("unlisted"))
	if _, err := b.Sign(t.Context(), "it", u); !errors.Is(err, txn.ErrKeyMissing) {
		t.Errorf("an account that is not listed: %v", err)
	}
}

// wrongResults checks that nothing but the requested signature passes, and that the holder works
// after each wrong one.
func wrongResults(t *testing.T, s Subject) {
	b, script := open(t, s)
	cases := map[string]func(*Script){
		"wrong key": func(s *Script) { s.key = Key("other") },
	}
	if s.Digests {
		for name, encode := range malformed() {
			cases[name] = func(s *Script) { s.der = encode }
		}
	} else {
		for name, edit := range edits() {
			cases[name] = func(s *Script) { s.edit = edit }
		}
	}
	random := rand.New(rand.NewPCG(5, 6))
	for name, change := range cases {
		script.set(change)
		_, err := b.Sign(t.Context(), "it", s.request(random))
		if !errors.Is(err, txn.ErrSignerFault) {
			t.Errorf("%s: %v", name, err)
		}
		script.reset()
		if _, err := b.Sign(t.Context(), "it", s.request(random)); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}

// malformed are signatures that must not be read, by their encoding.
func malformed() map[string]func(r, s *big.Int) []byte {
	order := crypto.S256().Params().N
	big1 := big.NewInt(1)
	return map[string]func(r, s *big.Int) []byte{
		"truncated":      func(r, s *big.Int) []byte { d := marshal(r, s); return d[:len(d)-1] },
		"empty":          func(r, s *big.Int) []byte { return nil },
		"trailing byte":  func(r, s *big.Int) []byte { return append(marshal(r, s), 0) },
		"negative R":     func(r, s *big.Int) []byte { return marshal(new(big.Int).Neg(r), s) },
		"negative S":     func(r, s *big.Int) []byte { return marshal(r, new(big.Int).Neg(s)) },
		"R is 0":         func(r, s *big.Int) []byte { return marshal(new(big.Int), s) },
		"S is 0":         func(r, s *big.Int) []byte { return marshal(r, new(big.Int)) },
		"R is the order": func(r, s *big.Int) []byte { return marshal(order, s) },
		"S is above the order": func(r, s *big.Int) []byte {
			return marshal(r, new(big.Int).Add(order, big1))
		},
		"S of 40 bytes": func(r, s *big.Int) []byte { return marshal(r, new(big.Int).Lsh(s, 64)) },
		"another R": func(r, s *big.Int) []byte {
			return marshal(new(big.Int).Xor(r, big1), s)
		},
		"integer with a leading zero": func(r, s *big.Int) []byte {
			return padded(marshal(r, s))
		},
		"length in the long form": func(r, s *big.Int) []byte {
			d := marshal(r, s)
			return append([]byte{d[0], 0x81, d[1]}, d[2:]...)
		},
	}
}

// padded adds a zero byte before the first integer.
func padded(der []byte) []byte {
	d := append([]byte{der[0], der[1] + 1, der[2], der[3] + 1, 0}, der[4:]...)
	return d
}

func highS(r, s *big.Int) []byte {
	return marshal(r, new(big.Int).Sub(crypto.S256().Params().N, s))
}

// edits are changes of a request that a peer must not make.
func edits() map[string]func(*txn.Unsigned) {
	return map[string]func(*txn.Unsigned){
		"wrong chain":   func(u *txn.Unsigned) { u.ChainID++ },
		"other nonce":   func(u *txn.Unsigned) { u.Nonce++ },
		"other value":   func(u *txn.Unsigned) { u.Payload.Value.AddUint64(&u.Payload.Value, 1) },
		"other data":    func(u *txn.Unsigned) { u.Payload.Data = append(u.Payload.Data, 1) },
		"other gas":     func(u *txn.Unsigned) { u.GasLimit++ },
		"other fee cap": func(u *txn.Unsigned) { u.Fees.Cap.AddUint64(&u.Fees.Cap, 1) },
		"other type": func(u *txn.Unsigned) {
			u.Fees.Legacy = !u.Fees.Legacy
			u.Fees.Tip = u.Fees.Cap
		},
		"other recipient": func(u *txn.Unsigned) {
			to := Address(Key("thief"))
			u.Payload.To = &to
		},
	}
}

// faults checks that a peer that fails is unavailable, in time, and works again later.
func faults(t *testing.T, s Subject) {
	b, script := open(t, s)
	u := s.request(rand.New(rand.NewPCG(7, 8)))
	for name, fault := range map[string]Fault{
		"throttled": Throttled, "reset": Reset, "broken": Broken, "denied": Denied,
	} {
		script.set(func(s *Script) { s.fault = fault })
		if _, err := b.Sign(t.Context(), "it", u); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		script.reset()
		if _, err := b.Sign(t.Context(), "it", u); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
	script.set(func(s *Script) { s.fault = Hangs })
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := b.Sign(ctx, "it", u)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("hangs: %v", err)
		}
	case <-time.After(timeout):
		t.Error("hangs: no return after its context ended")
	}
	script.reset()
	if _, err := b.Sign(t.Context(), "it", u); err != nil {
		t.Errorf("after a hang: %v", err)
	}
}

// publicKeys checks that a key of another address is rejected before it signs.
func publicKeys(t *testing.T, s Subject) {
	script := NewScript(t)
	script.set(func(s *Script) { s.public = &Key("other").PublicKey })
	h := s.Open(t, script)
	check := func() error {
		return h.(sign.Checker).Check(t.Context(), s.account())
	}
	b := book(t, h, timeout)
	if err := check(); !errors.Is(err, sign.ErrWrongKey) {
		t.Errorf("check of a key with another address: %v", err)
	}
	u := s.request(rand.New(rand.NewPCG(9, 10)))
	if _, err := b.Sign(t.Context(), "it", u); !errors.Is(err, txn.ErrSignerFault) {
		t.Errorf("signature with such a key: %v", err)
	}
	script.set(func(s *Script) { s.fault = Throttled })
	if err := check(); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("check with an unavailable peer: %v", err)
	}
	script.reset()
	if _, err := b.Sign(t.Context(), "it", u); err != nil {
		t.Errorf("after the key was replaced: %v", err)
	}
}

func (s Subject) account() txn.Address {
	if s.Account != (txn.Address{}) {
		return s.Account
	}
	return Address(Key("account"))
}

func (s Subject) request(random *rand.Rand) txn.Unsigned {
	u := Request(random)
	u.From = s.account()
	return u
}

// Request returns a transaction of the account that the suite uses, of any shape.
func Request(random *rand.Rand) txn.Unsigned {
	u := txn.Unsigned{
		ChainID:  chainID,
		From:     Address(Key("account")),
		Nonce:    txn.Nonce(random.Uint64N(1 << 40)),
		GasLimit: 21_000 + random.Uint64N(1<<24),
		Purpose: txn.Purpose{
			Submitter: "alice",
			TxID:      txn.TxID(uuid.Must(uuid.FromBytes(make([]byte, 16)))),
			RequestID: "request",
			Attempt:   1 + random.IntN(5),
			Kind:      txn.Original,
		},
	}
	u.Payload.Value = *uint256.NewInt(random.Uint64())
	if random.IntN(4) > 0 {
		to := Address(Key("recipient"))
		u.Payload.To = &to
	}
	if n := random.IntN(5) * random.IntN(200); n > 0 || u.Payload.To == nil {
		u.Payload.Data = make([]byte, n+1)
		for i := range u.Payload.Data {
			u.Payload.Data[i] = byte(random.Uint32())
		}
	}
	u.Fees.Tip = *uint256.NewInt(random.Uint64N(1 << 32))
	u.Fees.Cap = *new(uint256.Int).AddUint64(&u.Fees.Tip, random.Uint64N(1<<40))
	if u.Fees.Legacy = random.IntN(3) == 0; u.Fees.Legacy {
		u.Fees.Tip = u.Fees.Cap
	}
	return u
}

// Keys writes and opens the list of keys of the suite: the account and the absent one. Identifiers
// are "account" and "absent", unless given.
func Keys(t *testing.T, withIDs bool, ids ...string) *sign.KeyList {
	t.Helper()
	ids = append(ids, []string{"account", "absent"}[len(ids):]...)
	lines := ""
	for i, name := range []string{"account", "absent"} {
		lines += Address(Key(name)).Hex()
		if withIDs {
			lines += " " + ids[i]
		}
		lines += "\n"
	}
	return List(t, withIDs, lines)
}

// List writes and opens a list of keys.
func List(t *testing.T, withIDs bool, lines string) *sign.KeyList {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := sign.OpenKeyList(sign.KeyListOptions{File: file, IDs: withIDs,
		Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

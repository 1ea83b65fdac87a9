package sign

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/txn"
)

func TestVault_Forgotten_Wiped(t *testing.T) {
	t.Parallel()
	var v vault
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	want := crypto.FromECDSA(key)
	s, err := v.keep(key)
	if err != nil {
		t.Fatal(err)
	}
	//lint:ignore SA1019 the number is what the vault wipes
	if !bytes.Equal(s.bytes, want) || key.D.Sign() != 0 {
		t.Error("the key was not moved")
	}
	if v.unlocked != nil {
		t.Logf("memory not locked: %v", v.unlocked)
	}
	u := txn.Unsigned{ChainID: 1, From: crypto.PubkeyToAddress(key.PublicKey), GasLimit: 21000}
	raw, err := s.sign(u)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verify(u, raw); err != nil {
		t.Error(err)
	}
	s.forget()
	if !bytes.Equal(s.bytes, make([]byte, secretBytes)) {
		t.Error("the key is still in memory")
	}
	if _, err := s.sign(u); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("signature after it was forgotten: %v", err)
	}
}

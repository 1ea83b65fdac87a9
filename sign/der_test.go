package sign_test

import (
	"bytes"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/signtest"
)

// FuzzParseDER: a signature that is read has exactly one encoding, and numbers within the order.
func FuzzParseDER(f *testing.F) {
	valid, err := asn1.Marshal(struct{ R, S *big.Int }{big.NewInt(1), big.NewInt(1 << 40)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add(signtest.NewScript(f).DER(make([]byte, 32)))
	for _, text := range []string{"", "30", "3000", "30800201010201010000", "3006020101020101",
		"3081060201010201", "300702010102020001", "30060201ff020101", "3006020100020101"} {
		raw, err := hex.DecodeString(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	order := crypto.S256().Params().N
	f.Fuzz(func(t *testing.T, der []byte) {
		s, err := sign.ParseDER(der)
		if err != nil {
			return
		}
		again, err := asn1.Marshal(struct{ R, S *big.Int }{s.R, s.S})
		if err != nil || !bytes.Equal(again, der) {
			t.Fatalf("%x is read, but encoded as %x (%v)", der, again, err)
		}
		for _, n := range []*big.Int{s.R, s.S} {
			if n.Sign() <= 0 || n.Cmp(order) >= 0 {
				t.Fatalf("%x has the number %d", der, n)
			}
		}
	})
}

func TestParsePublicKey(t *testing.T) {
	t.Parallel()
	key := &signtest.Key("account").PublicKey
	der := signtest.MarshalPublicKey(key)
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	for name, encoded := range map[string][]byte{"DER": der, "PEM": text} {
		if got, err := sign.ParsePublicKey(encoded); err != nil || !got.Equal(key) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	changed := func(at int) []byte {
		b := bytes.Clone(der)
		b[at] ^= 1
		return b
	}
	for name, encoded := range map[string][]byte{
		"empty": nil, "truncated": der[:len(der)-1], "trailing byte": append(bytes.Clone(der), 0),
		"other curve": changed(len(der) - 67 - 3), "not on the curve": changed(len(der) - 1),
		"two PEM blocks": append(bytes.Clone(text), text...),
	} {
		if _, err := sign.ParsePublicKey(encoded); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

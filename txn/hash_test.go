package txn

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"github.com/holiman/uint256"
)

// Ledgers store request hashes, so the hash of a request never changes.
func TestRequestHash(t *testing.T) {
	t.Parallel()
	to := Address{1, 2, 3}
	for want, r := range map[string]struct {
		p Payload
		t Terms
	}{
		"9e65b61f855822f8dfda55aca348e8acb40d338216f8a1ae7de7a2f9f5801316": {p: Payload{}},
		"e975a049e707f820792a32c2834f1eef50a69fdbf9fd7cc4bef72402a65c3d11": {p: Payload{To: &to,
			Value: *uint256.NewInt(7), GasLimit: 21000}},
		"1bae47ec00ec6028ff61e364f6f3d2c0ff46b7abe5ae5764f02d9c5df6fab753": {
			p: Payload{Value: *uint256.NewInt(1), Data: []byte{1, 2}, GasLimit: 1},
			t: Terms{Speed: "FAST", MaxFee: *uint256.NewInt(9),
				NotAfter: time.UnixMicro(1_700_000_000_000_001), CancelLate: true}},
		"f4d2e259b3e54c349e31885ac011c3c14008c3cddc4f24debec4599b445add7d": {p: Payload{To: &to,
			Data: bytes.Repeat([]byte{7}, 70_000)}, t: Terms{Speed: "SLOW"}},
	} {
		hash := RequestHash(r.p, r.t)
		if got := hex.EncodeToString(hash[:]); got != want {
			t.Errorf("%+v: %s, want %s", r.t, got, want)
		}
	}
}

func BenchmarkRequestHash(b *testing.B) {
	to := Address{1, 2, 3}
	b.ReportAllocs()
	for b.Loop() {
		RequestHash(Payload{To: &to, Value: *uint256.NewInt(7), GasLimit: 21000}, Terms{})
	}
}

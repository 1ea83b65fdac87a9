package txn

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestTxID_Submitter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		submitter := SubmitterID(rapid.Int32Range(1, math.MaxInt32).Draw(t, "submitter"))
		at := time.UnixMilli(rapid.Int64Range(0, 1<<48-1).Draw(t, "millis"))
		id, err := NewTxID(at, submitter)
		if err != nil {
			t.Fatal(err)
		}
		if got := id.Submitter(); got != submitter {
			t.Fatalf("submitter %d reads back as %d", submitter, got)
		}
		back, err := ParseTxID(id.String())
		if err != nil || back != id {
			t.Fatalf("%s parses to %s, %v", id, back, err)
		}
		if u := uuid.UUID(id); u.Version() != 8 || u.Variant() != uuid.RFC4122 {
			t.Fatalf("%s is of version %d, variant %d", id, u.Version(), u.Variant())
		}
	})
}

func TestTxID_OrderedByTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64Range(0, 1<<47).Draw(t, "a")
		b := rapid.Int64Range(a+1, 1<<48-1).Draw(t, "b")
		s := SubmitterID(rapid.Int32Range(1, math.MaxInt32).Draw(t, "submitter"))
		first, _ := NewTxID(time.UnixMilli(a), s)
		second, _ := NewTxID(time.UnixMilli(b), s)
		if first.String() >= second.String() {
			t.Fatalf("%d ms gives %s, %d ms gives %s", a, first, b, second)
		}
	})
}

func TestParseTxID_Foreign_Rejected(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", uuid.NewString(), uuid.Nil.String(),
		"00000000-0000-8000-8000-000000000000", strings.Repeat("f", 36)} {
		if id, err := ParseTxID(text); err == nil {
			t.Errorf("%q was taken as %s", text, id)
		}
	}
}

func TestParseAddress(t *testing.T) {
	t.Parallel()
	const sum = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" // EIP-55's own example
	for text, ok := range map[string]bool{
		sum: true, strings.ToLower(sum): true, "0x" + strings.ToUpper(sum[2:]): true,
		"0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed": false, // one letter has the wrong case
		"0X" + sum[2:]: false, sum[2:]: false, sum[:41]: false, sum + "0": false,
		"0x" + strings.Repeat("g", 40): false, "": false, " " + sum: false,
	} {
		a, err := ParseAddress(text)
		if (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && a.Hex() != sum {
			t.Errorf("%q reads as %s", text, a.Hex())
		}
	}
}

func TestParseWei(t *testing.T) {
	t.Parallel()
	const most = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	for text, want := range map[string]string{"": "0", "0": "0", "1": "1", most: most, "007": "7"} {
		if w, err := ParseWei(text); err != nil || w.Dec() != want {
			t.Errorf("%q: %s, %v", text, w.Dec(), err)
		}
	}
	for _, text := range []string{
		"-1", "+1", "1.5", "1e18", "0x10", " 1", "1 ", "one", most[:len(most)-1] + "6",
		strings.Repeat("9", 200),
	} {
		if w, err := ParseWei(text); err == nil {
			t.Errorf("%q was taken as %s", text, w.Dec())
		}
	}
}

func TestParseAccountID(t *testing.T) {
	t.Parallel()
	a, _ := ParseAddress("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
	chain, got, ok, err := ParseAccountID(AccountID(31337, a))
	if chain != 31337 || got != a || !ok || err != nil {
		t.Errorf("round trip: %d %s %v %v", chain, got, ok, err)
	}
	if _, _, ok, _ := ParseAccountID("alice"); ok {
		t.Error("a name was taken for an account id")
	}
	for _, text := range []string{"eip155:", "eip155:0:" + a.Hex(), "eip155:1",
		"eip155:-1:" + a.Hex(), "eip155:01:" + a.Hex(), "eip155:1:0x12", "eip155:1x:" + a.Hex()} {
		if _, _, ok, err := ParseAccountID(text); !ok || err == nil {
			t.Errorf("%q: ok %v, %v", text, ok, err)
		}
	}
}

func TestPayloadHash_Distinct(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := payloads.Draw(t, "a"), payloads.Draw(t, "b")
		same := a.GasLimit == b.GasLimit && a.Value == b.Value &&
			string(a.Data) == string(b.Data) &&
			(a.To == nil) == (b.To == nil) &&
			(a.To == nil || *a.To == *b.To)
		if (a.Hash() == b.Hash()) != same {
			t.Fatalf("same is %v for %+v and %+v", same, a, b)
		}
	})
}

var payloads = rapid.Custom(func(t *rapid.T) Payload {
	var p Payload
	if rapid.Bool().Draw(t, "to") {
		p.To = &Address{rapid.ByteRange(0, 2).Draw(t, "address")}
	}
	p.Value.SetUint64(rapid.Uint64Range(0, 2).Draw(t, "value"))
	p.Data = rapid.SliceOfN(rapid.ByteRange(0, 1), 0, 3).Draw(t, "data")
	p.GasLimit = rapid.Uint64Range(0, 2).Draw(t, "gas")
	return p
})

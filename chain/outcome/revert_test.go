package outcome

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"pgregory.net/rapid"
)

const vaultABI = `[
 {"type":"function","name":"withdraw","inputs":[{"name":"amount","type":"uint256"}],
  "outputs":[],"stateMutability":"nonpayable"},
 {"type":"error","name":"ERC20InsufficientBalance","inputs":[
  {"name":"sender","type":"address"},{"name":"balance","type":"uint256"},
  {"name":"needed","type":"uint256"}]},
 {"type":"error","name":"Closed","inputs":[]},
 {"type":"error","name":"Odd","inputs":[
  {"name":"","type":"bytes4"},{"name":"why","type":"string"},{"name":"list","type":"uint16[]"},
  {"name":"pair","type":"tuple",
  "components":[{"name":"a","type":"int256"},{"name":"b","type":"bool"}]},
  {"name":"raw","type":"bytes"}]}
]`

func vault(t *testing.T) *Errors {
	t.Helper()
	e := new(Errors)
	if err := e.Add([]byte(vaultABI)); err != nil {
		t.Fatal(err)
	}
	return e
}

// thrown is the return data of an error of the vault.
func thrown(t *testing.T, name string, values ...any) []byte {
	t.Helper()
	parsed, err := abi.JSON(strings.NewReader(vaultABI))
	if err != nil {
		t.Fatal(err)
	}
	custom := parsed.Errors[name]
	packed, err := custom.Inputs.Pack(values...)
	if err != nil {
		t.Fatal(err)
	}
	return append(custom.ID[:selectorSize:selectorSize], packed...)
}

func required(t *testing.T, reason string) []byte {
	t.Helper()
	text, err := abi.NewType("string", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := abi.Arguments{{Type: text}}.Pack(reason)
	if err != nil {
		t.Fatal(err)
	}
	return append(errorSelector[:], packed...)
}

func panicked(code int64) []byte {
	return append(panicSelector[:], common.BigToHash(big.NewInt(code)).Bytes()...)
}

type pair struct {
	A *big.Int
	B bool
}

func TestReason(t *testing.T) {
	t.Parallel()
	known := vault(t)
	who := common.HexToAddress("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")
	poor := thrown(t, "ERC20InsufficientBalance", who, big.NewInt(5), big.NewInt(1e18))
	odd := thrown(t, "Odd", [4]byte{0xde, 0xad, 0xbe, 0xef}, "no\x00\nway", []uint16{1, 2},
		pair{big.NewInt(-7), true}, []byte{1, 2, 3})
	const unnamed = "with a custom error, selector 0x"
	for name, c := range map[string]struct {
		errors *Errors
		data   []byte
		want   string
	}{
		"require":                {nil, required(t, "not yours"), "execution reverted: not yours"},
		"require without reason": {nil, required(t, ""), "execution reverted without a reason"},
		"require with a URL": {
			nil,
			required(t, "see https://secret.example/key"),
			"execution reverted: see " + Redacted,
		},
		"require, cut off": {nil, required(t, "not yours")[:40], unnamed + "08c379a0"},
		"assert": {
			nil,
			panicked(1),
			"execution reverted: panic 0x1: assert(false)",
		},
		"overflow": {
			nil,
			panicked(0x11),
			"execution reverted: panic 0x11: arithmetic underflow or overflow",
		},
		"division by zero": {
			nil,
			panicked(0x12),
			"execution reverted: panic 0x12: division or modulo by zero",
		},
		"index": {
			nil,
			panicked(0x32),
			"execution reverted: panic 0x32: out-of-bounds access of an array or bytesN",
		},
		"a panic of one's own": {
			nil,
			panicked(0x99),
			"execution reverted: panic 0x99: a code that Solidity does not define",
		},
		"panic, cut off": {nil, panicked(1)[:20], unnamed + "4e487b71"},
		"custom": {
			known,
			poor,
			"execution reverted: ERC20InsufficientBalance(sender: " +
				"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266, balance: 5, needed: " +
				"1000000000000000000)",
		},
		"custom without values": {known, thrown(t, "Closed"), "execution reverted: Closed()"},
		"custom, of every kind": {
			known,
			odd,
			`execution reverted: Odd(arg0: 0xdeadbeef, why: "no\x00\nway", list: [1, 2], pair: ` +
				`(-7, true), raw: 0x010203)`,
		},
		"custom, cut off": {known, poor[:len(poor)-1], unnamed},
		"custom, not in the ABI": {
			known,
			[]byte{1, 2, 3, 4, 5},
			"execution reverted with a custom error, selector 0x01020304, 5 bytes; add the " +
				"contract's ABI to abi_files to decode it",
		},
		"custom without an ABI": {nil, poor, unnamed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := c.errors.Reason(c.data)
			if !ok ||
				got != c.want &&
					!(strings.HasPrefix(c.want, "with") && strings.Contains(got, c.want)) {
				t.Errorf("%q, %v; want %q", got, ok, c.want)
			}
		})
	}
	for _, short := range [][]byte{nil, {1, 2, 3}} {
		if got, ok := known.Reason(short); ok {
			t.Errorf("%v is decoded as %q", short, got)
		}
	}
}

// A contract chooses its return data. The description is bounded, clean and one line.
func TestReason_Random_BoundedAndClean(t *testing.T) {
	t.Parallel()
	known := vault(t)
	heads := [][]byte{
		errorSelector[:],
		panicSelector[:],
		thrown(t, "ERC20InsufficientBalance", common.Address{}, new(big.Int), new(big.Int))[:4],
		nil,
		thrown(t, "Odd", [4]byte{}, "", []uint16{}, pair{new(big.Int), false}, []byte{})[:4],
	}
	rapid.Check(t, func(t *rapid.T) {
		data := append(
			slices.Clip(heads[rapid.IntRange(0, len(heads)-1).Draw(t, "head")]),
			rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "rest")...)
		check(t, known, data)
	})
	for name, data := range map[string][]byte{
		"long reason": required(t, strings.Repeat("very ", 10_000)),
		"long secret": required(t, "key0123456789abcdefghijkl"),
		"long bytes": thrown(
			t,
			"Odd",
			[4]byte{},
			"",
			make([]uint16, 300),
			pair{new(big.Int), false},
			make([]byte, 300),
		),
		"huge by far": append(errorSelector[:], make([]byte, maxReturn)...),
		"many letters": thrown(
			t,
			"Odd",
			[4]byte{},
			strings.Repeat("x", 9000),
			[]uint16{},
			pair{new(big.Int), false},
			[]byte{},
		),
	} {
		t.Run(name, func(t *testing.T) { check(t, known, data) })
	}
}

func check(t interface {
	Helper()
	Errorf(string, ...any)
}, known *Errors, data []byte) {
	t.Helper()
	got, ok := known.Reason(data)
	if ok != (len(data) >= selectorSize) || len([]rune(got)) > detailLimit ||
		strings.ContainsAny(got, "\n\x00") ||
		strings.Contains(got, "key0123456789") {
		t.Errorf("%q of %d runes, %v", got, len([]rune(got)), ok)
	}
}

// Return data is found wherever clients put it, and nothing else is taken for it.
func TestReturnData(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`"0x01020304"`:                        4,
		`"Reverted 0x01020304"`:               4,
		`"0x0102030"`:                         0,
		`"0x"`:                                0,
		`"nope"`:                              0,
		`null`:                                0,
		`5`:                                   0,
		`["0x01020304"]`:                      0,
		`{"data":"0x0102030405"}`:             5,
		`{"data":{"data":"0x01020304"}}`:      4,
		`{"result":"0x01020304"}`:             4,
		`{"data":"0x","return":"0x01020304"}`: 4,
		`{"other":"0x01020304"}`:              0,
		`"0xzz020304"`:                        0,
	} {
		var data any
		if err := json.Unmarshal([]byte(text), &data); err != nil {
			t.Fatal(err)
		}
		if got := ReturnData(data); len(got) != want {
			t.Errorf("%s: %x, want %d bytes", text, got, want)
		}
	}
}

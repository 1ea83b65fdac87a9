package chain

import (
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
	"pgregory.net/rapid"
)

const vaultABI = `[
 {"type":"function","name":"withdraw","inputs":[{"name":"amount","type":"uint256"}],"outputs":[],"stateMutability":"nonpayable"},
 {"type":"error","name":"ERC20InsufficientBalance","inputs":[{"name":"sender","type":"address"},{"name":"balance","type":"uint256"},{"name":"needed","type":"uint256"}]},
 {"type":"error","name":"Closed","inputs":[]},
 {"type":"error","name":"Odd","inputs":[{"name":"","type":"bytes4"},{"name":"why","type":"string"},{"name":"list","type":"uint16[]"},{"name":"pair","type":"tuple","components":[{"name":"a","type":"int256"},{"name":"b","type":"bool"}]},{"name":"raw","type":"bytes"}]}
]`

func vault(t *testing.T) *Errors {
	t.Helper()
	name := filepath.Join(t.TempDir(), "vault.json")
	if err := os.WriteFile(name, []byte(vaultABI), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := LoadErrors(name)
	if err != nil {
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
		"require with a URL":     {nil, required(t, "see https://secret.example/key"), "execution reverted: see " + redacted},
		"require, cut off":       {nil, required(t, "not yours")[:40], unnamed + "08c379a0"},
		"assert":                 {nil, panicked(1), "execution reverted: panic 0x1: assert(false)"},
		"overflow":               {nil, panicked(0x11), "execution reverted: panic 0x11: arithmetic underflow or overflow"},
		"division by zero":       {nil, panicked(0x12), "execution reverted: panic 0x12: division or modulo by zero"},
		"index":                  {nil, panicked(0x32), "execution reverted: panic 0x32: out-of-bounds access of an array or bytesN"},
		"a panic of one's own":   {nil, panicked(0x99), "execution reverted: panic 0x99: a code that Solidity does not define"},
		"panic, cut off":         {nil, panicked(1)[:20], unnamed + "4e487b71"},
		"custom":                 {known, poor, "execution reverted: ERC20InsufficientBalance(sender: 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266, balance: 5, needed: 1000000000000000000)"},
		"custom without values":  {known, thrown(t, "Closed"), "execution reverted: Closed()"},
		"custom, of every kind":  {known, odd, `execution reverted: Odd(arg0: 0xdeadbeef, why: "no\x00\nway", list: [1, 2], pair: (-7, true), raw: 0x010203)`},
		"custom, cut off":        {known, poor[:len(poor)-1], unnamed},
		"custom, not in the ABI": {known, []byte{1, 2, 3, 4, 5}, "execution reverted with a custom error, selector 0x01020304, 5 bytes; with the contract's ABI in abi_files it is told by name"},
		"custom without an ABI":  {nil, poor, unnamed},
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
			t.Errorf("%v is told as %q", short, got)
		}
	}
}

// A contract chooses what it returns. Whatever it is, the words are bounded, clean and of one line.
func TestReasonIsBoundedAndClean(t *testing.T) {
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
		"long reason":  required(t, strings.Repeat("very ", 10_000)),
		"long secret":  required(t, "key0123456789abcdefghijkl"),
		"long bytes":   thrown(t, "Odd", [4]byte{}, "", make([]uint16, 300), pair{new(big.Int), false}, make([]byte, 300)),
		"huge by far":  append(errorSelector[:], make([]byte, maxReturn)...),
		"many letters": thrown(t, "Odd", [4]byte{}, strings.Repeat("x", 9000), []uint16{}, pair{new(big.Int), false}, []byte{}),
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

func TestLoadErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	list := write("list.json", vaultABI)
	artifact := write("artifact.json",
		`{"contractName": "Vault", "abi": `+vaultABI+`, "bytecode": "0x"}`)
	for _, files := range [][]string{{list}, {artifact}, {list, artifact}} {
		e, err := LoadErrors(files...)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := e.Reason(thrown(t, "Closed")); got != "execution reverted: Closed()" {
			t.Errorf("%v: %q", files, got)
		}
	}
	for name, text := range map[string]string{"not JSON": "hello", "no ABI": `{"bytecode": "0x"}`, "wrong ABI": `[{"type":"error","name":"X","inputs":[{"type":"nothing"}]}]`, "endless": strings.Repeat(" ", maxABI+1)} {
		file := write("bad.json", text)
		if _, err := LoadErrors(list, file); err == nil || !strings.Contains(err.Error(), file) ||
			!strings.Contains(err.Error(), "JSON ABI") {
			t.Errorf("%s: %v; want an error that names the file and what it should be", name, err)
		}
	}
	if _, err := LoadErrors(dir); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := LoadErrors(filepath.Join(dir, "absent.json")); err == nil ||
		strings.Count(err.Error(), "absent.json") != 1 ||
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}

// TestEstimates is the table of what the failures of an estimate mean: what is permanent, and what is of the moment.
func TestEstimates(t *testing.T) {
	t.Parallel()
	known := vault(t)
	closed := hexutil.Encode(thrown(t, "Closed"))
	for name, c := range map[string]struct {
		code  int
		words string
		data  any
		want  txn.Class
		told  string
	}{
		"a reason":                       {3, "execution reverted: nope", hexutil.Encode(required(t, "nope")), txn.ExecutionReverted, "execution reverted: nope"},
		"a reason in words alone":        {-32000, "execution reverted: nope", nil, txn.ExecutionReverted, "execution reverted: nope"},
		"no reason":                      {-32000, "execution reverted", "0x", txn.ExecutionReverted, "execution reverted"},
		"a panic":                        {3, "execution reverted: arithmetic underflow or overflow", hexutil.Encode(panicked(0x11)), txn.ExecutionReverted, "panic 0x11: arithmetic"},
		"a custom error":                 {3, "execution reverted", closed, txn.ExecutionReverted, "execution reverted: Closed()"},
		"OpenEthereum":                   {-32015, "VM execution error.", "Reverted " + closed, txn.ExecutionReverted, "Closed()"},
		"Hardhat":                        {-32603, "VM Exception while processing transaction: reverted with custom error 'Closed()'", map[string]any{"message": "x", "data": closed}, txn.ExecutionReverted, "Closed()"},
		"inside of an inner error":       {-32603, "execution reverted", map[string]any{"originalError": map[string]any{"code": 3, "data": closed}}, txn.ExecutionReverted, "Closed()"},
		"only by its data":               {-32015, "the call failed", hexutil.Encode(required(t, "nope")), txn.ExecutionReverted, "execution reverted: nope"},
		"only by its data, far inside":   {-32603, "the call failed", map[string]any{"originalError": map[string]any{"data": hexutil.Encode(required(t, "nope"))}}, txn.ExecutionReverted, "execution reverted: nope"},
		"invalid opcode":                 {-32000, "invalid opcode: INVALID", nil, txn.ExecutionReverted, "invalid opcode"},
		"out of gas whatever is given":   {-32000, "gas required exceeds allowance (30000000)", nil, txn.Invalid, "allowance"},
		"no gas that the balance allows": {-32000, "gas required exceeds allowance (0)", nil, txn.InsufficientFunds, "allowance"},
		"less than a transfer takes":     {-32000, "gas required exceeds allowance (20999)", nil, txn.InsufficientFunds, "allowance"},
		"a limit of one's own":           {-32000, "gas required exceeds allowance (21000)", nil, txn.Invalid, "allowance"},
		"funds":                          {-32000, "insufficient funds for transfer", nil, txn.InsufficientFunds, "funds"},
		"the state is not there":         {-32000, "missing trie node d0c1 (path )", nil, txn.Unavailable, "trie"},
		"the block is not there":         {-32000, "header not found", nil, txn.Unavailable, "header"},
		"it takes too long":              {-32000, "execution aborted (timeout = 5s)", nil, txn.Ambiguous, "timeout"},
		"the node is syncing":            {-32000, "node is syncing", nil, txn.Unavailable, "syncing"},
		"a request limit":                {-32005, "daily request count exceeded, request rate limited", nil, txn.RateLimited, "rate limited"},
		"nobody understands":             {-32000, "the moon is in the wrong house", nil, txn.Ambiguous, "moon"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(func(n *fakeNode) {
				n.baseFee = (*hexutil.Big)(common.Big1)
				n.estimate = func(map[string]any) (hexutil.Uint64, error) { return 0, coded{c.code, c.words, c.data} }
			})
			r := dial(t, func(o *Options) { o.Errors = known }, n.url())
			_, o := r.Quote(t.Context(), txn.Draft{Payload: txn.Payload{To: &txn.Address{}}})
			if o.Class != c.want || !strings.Contains(o.Detail, c.told) {
				t.Errorf("%+v, want %s with %q", o, c.want, c.told)
			}
		})
	}
}

// What a client puts the return data into is found, and nothing that is not return data is taken for it.
func TestReturnData(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`"0x01020304"`: 4, `"Reverted 0x01020304"`: 4, `"0x0102030"`: 0, `"0x"`: 0, `"nope"`: 0, `null`: 0, `5`: 0, `["0x01020304"]`: 0, `{"data":"0x0102030405"}`: 5,
		`{"data":{"data":"0x01020304"}}`: 4, `{"result":"0x01020304"}`: 4, `{"data":"0x","return":"0x01020304"}`: 4, `{"other":"0x01020304"}`: 0, `"0xzz020304"`: 0,
	} {
		var data any
		if err := json.Unmarshal([]byte(text), &data); err != nil {
			t.Fatal(err)
		}
		if got := returnData(data); len(got) != want {
			t.Errorf("%s: %x, want %d bytes", text, got, want)
		}
	}
}

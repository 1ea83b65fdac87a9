package chain

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

const closedABI = `[{"type":"error","name":"Closed","inputs":[]}]`

// Return data of a revert: the custom error of closedABI, require(false, "nope"), and an overflow.
var (
	closed   = crypto.Keccak256([]byte("Closed()"))[:4]
	required = returned(
		"Error(string)",
		common.LeftPadBytes([]byte{0x20}, 32),
		common.LeftPadBytes([]byte{4}, 32),
		common.RightPadBytes([]byte("nope"), 32),
	)
	overflowed = returned("Panic(uint256)", common.LeftPadBytes([]byte{0x11}, 32))
)

func returned(signature string, words ...[]byte) []byte {
	return append(crypto.Keccak256([]byte(signature))[:4:4], bytes.Join(words, nil)...)
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
	list := write("list.json", closedABI)
	artifact := write("artifact.json",
		`{"contractName": "Vault", "abi": `+closedABI+`, "bytecode": "0x"}`)
	for _, files := range [][]string{{list}, {artifact}, {list, artifact}} {
		e, err := LoadErrors(files...)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := e.Reason(closed); got != "execution reverted: Closed()" {
			t.Errorf("%v: %q", files, got)
		}
	}
	for name, text := range map[string]string{
		"not JSON":  "hello",
		"no ABI":    `{"bytecode": "0x"}`,
		"wrong ABI": `[{"type":"error","name":"X","inputs":[{"type":"nothing"}]}]`,
		"endless":   strings.Repeat(" ", maxABI+1),
	} {
		file := write("bad.json", text)
		if _, err := LoadErrors(list, file); err == nil || !strings.Contains(err.Error(), file) ||
			!strings.Contains(err.Error(), "JSON ABI") {
			t.Errorf("%s: %v; want an error that names the file and what it should be", name, err)
		}
	}
	if _, err := LoadErrors(dir); err == nil || !strings.Contains(err.Error(), "cannot read") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := LoadErrors(filepath.Join(dir, "absent.json")); err == nil ||
		strings.Count(err.Error(), "absent.json") != 1 ||
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}

// TestEstimates is the table of failed estimates: permanent and temporary ones.
func TestEstimates(t *testing.T) {
	t.Parallel()
	known := new(outcome.Errors)
	if err := known.Add([]byte(closedABI)); err != nil {
		t.Fatal(err)
	}
	closedData := hexutil.Encode(closed)
	for name, c := range map[string]struct {
		code     int
		words    string
		data     any
		want     txn.Class
		reported string
	}{
		"a reason": {
			3,
			"execution reverted: nope",
			hexutil.Encode(required),
			txn.ExecutionReverted,
			"execution reverted: nope",
		},
		"a reason in words alone": {
			-32000,
			"execution reverted: nope",
			nil,
			txn.ExecutionReverted,
			"execution reverted: nope",
		},
		"no reason": {
			-32000,
			"execution reverted",
			"0x",
			txn.ExecutionReverted,
			"execution reverted",
		},
		"a panic": {
			3,
			"execution reverted: arithmetic underflow or overflow",
			hexutil.Encode(overflowed),
			txn.ExecutionReverted,
			"panic 0x11: arithmetic",
		},
		"a custom error": {
			3,
			"execution reverted",
			closedData,
			txn.ExecutionReverted,
			"execution reverted: Closed()",
		},
		"OpenEthereum": {-32015, "VM execution error.", "Reverted " +
			closedData, txn.ExecutionReverted, "Closed()"},
		"Hardhat": {
			-32603,
			"VM Exception while processing transaction: reverted with custom error 'Closed()'",
			map[string]any{"message": "x", "data": closedData},
			txn.ExecutionReverted,
			"Closed()",
		},
		"inside of an inner error": {
			-32603,
			"execution reverted",
			map[string]any{"originalError": map[string]any{"code": 3, "data": closedData}},
			txn.ExecutionReverted,
			"Closed()",
		},
		"only by its data": {
			-32015,
			"the call failed",
			hexutil.Encode(required),
			txn.ExecutionReverted,
			"execution reverted: nope",
		},
		"only by its data, far inside": {
			-32603,
			"the call failed",
			map[string]any{"originalError": map[string]any{"data": hexutil.Encode(required)}},
			txn.ExecutionReverted,
			"execution reverted: nope",
		},
		"invalid opcode": {
			-32000,
			"invalid opcode: INVALID",
			nil,
			txn.ExecutionReverted,
			"invalid opcode",
		},
		"out of gas whatever is given": {
			-32000,
			"gas required exceeds allowance (30000000)",
			nil,
			txn.Ambiguous,
			"allowance",
		},
		"less than the floor of the calldata": {
			-32000,
			"insufficient gas for floor data gas cost: gas 21000, minimum needed 40000",
			nil,
			txn.Ambiguous,
			"floor data gas",
		},
		"less than the floor by another client": {
			-32000,
			"intrinsic gas too high -- GasFloorMoreThanGasLimit",
			nil,
			txn.Ambiguous,
			"GasFloorMoreThanGasLimit",
		},
		"less than the intrinsic gas": {
			-32000,
			"intrinsic gas too low: gas 20000, minimum needed 21000",
			nil,
			txn.Ambiguous,
			"intrinsic gas",
		},
		"out of gas in the data": {
			-32603,
			"estimation failed",
			map[string]any{"message": "out of gas"},
			txn.Ambiguous,
			"estimation failed",
		},
		"spent more than its limits": {
			-32000,
			"Cannot estimate gas, gas spent exceeded transaction and block gas limit",
			nil,
			txn.Ambiguous,
			"gas spent",
		},
		"too large for the chain": {
			-32000,
			"max initcode size exceeded: code size 50000 limit 49152",
			nil,
			txn.Invalid,
			"initcode size",
		},
		"no gas that the balance allows": {
			-32000,
			"gas required exceeds allowance (0)",
			nil,
			txn.InsufficientFunds,
			"allowance",
		},
		"less than a transfer takes": {
			-32000,
			"gas required exceeds allowance (20999)",
			nil,
			txn.InsufficientFunds,
			"allowance",
		},
		"as much as a transfer takes": {
			-32000,
			"gas required exceeds allowance (21000)",
			nil,
			txn.Ambiguous,
			"allowance",
		},
		"funds": {
			-32000,
			"insufficient funds for transfer",
			nil,
			txn.InsufficientFunds,
			"funds",
		},
		"the state is not there": {
			-32000,
			"missing trie node d0c1 (path )",
			nil,
			txn.Unavailable,
			"trie",
		},
		"the block is not there": {-32000, "header not found", nil, txn.Unavailable, "header"},
		"it takes too long": {
			-32000,
			"execution aborted (timeout = 5s)",
			nil,
			txn.Ambiguous,
			"timeout",
		},
		"the node is syncing": {-32000, "node is syncing", nil, txn.Unavailable, "syncing"},
		"a request limit": {
			-32005,
			"daily request count exceeded, request rate limited",
			nil,
			txn.RateLimited,
			"rate limited",
		},
		"nobody understands": {
			-32000,
			"the moon is in the wrong house",
			nil,
			txn.Ambiguous,
			"moon",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(func(n *fakeNode) {
				n.baseFee = (*hexutil.Big)(common.Big1)
				n.estimate = func(map[string]any) (hexutil.Uint64, error) {
					return 0, coded{c.code, c.words, c.data}
				}
			})
			r := dial(t, func(o *Options) { o.Errors = known }, n.url())
			_, o := r.Quote(t.Context(), txn.Draft{Payload: txn.Payload{To: &txn.Address{}}})
			if o.Class != c.want || !strings.Contains(o.Detail, c.reported) {
				t.Errorf("%+v, want %s with %q", o, c.want, c.reported)
			}
		})
	}
}

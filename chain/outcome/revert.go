package outcome

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/fencepost/fencepost/txn"
)

const (
	// maxReturn limits the decoded return data of a revert, in bytes. The contract chooses its
	// length.
	maxReturn = 16 << 10
	// selectorSize is the length of the prefix that names an error (Solidity ABI specification).
	selectorSize = 4
)

type selector [selectorSize]byte

var (
	errorSelector = selector(crypto.Keccak256([]byte("Error(string)"))[:selectorSize])
	panicSelector = selector(crypto.Keccak256([]byte("Panic(uint256)"))[:selectorSize])
)

// Errors holds the custom errors of contracts by selector. A nil *Errors is empty.
type Errors struct {
	known map[selector][]abi.Error
}

// Add adds the errors of an ABI: a JSON list as compilers print it, or an artifact of Foundry or
// Hardhat with the list under "abi".
func (e *Errors) Add(text []byte) error {
	var artifact struct {
		ABI json.RawMessage `json:"abi"`
	}
	if json.Unmarshal(text, &artifact) == nil && artifact.ABI != nil {
		text = artifact.ABI
	}
	parsed, err := abi.JSON(bytes.NewReader(text))
	if err != nil {
		return errors.New("not a JSON ABI")
	}
	if e.known == nil {
		e.known = map[selector][]abi.Error{}
	}
	for _, custom := range parsed.Errors {
		at := selector(custom.ID[:selectorSize])
		e.known[at] = append(e.known[at], custom)
	}
	return nil
}

// Reason describes the return data of a revert in words that are safe to show. It is not ok without
// return data. Data that cannot be decoded is described by its selector.
func (e *Errors) Reason(data []byte) (string, bool) {
	if len(data) < selectorSize {
		return "", false
	}
	const said = "execution reverted"
	switch selector(data[:selectorSize]) {
	case errorSelector:
		if reason, err := abi.UnpackRevert(data[:min(len(data), maxReturn)]); err == nil {
			if reason = Clean(reason); reason != "" {
				return bounded(said + ": " + reason), true
			}
			return said + " without a reason", true
		}
	case panicSelector:
		if reason, ok := panicReason(data); ok {
			return said + ": " + reason, true
		}
	}
	if words, ok := e.custom(data); ok {
		return bounded(said + ": " + words), true
	}
	return fmt.Sprintf(
		"%s with a custom error, selector %s, %d bytes; add the contract's ABI to abi_files to "+
			"decode it",
		said, hexutil.Encode(data[:selectorSize]), len(data)), true
}

// panicReasons are the panic codes of Solidity (docs.soliditylang.org, "Panic via assert and Error
// via require").
var panicReasons = map[uint64]string{
	0x00: "generic panic",
	0x01: "assert(false)",
	0x11: "arithmetic underflow or overflow",
	0x12: "division or modulo by zero",
	0x21: "enum overflow",
	0x22: "invalid encoded storage byte array accessed",
	0x31: "out-of-bounds array access; popping on an empty array",
	0x32: "out-of-bounds access of an array or bytesN",
	0x41: "out of memory",
	0x51: "uninitialized function",
}

// panicReason describes a panic of Solidity.
func panicReason(data []byte) (string, bool) {
	if len(data) < selectorSize+32 {
		return "", false
	}
	code := new(big.Int).SetBytes(data[selectorSize : selectorSize+32])
	reason := panicReasons[code.Uint64()]
	if reason == "" || !code.IsUint64() {
		reason = "a code that Solidity does not define"
	}
	return fmt.Sprintf("panic %#x: %s", code, reason), true
}

// custom describes a custom error with its arguments. If two errors share a selector, the first
// that fits the data counts.
func (e *Errors) custom(data []byte) (string, bool) {
	if e == nil || len(data) > maxReturn {
		return "", false
	}
	for _, custom := range e.known[selector(data[:selectorSize])] {
		values, err := custom.Inputs.Unpack(data[selectorSize:])
		if err != nil || len(values) != len(custom.Inputs) {
			continue
		}
		// The operator chose the name and the contract the values, so only the values are cleaned.
		return custom.Name + "(" + Clean(arguments(custom.Inputs, values)) + ")", true
	}
	return "", false
}

func arguments(inputs abi.Arguments, values []any) string {
	formatted := make([]string, len(values))
	for i, v := range values {
		if formatted[i] = written(reflect.ValueOf(v)); inputs[i].Name != "" {
			formatted[i] = inputs[i].Name + ": " + formatted[i]
		}
	}
	return strings.Join(formatted, ", ")
}

// written formats a value for people: amounts in decimal, addresses and bytes in hex, text in
// quotes.
func written(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case txn.Address:
		return x.Hex()
	case *big.Int:
		return x.String()
	case string:
		return strconv.Quote(x)
	case []byte:
		return "0x" + hex.EncodeToString(x)
	}
	switch v.Kind() {
	case reflect.Array, reflect.Slice:
		if v.Kind() == reflect.Array && v.Type().Elem().Kind() == reflect.Uint8 {
			return fmt.Sprintf("%#x", v.Interface())
		}
		return "[" + joined(v.Len(), v.Index) + "]"
	case reflect.Struct:
		return "(" + joined(v.NumField(), v.Field) + ")"
	}
	return fmt.Sprint(v.Interface())
}

// shownElements limits the elements shown of a list.
const shownElements = 16

func joined(n int, at func(int) reflect.Value) string {
	formatted := make([]string, 0, min(n, shownElements))
	for i := range min(n, shownElements) {
		formatted = append(formatted, written(at(i)))
	}
	if n > shownElements {
		formatted = append(formatted, "…")
	}
	return strings.Join(formatted, ", ")
}

// bounded cuts a text to detailLimit.
func bounded(text string) string {
	if r := []rune(text); len(r) > detailLimit {
		return string(r[:detailLimit-1]) + "…"
	}
	return text
}

// ReturnData finds the return data of a revert in the data of a response. Most clients return a hex
// string; some add words before it, some nest it in objects.
func ReturnData(data any) []byte {
	switch d := data.(type) {
	case string:
		_, digits, found := strings.Cut(d, "0x")
		if !found || len(digits)%2 != 0 {
			return nil
		}
		b, err := hex.DecodeString(strings.TrimSpace(digits))
		if err != nil {
			return nil
		}
		return b
	case map[string]any:
		for _, key := range []string{"data", "result", "return", "output", "originalError"} {
			if b := ReturnData(d[key]); len(b) >= selectorSize {
				return b
			}
		}
	}
	return nil
}

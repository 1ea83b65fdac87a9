package chain

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

const (
	// maxAnswer limits the response to one request, in bytes.
	maxAnswer = 64 << 20

	smallKept = 64 << 10
	smallWire = 1 << 20
	// A receipt or transaction is large by its logs or its input, which are skipped.
	receiptWire = 16 << 20
	codeKept    = 1 << 20
	feesPerItem = 256 // bytes of one block in a fee history, at most

	hashBytes    = 2 * 69  // of one transaction hash in a block, with a margin
	partBytes    = 2 * 600 // of one transaction or receipt in a block, without the skipped fields
	minBlockKept = 1 << 20
	maxBlockKept = 16 << 20
	// anyBlockKept applies until the gas limit of the chain's blocks is known.
	anyBlockKept = 4 << 20
)

// skippedFields are the fields of responses that are never read, and may be large. Of logs the
// number is read.
var skippedFields = map[string]bool{
	"logs": false, "logsBloom": true, "input": true, "data": true, "extraData": true,
	"accessList": true, "authorizationList": true, "blobVersionedHashes": true,
	"withdrawals": true, "uncles": true,
}

// limit bounds the response to a call by its method.
func (e *endpoint) limit(method string, args []any) jsonrpc.Limit {
	switch method {
	case "eth_getTransactionReceipt", "eth_getTransactionByHash":
		return jsonrpc.Limit{Wire: receiptWire, Kept: smallKept}
	case "eth_getBlockByNumber", "eth_getBlockByHash":
		if full, ok := args[len(args)-1].(bool); ok && full {
			return jsonrpc.Limit{Wire: maxAnswer, Kept: e.blockKept(partBytes)}
		}
		kept := e.blockKept(hashBytes)
		return jsonrpc.Limit{Wire: kept + smallWire, Kept: kept}
	case "eth_getBlockReceipts":
		return jsonrpc.Limit{Wire: maxAnswer, Kept: e.blockKept(partBytes)}
	case "eth_getCode":
		return jsonrpc.Limit{Wire: codeKept + smallWire, Kept: codeKept}
	case "eth_feeHistory":
		kept := int64(smallKept + feesPerItem*e.o.Fees.HistoryBlocks)
		return jsonrpc.Limit{Wire: kept + smallWire, Kept: kept}
	}
	return jsonrpc.Limit{Wire: smallWire, Kept: smallKept}
}

// blockKept returns how much of a block's response is kept, by the most transactions that its gas
// allows.
func (e *endpoint) blockKept(perTx int64) int64 {
	gas := e.blockGas.Load()
	if gas == 0 {
		return anyBlockKept
	}
	most := int64(min(gas/outcome.TxGas, maxBlockKept))
	return max(minBlockKept, min(smallKept+most*perTx, maxBlockKept))
}

// hashList is a list of hashes. It accepts nothing else, so that a response cannot take more memory
// than its own size.
type hashList []txn.Hash

const quotedHash = len(`"0x"`) + 2*len(txn.Hash{})

// UnmarshalJSON reads the list.
func (l *hashList) UnmarshalJSON(raw []byte) error {
	*l = nil
	if string(raw) == "null" {
		return nil
	}
	raw, isList := bytes.CutPrefix(raw, []byte("["))
	raw, ended := bytes.CutSuffix(raw, []byte("]"))
	if !isList || !ended {
		return fmt.Errorf("%w: no list of hashes", errMalformed)
	}
	list := make([]txn.Hash, 0, (len(raw)+1)/(quotedHash+1))
	for len(raw) > 0 {
		if len(list) > 0 {
			raw = raw[1:] // the comma
		}
		if len(raw) < quotedHash || string(raw[:3]) != `"0x` {
			return fmt.Errorf("%w: no hash of a transaction", errMalformed)
		}
		var hash txn.Hash
		if _, err := hex.Decode(hash[:], raw[3:quotedHash-1]); err != nil {
			return fmt.Errorf("%w: no hash of a transaction", errMalformed)
		}
		list, raw = append(list, hash), raw[quotedHash:]
	}
	*l = list
	return nil
}

// eachElement decodes the elements of a list one after the other, so that no more than one of them
// is in memory. null is an empty list.
func eachElement[T any](raw []byte, fn func(*T)) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if start, err := d.Token(); err != nil || start == nil {
		return err
	} else if start != json.Delim('[') {
		return fmt.Errorf("%w: no list", errMalformed)
	}
	for d.More() {
		var element T
		if err := d.Decode(&element); err != nil {
			return err
		}
		fn(&element)
	}
	return nil
}

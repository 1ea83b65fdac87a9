package signers

import (
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/uuid"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/endpoint"
	"github.com/fencepost/fencepost/sign/ethrpc"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/sign/signtest/peers"
	"github.com/fencepost/fencepost/txn"
)

// proxied is the number of transactions that are signed through a proxy. Those of the tests without
// one are 1,000.
const proxied = 50

// TestClef_Faults runs the whole suite with clef behind a proxy: clef itself signs the other
// transactions, with another key and for another chain.
func TestClef_Faults(t *testing.T) {
	t.Parallel()
	urls := map[txn.ChainID]string{}
	for _, chain := range []txn.ChainID{31337, 31338} {
		p, err := peers.Clef(t.Context(), t.TempDir(), uint64(chain), signtest.Key("account"),
			signtest.Key("other"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		urls[chain] = p.URL
	}
	signtest.Run(t, signtest.Subject{
		Count: proxied,
		Open: func(t *testing.T, s *signtest.Script) sign.Holder {
			p := &proxy{script: s, fail: failRPC,
				request: func(_ *http.Request, body []byte) (string, []byte) {
					return editCall(s, body, urls)
				}}
			h, err := ethrpc.Open(endpoint.Endpoint{URL: p.start(t)}, ethrpc.Clef,
				signtest.Keys(t, false))
			if err != nil {
				t.Fatal(err)
			}
			return h
		},
	})
}

func failRPC(w http.ResponseWriter, fault signtest.Fault) {
	switch fault {
	case signtest.Throttled:
		http.Error(w, "slow down", http.StatusTooManyRequests)
	case signtest.Denied:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"denied"}}`)
	default:
		http.Error(w, "broken", http.StatusInternalServerError)
	}
}

// editCall makes a call request the transaction of the script, from the clef of its chain.
func editCall(s *signtest.Script, body []byte, urls map[txn.ChainID]string) (string, []byte) {
	chain := txn.ChainID(31337)
	body = editJSON(body, func(call map[string]any) {
		params, _ := call["params"].([]any)
		if len(params) == 0 {
			return
		}
		a, _ := params[0].(map[string]any)
		u := s.Edit(readArguments(a))
		if s.OtherKey() {
			u.From = signtest.Address(signtest.Key("other"))
		}
		chain = u.ChainID
		writeArguments(a, u)
	})
	return urls[chain], body
}

func readArguments(a map[string]any) (u txn.Unsigned) {
	number := func(key string) (n uint256.Int) {
		if text, ok := a[key].(string); ok {
			_ = n.SetFromHex(text) // the holder writes valid numbers
		}
		return n
	}
	chain, nonce := number("chainId"), number("nonce")
	u.ChainID, u.Nonce = txn.ChainID(chain.Uint64()), txn.Nonce(nonce.Uint64())
	gas := number("gas")
	u.GasLimit = gas.Uint64()
	u.From = common.HexToAddress(a["from"].(string))
	if to, ok := a["to"].(string); ok {
		address := common.HexToAddress(to)
		u.Payload.To = &address
	}
	u.Payload.Value = number("value")
	u.Payload.Data = common.FromHex(a["data"].(string))
	if _, u.Fees.Legacy = a["gasPrice"]; u.Fees.Legacy {
		u.Fees.Cap = number("gasPrice")
		u.Fees.Tip = u.Fees.Cap
		return u
	}
	u.Fees.Cap, u.Fees.Tip = number("maxFeePerGas"), number("maxPriorityFeePerGas")
	return u
}

func writeArguments(a map[string]any, u txn.Unsigned) {
	clear(a)
	a["chainId"], a["nonce"] = hexutil.Uint64(u.ChainID), hexutil.Uint64(u.Nonce)
	a["gas"], a["from"] = hexutil.Uint64(u.GasLimit), u.From.Hex()
	a["value"], a["data"] = u.Payload.Value.Hex(), hexutil.Bytes(u.Payload.Data)
	if u.Payload.To != nil {
		a["to"] = u.Payload.To.Hex()
	}
	if u.Fees.Legacy {
		a["gasPrice"] = u.Fees.Cap.Hex()
	} else {
		a["maxFeePerGas"], a["maxPriorityFeePerGas"] = u.Fees.Cap.Hex(), u.Fees.Tip.Hex()
	}
}

// TestLocalKMS_Faults runs the whole suite with local-kms behind a proxy, which encodes its
// signatures in other ways and asks for those of another key. It sets variables of the process.
func TestLocalKMS_Faults(t *testing.T) {
	setCredentials(t)
	p, keys, err := peers.LocalKMS(t.Context(), t.TempDir(), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	signtest.Run(t, signtest.Subject{
		Digests: true,
		Count:   proxied,
		Account: keys[0].Address,
		Open: func(t *testing.T, s *signtest.Script) sign.Holder {
			between := &proxy{script: s, fail: failKMS,
				request: func(r *http.Request, body []byte) (string, []byte) {
					return p.URL, otherKey(s, r, body, keys)
				},
				reply: func(_ *http.Request, body []byte) []byte {
					return encodeAgain(s, body)
				}}
			return kms(t, between.start(t), listOf(t, keys[0]))
		},
	})
}

// listOf lists a key, and one that does not exist.
func listOf(t *testing.T, key peers.KMSKey) *sign.KeyList {
	t.Helper()
	return signtest.List(t, true, key.Address.Hex()+" "+key.ID+"\n"+
		signtest.Address(signtest.Key("absent")).Hex()+" "+uuid.NewString()+"\n")
}

func failKMS(w http.ResponseWriter, fault signtest.Fault) {
	code, kind := http.StatusBadRequest, map[signtest.Fault]string{
		signtest.Throttled: "ThrottlingException", signtest.Denied: "AccessDeniedException",
		signtest.Broken: "KMSInternalException",
	}[fault]
	if fault == signtest.Broken {
		code = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"__type":%q,"message":"scripted"}`, kind)
}

// otherKey makes a request use another key, if the script wants that.
func otherKey(s *signtest.Script, r *http.Request, body []byte, keys []peers.KMSKey) []byte {
	public := strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetPublicKey")
	if public && !s.OtherPublic() || !public && !s.OtherKey() {
		return body
	}
	return editJSON(body, func(call map[string]any) {
		if call["KeyId"] == keys[0].ID {
			call["KeyId"] = keys[1].ID
		}
	})
}

// encodeAgain encodes a signature as the script wants it.
func encodeAgain(s *signtest.Script, body []byte) []byte {
	return editJSON(body, func(reply map[string]any) {
		text, ok := reply["Signature"].(string)
		if !ok {
			return
		}
		var pair struct{ R, S *big.Int }
		der, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return
		}
		if _, err := asn1.Unmarshal(der, &pair); err == nil {
			reply["Signature"] = s.Encode(pair.R, pair.S)
		}
	})
}

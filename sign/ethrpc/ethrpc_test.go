package ethrpc_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/endpoint"
	"github.com/fencepost/fencepost/sign/ethrpc"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/txn"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	for name, product := range map[string]ethrpc.Product{
		"web3signer": ethrpc.Web3Signer, "clef": ethrpc.Clef,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signtest.Run(t, signtest.Subject{
				Open: func(t *testing.T, s *signtest.Script) sign.Holder {
					server := httptest.NewServer(&peer{s, product})
					t.Cleanup(server.Close)
					h, err := ethrpc.Open(endpoint.Endpoint{URL: server.URL}, product,
						signtest.Keys(t, false))
					if err != nil {
						t.Fatal(err)
					}
					return h
				},
			})
		})
	}
}

// peer is a signer that behaves as a script.
type peer struct {
	script  *signtest.Script
	product ethrpc.Product
}

type arguments struct {
	From                 common.Address  `json:"from"`
	To                   *common.Address `json:"to"`
	Gas                  hexutil.Uint64  `json:"gas"`
	GasPrice             *hexutil.Big    `json:"gasPrice"`
	MaxFeePerGas         *hexutil.Big    `json:"maxFeePerGas"`
	MaxPriorityFeePerGas *hexutil.Big    `json:"maxPriorityFeePerGas"`
	Value                *hexutil.Big    `json:"value"`
	Nonce                hexutil.Uint64  `json:"nonce"`
	Data                 hexutil.Bytes   `json:"data"`
	ChainID              hexutil.Uint64  `json:"chainId"`
}

func (a arguments) unsigned() txn.Unsigned {
	u := txn.Unsigned{
		ChainID:  txn.ChainID(a.ChainID),
		From:     a.From,
		Nonce:    txn.Nonce(a.Nonce),
		GasLimit: uint64(a.Gas),
	}
	u.Payload.To, u.Payload.Data = a.To, a.Data
	u.Payload.Value = *uint256.MustFromBig(a.Value.ToInt())
	if u.Fees.Legacy = a.GasPrice != nil; u.Fees.Legacy {
		u.Fees.Cap = *uint256.MustFromBig(a.GasPrice.ToInt())
		u.Fees.Tip = u.Fees.Cap
	} else {
		u.Fees.Cap = *uint256.MustFromBig(a.MaxFeePerGas.ToInt())
		u.Fees.Tip = *uint256.MustFromBig(a.MaxPriorityFeePerGas.ToInt())
	}
	return u
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/upcheck" {
		_, _ = w.Write([]byte("OK"))
		return
	}
	var call struct {
		Method string            `json:"method"`
		Params []json.RawMessage `json:"params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	if call.Method == "account_version" {
		reply(w, "result", "6.1.0")
		return
	}
	fail := func(text string) { reply(w, "error", map[string]any{"code": -32000, "message": text}) }
	switch p.script.Fault() {
	case signtest.Missing:
		if p.product == ethrpc.Clef {
			fail("unknown account")
		} else {
			fail("No unlocked account matches the Sender")
		}
		return
	case signtest.Hangs:
		p.script.Hang(r.Context())
		return
	case signtest.Throttled:
		http.Error(w, "slow down", http.StatusTooManyRequests)
		return
	case signtest.Reset:
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
		return
	case signtest.Broken:
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	case signtest.Denied:
		fail("request denied")
		return
	}
	var a arguments
	if err := json.Unmarshal(call.Params[0], &a); err != nil {
		fail(err.Error())
		return
	}
	raw := hexutil.Bytes(p.script.Transaction(a.unsigned()))
	if p.product == ethrpc.Clef {
		reply(w, "result", map[string]any{"raw": raw, "tx": map[string]any{}})
		return
	}
	reply(w, "result", raw)
}

func reply(w http.ResponseWriter, key string, value any) {
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, key: value})
}

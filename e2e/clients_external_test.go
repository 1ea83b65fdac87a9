package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"google.golang.org/grpc/codes"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// clientLanguages have an account of mode external each, after the first externalFrom accounts.
var clientLanguages = []string{"go", "ts", "java"}

const (
	externalFrom   = 3
	externalNonces = 16
)

// writeExternal writes, for each language, the node, the name of its account, the URL of the chain,
// and a signed transaction with its hash for each of its first nonces. It returns the folder.
func writeExternal(t *testing.T, c *testChain, n *node) string {
	t.Helper()
	dir := t.TempDir()
	signer := types.LatestSignerForChainID(new(big.Int).SetUint64(uint64(c.id)))
	for i, language := range clientLanguages {
		key := c.keys[externalFrom+i]
		to := crypto.PubkeyToAddress(key.PublicKey)
		lines := []string{n.addr, n.names[externalFrom+i], c.url}
		for nonce := range uint64(externalNonces) {
			tx, err := types.SignNewTx(key, signer, &types.DynamicFeeTx{
				ChainID: signer.ChainID(), Nonce: nonce, To: &to, Value: big.NewInt(1), Gas: 21_000,
				GasFeeCap: big.NewInt(20_000_000_000), GasTipCap: big.NewInt(1_000_000_000),
			})
			if err != nil {
				t.Fatal(err)
			}
			raw, err := tx.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, "0x"+hex.EncodeToString(raw), tx.Hash().Hex())
		}
		writeFile(t, filepath.Join(dir, language), fmt.Sprintln(strings.Join(lines, "\n")))
	}
	return dir
}

// scriptedNonces reserves nonce 7 for each request_id, and loses the first reply to each call.
type scriptedNonces struct {
	fencepostv1.UnimplementedNonceServiceServer
	mu    sync.Mutex
	calls map[string]int // by method and reservation
}

func (s *scriptedNonces) reply(method, id string,
	state fencepostv1.NonceState) (*fencepostv1.Nonce, error) {
	if count(&s.mu, s.calls, method+id) == 1 {
		return nil, refuse(codes.Unavailable, "STORE_UNAVAILABLE")
	}
	return &fencepostv1.Nonce{Nonce: 7, ReservationId: id, State: state, TxId: id}, nil
}

// AllocateNonce has the request_id in place of a reservation's.
func (s *scriptedNonces) AllocateNonce(_ context.Context,
	r *fencepostv1.AllocateNonceRequest) (*fencepostv1.AllocateNonceResponse, error) {
	n, err := s.reply("allocate", r.GetRequestId(), fencepostv1.NonceState_NONCE_STATE_RESERVED)
	return &fencepostv1.AllocateNonceResponse{Nonce: n}, err
}

// SubmitSigned leaves the nonce PENDING.
func (s *scriptedNonces) SubmitSigned(_ context.Context,
	r *fencepostv1.SubmitSignedRequest) (*fencepostv1.SubmitSignedResponse, error) {
	n, err := s.reply("submit", r.GetReservationId(), fencepostv1.NonceState_NONCE_STATE_PENDING)
	return &fencepostv1.SubmitSignedResponse{Nonce: n}, err
}

// startWallet serves eth_sendTransaction for the keys of a chain, as a wallet does: it signs a
// transfer with the nonce of the request, and broadcasts it. It returns the URL.
func startWallet(t *testing.T, c *testChain) string {
	t.Helper()
	w := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Method string
			Params []struct {
				From, To       common.Address
				Nonce, ChainID hexutil.Uint64
				Value          *hexutil.Big
			}
		}
		answer := map[string]any{"jsonrpc": "2.0", "id": 1}
		err := json.NewDecoder(r.Body).Decode(&call)
		if err == nil && (call.Method != "eth_sendTransaction" || len(call.Params) != 1) {
			err = fmt.Errorf("method %q with %d parameters", call.Method, len(call.Params))
		}
		if err == nil {
			p := call.Params[0]
			answer["result"], err = c.transfer(r.Context(), p.From, &types.DynamicFeeTx{
				ChainID: new(big.Int).SetUint64(uint64(p.ChainID)), Nonce: uint64(p.Nonce),
				To: &p.To, Value: p.Value.ToInt(), Gas: 21_000,
				GasFeeCap: big.NewInt(20_000_000_000), GasTipCap: big.NewInt(1_000_000_000),
			})
		}
		if err != nil {
			answer["error"] = map[string]string{"message": err.Error()}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(w.Close)
	return w.URL
}

// transfer signs a transaction with the key of an account and broadcasts it.
func (c *testChain) transfer(ctx context.Context, from common.Address,
	payload *types.DynamicFeeTx) (common.Hash, error) {
	for _, key := range c.keys {
		if crypto.PubkeyToAddress(key.PublicKey) != from {
			continue
		}
		tx, err := types.SignNewTx(key, types.LatestSignerForChainID(payload.ChainID), payload)
		if err != nil {
			return common.Hash{}, err
		}
		return tx.Hash(), c.SendTransaction(ctx, tx)
	}
	return common.Hash{}, fmt.Errorf("no key for %s", from.Hex())
}

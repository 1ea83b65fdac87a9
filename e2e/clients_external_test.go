package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"sync"
	"testing"

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

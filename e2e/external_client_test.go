package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// externalClientEnv makes this program a client that signs for an external account. Its value is an
// externalSpec.
const externalClientEnv = "E2E_EXTERNAL_CLIENT"

type externalSpec struct {
	Name, Submitter, Chain, Journal string
	Nodes                           []string
	ChainID, Seed                   uint64
	Key                             []byte
}

// externalRun is a client process. It reserves, signs, sends and reports until it dies at a random
// point. Its journal has each signature before it is used.
type externalRun struct {
	externalSpec
	random *rand.Rand
	nonces []fencepostv1.NonceServiceClient
	chain  *ethclient.Client
}

// journalEntry is a line of the journal.
type journalEntry struct {
	Nonce       uint64
	Reservation string
	Hash        string
}

func externalClient(text string) int {
	r := &externalRun{}
	err := json.Unmarshal([]byte(text), &r.externalSpec)
	if err == nil {
		r.chain, err = ethclient.Dial(r.Chain)
	}
	for _, addr := range r.Nodes {
		conn, dialed := grpc.NewClient(addr,
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if dialed != nil {
			err = dialed
			break
		}
		r.nonces = append(r.nonces, fencepostv1.NewNonceServiceClient(conn))
	}
	r.random = rand.New(rand.NewPCG(r.Seed, 0))
	for i := 0; err == nil; i++ {
		err = r.use(fmt.Sprintf("%s-%d", r.Name, i))
	}
	fmt.Fprintln(os.Stderr, "client:", err)
	return 1
}

// call repeats a call on random nodes until one answers. A refusal is an answer.
func (r *externalRun) call(do func(context.Context, fencepostv1.NonceServiceClient) error) error {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), tryFor)
		err := do(ctx, r.nonces[r.random.IntN(len(r.nonces))])
		cancel()
		switch code := status.Code(err); code {
		case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
			time.Sleep(20 * time.Millisecond)
		default:
			return err
		}
	}
}

// dieSometimes ends the process at once, as a crash does.
func (r *externalRun) dieSometimes() {
	if r.random.IntN(12) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

// use takes one nonce through its life.
func (r *externalRun) use(key string) error {
	var n *fencepostv1.Nonce
	ttl := 5 * time.Second
	late := r.random.IntN(5) == 0
	if late {
		ttl = time.Second
	}
	if err := r.call(func(ctx context.Context, s fencepostv1.NonceServiceClient) error {
		got, err := s.AllocateNonce(ctx, &fencepostv1.AllocateNonceRequest{Submitter: r.Submitter,
			RequestId: key, Holder: r.Name, Ttl: durationpb.New(ttl)})
		n = got.GetNonce()
		return err
	}); err != nil || n.GetState() != fencepostv1.NonceState_NONCE_STATE_RESERVED {
		return refusedOnly(err)
	}
	r.dieSometimes()
	if r.random.IntN(6) == 0 {
		return refusedOnly(r.call(func(ctx context.Context,
			s fencepostv1.NonceServiceClient) error {
			_, err := s.ReleaseNonce(ctx, &fencepostv1.ReleaseNonceRequest{
				ReservationId: n.GetReservationId(), NeverSigned: true, Reason: "test"})
			return err
		}))
	}
	tx, raw, err := r.sign(n)
	if err != nil {
		return err
	}
	r.dieSometimes()
	sends := r.random.IntN(2) == 0
	if sends {
		_ = r.chain.SendTransaction(context.Background(), tx)
		r.dieSometimes()
	}
	if late { // after its reservation, and maybe a lease, has expired
		time.Sleep(ttl + leaseDuration)
	}
	for range 1 + r.random.IntN(2) {
		if err := r.report(n, tx, raw, sends); err != nil {
			return err
		}
	}
	r.dieSometimes()
	if sends { // a pool without room for gaps did not keep it
		go r.resend(tx)
	}
	return nil
}

// refusedOnly returns errors that are no refusals.
func refusedOnly(err error) error {
	if status.Code(err) == codes.FailedPrecondition {
		time.Sleep(50 * time.Millisecond)
		return nil
	}
	return err
}

func (r *externalRun) sign(n *fencepostv1.Nonce) (*types.Transaction, []byte, error) {
	key, err := crypto.ToECDSA(r.Key)
	if err != nil {
		return nil, nil, err
	}
	id, to := new(big.Int).SetUint64(r.ChainID), crypto.PubkeyToAddress(key.PublicKey)
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(id), &types.DynamicFeeTx{
		ChainID: id, Nonce: n.GetNonce(), To: &to, Value: big.NewInt(1 + r.random.Int64N(1e9)),
		Gas: 21_000, GasFeeCap: big.NewInt(20_000_000_000), GasTipCap: big.NewInt(1_000_000_000),
	})
	if err != nil {
		return nil, nil, err
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return nil, nil, err
	}
	line, err := json.Marshal(journalEntry{n.GetNonce(), n.GetReservationId(), tx.Hash().Hex()})
	if err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(r.Journal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	_, err = file.Write(append(line, '\n'))
	return tx, raw, err
}

func (r *externalRun) report(n *fencepostv1.Nonce, tx *types.Transaction, raw []byte,
	sent bool) error {
	return refusedOnly(r.call(func(ctx context.Context, s fencepostv1.NonceServiceClient) error {
		if sent {
			_, err := s.RecordNonceHash(ctx, &fencepostv1.RecordNonceHashRequest{
				ReservationId: n.GetReservationId(), TxHash: tx.Hash().Hex()})
			return err
		}
		_, err := s.SubmitSigned(ctx, &fencepostv1.SubmitSignedRequest{
			ReservationId: n.GetReservationId(), RawTx: raw})
		return err
	}))
}

func (r *externalRun) resend(tx *types.Transaction) {
	for {
		time.Sleep(time.Second)
		_ = r.chain.SendTransaction(context.Background(), tx)
		if receipt, err := r.chain.TransactionReceipt(context.Background(),
			tx.Hash()); err == nil && receipt != nil {
			return
		}
	}
}

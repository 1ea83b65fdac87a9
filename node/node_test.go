package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fencepost/fencepost/chain/devchain"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/node"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m).Run()) }

// asked signals the first call of each kind.
type asked struct{ stuck, bump, mempool chan struct{} }

func note(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (a asked) Decide(context.Context, txn.StuckCase) (txn.StuckAction, error) {
	note(a.stuck)
	return txn.StuckWait, nil
}

func (a asked) Bump(time.Time, *txn.Tx, *txn.Attempt, int) bool {
	note(a.bump)
	return false
}

func (a asked) Inspect(_ context.Context, chain txn.ChainID, _ txn.Address, _ txn.Nonce,
	hashes []txn.Hash) (txn.Diagnosis, error) {
	if chain == 31337 && len(hashes) == 1 {
		note(a.mempool)
	}
	return txn.Undiagnosed, nil
}

// TestNode_Options_Used sends a transaction through a signer of the program on a chain that makes
// no blocks, until the policies and the inspector have been called.
func TestNode_Options_Used(t *testing.T) {
	t.Parallel()
	dev, err := devchain.Start(devchain.Options{ChainID: 31337, Accounts: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	db := dbtest.New(t)
	file := filepath.Join(t.TempDir(), "fencepost.yaml")
	text := fmt.Sprintf(`
node: {name: a}
grpc: {listen: "127.0.0.1:0"}
ops: {listen: "localhost:0"}
database: {url: %q, schema: %s}
chains:
  - name: dev
    chain_id: 31337
    rpc: [%q]
    resubmit: {interval: 100ms, max_attempts: 2}
`, db.NodeURL, db.Schema, dev.URL())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	a := asked{make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)}
	listed := make(chan int, 1) // live nodes in the ledger once the API serves
	n, err := node.New(ctx, node.Source{File: file, Set: []string{"queue.poll_interval=50ms"}},
		node.WithReady(func() {
			count := 0
			if err := db.Pool.QueryRow(ctx, "SELECT count(*) FROM node").Scan(&count); err != nil {
				t.Error(err)
			}
			listed <- count
		}),
		node.WithLogger(slog.New(slog.DiscardHandler)),
		node.WithStuckPolicy(a), node.WithBumpPolicy(a), node.WithMempoolInspector(a),
		node.WithSigner(sign.Entry{Name: "mine", Holder: sign.NewMemory(devchain.Key(0))}))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	conn, err := grpc.NewClient(n.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if count := <-listed; count != 1 {
		t.Errorf("%d live nodes when the API serves, want this one", count)
	}
	patient := grpc.WaitForReady(true)
	_, err = pb.NewSubmitterServiceClient(conn).RegisterSubmitter(ctx,
		&pb.RegisterSubmitterRequest{Name: "alice", ChainId: 31337,
			Address: devchain.Address(0).Hex(), Signer: "mine", StartFrom: "0"}, patient)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pb.NewTxServiceClient(conn).CreateTx(ctx, &pb.CreateTxRequest{Submitter: "alice",
		RequestId: "r", Payload: &pb.Payload{To: devchain.Address(0).Hex()}}, patient)
	if err != nil {
		t.Fatal(err)
	}
	limit := time.After(time.Minute)
	for name, c := range map[string]chan struct{}{"stuck policy": a.stuck, "bump policy": a.bump,
		"mempool inspector": a.mempool} {
		select {
		case <-c:
		case err := <-ended:
			t.Fatalf("the node ended: %v", err)
		case <-limit:
			t.Errorf("the %s was not called", name)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestNew_InvalidConfiguration_Rejected(t *testing.T) {
	t.Parallel()
	if _, err := node.New(t.Context(), node.Source{File: "missing.yaml"}); err == nil {
		t.Error("a node without its file")
	}
}

package e2e

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
)

const password = "only for tests"

// node is one fencepost process with its configuration, ledger and keys; it can be killed and started again.
type node struct {
	fencepostv1.TxServiceClient
	fencepostv1.SubmitterServiceClient
	conn   *grpc.ClientConn
	dir    string
	config string
	addr   string
	url    string // of the database
	names  []string
	pool   *pgxpool.Pool
	proc   *process
}

// nodeOptions are what tests vary.
type nodeOptions struct {
	confirmations int
	poll          time.Duration
}

// newNode writes the configuration for submitters s00, s01, ... of the chain's keys, migrates a fresh database and starts the process.
func newNode(t *testing.T, c *testChain, o nodeOptions) *node {
	t.Helper()
	n := &node{dir: t.TempDir(), addr: address(freePort(t))}
	n.config = filepath.Join(n.dir, "fencepost.yaml")
	n.url = freshDatabase(t)
	n.writeConfig(t, c, o)
	if _, err := store.Migrate(t.Context(), n.url, ""); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), n.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	n.pool = pool
	n.connect(t)
	n.start(t)
	return n
}

func (n *node) writeConfig(t *testing.T, c *testChain, o nodeOptions) {
	t.Helper()
	keys := filepath.Join(n.dir, "keys")
	writeFile(t, filepath.Join(n.dir, "password"), password)
	var submitters strings.Builder
	for i, key := range c.keys {
		name := fmt.Sprintf("s%02d", i)
		n.names = append(n.names, name)
		saveKey(t, keys, key)
		fmt.Fprintf(&submitters, "  - {name: %s, chain: dev, address: %q, signer: local, mode: strict, start_from: chain}\n", name, crypto.PubkeyToAddress(key.PublicKey).Hex())
	}
	writeFile(t, n.config, fmt.Sprintf(`
node: {name: a}
grpc: {listen: %q}
ops: {listen: %q}
database: {url: %q, statement_timeout: 500ms}
lease: {duration: 2s, renew_interval: 500ms}
chains:
  - {name: dev, chain_id: %d, rpc: [%q], poll_interval: %s, confirmations: %d, release_depth: 1, resubmit: {interval: 5s, max_attempts: 20}}
signers:
  - {name: local, keystore: {dir: ./keys, password_file: ./password}}
submitters:
%s`, n.addr, address(freePort(t)), n.url, c.id, c.url, o.poll, o.confirmations, submitters.String()))
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func saveKey(t *testing.T, dir string, key *ecdsa.PrivateKey) {
	t.Helper()
	ks := keystore.NewKeyStore(dir, keystore.LightScryptN, keystore.LightScryptP)
	if _, err := ks.ImportECDSA(key, password); err != nil {
		t.Fatal(err)
	}
}

// freshDatabase makes an empty database on the shared server.
func freshDatabase(t *testing.T) string {
	t.Helper()
	admin, err := pgxpool.New(t.Context(), database.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	name := "e2e_" + strings.ToLower(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, t.Name()))
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return database.URL(name)
}

func (n *node) connect(t *testing.T) {
	t.Helper()
	conn, err := grpc.NewClient(n.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	n.conn = conn
	n.TxServiceClient = fencepostv1.NewTxServiceClient(conn)
	n.SubmitterServiceClient = fencepostv1.NewSubmitterServiceClient(conn)
}

// start runs the process and waits until it serves.
func (n *node) start(t *testing.T) {
	t.Helper()
	n.proc = startProcess(t, exec.Command(program, "serve", "--config", n.config), filepath.Join(n.dir, "node.log"))
	eventually(t, 30*time.Second, "the node serves", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		n.conn.ResetConnectBackoff()
		answer, err := grpc_health_v1.NewHealthClient(n.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil && answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			err = errNotYet
		}
		return err
	})
}

// cli runs a command of the program, which must succeed, and returns what it printed.
func (n *node) cli(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("fencepost %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func senders(c *testChain) []common.Address {
	all := make([]common.Address, 0, len(c.keys))
	for _, k := range c.keys {
		all = append(all, crypto.PubkeyToAddress(k.PublicKey))
	}
	return all
}

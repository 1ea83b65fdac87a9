package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
)

const password = "only for tests"

// node is one fencepost process with its configuration, ledger and keys; it can be killed and
// started again.
type node struct {
	fencepostv1.TxServiceClient
	fencepostv1.SubmitterServiceClient
	conn      *grpc.ClientConn
	dir       string
	config    string
	addr      string
	ops       string
	url       string // of the database
	names     []string
	externals int // the last of them sign elsewhere
	pool      *pgxpool.Pool
	proc      *process

	openFiles int // that the process may have; 0: as many as the test
}

// nodeOptions are the settings that vary between tests.
type nodeOptions struct {
	pipelined     func(submitter int) (maxInFlight int) // 0: strict; nil: all are
	confirmations int
	poll          time.Duration
	release       int    // release_depth; 0: 1
	name          string // empty: a
	rpc           string // where the node reaches the chain; empty: directly
	keys          string // a folder that has the keys already; empty: one of the node's own
	lease         string // empty: defaultLease
	secure        secure
	queue         string // keys of queue; empty: the defaults
	external      int    // submitters from this one on are external; 0: none
	nonces        string // further keys of nonce_api
	openFiles     int    // that the process may have; 0: as many as the test
}

// secure is how a node authenticates its callers; the zero value disables it.
type secure struct {
	certs       string // a folder of writeCertificates; empty: plain text
	clientCerts bool   // callers have to show one
	tokens      string // file
}

func (s secure) config() (keys string) {
	if s.certs != "" {
		keys += fmt.Sprintf(", tls: {cert_file: %q, key_file: %q",
			filepath.Join(s.certs, "node.pem"), filepath.Join(s.certs, "node-key.pem"))
		if s.clientCerts {
			keys += fmt.Sprintf(", client_ca_file: %q", filepath.Join(s.certs, "ca.pem"))
		}
		keys += "}"
	}
	if s.tokens != "" {
		keys += fmt.Sprintf(", tokens_file: %q", s.tokens)
	}
	return keys
}

// credentials are the credentials of a caller without a token.
func (s secure) credentials(t *testing.T) credentials.TransportCredentials {
	t.Helper()
	if s.certs == "" {
		return insecure.NewCredentials()
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(s.certs, "client.pem"),
		filepath.Join(s.certs, "client-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(filepath.Join(s.certs, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return credentials.NewTLS(
		&tls.Config{
			Certificates: []tls.Certificate{pair},
			RootCAs:      pool,
			ServerName:   "node.test",
			MinVersion:   tls.VersionTLS12,
		},
	)
}

const defaultLease = "duration: 2s, renew_interval: 500ms"

// leaseDuration is the duration in defaultLease.
const leaseDuration = 2 * time.Second

// newNode prepares a node on a fresh database of the shared server and starts it.
func newNode(t *testing.T, c *testChain, o nodeOptions) *node {
	t.Helper()
	n := prepareNode(t, c, o, freshDatabase(t))
	n.migrate(t)
	n.start(t)
	return n
}

// prepareNode writes the configuration for submitters s00, s01, ... of the chain's keys.
func prepareNode(t *testing.T, c *testChain, o nodeOptions, url string) *node {
	t.Helper()
	n := &node{
		dir: t.TempDir(), addr: address(freePort(t)), ops: address(freePort(t)), url: url,
		openFiles: o.openFiles,
	}
	n.config = filepath.Join(n.dir, "fencepost.yaml")
	n.writeConfig(t, c, o)
	pool, err := pgxpool.New(t.Context(), n.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	n.pool = pool
	n.connect(t, o.secure.credentials(t))
	return n
}

func (n *node) migrate(t *testing.T) {
	t.Helper()
	if _, err := store.Migrate(t.Context(), n.url, ""); err != nil {
		t.Fatal(err)
	}
}

func (n *node) writeConfig(t *testing.T, c *testChain, o nodeOptions) {
	t.Helper()
	if o.keys == "" {
		o.keys = filepath.Join(n.dir, "keys")
		saveKeys(t, o.keys, c)
	}
	writeFile(t, filepath.Join(n.dir, "password"), password)
	var submitters strings.Builder
	for i, key := range c.keys {
		name := fmt.Sprintf("s%02d", i)
		n.names = append(n.names, name)
		mode := "strict"
		if o.pipelined != nil && o.pipelined(i) > 0 {
			mode = fmt.Sprintf("pipelined, max_in_flight: %d", o.pipelined(i))
		}
		if o.external > 0 && i >= o.external {
			mode = "external"
			n.externals++
		}
		fmt.Fprintf(&submitters,
			"  - {name: %s, chain: dev, address: %q, signer: local, mode: %s, start_from: "+
				"chain}\n",
			name, crypto.PubkeyToAddress(key.PublicKey).Hex(), mode)
	}
	nonces := ""
	if o.external > 0 {
		nonces = "enabled: true, reconcile_interval: 200ms" + o.nonces
	}
	writeFile(t, n.config, fmt.Sprintf(`
node: {name: %s}
nonce_api: {%s}
grpc: {listen: %q%s}
queue: {%s}
ops: {listen: %q}
database: {url: %q, statement_timeout: 500ms}
lease: {%s}
chains:
  - {name: dev, chain_id: %d, rpc: [%q], poll_interval: %s, confirmations: %d, release_depth: %d,
     resubmit: {interval: 5s, max_attempts: 20}}
signers:
  - {name: local, keystore: {dir: %q, password_file: ./password}}
submitters:
%s`, cmp.Or(o.name, "a"), nonces, n.addr, o.secure.config(), o.queue, n.ops, n.url,
		cmp.Or(o.lease, defaultLease), c.id, cmp.Or(o.rpc, c.url), o.poll, o.confirmations,
		max(o.release, 1), o.keys, submitters.String()))
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// saveKeys writes the chain's keys as key files with the weakest, and fastest, encryption.
func saveKeys(t *testing.T, dir string, c *testChain) {
	t.Helper()
	ks := keystore.NewKeyStore(dir, 2, 1)
	for _, key := range c.keys {
		if _, err := ks.ImportECDSA(key, password); err != nil {
			t.Fatal(err)
		}
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

func (n *node) connect(t *testing.T, how credentials.TransportCredentials) {
	t.Helper()
	conn, err := grpc.NewClient(n.addr, grpc.WithTransportCredentials(how))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	n.conn = conn
	n.TxServiceClient = fencepostv1.NewTxServiceClient(conn)
	n.SubmitterServiceClient = fencepostv1.NewSubmitterServiceClient(conn)
}

// refuses runs the process, which must exit with an error, and returns its output.
func (n *node) refuses(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "serve", "--config", n.config).CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("the node did not refuse to start: %v\n%s", err, out)
	}
	return string(out)
}

// edit changes the configuration.
func (n *node) edit(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(n.config)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		t.Fatalf("the configuration has no %q", from)
	}
	writeFile(t, n.config, strings.Replace(string(text), from, to, 1))
}

// start runs the process and waits until it serves.
func (n *node) start(t *testing.T) {
	t.Helper()
	command := exec.Command(program, "serve", "--config", n.config)
	if n.openFiles > 0 {
		command = exec.Command("bash", "-c", `ulimit -n "$0" && exec "$@"`,
			strconv.Itoa(n.openFiles), program, "serve", "--config", n.config)
	}
	n.proc = startProcess(t, command,
		filepath.Join(n.dir, "node.log"))
	eventually(
		t,
		2*time.Minute,
		"the node serves",
		func() error { // registering thousands of submitters takes a while on a busy machine
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			n.conn.ResetConnectBackoff()
			answer, err := grpc_health_v1.NewHealthClient(n.conn).Check(ctx,
				&grpc_health_v1.HealthCheckRequest{})
			if err == nil && answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
				err = errNotYet
			}
			return err
		},
	)
}

func senders(c *testChain) []common.Address {
	all := make([]common.Address, 0, len(c.keys))
	for _, k := range c.keys {
		all = append(all, crypto.PubkeyToAddress(k.PublicKey))
	}
	return all
}

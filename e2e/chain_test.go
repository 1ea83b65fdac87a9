package e2e

import (
	"context"
	"crypto/ecdsa"
	"math/big"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/params"

	"github.com/fencepost/fencepost/chain/devchain"
)

// testChain is a chain to run against, with funded keys.
type testChain struct {
	*ethclient.Client
	url  string
	id   uint64
	keys []*ecdsa.PrivateKey

	restart func() error // stops the chain's node and starts it again on the same address
}

// embedded is go-ethereum in this process.
func embedded(t *testing.T, period time.Duration, keys int) *testChain {
	t.Helper()
	c, err := devchain.Start(devchain.Options{Period: period, Accounts: keys, DevRPC: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	tc := dial(t, c.URL())
	for i := range keys {
		tc.keys = append(tc.keys, devchain.Key(i))
	}
	return tc
}

// lasting is embedded, on disk: it can be restarted.
func lasting(t *testing.T, period time.Duration, keys int) *testChain {
	t.Helper()
	o := devchain.Options{Period: period, Accounts: keys, DataDir: t.TempDir()}
	c, err := devchain.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	o.Port = portOf(t, c.URL())
	tc := dial(t, c.URL())
	for i := range keys {
		tc.keys = append(tc.keys, devchain.Key(i))
	}
	tc.restart = func() error {
		if err := c.Close(); err != nil {
			return err
		}
		again, err := devchain.Start(o)
		if err == nil {
			c = again
		}
		return err
	}
	return tc
}

// geth is a process of its own, in developer mode with one-second blocks.
func geth(t *testing.T, keys int) *testChain {
	t.Helper()
	return gethWith(t, keys)
}

// forgetfulGeth is geth whose pool is empty after a restart.
func forgetfulGeth(t *testing.T, keys int) *testChain {
	t.Helper()
	return gethWith(t, keys, "--txpool.nolocals")
}

func gethWith(t *testing.T, keys int, flags ...string) *testChain {
	t.Helper()
	path, err := exec.LookPath("geth")
	if err != nil {
		t.Fatal("geth is not on PATH; run this through `make e2e`, which builds it")
	}
	port := freePort(t)
	data := t.TempDir()
	log := filepath.Join(t.TempDir(), "geth.log")
	start := func() *process {
		return startProcess(
			t,
			exec.Command(path, append([]string{"--dev", "--dev.period", "1", "--datadir", data,
				"--ipcdisable", "--verbosity", "1", "--http", "--http.addr", "127.0.0.1",
				"--http.port", port, "--http.api", "eth,net,web3,txpool,debug,dev"}, flags...)...),
			log,
		)
	}
	proc := start()
	url := "http://127.0.0.1:" + port
	eventually(t, 60*time.Second, "geth answers", func() error { return answers(url) })
	tc := dial(t, url)
	tc.restart = func() error {
		_ = proc.cmd.Process.Signal(syscall.SIGTERM) // fails only when it has ended
		<-proc.done
		proc = start()
		return nil
	}
	tc.fund(t, keys)
	return tc
}

func answers(url string) error {
	c, err := ethclient.Dial(url)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.BlockNumber(context.Background())
	return err
}

func dial(t *testing.T, url string) *testChain {
	t.Helper()
	c, err := ethclient.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	id, err := c.ChainID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &testChain{Client: c, url: url, id: id.Uint64()}
}

// fund generates keys and funds each from the node's unlocked account.
func (c *testChain) fund(t *testing.T, keys int) {
	t.Helper()
	var accounts []common.Address
	if err := c.Client.Client().CallContext(t.Context(), &accounts, "eth_accounts"); err != nil ||
		len(accounts) == 0 {
		t.Fatalf("the developer account: %v, %v", accounts, err)
	}
	// Without an explicit nonce, geth assigns one twice when a block arrives between two sends.
	first, err := c.PendingNonceAt(t.Context(), accounts[0])
	if err != nil {
		t.Fatal(err)
	}
	ether := (*hexutil.Big)(new(big.Int).Mul(big.NewInt(100), big.NewInt(params.Ether)))
	for i := range keys {
		key, err := crypto.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		c.keys = append(c.keys, key)
		var hash common.Hash
		tx := map[string]any{
			"from":  accounts[0],
			"to":    crypto.PubkeyToAddress(key.PublicKey),
			"value": ether,
			"nonce": hexutil.Uint64(first + uint64(i)),
		}
		if err := c.Client.Client().CallContext(
			t.Context(), &hash, "eth_sendTransaction", tx,
		); err != nil {
			t.Fatal(err)
		}
	}
	last := crypto.PubkeyToAddress(c.keys[len(c.keys)-1].PublicKey)
	eventually(t, 60*time.Second, "the accounts are funded", func() error {
		balance, err := c.BalanceAt(context.Background(), last, nil)
		if err == nil && balance.Sign() == 0 {
			err = errNotYet
		}
		return err
	})
}

package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/pgembed"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// accounts are the names of the ten funded submitters; the i-th has the i-th development key.
var accounts = []string{
	"alice",
	"bob",
	"carol",
	"dave",
	"erin",
	"frank",
	"grace",
	"heidi",
	"ivan",
	"judy",
}

const (
	chainName = "dev"
	chainID   = 31337
	schema    = "fencepost"
	database  = "postgres"
)

// portsAreFree checks the ports before anything is started. It holds each until all are checked, so
// that two flags with one port are found.
func portsAreFree(o options) error {
	for _, port := range []struct{ flag, address string }{
		{"--grpc", o.grpc}, {"--ops", o.ops},
		{"--rpc-port", fmt.Sprintf("127.0.0.1:%d", o.rpcPort)},
	} {
		l, err := net.Listen("tcp", port.address)
		if err != nil {
			return fmt.Errorf(
				"cannot listen on %s (%w): stop the other process, or choose another port with %s",
				port.address, unwrapNet(err), port.flag)
		}
		defer l.Close()
	}
	return nil
}

func unwrapNet(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// prepareDir is the data folder: --dir, or a substitute if PostgreSQL's account cannot access it.
func prepareDir(o options) (string, error) {
	wanted, err := filepath.Abs(o.dir)
	if err != nil {
		return "", err
	}
	dir := pgembed.ReachableDir(wanted)
	if o.reset {
		if err := removeKept(dir); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create folder %s: %w; choose another with --dir", dir, err)
	}
	return dir, nil
}

// removeKept removes the data of earlier starts, and nothing else.
func removeKept(dir string) error {
	for _, name := range []string{"postgres", "chain", "keys", "password", "fencepost.yaml",
		"keys.list", "clef", "softhsm", "local-kms"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("--reset: %w", err)
		}
	}
	return nil
}

func configFile(dir string) string { return filepath.Join(dir, "fencepost.yaml") }

// writeConfig writes and loads the configuration.
func writeConfig(o options, dir, postgres, rpc string, signer *keySigner) (*config.Config, error) {
	var submitters strings.Builder
	for i, name := range accounts {
		fmt.Fprintf(&submitters,
			"  - {name: %s, chain: %s, address: %q, signer: local, start_from: chain}\n", name,
			chainName, signer.holders[i].Hex())
	}
	poll := min(o.period/4, 250*time.Millisecond)
	text := fmt.Sprintf(`# Written by fencepost-dev at each start; edit a copy.
node: {name: dev}
grpc: {listen: %q}
ops: {listen: %q}
console: {enabled: true}
nonce_api: {enabled: true}
database: {url: %q, schema: %s}
chains:
  - {name: %s, chain_id: 31337, rpc: [%q], poll_interval: %s, confirmations: 5, release_depth: 1}
signers:
  - {name: local, %s}
submitters:
%s`, o.grpc, o.ops, postgres, schema, chainName, rpc, poll,
		signer.section, submitters.String())
	path := configFile(dir)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return config.Load(config.Source{File: path})
}

// writeKeys writes the public development keys into a key store with a password, like real keys.
func writeKeys(dir string) error {
	password := filepath.Join(dir, "password")
	if _, err := os.Stat(password); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(password, []byte(rand.Text()+"\n"), 0o600); err != nil {
			return err
		}
		if err := os.RemoveAll(filepath.Join(dir, "keys")); err != nil { // of another password
			return err
		}
	}
	secret, err := sign.ReadPassword(password)
	if err != nil {
		return err
	}
	keys := filepath.Join(dir, "keys")
	if err := os.MkdirAll(keys, 0o700); err != nil {
		return err
	}
	held, err := heldKeys(keys)
	if err != nil {
		return err
	}
	for i := range accounts {
		if held[devchain.Address(i)] {
			continue
		}
		if _, err := sign.ImportKey(
			keys, devchain.Key(i), secret, sign.Light, time.Now(),
		); err != nil {
			return err
		}
	}
	return nil
}

func heldKeys(dir string) (map[txn.Address]bool, error) {
	held := map[txn.Address]bool{}
	files, err := sign.List(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		held[f.Address] = true
	}
	return held, nil
}

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/internal/pgembed"
)

// guide prints what runs where, and lines to paste into another terminal.
func guide(out io.Writer, o options, dir string, postgres *pgembed.Server, chain *devchain.Chain) {
	fencepost := sibling("fencepost", "go run ./cmd/fencepost")
	grpcurl := sibling("grpcurl", "grpcurl")
	server := ""
	if o.grpc != "127.0.0.1:9090" {
		server = " --server " + o.grpc
	}
	recipient := devchain.Address(len(accounts)).Hex()
	fmt.Fprintf(out, `
Fencepost runs:

  gRPC         %s   (no TLS; reflection and health are on)
  operators    http://%s   /metrics /healthz /readyz
  chain        %s   chain id 31337, a block every %s
  PostgreSQL   %s
  data         %s
  config       %s   of this node; for --config
  submitters   %s ... %s, ten accounts, each with 10,000 ether at the first start

Paste these into another terminal.

Create a transaction with grpcurl:

  %s -plaintext -d '{"submitter": "%s", "request_id": "my-first", "payload": {"to": "%s", "value": "1000000000000000"}}' %s fencepost.v1.TxService/CreateTx

Watch it to its end (the stream ends by itself):

  %s -plaintext -d '{"request": {"submitter": "%s", "request_id": "my-first"}, "until_final": true}' %s fencepost.v1.TxService/WatchTx

The same with the command line:

  %s tx create%s --submitter bob --to %s --value 1000000000000000 --watch
  %s submitter list%s

Send 200 calls of a contract and compare chain and ledger:

  make demo

Ctrl-C stops everything; the next start goes on from there.
`, o.grpc, o.ops, chain.URL(), o.period, postgres.URL(database), dir, configFile(dir), accounts[0], accounts[len(accounts)-1],
		grpcurl, accounts[0], recipient, o.grpc,
		grpcurl, accounts[0], o.grpc,
		fencepost, server, recipient, fencepost, server)
}

// sibling is how to call a program from where we were started: beside us, in the folder of the pinned tools, or as given.
func sibling(name, otherwise string) string {
	self, err := os.Executable()
	if err != nil {
		return otherwise
	}
	for _, path := range []string{filepath.Join(filepath.Dir(self), name), filepath.Join(filepath.Dir(self), "..", ".cache", "bin", name)} {
		if _, err := os.Stat(path); err == nil {
			if here, err := os.Getwd(); err == nil {
				if relative, err := filepath.Rel(here, path); err == nil {
					return relative
				}
			}
			return path
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return otherwise
}

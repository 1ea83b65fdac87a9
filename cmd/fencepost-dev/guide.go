package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/internal/pgembed"
)

// guide prints the addresses and commands to paste into another terminal.
func guide(out io.Writer, o options, dir string, postgres *pgembed.Server, chain *devchain.Chain) {
	fencepost := sibling("fencepost", "go run ./cmd/fencepost")
	grpcurl := sibling("grpcurl", "grpcurl")
	server := ""
	if o.grpc != defaultGRPC {
		server = " --server " + o.grpc
	}
	recipient := devchain.Address(len(accounts)).Hex()
	fmt.Fprintf(out, `
Fencepost is running.

  console      http://%s/console/
  gRPC         %s   (no TLS; reflection and health enabled)
  operators    http://%s   /metrics /healthz /readyz
  chain        %s   chain id 31337, a block every %s
  PostgreSQL   %s
  data         %s
  config       %s   for --config
  submitters   %s ... %s   ten accounts, initially funded with 10,000 ether each

Paste these commands into another terminal.

Create a transaction with grpcurl:

  %s -plaintext -d '{"submitter": "%s", "request_id": "my-first", `+
		`"payload": {"to": "%s", "value": "1000000000000000"}}' %s fencepost.v1.TxService/CreateTx

Watch it until it is final:

  %s -plaintext -d '{"request": {"submitter": "%s", "request_id": "my-first"}, `+
		`"until_final": true}' %s fencepost.v1.TxService/WatchTx

Create and watch one with the command line:

  %s tx create%s --submitter bob --to %s --value 1000000000000000 --watch
  %s submitter list%s

Send 200 contract calls and compare chain and ledger:

  %s

Press Ctrl-C to stop. The next start resumes from here.
`, o.grpc, o.grpc, o.ops, chain.URL(), o.period, postgres.URL(database), dir,
		configFile(dir), accounts[0], accounts[len(accounts)-1],
		grpcurl, accounts[0], recipient, o.grpc,
		grpcurl, accounts[0], o.grpc,
		fencepost, server, recipient, fencepost, server, demoCommand(o, chain.URL()))
}

// demoCommand starts the demo on this node and chain.
func demoCommand(o options, rpc string) string {
	var flags []string
	if o.grpc != defaultGRPC {
		flags = append(flags, "-server "+o.grpc)
	}
	if o.rpcPort != defaultRPCPort {
		flags = append(flags, "-rpc "+rpc)
	}
	if len(flags) == 0 {
		return "make demo"
	}
	return fmt.Sprintf("make demo ARGS=%q", strings.Join(flags, " "))
}

// sibling is the path of a program: beside this one, in the folder of the pinned tools, or
// otherwise.
func sibling(name, otherwise string) string {
	self, err := os.Executable()
	if err != nil {
		return otherwise
	}
	here := filepath.Dir(self)
	for _, path := range []string{
		filepath.Join(here, name), filepath.Join(here, "..", ".cache", "bin", name),
	} {
		if _, err := os.Stat(path); err == nil {
			if cwd, err := os.Getwd(); err == nil {
				if relative, err := filepath.Rel(cwd, path); err == nil {
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

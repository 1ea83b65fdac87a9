// The demo sends calls of a contract through the node that `make run` started, shows how they go,
// and ends with a table that compares the chain with the ledger. It is also an example of a Go
// client: it uses nothing but the generated one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

func main() {
	server := flag.String("server", "127.0.0.1:9090", "address of the node's gRPC port")
	rpc := flag.String("rpc", "http://127.0.0.1:8545", "URL of the chain's JSON-RPC port")
	calls := flag.Int("calls", 200, "how many calls to send in all")
	limit := flag.Duration("timeout", 10*time.Minute, "how long to wait for the end")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo: unexpected argument %q; see --help\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	if err := run(ctx, *server, *rpc, *calls); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", explain(err))
		os.Exit(1)
	}
}

// explain turns an error into a message for people.
func explain(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "stopped; accepted transactions continue"
	case errors.Is(err, context.DeadlineExceeded):
		return "timed out (--timeout); accepted transactions continue"
	}
	if s, ok := status.FromError(err); ok {
		return fmt.Sprintf("%s (%s); is `make run` up?", s.Message(), s.Code())
	}
	return err.Error()
}

// demo is one run: its clients, and a contract of its own.
type demo struct {
	txs        fencepostv1.TxServiceClient
	submitters fencepostv1.SubmitterServiceClient
	chain      *ethclient.Client
	id         string // makes the request ids of this run its own
}

func run(ctx context.Context, server, rpc string, calls int) error {
	if calls < 1 {
		return errors.New("--calls must be at least 1")
	}
	conn, err := grpc.NewClient(server, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", server, err)
	}
	defer func() { _ = conn.Close() }()
	chain, err := ethclient.DialContext(ctx, rpc)
	if err != nil {
		return fmt.Errorf("connect to the chain: %w", err)
	}
	defer chain.Close()
	d := &demo{
		txs:        fencepostv1.NewTxServiceClient(conn),
		submitters: fencepostv1.NewSubmitterServiceClient(conn), chain: chain,
		id: "demo-" + uuid.NewString(),
	}
	accounts, err := d.accounts(ctx)
	if err != nil {
		return err
	}
	contract, err := d.deploy(ctx, accounts[0].GetName())
	if err != nil {
		return err
	}
	fmt.Printf("The contract counts calls per caller; it is at %s.\n", contract.Hex())
	sent, err := d.send(ctx, contract, accounts, calls)
	if err != nil {
		return err
	}
	return d.compare(ctx, os.Stdout, contract, accounts, sent)
}

// accounts are the active submitters of the development chain.
func (d *demo) accounts(ctx context.Context) ([]*fencepostv1.Submitter, error) {
	id, err := d.chain.ChainID(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the chain for its id (is `make run` up?): %w", err)
	}
	answer, err := d.submitters.ListSubmitters(ctx,
		&fencepostv1.ListSubmittersRequest{PageSize: 10})
	if err != nil {
		return nil, err
	}
	var found []*fencepostv1.Submitter
	for _, s := range answer.GetSubmitters() {
		if s.GetChainId() == id.Uint64() &&
			s.GetStatus() == fencepostv1.SubmitterStatus_SUBMITTER_STATUS_ACTIVE {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the node has no active submitter on chain %s", id)
	}
	return found, nil
}

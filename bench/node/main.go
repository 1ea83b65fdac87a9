// Command node is the node that the benchmark measures. It is a separate program, so that its
// memory and time are those of the product: it is linked from the packages of "fencepost serve",
// and neither from a chain nor from anything else of the benchmark.
//
// It has the same parts: ledger, chain, key files, engine, server, metrics, admin listener. It
// differs in that it reads its configuration from standard input, stops when that closes, and
// serves profiles and runtime statistics. Its chain has "prepare.simulate: without-gas-limit", and
// queues are unlimited unless a limit is configured.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/fencepost/fencepost/bench/internal/wire"
	"github.com/fencepost/fencepost/internal/run"
)

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench: node:", err)
		os.Exit(1)
	}
}

// serve reads its configuration, works until its input ends, and stops in order.
func serve(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := &node{}
	defer n.close()
	group, err := n.begin(ctx, in)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(
		wire.Ready{GRPC: n.calls.Addr().String(), Debug: n.ops.Addr().String()},
	); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // until the benchmark closes it, or dies
		cancel()
	}()
	return group.Run(ctx)
}

// begin makes the parts of a node, by the configuration that comes.
func (n *node) begin(ctx context.Context, in io.Reader) (*run.Group, error) {
	if err := json.NewDecoder(in).Decode(&n.cfg); err != nil {
		return nil, fmt.Errorf("read the configuration (this program is started by bench): %w", err)
	}
	return n.assemble(ctx)
}

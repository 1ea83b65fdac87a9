// Command node is a node for the benchmark to measure, in a program of its own, so that its memory
// and its time are those of the product: it is linked from what "fencepost serve" works with, and
// neither from a chain nor from anything else of the benchmark.
//
// It has the same parts: ledger, chain, key files, engine, server, metrics, the listener of
// operators. It differs in that it takes its configuration on its standard input and ends in order
// when that does, and that it shows profiles and what the runtime counts. Its chain has
// "prepare.simulate: without-gas-limit", and queues have no limits unless it is told of some.
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

// Command fencepost is a transaction manager for EVM chains: the node and its operator tools.
package main

import (
	"context"
	"os"
	"os/user"
	"strings"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/run"
)

func main() {
	ctx, release := run.Signals(context.Background(), nil)
	p := &program{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ(),
		clock: clock.Real{}, user: userName(), prompt: promptTerminal, typed: isTerminal(os.Stdin),
	}
	code := p.run(ctx, os.Args[1:])
	release()
	os.Exit(code)
}

// userName is the local user; empty if unknown.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(u.Username, "?") // it is recorded with decisions
}

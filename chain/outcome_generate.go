//go:build ignore

// Command outcome_generate writes the table of outcomes to the file that it is given.
package main

import (
	"fmt"
	"os"

	"github.com/fencepost/fencepost/chain"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: outcome_generate FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(chain.OutcomesReference()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "outcome_generate:", err)
		os.Exit(1)
	}
}

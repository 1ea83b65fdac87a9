//go:build ignore

// Command generate writes the outcome reference to a file.
package main

import (
	"fmt"
	"os"

	"github.com/fencepost/fencepost/chain/outcome"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(outcome.Reference()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

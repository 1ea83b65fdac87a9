// Command reference writes the reference of the configuration to the file that it is given.
package main

import (
	"fmt"
	"os"

	"github.com/fencepost/fencepost/internal/config"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(config.Reference()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

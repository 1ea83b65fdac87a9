package chain

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fencepost/fencepost/chain/outcome"
)

// maxABI bounds an ABI file in bytes; the largest that compilers write, with all bytecode inside, stay far below.
const maxABI = 16 << 20

// LoadErrors reads the errors out of ABI files: a JSON list as compilers print it, or an artifact of Foundry or Hardhat, which has it under "abi".
func LoadErrors(files ...string) (*outcome.Errors, error) {
	e := new(outcome.Errors)
	for _, name := range files {
		if err := load(e, name); err != nil {
			return nil, fmt.Errorf(
				"ABI file %s: %w; give a JSON ABI or a compiler's artifact that has one", name, err)
		}
	}
	return e, nil
}

func load(e *outcome.Errors, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return errors.Unwrap(err) // the name is told already
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxABI+1))
	switch {
	case err != nil:
		return errors.New("it cannot be read")
	case len(text) > maxABI:
		return fmt.Errorf("it is larger than %d bytes", maxABI)
	}
	return e.Add(text)
}
